// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/elementwise.cpp: kernels for statements that compute each element by itself.
#include "elementwise.h"

#include <algorithm>
#include <string>
#include <utility>

#include "axes.h"
#include "general.h"
#include "group.h"
#include "printer.h"

namespace yoke::codegen {

using program::Program;
using program::Statement;
using program::Type;

namespace {

constexpr std::uint32_t kGroupThreads = 256;
constexpr std::size_t kMostStatements = 48;

std::string_view memory_name(Type type) {
  return type == Type::kBF16 ? "f16" : type == Type::kBool ? "u8" : program::type_name(type);
}

// Prints the kernel of a group.
class GroupPrinter {
 public:
  GroupPrinter(Builder& builder, const Group& group)
      : program_(builder.program()),
        group_(group),
        axes_(axes_of(program_, group)),
        registers_(private_tensors(program_, group.statements)),
        printer_(builder, needs_wide()) {
    printer_.defer_stores();
  }

  Section print() {
    Section section;
    section.count_type = printer_.index_type();
    for (const std::uint64_t extent : group_.extents) {
      section.count *= extent;
    }
    // With one axis, kernels for different extents have the same text.
    const bool is_flat = axes_.axes.size() <= 1;
    const std::uint64_t vectors = (section.count + axes_.lanes - 1) / axes_.lanes;
    section.blocks =
        static_cast<std::uint32_t>(std::min((vectors + kGroupThreads - 1) / kGroupThreads, kMostBlocks));
    section.statements = group_.statements;
    find_loads();
    if (axes_.lanes > 1) {
      check_alignment();
    }
    const std::string type(printer_.index_type());
    const std::string lanes = std::to_string(axes_.lanes);
    std::string end = "count";
    if (axes_.lanes > 1) {
      end = is_flat ? "(count + " + std::to_string(axes_.lanes - 1) + ") / " + lanes : "count / " + lanes;
    }
    printer_.open("for (" + type + " e = (" + type + ")block * " + std::to_string(kGroupThreads) + " + (" +
                  type + ")threadIdx.x; e < " + end + "; e += (" + type + ")blocks * " +
                  std::to_string(kGroupThreads) + ")");
    bind_axes();
    if (axes_.lanes > 1) {
      print_vectors(is_flat);
    } else {
      print_statements();
    }
    printer_.close();
    section.body = printer_.body();
    for (const Printer::Parameter& parameter : printer_.parameters()) {
      section.parameters.emplace_back(parameter.type, parameter.slot);
    }
    section.reads_symbols = printer_.reads_symbols();
    section.reads_variable = printer_.reads_variable();
    return section;
  }

 private:
  bool needs_wide() const {
    return std::any_of(group_.statements.begin(), group_.statements.end(), [&](std::size_t number) {
      return !fits_in_int(program_, program_.statements[number]);
    });
  }

  // Binds the loops of the selected statement; the last one to `last`.
  void bind_loops(const std::string& last) {
    for (std::uint32_t loop = 0; loop < group_.extents.size(); ++loop) {
      printer_.bind(loop, "0");
    }
    for (std::size_t i = 0; i < axes_.axes.size(); ++i) {
      printer_.bind(axes_.axes[i].loops.back(), i + 1 == axes_.axes.size() ? last : indices_[i]);
    }
  }

  void select(std::size_t number, const std::string& last) {
    printer_.select(program_.statements[number]);
    bind_loops(last);
  }

  // The element of an access in the iteration whose last index is `last`.
  std::string element(const Linear& one, const std::string& last) {
    select(group_.statements.front(), last);
    return printer_.place(one.touch->access).element;
  }

  bool is_kept(std::uint32_t tensor) const { return registers_.contains(tensor); }

  // The vectors to load before the statements run, and those to store after.
  void find_loads() {
    std::set<std::uint32_t> written;
    const auto is_new = [](const std::vector<Linear>& list, const Linear& one) {
      return std::none_of(list.begin(), list.end(), [&](const Linear& other) {
        return other.touch->access.tensor == one.touch->access.tensor &&
               other.touch->access.indices == one.touch->access.indices;
      });
    };
    for (const Linear& one : axes_.linear) {
      const std::uint32_t tensor = one.touch->access.tensor;
      if (one.touch->is_write) {
        written.insert(tensor);
        if (axes_.is_vector(one) && !is_kept(tensor) && is_new(stores_, one)) {
          stores_.push_back(one);
        }
      } else if (axes_.is_vector(one) && !(written.contains(tensor) && is_written_element(one)) &&
                 is_new(loads_, one)) {
        loads_.push_back(one);
      }
    }
  }

  // Whether the group writes the element that the access reads.
  bool is_written_element(const Linear& one) const {
    return std::any_of(group_.touches.begin(), group_.touches.end(), [&](const Touch& touch) {
      return touch.is_write && touch.access.tensor == one.touch->access.tensor &&
             touch.access.indices == one.touch->access.indices;
    });
  }

  std::uint64_t vector_bytes(std::uint32_t tensor) const {
    return axes_.lanes * program::byte_size(program_.tensors[tensor].type);
  }

