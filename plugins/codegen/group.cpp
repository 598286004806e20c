// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/group.cpp: statements that share a kernel, and sections that share a launch.
#include "group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "printer.h"

namespace yoke::codegen {

using program::Access;
using program::Program;
using program::Statement;

namespace {

void add_reads(const Access& access, std::vector<Touch>& touches) {
  for (const program::Index& index : access.indices) {
    if (index.element_of) {
      touches.push_back({access_of(index), false});
    }
  }
}

void add_reads(const program::Expr& expr, std::vector<Touch>& touches) {
  if (expr.op == program::Op::kRead) {
    add_reads(expr.access, touches);
    touches.push_back({expr.access, false});
  }
  for (const program::Expr& arg : expr.args) {
    add_reads(arg, touches);
  }
}

}  // namespace

// Reads come first. A compound assignment reads its target. The index of a loop with one iteration is 0.
std::vector<Touch> touches_of(const Program& program, std::size_t number) {
  const Statement& statement = program.statements[number];
  std::vector<Touch> touches;
  add_reads(statement.value, touches);
  add_reads(statement.target, touches);
  if (statement.assign != program::Assign::kSet) {
    touches.push_back({statement.target, false});
  }
  touches.push_back({statement.target, true});
  const auto is_zero = [&](const program::Affine::Term& term) {
    return !term.is_symbol && statement.loops[term.id].extent == 1;
  };
  for (Touch& touch : touches) {
    touch.statement = number;
    for (program::Index& index : touch.access.indices) {
      std::erase_if(index.affine.terms, is_zero);
      for (program::Affine& affine : index.element_indices) {
        std::erase_if(affine.terms, is_zero);
      }
    }
  }
  return touches;
}

bool is_elementwise(const Statement& statement) {
  return !statement.reduce && !program::has_element_index(statement.target);
}

void Group::add(const Program& program, std::size_t number) {
  const Statement& statement = program.statements[number];
  extents.clear();
  for (const program::Loop& loop : statement.loops) {
    extents.push_back(loop.extent);
  }
  statements.push_back(number);
  for (Touch& touch : touches_of(program, number)) {
    touches.push_back(std::move(touch));
  }
}

bool Group::touches_tensor(std::uint32_t tensor) const {
  return std::any_of(touches.begin(), touches.end(),
                     [&](const Touch& touch) { return touch.access.tensor == tensor; });
}

bool Group::conflicts_with(const std::vector<Touch>& others) const {
  return std::any_of(touches.begin(), touches.end(), [&](const Touch& one) {
    return std::any_of(others.begin(), others.end(), [&](const Touch& other) {
      return one.access.tensor == other.access.tensor && (one.is_write || other.is_write) &&
             !are_apart(one.access, other.access);
    });
  });
}

bool Group::may_add(const std::vector<Touch>& others) const {
  return std::all_of(touches.begin(), touches.end(), [&](const Touch& one) {
    return std::all_of(others.begin(), others.end(), [&](const Touch& other) {
      return one.access.tensor != other.access.tensor || (!one.is_write && !other.is_write) ||
             one.access.indices == other.access.indices ||
             (one.is_write != other.is_write && are_apart(one.access, other.access));
    });
  });
}

std::set<std::uint32_t> private_tensors(const Program& program, const std::vector<std::size_t>& statements) {
  std::set<std::uint32_t> candidates;
  std::map<std::uint32_t, Access> seen;
  for (const std::size_t number : statements) {
    for (const Touch& touch : touches_of(program, number)) {
      const std::uint32_t tensor = touch.access.tensor;
      // The first use writes it, and does not read it.
      const auto [first, is_first] = seen.emplace(tensor, touch.access);
      if (is_first && touch.is_write && program.tensors[tensor].role == program::Role::kTemp) {
        candidates.insert(tensor);
      } else if (first->second.indices != touch.access.indices) {
        candidates.erase(tensor);
      }
    }
  }
  for (std::size_t i = 0; i < program.statements.size() && !candidates.empty(); ++i) {
    if (std::find(statements.begin(), statements.end(), i) == statements.end()) {
      const Statement& statement = program.statements[i];
      const auto is_used = [&](std::uint32_t tensor) { candidates.erase(tensor); };
      is_used(statement.target.tensor);
      program::visit_index_tensors(statement.target, is_used);
      program::visit_read_tensors(statement.value, is_used);
    }
  }
  return candidates;
}

namespace {

constexpr std::size_t kMostPointers = 480;  // of 512 in the 4 KiB of parameters of older drivers
constexpr std::size_t kMostBodies = 8;
constexpr std::uint32_t kMostSectionBlocks = 1U << 23U;  // HIP allows less than 2^32 threads

// Sections of the same body, in order, and the numbers of their pointers in the kernel.
struct Shared {
  const Section* first = nullptr;
  std::vector<const Section*> sections;
  std::uint32_t blocks = 0;
};

std::string indented(const std::string& text, const std::string& space) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at) + 1;
    result.append(space).append(text, at, end - at);
    at = end;
  }
  return result;
}

class Assembler {
 public:
  explicit Assembler(const std::vector<Section>& sections) {
    std::map<std::string_view, std::size_t> known;
    for (const Section& section : sections) {
      const auto [at, is_new] = known.emplace(section.key, shared_.size());
      if (is_new) {
        shared_.push_back({&section, {}, 0});
      }
      shared_[at->second].sections.push_back(&section);
      shared_[at->second].blocks += section.blocks;
      launch.reads_symbols = launch.reads_symbols || section.reads_symbols;
      launch.reads_variable = launch.reads_variable || section.reads_variable;
    }
  }

