// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/cost_model.cpp: estimates the time of merging, updating and publishing. Owner and tree are
// simulated with clocks. In the other strategies all members do the same at the same time, so a formula is enough.
#include <yoke/runtime/cost_model.h>
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "parallel/strategies.h"
#include "schedule/range.h"

namespace yoke {

namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // from, to

// What each strategy needs to know about a bucket.
struct Bucket {
  double bytes = 0;
  double sent = 0;   // instead of `bytes`, where gradients are sent
  double state = 0;  // bytes of the optimizer's states
};

double bucket_count(const MergeWork& work) {
  return static_cast<double>(std::max<std::uint64_t>(
      1,
      (work.byte_count + work.bucket_byte_count - 1) / std::max<std::uint64_t>(1, work.bucket_byte_count)));
}

Bucket bucket_of(const MergeWork& work, double buckets) {
  const double bytes = static_cast<double>(work.byte_count) / buckets;
  return {bytes, work.wire == Wire::kBF16 ? bytes / 2 : bytes, bytes * work.state_count};
}

// Queues the operations of a merge on the members' clocks.
class Play {
 public:
  Play(const GroupCosts& costs, const Bucket& bucket)
      : costs_(costs), bucket_(bucket), links_(costs), now_(costs.size()) {}
  void add(std::uint32_t from, std::uint32_t to) {
    if (bucket_.sent < bucket_.bytes) {
      run(from, 3.5 * bucket_.bytes);  // reads gradients and errors, writes errors and rounded gradients
    }
    now_[to] = std::max(now_[to], now_[from]);
    if (!costs_.is_near(from, to)) {
      copy(from, to, bucket_.sent);
      run(to, 2 * bucket_.bytes + bucket_.sent);
      return;
    }
    const double start = now_[to];
    run(to, 2 * bucket_.bytes);
    now_[to] = std::max(now_[to], moved(start + costs_.launch, from, to, bucket_.sent));
  }
  void copy(std::uint32_t from, std::uint32_t to, double bytes) {
    now_[to] = moved(std::max(now_[to], now_[from]) + costs_.launch, from, to, bytes);
    commands_ += 1;
  }
  void update(std::uint32_t on, double share) { run(on, share * (3 * bucket_.bytes + 2 * bucket_.state)); }
  double end() const {
    return std::max(*std::max_element(now_.begin(), now_.end()), commands_ * costs_.command);
  }

 private:
  double moved(double start, std::uint32_t from, std::uint32_t to, double bytes) {
    return links_.transfer(start, from, to, static_cast<std::uint64_t>(bytes));
  }
  void run(std::uint32_t on, double bytes) {
    now_[on] += costs_.launch + bytes / costs_.memory;
    commands_ += 1;
  }

