// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/strategies.cpp: which member adds or copies what, for each strategy.
#include "parallel/strategies.h"

#include <yoke/program/program.h>

#include <algorithm>

#include "parallel/native.h"
#include "parallel/sum_program.h"

namespace yoke {

namespace {

class OwnerCollectives final : public Collectives {
 public:
  using Collectives::Collectives;
  LinkedCollective reduce(std::string_view node, Range range) override {
    LinkedCollective all;
    const Slice slice = checked(node, range);
    for (std::uint32_t from = 1; from < size(); ++from) {
      pack(all, from, node, slice);
      add(all, 0, from, node, slice);
    }
    return all;
  }
};

class TreeCollectives final : public Collectives {
 public:
  using Collectives::Collectives;
  LinkedCollective reduce(std::string_view node, Range range) override {
    LinkedCollective all;
    const Slice slice = checked(node, range);
    for (const auto& [from, to] : merge_pairs(size())) {
      pack(all, from, node, slice);
      add(all, to, from, node, slice);
    }
    return all;
  }
  LinkedCollective broadcast(std::string_view node, Range range) override {
    LinkedCollective all;
    const Slice slice = checked(node, range);
    const auto pairs = merge_pairs(size());
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
      copy(all, pair->first, pair->second, node, slice);
    }
    return all;
  }
};

// A range is cut into pieces. In each round a piece moves to the next member, which adds its own. The sum ends at the
// member with the piece's number or, if there are fewer pieces than members, at the first member that shares the piece.
class RingCollectives final : public Collectives {
 public:
  using Collectives::Collectives;
  LinkedCollective reduce(std::string_view node, Range range) override {
    LinkedCollective all = add_up(node, range);
    for (const detail::RingPiece& piece : pieces(node, range)) {
      copy(all, 0, piece.first, node, piece.range);  // nothing for the owner's own piece
    }
    return all;
  }
  LinkedCollective reduce_scatter(std::string_view node, Range range) override {
    LinkedCollective all = add_up(node, range);
    each_shared_part(node, range, [&](std::uint32_t first, std::uint32_t k, const Slice& part) {
      copy(all, k, first, node, part);
    });
    return all;
  }
  LinkedCollective all_reduce(std::string_view node, Range range) override {
    LinkedCollective all = add_up(node, range);
    all.add(pass_on(node, range));
    return all;
  }
  LinkedCollective all_gather(std::string_view node, Range range) override {
    LinkedCollective all;
    each_shared_part(node, range, [&](std::uint32_t first, std::uint32_t k, const Slice& part) {
      copy(all, first, k, node, part);
    });
    all.add(pass_on(node, range));
    return all;
  }

 private:
  std::vector<detail::RingPiece> pieces(std::string_view node, const Range& range) const {
    const Slice all = checked(node, range);
    std::vector<detail::RingPiece> result =
        detail::ring_pieces(all.count(), element_byte_count(node), size());
    for (detail::RingPiece& piece : result) {
      piece.range = {all.begin + piece.range.begin, all.begin + piece.range.end};
    }
    return result;
  }
  std::uint64_t element_byte_count(std::string_view node) const {
    return program::byte_size(static_cast<program::Type>(members()[0].tensor(node).spec.type));
  }