  // The text for Builder::kernel. Fills `launch`.
  std::string text() {
    std::string body;
    if (shared_.size() == 1 && shared_[0].sections.size() == 1) {
      const Section& only = *shared_[0].first;
      for (std::size_t i = 0; i < only.parameters.size(); ++i) {
        body += "  " + only.parameters[i].first + "* const __restrict__ s" + std::to_string(i) + " = " +
                pointer(only.parameters[i]) + ";\n";
      }
      body +=
          "  const unsigned block = blockIdx.x;\n  const unsigned blocks = " + std::to_string(only.blocks) +
          ";\n  const " + only.count_type + " count = " + std::to_string(only.count) + ";\n" + only.body;
      launch.grid[0] = only.blocks;
    } else {
      body = "  unsigned block = blockIdx.x;\n";
      std::uint32_t first = 0;
      for (std::size_t i = 0; i < shared_.size(); ++i) {
        const bool is_last = i + 1 == shared_.size();
        body += std::string(i == 0 ? "  " : " else ") +
                (is_last ? "{\n" : "if (block < " + std::to_string(first + shared_[i].blocks) + "u) {\n");
        body += body_of(shared_[i], first) + "  }";
        first += shared_[i].blocks;
      }
      body += "\n";
      launch.grid[0] = first;
    }
    std::string list;
    for (const std::string& parameter : parameters_) {
      list.append(list.empty() ? "" : ", ").append(parameter);
    }
    if (launch.reads_symbols) {
      list.append(list.empty() ? "" : ", ").append("const long long* __restrict__ symbols");
    }
    if (launch.reads_variable) {
      list.append(list.empty() ? "" : ", ").append("const long long variable");
    }
    return "(" + list + ") {\n" + body + "}\n";
  }

  Launch launch;

 private:
  std::string pointer(const std::pair<std::string, Slot>& parameter) {
    const auto [at, is_new] =
        pointers_.emplace(std::pair(parameter.second.argument, parameter.second.offset), launch.slots.size());
    std::string name = "g" + std::to_string(at->second);
    if (is_new) {
      launch.slots.push_back(parameter.second);
      parameters_.push_back(parameter.first + "* __restrict__ " + name);
    }
    return name;
  }

  std::string body_of(const Shared& shared, std::uint32_t first) {
    const Section& one = *shared.first;
    std::string text = "    unsigned blocks;\n    " + one.count_type + " count;\n";
    for (std::size_t i = 0; i < one.parameters.size(); ++i) {
      text += "    " + one.parameters[i].first + "* __restrict__ s" + std::to_string(i) + ";\n";
    }
    select(shared, 0, shared.sections.size(), first, "    ", text);
    return text + indented(one.body, "  ");
  }

  // Selects one of the sections [begin, end), whose blocks start at `first`, by bisection.
  void select(const Shared& shared, std::size_t begin, std::size_t end, std::uint32_t first,
              const std::string& space, std::string& text) {
    if (end - begin == 1) {
      const Section& section = *shared.sections[begin];
      text += space + "block -= " + std::to_string(first) + "u; blocks = " + std::to_string(section.blocks) +
              "u; count = " + std::to_string(section.count) + ";\n" + space;
      for (std::size_t i = 0; i < section.parameters.size(); ++i) {
        text += "s" + std::to_string(i) + " = " + pointer(section.parameters[i]) + "; ";
      }
      text += "\n";
      return;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    std::uint32_t split = first;
    for (std::size_t i = begin; i < middle; ++i) {
      split += shared.sections[i]->blocks;
    }
    text += space + "if (block < " + std::to_string(split) + "u) {\n";
    select(shared, begin, middle, first, space + "  ", text);
    text += space + "} else {\n";
    select(shared, middle, end, split, space + "  ", text);
    text += space + "}\n";
  }

  std::vector<Shared> shared_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> pointers_;
  std::vector<std::string> parameters_;
};

}  // namespace

Section section_of(const Printer& printer, const std::vector<std::size_t>& statements) {
  Section section;
  section.body = printer.body();
  section.count_type = printer.index_type();
  section.key = section.body + section.count_type;
  for (const Printer::Parameter& parameter : printer.parameters()) {
    section.parameters.emplace_back(parameter.type, parameter.slot);
    section.key.append(",").append(parameter.type);
  }
  section.reads_symbols = printer.reads_symbols();
  section.reads_variable = printer.reads_variable();
  section.statements = statements;
  return section;
}

bool fit_in_a_launch(const std::vector<Section>& sections) {
  std::set<std::string_view> bodies;
  std::set<std::pair<std::uint32_t, std::uint64_t>> pointers;
  std::uint64_t blocks = 0;
  for (const Section& section : sections) {
    if (section.is_alone && sections.size() > 1) {
      return false;
    }
    bodies.insert(section.key);
    blocks += section.blocks;
    for (const auto& [type, slot] : section.parameters) {
      pointers.emplace(slot.argument, slot.offset);
    }
  }
  return bodies.size() <= kMostBodies && pointers.size() <= kMostPointers && blocks <= kMostSectionBlocks;
}

void add_launch(Builder& builder, std::uint32_t threads, const std::vector<Section>& sections) {
  Assembler assembler(sections);
  const std::string text = assembler.text();
  assembler.launch.kernel = builder.kernel(threads, text);
  builder.launch(std::move(assembler.launch));
}

}  // namespace yoke::codegen
