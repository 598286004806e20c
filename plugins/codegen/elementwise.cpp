// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/elementwise.cpp: kernels for statements that compute each element by itself.
#include "elementwise.h"

#include <algorithm>
#include <string>
#include <utility>

#include "general.h"
#include "group.h"
#include "transpose.h"
#include "vectors.h"

namespace yoke::codegen {

using program::Program;
using program::Type;

namespace {

constexpr std::size_t kMostStatements = 48;

// Prints the kernel of a group.
class GroupPrinter : private VectorPrinter {
 public:
  GroupPrinter(Builder& builder, const Group& group) : VectorPrinter(builder, group, std::nullopt) {}

  Section print() {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : group_.extents) {
      count *= extent;
    }
    // With one axis, kernels for different extents have the same text.
    is_flat_ = axes_.axes.size() <= 1;
    const std::uint64_t vectors = (count + axes_.lanes - 1) / axes_.lanes;
    print_body();
    Section section = section_of(printer_, group_.statements);
    section.count = count;
    section.blocks =
        static_cast<std::uint32_t>(std::min((vectors + kGroupThreads - 1) / kGroupThreads, kMostBlocks));
    return section;
  }

 private:
  void print_body() {
    const std::string type(printer_.index_type());
    const std::string lanes = std::to_string(axes_.lanes);
    const std::string threads = std::to_string(kGroupThreads);
    std::string end = "count";
    if (axes_.lanes > 1) {
      find_vectors();
      std::vector<Linear> all = loads_;
      all.insert(all.end(), stores_.begin(), stores_.end());
      print_alignment(all);
      end = "(count + " + std::to_string(axes_.lanes - 1) + ") / " + lanes;
    }
    printer_.open("for (" + type + " e = (" + type + ")block * " + threads + " + (" + type +
                  ")threadIdx.x; e < " + end + "; e += (" + type + ")blocks * " + threads + ")");
    // The index of the last axis counts vectors.
    std::vector<std::uint64_t> extents;
    for (const Axis& axis : axes_.axes) {
      extents.push_back(axis.extent);
    }
    if (axes_.lanes > 1) {
      extents.back() = (extents.back() + axes_.lanes - 1) / axes_.lanes;
    }
    indices_ = extents.size() == 1 ? std::vector<std::string>{"e"} : split(printer_, "e", extents);
    if (axes_.lanes > 1) {
      print_vectors();
    } else {
      print_statements(indices_.empty() ? "0" : indices_.back());
      store_pending({});
    }
    printer_.close();
  }

  // The vectors to load before the statements run, and those to store after.
  void find_vectors() {
    std::vector<Linear> written;
    for (const Linear& one : axes_.linear) {
      const bool is_kept = private_.contains(one.touch->access.tensor);
      if (one.touch->is_write) {
        written.push_back(one);
        if (axes_.is_vector(one) && !is_kept && !contains(stores_, one)) {
          stores_.push_back(one);
        }
      } else if (axes_.is_vector(one) && !contains(written, one) && !contains(loads_, one)) {
        loads_.push_back(one);
      }
    }
  }

