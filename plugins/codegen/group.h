// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/group.h: statements that share a kernel, and what they access.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "builder.h"

namespace yoke::codegen {

// One use of a tensor. The element of an index tensor counts as a separate read.
struct Touch {
  program::Access access;
  bool is_write = false;
  std::size_t statement = 0;  // its number
};
std::vector<Touch> touches_of(const program::Program& program, std::size_t number);

// Whether the statement computes each element of its target from one value, without a scatter.
bool is_elementwise(const program::Statement& statement);

// Statements over the same loops, which one thread runs for one combination of the loops. They have one
// target element in a tensor, and read no other element that the group writes.
struct Group {
  std::vector<std::size_t> statements;
  std::vector<std::uint64_t> extents;  // of the loops
  std::vector<Touch> touches;

  void add(const program::Program& program, std::size_t number);
  bool touches_tensor(std::uint32_t tensor) const;
  // Whether they must run in this order.
  bool conflicts_with(const std::vector<Touch>& others) const;
  // Whether a thread may run a statement with these touches after the group, in the same iteration.
  bool may_add(const std::vector<Touch>& others) const;
};

// Temporaries that only these statements use, and whose elements they write before they read them.
std::set<std::uint32_t> private_tensors(const program::Program& program,
                                        const std::vector<std::size_t>& statements);

// Independent parts that share a launch: each has its own blocks.
struct Section {
  std::string body;
  std::string key;  // equal for sections that differ in slots, count and blocks only
  std::vector<std::pair<std::string, Slot>> parameters;  // element type; named s0, s1, ...
  bool reads_symbols = false;
  bool reads_variable = false;
  std::string count_type;  // of `count`
  std::uint64_t count = 1;
  std::uint32_t blocks = 1;  // the body sees `block` and `blocks`
  std::vector<std::size_t> statements;
  bool is_alone = false;  // uses shared memory; the sections of a launch would need the sum of theirs
};
class Printer;
// What the printer has printed; without count and blocks.
Section section_of(const Printer& printer, const std::vector<std::size_t>& statements);
// Whether one launch may contain all of these sections.
bool fit_in_a_launch(const std::vector<Section>& sections);
void add_launch(Builder& builder, std::uint32_t threads, const std::vector<Section>& sections);

}  // namespace yoke::codegen
