// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/strategies.h: where a step reads gradients that are partly summed; how sums are divided.
#pragma once

#include <yoke/runtime/collective.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace yoke::detail {

// How many tensors kDirect adds up in one program.
inline constexpr std::uint32_t kDirectGroup = 16;

// Members of [first, end) add up the tensors of first, first + stride, ... into that of `first`.
struct DirectGroup {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t stride = 1;
  std::vector<std::uint32_t> terms() const;
};
// The groups that kDirect adds up in each round. The last round has one group, of all members.
std::vector<std::vector<DirectGroup>> direct_rounds(std::uint32_t size);

// What is sent around the ring at once: the parts of the members [first, end).
struct RingPiece {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  Slice range;
};
// One piece for each of `size` members. For more than 4 members, at most one per 64 KiB, or up to 4 of 16 KiB: the
// number of commands for a small tensor then grows with the number of members, and not with its square.
std::vector<RingPiece> ring_pieces(std::uint64_t element_count, std::uint64_t element_byte_count,
                                   std::uint32_t size);

// Divides a range between members, each of which can access all of it: member first + `member` works on `range`. Of
// more than 4 members, only as many work as get 16 KiB each: for small tensors, starting the work costs more than
// doing it.
struct Share {
  std::uint32_t member = 0;
  Slice range;
};
std::vector<Share> shares(std::uint64_t element_count, std::uint64_t element_byte_count, std::uint32_t size);

// The ranks whose tensors are left to be added up, in order, after partial_sum.
std::vector<std::uint32_t> partial_terms(std::uint32_t size);
// The part of a reduction that the update of the parameters cannot do while it reads the gradients.
// Precondition: the strategy is kDirect.
LinkedCollective partial_sum(Collectives& group, std::string_view node, Collectives::Range range);

// The rest: the sum of the partial terms on the owner.
LinkedCollective final_sum(Collectives& group, std::string_view node, Collectives::Range range);

}  // namespace yoke::detail