  // Each piece of the sum ends at the piece's first member.
  LinkedCollective add_up(std::string_view node, const Range& range) {
    const std::vector<detail::RingPiece> all_pieces = pieces(node, range);
    const Slice largest =
        std::max_element(all_pieces.begin(), all_pieces.end(), [](const auto& a, const auto& b) {
          return a.range.count() < b.range.count();
        })->range;
    LinkedCollective largest_first;  // makes each merge buffer large enough for all pieces
    for (std::uint32_t k = 0; size() > 1 && k < size(); ++k) {
      pack(largest_first, after(k, size() - 1), node, largest);
      add(largest_first, k, after(k, size() - 1), node, largest);
    }
    LinkedCollective all;
    each_round(
        all, all_pieces, 1, [&](std::uint32_t from, const Slice& piece) { pack(all, from, node, piece); },
        [&](std::uint32_t to, std::uint32_t from, const Slice& piece) { add(all, to, from, node, piece); });
    return all;
  }
  // Every member gets the pieces of their first members.
  LinkedCollective pass_on(std::string_view node, const Range& range) {
    LinkedCollective all;
    each_round(
        all, pieces(node, range), 0, [](std::uint32_t, const Slice&) {},
        [&](std::uint32_t to, std::uint32_t from, const Slice& piece) { copy(all, to, from, node, piece); });
    return all;
  }
  // Visits each piece size() - 1 times, beginning with the move from the member `start` after its first one. In each
  // round, first prepares all pieces where they are.
  template <class Prepare, class Visit>
  void each_round(LinkedCollective& all, const std::vector<detail::RingPiece>& all_pieces,
                  std::uint32_t start, const Prepare& prepare, const Visit& visit) {
    for (std::uint32_t round = start; round + 1 < size() + start; ++round) {
      for (const detail::RingPiece& piece : all_pieces) {
        prepare(after(piece.first, round), piece.range);
      }
      for (const detail::RingPiece& piece : all_pieces) {
        all.add(members()[after(piece.first, round)].stream());
      }
      for (const detail::RingPiece& piece : all_pieces) {
        visit(after(piece.first, round + 1), after(piece.first, round), piece.range);
      }
    }
  }
  // Visits the parts of members that are not the first one of a piece.
  template <class Visit>
  void each_shared_part(std::string_view node, const Range& range, const Visit& visit) const {
    const std::vector<Slice> cut = parts(node, checked(node, range));
    for (const detail::RingPiece& piece : pieces(node, range)) {
      for (std::uint32_t k = piece.first + 1; k < piece.end; ++k) {
        visit(piece.first, k, cut[k]);
      }
    }
  }
  std::uint32_t after(std::uint32_t k, std::uint32_t distance) const { return (k + distance) % size(); }
};

class DirectCollectives final : public Collectives {
 public:
  using Collectives::Collectives;

  // The sums of groups of 16 members, then of 16 of these sums, and so on, until at most 16 are left. Members of a
  // group share the work on its sum.
  LinkedCollective partly(std::string_view node, const Range& range) {
    LinkedCollective result;
    const Slice all = checked(node, range);
    const auto rounds = detail::direct_rounds(size());
    for (auto groups = rounds.begin(); groups + 1 != rounds.end(); ++groups) {
      std::vector<Sum> round;
      for (const detail::DirectGroup& group : *groups) {
        share_sum(round, group, node, all);
      }
      add_round(result, round, node);
    }
    return result;
  }
  LinkedCollective reduce(std::string_view node, Range range) override {
    LinkedCollective all = partly(node, range);
    all.add(rest(node, range));
    return all;
  }
  LinkedCollective rest(std::string_view node, const Range& range) {
    LinkedCollective all;
    std::vector<Sum> round;
    share_sum(round, detail::direct_rounds(size()).back().front(), node, checked(node, range));
    add_round(all, round, node);
    return all;
  }

 private:
  struct Sum {
    std::uint32_t member = 0;
    std::vector<std::uint32_t> terms;
    Slice range;
  };

  // Members of a group share the work of its sum.
  void share_sum(std::vector<Sum>& round, const detail::DirectGroup& group, std::string_view node,
                 const Slice& range) const {
    const std::uint64_t element =
        program::byte_size(static_cast<program::Type>(members()[0].tensor(node).spec.type));
    for (const detail::Share& share : detail::shares(range.count(), element, group.end - group.first)) {
      round.push_back({group.first + share.member,
                       group.terms(),
                       {range.begin + share.range.begin, range.begin + share.range.end}});
    }
  }
  // No member waits for another's work of the same round.
  void add_round(LinkedCollective& all, const std::vector<Sum>& round, std::string_view node) {
    for (const Sum& one : round) {
      all.add(members()[one.member].stream());
    }
    for (const Sum& one : round) {
      sum(all, one.member, one.terms, node, one.range);
    }
  }
};

// Into how many pieces `size` members cut a tensor: up to 4 members into one each. For more members, a small tensor is
// cut into one piece for each 16 KiB, at least 1 and at most 4, and a large one into one for each `least` bytes.
std::uint32_t piece_count(std::uint64_t byte_count, std::uint64_t least, std::uint32_t size) {
  constexpr std::uint64_t kFew = 4;
  constexpr std::uint64_t kLeastFew = std::uint64_t{16} << 10U;
  const std::uint64_t few = size <= kFew ? kFew : std::clamp<std::uint64_t>(byte_count / kLeastFew, 1, kFew);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, std::max(few, byte_count / least)));
}

}  // namespace

