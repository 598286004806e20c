// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/strategies.cpp: which member adds or copies what, for each strategy.
#include "parallel/strategies.h"

#include <yoke/program/program.h>

#include <algorithm>

#include "parallel/native.h"

namespace yoke {

namespace {

constexpr std::uint32_t kGroup = 16;  // tensors that kDirect adds up in one program

// first, first + stride, ...
std::vector<std::uint32_t> every(std::uint32_t first, std::uint32_t end, std::uint32_t stride) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t k = first; k < end; k += stride) {
    result.push_back(k);
  }
  return result;
}

class OwnerCollectives final : public Collectives {
 public:
  using Collectives::Collectives;
  LinkedCollective reduce(std::string_view node, Range range) override {
    LinkedCollective all;
    const Slice slice = checked(node, range);
    for (std::uint32_t from = 1; from < size(); ++from) {
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

// In round r, each member takes a part from the member before it: part k - 2 - r of a sum, which so ends at the
// member of its number, and part k - 1 - r when parts are gathered.
class RingCollectives final : public Collectives {
 public:
  using Collectives::Collectives;
  LinkedCollective reduce(std::string_view node, Range range) override {
    LinkedCollective all = reduce_scatter(node, range);
    all.add(gather(node, range));
    return all;
  }
  LinkedCollective reduce_scatter(std::string_view node, Range range) override {
    LinkedCollective all;
    LinkedCollective largest_first;  // makes each merge buffer large enough for all parts
    const std::vector<Slice> cut = parts(node, checked(node, range));
    const Slice largest = *std::max_element(
        cut.begin(), cut.end(), [](const Slice& a, const Slice& b) { return a.count() < b.count(); });
    for (std::uint32_t k = 0; size() > 1 && k < size(); ++k) {
      add(largest_first, k, before(k, 1), node, largest);
    }
    for (std::uint32_t round = 0; round + 1 < size(); ++round) {
      begin_round(all);
      for (std::uint32_t k = 0; k < size(); ++k) {
        add(all, k, before(k, 1), node, cut[before(k, round + 2)]);
      }
    }
    return all;
  }
  LinkedCollective all_reduce(std::string_view node, Range range) override {
    LinkedCollective all = reduce_scatter(node, range);
    all.add(all_gather(node, range));
    return all;
  }
  LinkedCollective all_gather(std::string_view node, Range range) override {
    LinkedCollective all;
    const std::vector<Slice> cut = parts(node, checked(node, range));
    for (std::uint32_t round = 0; round + 1 < size(); ++round) {
      begin_round(all);
      for (std::uint32_t k = 0; k < size(); ++k) {
        copy(all, k, before(k, 1), node, cut[before(k, round + 1)]);
      }
    }
    return all;
  }

 private:
  // Precondition: distance <= size().
  std::uint32_t before(std::uint32_t k, std::uint32_t distance) const {
    return (k + size() - distance) % size();
  }
};

class DirectCollectives final : public Collectives {
 public:
  using Collectives::Collectives;

  // The sums of groups of 16 members, then of 16 of these sums, and so on, until at most 16 are left. All members
  // of a group work on its sum, each on a slice.
  LinkedCollective partly(std::string_view node, const Range& range) {
    LinkedCollective result;
    const Slice all = checked(node, range);
    for (std::uint32_t stride = 1; size() > kGroup * stride; stride *= kGroup) {
      begin_round(result);
      for (std::uint32_t first = 0; first < size(); first += kGroup * stride) {
        const std::uint32_t end = std::min(size(), first + kGroup * stride);
        sum_on(result, first, end, every(first, end, stride), node, all);
      }
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
    begin_round(all);
    sum_on(all, 0, size(), detail::partial_terms(size()), node, checked(node, range));
    return all;
  }

 private:
  // The members [first, end) share the work of a sum.
  void sum_on(LinkedCollective& all, std::uint32_t first, std::uint32_t end,
              const std::vector<std::uint32_t>& terms, std::string_view node, const Slice& range) {
    const std::uint64_t element =
        program::byte_size(static_cast<program::Type>(members()[0].tensor(node).spec.type));
    const std::vector<Slice> cut = slices(range.count(), element, end - first);
    for (std::uint32_t k = first; k < end; ++k) {
      sum(all, k, terms, node, {range.begin + cut[k - first].begin, range.begin + cut[k - first].end});
    }
  }
};

}  // namespace

std::vector<std::uint32_t> detail::partial_terms(std::uint32_t size) {
  std::uint32_t stride = 1;
  while (size > kGroup * stride) {
    stride *= kGroup;
  }
  return every(0, size, stride);
}

LinkedCollective detail::partial_sum(Collectives& group, std::string_view node, Collectives::Range range) {
  return dynamic_cast<DirectCollectives&>(group).partly(node, range);
}

LinkedCollective detail::final_sum(Collectives& group, std::string_view node, Collectives::Range range) {
  return dynamic_cast<DirectCollectives&>(group).rest(node, range);
}

std::unique_ptr<Collectives> Collectives::create(MergeStrategy strategy, std::span<const Context> members,
                                                 MergeUse use, std::shared_ptr<CodeCache> codes) {
  switch (resolve_strategy(strategy, members)) {
    case MergeStrategy::kTree:
      return std::make_unique<TreeCollectives>(MergeStrategy::kTree, members, use, std::move(codes));
    case MergeStrategy::kDirect:
      return std::make_unique<DirectCollectives>(MergeStrategy::kDirect, members, use, std::move(codes));
    case MergeStrategy::kRing:
      return std::make_unique<RingCollectives>(MergeStrategy::kRing, members, use, std::move(codes));
    case MergeStrategy::kNative:
      return detail::create_native(members, use, std::move(codes));
    default:
      return std::make_unique<OwnerCollectives>(MergeStrategy::kOwner, members, use, std::move(codes));
  }
}

}  // namespace yoke
