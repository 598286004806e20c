// SPDX-License-Identifier: Apache-2.0
// tests/mutant/collective.h: collectives between devices in host memory. A member waits on the thread of its
// stream; the last one to arrive does the work of all.
#pragma once

#include <yoke/sdk/plugin.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace yoke::mutant {

// The part of a member, from the time when it is queued. If the stream skips it, the destructor makes its
// communicator fail.
class Part {
 public:
  explicit Part(const sdk::Collective& row);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  void perform();  // on the stream's thread

  const std::byte* source() const;
  std::byte* target() const;
  const sdk::Collective row;

 private:
  std::vector<std::byte> early_;  // bug: the source as it was when the part was queued
  bool is_performed_ = false;
};

class Group {
 public:
  explicit Group(std::uint32_t size) : failures_(size), sequence_(size), has_joined_(size) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(failures_.size()); }
  void join(std::uint32_t rank);
  std::int32_t state(std::uint32_t rank);
  void wait(std::uint32_t rank, std::uint64_t timeout_ns);
  void fail(std::uint32_t rank, const sdk::Failure& failure);
  // Returns when all members have done their parts. Throws the member's failure.
  void perform(std::uint32_t rank, const Part& part);

 private:
  // One collective: the parts that have arrived, by rank.
  struct Round {
    std::vector<const Part*> parts;
    std::uint32_t arrived = 0;
    std::uint32_t left = 0;
    bool is_done = false;
    std::optional<sdk::Failure> failure;
  };
  void finish(Round& round) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<sdk::Failure>> failures_;  // by rank
  std::vector<std::uint64_t> sequence_;                // by rank: the number of its last collective
  std::vector<bool> has_joined_;
  std::uint32_t joined_ = 0;
  std::map<std::uint64_t, Round> rounds_;
};

class Communicator final : public sdk::Communicator {
 public:
  Communicator(std::shared_ptr<Group> group, std::uint32_t rank);
  ~Communicator() override;
  std::int32_t state() override { return group_->state(rank_); }
  void wait(std::uint64_t timeout_ns) override { group_->wait(rank_, timeout_ns); }
  void abort() override;
  void perform(const Part& part) { group_->perform(rank_, part); }
  void fail(const sdk::Failure& failure) { group_->fail(rank_, failure); }

 private:
  std::shared_ptr<Group> group_;
  std::uint32_t rank_;
};

sdk::CollectivesInfo collectives_info();
sdk::GroupId create_group_id();
std::unique_ptr<sdk::Communicator> join_group(const sdk::GroupId& id, std::uint32_t rank, std::uint32_t size);
// Precondition: every stream is a Stream of stream.h.
void queue_collectives(std::span<const sdk::Collective> rows);

// reduce.cpp: to[i] = to[i] reduced with from[i], for `count` elements.
void reduce(std::int32_t type, std::int32_t reduction, std::byte* to, const std::byte* from,
            std::uint64_t count);

}  // namespace yoke::mutant