std::vector<detail::Share> detail::shares(std::uint64_t element_count, std::uint64_t element_byte_count,
                                          std::uint32_t size) {
  const std::uint32_t count = piece_count(element_count * element_byte_count, std::uint64_t{16} << 10U, size);
  const std::vector<Slice> cut = slices(element_count, element_byte_count, count);
  std::vector<Share> result;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (cut[i].count() != 0) {
      result.push_back({static_cast<std::uint32_t>(std::uint64_t{size} * i / count), cut[i]});
    }
  }
  return result;
}

std::vector<detail::RingPiece> detail::ring_pieces(std::uint64_t element_count,
                                                   std::uint64_t element_byte_count, std::uint32_t size) {
  const std::uint32_t count = piece_count(element_count * element_byte_count, std::uint64_t{64} << 10U, size);
  const std::vector<Slice> cut = slices(element_count, element_byte_count, size);
  std::vector<RingPiece> result(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    RingPiece& piece = result[i];
    piece.first = static_cast<std::uint32_t>(std::uint64_t{size} * i / count);
    piece.end = static_cast<std::uint32_t>(std::uint64_t{size} * (i + 1) / count);
    piece.range = {cut[piece.first].begin, cut[piece.end - 1].end};
  }
  return result;
}

std::vector<std::uint32_t> detail::DirectGroup::terms() const {
  std::vector<std::uint32_t> result;
  for (std::uint32_t k = first; k < end; k += stride) {
    result.push_back(k);
  }
  return result;
}

std::vector<std::vector<detail::DirectGroup>> detail::direct_rounds(std::uint32_t size) {
  std::vector<std::vector<DirectGroup>> rounds;
  std::uint32_t stride = 1;
  for (; size > kDirectGroup * stride; stride *= kDirectGroup) {
    auto& round = rounds.emplace_back();
    for (std::uint32_t first = 0; first < size; first += kDirectGroup * stride) {
      round.push_back({first, std::min(size, first + kDirectGroup * stride), stride});
    }
  }
  rounds.push_back({{0, size, stride}});
  return rounds;
}

std::vector<std::uint32_t> detail::partial_terms(std::uint32_t size) {
  return direct_rounds(size).back().front().terms();
}

LinkedCollective detail::partial_sum(Collectives& group, std::string_view node, Collectives::Range range) {
  return dynamic_cast<DirectCollectives&>(group).partly(node, range);
}

LinkedCollective detail::final_sum(Collectives& group, std::string_view node, Collectives::Range range) {
  return dynamic_cast<DirectCollectives&>(group).rest(node, range);
}

std::unique_ptr<Collectives> Collectives::create(MergeStrategy strategy, std::span<const Context> members,
                                                 MergeUse use, std::shared_ptr<CodeCache> codes, Wire wire,
                                                 const ProcessGroup& processes) {
  detail::check_processes(processes, strategy, members.size());
  const bool is_local = processes.size == 0;
  const MergeStrategy resolved =
      resolve_strategy(is_local ? strategy : MergeStrategy::kNative, members, wire);
  detail::check_wire(wire, resolved);
  switch (resolved) {
    case MergeStrategy::kTree:
      return std::make_unique<TreeCollectives>(MergeStrategy::kTree, members, use, std::move(codes), wire);
    case MergeStrategy::kDirect:
      return std::make_unique<DirectCollectives>(MergeStrategy::kDirect, members, use, std::move(codes));
    case MergeStrategy::kRing:
      return std::make_unique<RingCollectives>(MergeStrategy::kRing, members, use, std::move(codes), wire);
    case MergeStrategy::kNative:
      return detail::create_native(members, use, std::move(codes), processes);
    default:
      return std::make_unique<OwnerCollectives>(MergeStrategy::kOwner, members, use, std::move(codes), wire);
  }
}

}  // namespace yoke
