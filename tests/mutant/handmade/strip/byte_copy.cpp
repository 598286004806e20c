// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/byte_copy.cpp: copies of whole tensors as bytes; with the bug copy_as_bytes.
#include <algorithm>
#include <cstring>

#include "../bugs.h"
#include "kernel.h"

namespace yoke::strip {

using handmade::bug;

namespace {

class ByteCopy final : public Kernel {
 public:
  ByteCopy(std::uint32_t target, std::uint32_t source, std::uint64_t byte_count)
      : target_(target), source_(source), byte_count_(byte_count) {}
  void run(const Launch& launch) const override {
    std::memcpy(launch.tensors[target_], launch.tensors[source_], byte_count_);
  }

 private:
  std::uint32_t target_;
  std::uint32_t source_;
  std::uint64_t byte_count_;
};

// Whether the access visits each element of its tensor once.
bool is_whole(const program::Program& program, const program::Statement& statement,
              const program::Access& access) {
  std::vector<bool> used(statement.loops.size());
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const program::Index& index = access.indices[dim];
    const std::optional<std::uint32_t> loop = index.affine.single_loop();
    if (index.element_of || index.divisor != 1 || !loop || used[*loop] ||
        statement.loops[*loop].extent != program.tensors[access.tensor].dims[dim]) {
      return false;
    }
    used[*loop] = true;
  }
  return std::find(used.begin(), used.end(), false) == used.end();
}

}  // namespace

// With the bug copy_as_bytes only: the indices may have another order in the target.
std::unique_ptr<Kernel> make_byte_copy(const program::Program& program, const program::Statement& statement) {
  const program::Access& source = statement.value.access;
  if (!bug("copy_as_bytes") || statement.value.op != Op::kRead || statement.reduce ||
      statement.assign != program::Assign::kSet || source.tensor == statement.target.tensor ||
      !is_whole(program, statement, source) || !is_whole(program, statement, statement.target)) {
    return nullptr;
  }
  return std::make_unique<ByteCopy>(statement.target.tensor, source.tensor,
                                    program.tensors[source.tensor].byte_count());
}

}  // namespace yoke::strip