  // Arguments are aligned to their elements only.
  void check_alignment() {
    std::set<std::string> conditions;
    for (const std::vector<Linear>* list : {&loads_, &stores_}) {
      for (const Linear& one : *list) {
        const std::uint32_t tensor = one.touch->access.tensor;
        indices_.assign(axes_.axes.size(), "0");
        const std::string first = element(one, "0");
        if (program_.tensors[tensor].role == program::Role::kTemp && first == "0") {
          continue;
        }
        conditions.insert("((unsigned long long)(" + printer_.tensor(tensor) +
                          (first == "0" ? "" : " + " + first) + ") & " +
                          std::to_string(std::min<std::uint64_t>(vector_bytes(tensor), 16) - 1) + ") == 0");
      }
    }
    std::string all;
    for (const std::string& condition : conditions) {
      all += (all.empty() ? "" : " && ") + condition;
    }
    printer_.line("const bool aligned = " + (all.empty() ? "true" : all) + ";");
  }

  // The index of each axis; that of the last one counts vectors.
  void bind_axes() {
    std::vector<std::uint64_t> extents;
    for (const Axis& axis : axes_.axes) {
      extents.push_back(axis.extent);
    }
    if (!extents.empty() && axes_.lanes > 1) {
      extents.back() = (extents.back() + axes_.lanes - 1) / axes_.lanes;
    }
    indices_ = extents.size() == 1 ? std::vector<std::string>{"e"} : split(printer_, "e", extents);
  }

  std::string pointer(const Linear& one) {
    const std::string at = element(one, "b");
    return printer_.tensor(one.touch->access.tensor) + (at == "0" ? "" : " + (" + at + ")");
  }

  // The name of a function of the prelude that loads or stores the lanes.
  std::string function(const std::string& verb, std::uint32_t tensor) {
    const Type type = program_.tensors[tensor].type;
    const std::string lanes = std::to_string(axes_.lanes);
    const std::string name = std::string(memory_name(type)) + "_" + lanes;
    const std::uint64_t bytes = vector_bytes(tensor);
    const std::string piece = bytes >= 16  ? "yk_16_bytes"
                              : bytes == 8 ? "yk_8_bytes"
                              : bytes == 4 ? "unsigned"
                                           : "unsigned short";
    printer_.builder().function("YK_VECTOR(" + name + ", " + std::string(memory_type(type)) + ", " + lanes +
                                ", " + piece + ", " + std::to_string(std::max<std::uint64_t>(bytes / 16, 1)) +
                                ")\n");
    return "yk_" + verb + "_" + name;
  }

  std::string array(const std::string& prefix, std::uint32_t tensor) {
    const std::string name = printer_.fresh(prefix);
    printer_.line("__attribute__((aligned(16))) " + std::string(memory_type(program_.tensors[tensor].type)) +
                  " " + name + "[" + std::to_string(axes_.lanes) + "];");
    return name;
  }

  void print_vectors(bool is_flat) {
    const std::string lanes = std::to_string(axes_.lanes);
    const std::string type(printer_.index_type());
    printer_.line("const " + type + " b = " + indices_.back() + " * " + lanes + ";");
    if (is_flat) {
      printer_.line("const int lanes = count - b < " + lanes + " ? (int)(count - b) : " + lanes + ";");
    } else {
      printer_.line("const int lanes = " + lanes + ";");
    }
    printer_.line("const bool whole = aligned && lanes == " + lanes + ";");
    std::vector<std::string> arrays;
    for (const Linear& one : loads_) {
      const std::uint32_t tensor = one.touch->access.tensor;
      arrays.push_back(array("a", tensor));
      printer_.line(function("load", tensor) + "(" + arrays.back() + ", " + pointer(one) +
                    ", whole, lanes);");
    }
    std::vector<std::string> results;
    for (const Linear& one : stores_) {
      results.push_back(array("w", one.touch->access.tensor));
    }
    printer_.line("#pragma unroll");
    printer_.open("for (int l = 0; l < " + lanes + "; ++l)");
    if (is_flat) {
      printer_.open("if (l < lanes)");
    }
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      const std::uint32_t tensor = loads_[i].touch->access.tensor;
      const Type of = program_.tensors[tensor].type;
      printer_.know(tensor, element(loads_[i], "(b + l)"),
                    printer_.named(of, from_memory(of, arrays[i] + "[l]")));
    }
    for (const std::size_t number : group_.statements) {
      select(number, "(b + l)");
      printer_.one_element();
    }
    store_pending(results);
    if (is_flat) {
      printer_.close();
    }
    printer_.close();
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      printer_.line(function("store", stores_[i].touch->access.tensor) + "(" + pointer(stores_[i]) + ", " +
                    results[i] + ", whole, lanes);");
    }
  }

  void print_statements() {
    for (const std::size_t number : group_.statements) {
      select(number, indices_.empty() ? "0" : indices_.back());
      printer_.one_element();
    }
    store_pending({});
  }

  // Stores what the statements wrote, in the arrays of results if there is one for the tensor.
  void store_pending(const std::vector<std::string>& results) {
    for (const Printer::Pending& one : printer_.pending()) {
      if (is_kept(one.tensor)) {
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

  const Program& program_;
  const Group& group_;
  Axes axes_;
  std::set<std::uint32_t> registers_;
  Printer printer_;
  std::vector<std::string> indices_;  // of the axes
  std::vector<Linear> loads_;
  std::vector<Linear> stores_;
};

// Puts each statement into the first group that it may join, so that chains of statements over the same
// elements run in one thread. Groups run in order.
std::vector<Group> groups_of(const Program& program, std::size_t first, std::size_t last) {
  std::vector<Group> groups;
  for (std::size_t number = first; number < last; ++number) {
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

void plan_elementwise(Builder& builder, std::size_t first, std::size_t last) {
  const std::vector<Group> groups = groups_of(builder.program(), first, last);
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
    Section section = GroupPrinter(builder, group).print();
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