  void print_vectors() {
    const std::string lanes = std::to_string(axes_.lanes);
    printer_.line("const " + std::string(printer_.index_type()) + " b = " + indices_.back() + " * " + lanes +
                  ";");
    printer_.line("const int lanes = " +
                  (is_flat_ ? "count - b < " + lanes + " ? (int)(count - b) : " + lanes : lanes) + ";");
    printer_.line("const bool whole = aligned && lanes == " + lanes + ";");
    std::vector<std::string> arrays;
    for (const Linear& one : loads_) {
      const std::uint32_t tensor = one.touch->access.tensor;
      arrays.push_back(array("a", tensor));
      printer_.line(function("load", tensor) + "(" + arrays.back() + ", " + pointer(one, "b") +
                    ", whole, lanes);");
    }
    std::vector<std::string> results;
    for (const Linear& one : stores_) {
      results.push_back(array("w", one.touch->access.tensor));
    }
    printer_.line("#pragma unroll");
    printer_.open("for (int l = 0; l < " + lanes + "; ++l)");
    if (is_flat_) {
      printer_.open("if (l < lanes)");
    }
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      const std::uint32_t tensor = loads_[i].touch->access.tensor;
      const Type of = program_.tensors[tensor].type;
      const std::string value = printer_.named(of, from_memory(of, arrays[i] + "[l]"));
      printer_.know(tensor, element(loads_[i], "(b + l)"), value);
    }
    print_statements("(b + l)");
    store_pending(results);
    if (is_flat_) {
      printer_.close();
    }
    printer_.close();
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      printer_.line(function("store", stores_[i].touch->access.tensor) + "(" + pointer(stores_[i], "b") +
                    ", " + results[i] + ", whole, lanes);");
    }
  }

  void print_statements(const std::string& last) {
    for (const std::size_t number : group_.statements) {
      select(number, last);
      printer_.one_element();
    }
  }

  // Stores what the statements wrote, in the array of results if there is one for the tensor.
  void store_pending(const std::vector<std::string>& results) {
    for (const Printer::Pending& one : printer_.take_pending()) {
      if (private_.contains(one.tensor)) {
        continue;
      }
      std::string to;
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (stores_[i].touch->access.tensor == one.tensor) {
          to = results[i] + "[l]";
        }
      }
      if (to.empty()) {
        to = printer_.tensor(one.tensor) + "[" + one.element + "]";
      }
      printer_.line(to + " = " + to_memory(program_.tensors[one.tensor].type, one.value) + ";");
    }
  }

  bool is_flat_ = true;
  std::vector<Linear> loads_;
  std::vector<Linear> stores_;
};

// Puts each statement into the first group that it may join, so that chains of statements over the same
// elements run in one thread. Groups run in order.
std::vector<Group> groups_of(const Program& program, std::span<const std::size_t> statements) {
  std::vector<Group> groups;
  for (const std::size_t number : statements) {
    Group alone;
    alone.add(program, number);
    std::size_t begin = 0;
    for (std::size_t i = groups.size(); i-- > 0 && begin == 0;) {
      begin = groups[i].conflicts_with(alone.touches) ? i + 1 : 0;
    }
    const auto joins = [&](const Group& group) {
      return group.extents == alone.extents && group.statements.size() < kMostStatements &&
             group.may_add(alone.touches) &&
             std::any_of(alone.touches.begin(), alone.touches.end(), [&](const Touch& touch) {
               return group.touches_tensor(touch.access.tensor) &&
                      (touch.is_write || program.tensors[touch.access.tensor].element_count() > 1);
             });
    };
    const auto from = groups.begin() + static_cast<std::ptrdiff_t>(begin == 0 ? 0 : begin - 1);
    const auto found = std::find_if(from, groups.end(), joins);
    if (found != groups.end()) {
      found->add(program, number);
    } else {
      groups.push_back(std::move(alone));
    }
  }
  return groups;
}

}  // namespace

void plan_elementwise(Builder& builder, std::span<const std::size_t> all) {
  const std::vector<Group> groups = groups_of(builder.program(), all);
  // Groups that do not depend on each other share a launch.
  struct Shared {
    std::vector<const Group*> groups;
    std::vector<Section> sections;
  };
  std::vector<Shared> launches;
  for (const Group& group : groups) {
    std::size_t begin = 0;
    for (std::size_t i = launches.size(); i-- > 0 && begin == 0;) {
      for (const Group* other : launches[i].groups) {
        begin = other->conflicts_with(group.touches) ? i + 1 : begin;
      }
    }
    std::optional<Section> transposed = print_transposed(builder, group);
    Section section = transposed ? std::move(*transposed) : GroupPrinter(builder, group).print();
    bool is_placed = false;
    for (std::size_t i = begin; i < launches.size() && !is_placed; ++i) {
      launches[i].sections.push_back(section);
      is_placed = fit_in_a_launch(launches[i].sections);
      if (is_placed) {
        launches[i].groups.push_back(&group);
      } else {
        launches[i].sections.pop_back();
      }
    }
    if (!is_placed) {
      launches.push_back({{&group}, {std::move(section)}});
    }
  }
  for (const Shared& shared : launches) {
    std::vector<std::size_t> statements;
    for (const Section& section : shared.sections) {
      statements.insert(statements.end(), section.statements.begin(), section.statements.end());
    }
    builder.begin_step(statements);
    add_launch(builder, kGroupThreads, shared.sections);
  }
}

}  // namespace yoke::codegen