  const GroupCosts& costs_;
  Bucket bucket_;
  LinkClocks links_;
  std::vector<double> now_;
  double commands_ = 0;
};

Pairs star_to_owner(std::uint32_t size) {
  Pairs pairs;
  for (std::uint32_t k = 1; k < size; ++k) {
    pairs.emplace_back(k, 0);
  }
  return pairs;
}

// The strategies kOwner and kTree: gradients go to the owner, and parameters or sums back, in the reverse order.
void play_bucket(Play& play, const Bucket& bucket, const Pairs& reduce, const Pairs& broadcast,
                 Placement placement, std::uint32_t size) {
  for (const auto& [from, to] : reduce) {
    play.add(from, to);
  }
  const double share = placement == Placement::kSharded ? 1.0 / size : 1;
  for (std::uint32_t k = 1; placement == Placement::kSharded && k < size; ++k) {
    play.copy(0, k, share * bucket.bytes);
    play.update(k, share);
  }
  if (placement != Placement::kEverywhere) {
    play.update(0, share);
  }
  for (std::uint32_t k = 1; placement == Placement::kSharded && k < size; ++k) {
    play.copy(k, 0, share * bucket.bytes);
  }
  for (const auto& [from, to] : broadcast) {
    play.copy(from, to, bucket.bytes);
  }
  for (std::uint32_t k = 0; placement == Placement::kEverywhere && k < size; ++k) {
    play.update(k, 1);
  }
}

double played(const GroupCosts& costs, const MergeWork& work, MergeStrategy strategy, Placement placement) {
  const bool is_tree = strategy == MergeStrategy::kTree;
  const Pairs reduce = is_tree ? merge_pairs(costs.size()) : star_to_owner(costs.size());
  Pairs broadcast;
  for (const auto& [from, to] : reduce) {
    broadcast.emplace_back(to, from);
  }
  if (is_tree) {
    std::reverse(broadcast.begin(), broadcast.end());
  }
  // Simulates the first buckets only: each further bucket takes as long as one of the second half of these.
  constexpr double kSome = 8;
  const double buckets = bucket_count(work);
  const Bucket bucket = bucket_of(work, buckets);
  Play play(costs, bucket);
  double half = 0;
  for (double b = 0; b < std::min(buckets, kSome); ++b) {
    half = b == kSome / 2 ? play.end() : half;
    play_bucket(play, bucket, reduce, broadcast, placement, costs.size());
  }
  return play.end() + std::max(0.0, buckets - kSome) * (play.end() - half) / (kSome / 2);
}

// The slowest link that a ring of all members uses.
const LinkCost& slowest(const GroupCosts& costs) {
  return costs.is_one_node() ? costs.near : costs.far;
}

double ring(const GroupCosts& costs, const MergeWork& work, Placement placement) {
  const double buckets = bucket_count(work);
  const Bucket bucket = bucket_of(work, buckets);
  const double n = costs.size();
  const auto pieces = static_cast<double>(
      detail::ring_pieces(static_cast<std::uint64_t>(bucket.bytes / 4), 4, costs.size()).size());
  const double piece = bucket.bytes / pieces;
  const double sent = bucket.sent / pieces;
  const LinkCost& link = slowest(costs);
  const double move = costs.launch + link.latency + piece / link.bandwidth;
  const double pack = sent < piece ? costs.launch + 3.5 * piece / costs.memory : 0;
  const bool near = costs.is_one_node();
  const double add =
      near ? costs.launch + std::max(link.latency + sent / link.bandwidth, 2 * piece / costs.memory)
           : 2 * costs.launch + link.latency + sent / link.bandwidth + (2 * piece + sent) / costs.memory;
  const double update = (3 * bucket.bytes + 2 * bucket.state) / costs.memory;
  double commands = pieces * (n - 1) * (near ? 1 : 2) + (sent < piece ? pieces * (n - 1) : 0);
  double seconds = (n - 1) * (pack + add) + costs.launch;
  if (placement == Placement::kOwner) {  // the owner's link carries everything, in and then out
    seconds +=
        (pieces - 1) * move + update + (n - 1) * bucket.bytes / link.bandwidth + link.latency + costs.launch;
    commands += 2 * n;
  } else {
    seconds += (n - 1) * move + (placement == Placement::kSharded ? update / n : update);
    commands += pieces * (n - 1) + n;
    if (placement == Placement::kSharded &&
        pieces < n) {  // members that share a piece exchange their parts of it
      seconds += 2 * move + (n / pieces - 1) * (costs.launch + link.latency);
      commands += 2 * (n - pieces);
    }
  }
  return buckets * std::max(seconds, commands * costs.command);
}

double native(const GroupCosts& costs, const MergeWork& work, Placement placement) {
  const double buckets = bucket_count(work);
  const Bucket bucket = bucket_of(work, buckets);
  const double n = costs.size();
  const LinkCost& link = slowest(costs);
  const double rounds = std::bit_width(costs.size() - 1);
  const double half = costs.launch + rounds * link.latency + (n - 1) / n * bucket.bytes / link.bandwidth;
  const double update = costs.launch + (3 * bucket.bytes + 2 * bucket.state) / costs.memory;
  double seconds = 2 * half;
  if (placement == Placement::kSharded) {
    seconds += costs.launch + (update - costs.launch) / n;
  } else {
    seconds += update;
    seconds += placement == Placement::kOwner ? half + bucket.bytes / n / link.bandwidth : 0;
  }
  return buckets * std::max(seconds, 3 * n * costs.command);
}

// Each member sums a part of what all members of its group have, in one launch per level of groups. Of small
// gradients, some members have no part.
double direct(const GroupCosts& costs, const MergeWork& work, Placement placement) {
  const double n = costs.size();
  const auto bytes = static_cast<double>(work.byte_count);
  const double state = bytes * work.state_count;
  const auto share_count = [&](std::uint32_t members) {
    return static_cast<double>(
        std::max<std::size_t>(1, detail::shares(work.byte_count / 4, 4, members).size()));
  };
  // Members that do not work leave their part of one memory's bandwidth to the others.
  const auto link = [&](double working) {
    return costs.has_one_memory ? costs.memory * n / working : costs.near.bandwidth;
  };
  const double launch = costs.launch + (costs.has_one_memory ? 0 : costs.near.latency);
  const auto rounds = detail::direct_rounds(costs.size());
  double seconds = 0;
  double commands = 0;
  for (auto round = rounds.begin(); round + 1 != rounds.end(); ++round) {
    const detail::DirectGroup& group = round->front();
    const double parts = share_count(group.end - group.first);
    const double working = static_cast<double>(round->size()) * parts;
    seconds += launch + (detail::kDirectGroup + 1) * bytes / parts / link(working);
    commands += working;
  }
  const auto terms = static_cast<double>(detail::partial_terms(costs.size()).size());
  const double parts = share_count(costs.size());
  commands += parts;
  if (placement == Placement::kSharded) {  // the update adds up, too
    const double part = ((terms + 2) * bytes + 2 * state) / parts;
    const double of_owner = costs.has_one_memory ? 0 : (n - 1) / n * (bytes + state);
    seconds += launch + std::max(part, of_owner) / link(parts);
    // The others read the parameters.
    seconds += costs.has_one_memory ? 0 : launch + (n - 1) * bytes / costs.near.bandwidth;
  } else {
    seconds += launch + (terms + 1) * bytes / parts / link(parts);
    seconds += costs.launch + (3 * bytes + 2 * state) / costs.memory;
    seconds += launch + (n - 1) * bytes / link(n);  // to all others
    commands += n;
  }
  return std::max(seconds, commands * costs.command);
}

bool works(const GroupCosts& costs, const MergeWork& work, MergeStrategy strategy) {
  const bool is_full = work.wire == Wire::kFull;
  return strategy == MergeStrategy::kDirect   ? is_full && costs.is_one_node()
         : strategy == MergeStrategy::kNative ? is_full && costs.has_native
                                              : true;
}

// Other placements are never faster, and need more memory.
std::vector<Placement> placements_of(const GroupCosts& costs, MergeStrategy strategy, Placement placement) {
  if (placement != Placement::kAuto) {
    return {placement};
  }
  if (strategy == MergeStrategy::kDirect && !costs.has_one_memory) {
    return {Placement::kSharded, Placement::kOwner};  // with kOwner, all read their own parameters
  }
  const bool is_star = strategy == MergeStrategy::kOwner || strategy == MergeStrategy::kTree;
  return {is_star ? Placement::kOwner : Placement::kSharded};
}

std::string number_text(double value, const char* unit) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.3g %s", value, unit);
  return text;
}

