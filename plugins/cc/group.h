// SPDX-License-Identifier: Apache-2.0
// plugins/cc/group.h: finds statements that run as one kernel and temporaries that need no memory.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tile/kernel.h"

namespace yoke::cc {

// The longest run of statements in [first, last) that starts with `first` and can share one loop. They
// access each other's targets only at the same element. Either all are elementwise over the same loops; or
// all have a row role, and `may_join` is true for those that join because of it.
std::vector<std::uint32_t> group_from(const program::Program& program, std::uint32_t first,
                                      std::uint32_t last, const Original& original,
                                      const std::function<bool(std::uint32_t)>& may_join);

// Where a program reads each tensor, and where it overwrites a whole one.
class Uses {
 public:
  explicit Uses(const program::Program& program);
  // True if the program or its caller may read the value that `tensor` has after statement `last`.
  bool is_needed_after(std::uint32_t tensor, std::uint32_t last) const {
    return is_argument_[tensor] || is_read_after(tensor, last);
  }
  bool is_read_after(std::uint32_t tensor, std::uint32_t last) const;  // by the program

 private:
  struct Use {
    std::size_t statement;
    bool reads;  // otherwise it overwrites the tensor
  };
  // Whether a statement in [from, to) reads the tensor; empty if its value survives them unread.
  std::optional<bool> read_in(std::uint32_t tensor, std::size_t from, std::size_t to) const;

  std::vector<program::Block> blocks_;
  std::vector<std::vector<Use>> uses_;  // by tensor, in order
  std::vector<bool> is_argument_;
};

}  // namespace yoke::cc
