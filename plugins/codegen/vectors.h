// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/vectors.h: prints the kernel of a group whose threads compute neighboring elements.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "axes.h"
#include "group.h"
#include "printer.h"

namespace yoke::codegen {

class VectorPrinter {
 protected:
  // For `boundary`, see axes_of.
  VectorPrinter(Builder& builder, const Group& group, std::optional<std::size_t> boundary);

  // Selects a statement of the group. Its loops get the indices of the axes, the last axis the index `last`.
  void select(std::size_t number, const std::string& last);
  // The element of an access in the iteration whose last index is `last`.
  std::string element(const Linear& one, const std::string& last);
  std::string pointer(const Linear& one, const std::string& last);

  // Declares whether all of these accesses are aligned: arguments are aligned only to their elements.
  void print_alignment(const std::vector<Linear>& accesses);
  // Declares an array for the lanes, as in memory.
  std::string array(const std::string& prefix, std::uint32_t tensor);
  // The name of a function that loads or stores the lanes: (to, from, whole, lanes).
  std::string function(const std::string& verb, std::uint32_t tensor);

  const program::Program& program_;
  const Group& group_;
  Axes axes_;
  std::set<std::uint32_t> private_;  // tensors, see private_tensors
  Printer printer_;
  std::vector<std::string> indices_;  // of the axes but the last

 private:
  std::uint64_t vector_bytes(std::uint32_t tensor) const;
};

// Whether both accesses refer to the same element.
bool same_element(const Linear& a, const Linear& b);
bool contains(const std::vector<Linear>& list, const Linear& one);

}  // namespace yoke::codegen