std::string time_text(double seconds) {
  return seconds < 1e-3  ? number_text(seconds * 1e6, "us")
         : seconds < 1.0 ? number_text(seconds * 1e3, "ms")
                         : number_text(seconds, "s");
}

std::string costs_text(const GroupCosts& costs, const MergeWork& work) {
  std::string text = detail::counted(costs.size(), "member") + ", " +
                     number_text(static_cast<double>(work.byte_count) / 1e6, "MB") + ", launch " +
                     time_text(costs.launch);
  if (costs.has_one_memory) {
    text += ", one memory of " + number_text(costs.memory * costs.size() / 1e9, "GB/s");
  } else {
    const LinkCost& link = slowest(costs);
    text += ", links " + time_text(link.latency) + " and " + number_text(link.bandwidth / 1e9, "GB/s");
  }
  return text + ", " + costs.source;
}

}  // namespace

bool GroupCosts::is_one_node() const {
  return std::all_of(nodes.begin(), nodes.end(), [&](std::uint32_t node) { return node == nodes.front(); });
}

LinkClocks::LinkClocks(const GroupCosts& costs) : costs_(&costs), out_(costs.size()), in_(costs.size()) {}

double LinkClocks::transfer(double start, std::uint32_t from, std::uint32_t to, std::uint64_t byte_count) {
  if (std::max(from, to) >= out_.size()) {
    throw Error(ErrorCode::kOutOfRange,
                "link clocks: " + detail::outside_text("member", std::max(from, to), out_.size()));
  }
  const LinkCost& link = costs_->is_near(from, to) ? costs_->near : costs_->far;
  const double begin = std::max({start, out_[from], in_[to]});
  out_[from] = in_[to] = begin + static_cast<double>(byte_count) / link.bandwidth;
  return out_[from] + link.latency;
}

double merge_seconds(const GroupCosts& costs, const MergeWork& work, MergeStrategy strategy,
                     Placement placement) {
  if (costs.size() < 2) {
    return 0;
  }
  switch (strategy) {
    case MergeStrategy::kDirect:
      return direct(costs, work, placement);
    case MergeStrategy::kRing:
      return ring(costs, work, placement);
    case MergeStrategy::kNative:
      return native(costs, work, placement);
    default:
      return played(costs, work, strategy, placement);
  }
}

MergeChoice choose_merge(const GroupCosts& costs, const MergeWork& work, Placement placement) {
  std::vector<MergeChoice> all;
  for (const MergeStrategy strategy : {MergeStrategy::kDirect, MergeStrategy::kOwner, MergeStrategy::kTree,
                                       MergeStrategy::kRing, MergeStrategy::kNative}) {
    if (!works(costs, work, strategy)) {
      continue;
    }
    MergeChoice best{strategy, placement, std::numeric_limits<double>::infinity(), {}};
    for (const Placement where : placements_of(costs, strategy, placement)) {
      const double seconds = merge_seconds(costs, work, strategy, where);
      if (seconds < best.seconds) {
        best.placement = where;
        best.seconds = seconds;
      }
    }
    all.push_back(std::move(best));
  }
  constexpr double kSame = 1.05;
  const double fastest = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
                           return a.seconds < b.seconds;
                         })->seconds;
  const auto chosen = std::find_if(all.begin(), all.end(),
                                   [&](const MergeChoice& one) { return one.seconds <= fastest * kSame; });
  std::rotate(all.begin(), chosen, chosen + 1);
  MergeChoice result = all.front();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const char* before = i == 0 ? "" : i == 1 ? "; " : ", ";
    result.reason +=
        before + std::string(merge_strategy_name(all[i].strategy)) + " " + time_text(all[i].seconds);
  }
  result.reason += "; " + costs_text(costs, work);
  return result;
}

}  // namespace yoke
