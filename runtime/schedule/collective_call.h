// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/collective_call.h: collectives of a backend, as work of the streams of a group.
#pragma once

#include <yoke/runtime/stream.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/communicator.h"
#include "schedule/hazards.h"

namespace yoke::detail {

struct StreamState;

// The communicators of the members of a group that are in this process: one per stream. Functions take the position of
// a stream. When a member fails, the communicators of all are aborted, so that no member waits for it. Thread-safe.
// Its CollectiveCalls keep it alive, and wait for queued collectives when they end.
class CollectiveGroup {
 public:
  // Waits until all members have joined, at most RuntimeOptions::wait_timeout. Throws the first Error.
  // Precondition: the streams are of one backend, which has collectives.
  static std::shared_ptr<CollectiveGroup> create(std::span<const std::shared_ptr<Stream>> streams,
                                                 const GroupRanks& ranks);

  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  // "member 1 of 3": its rank, and the size of the group.
  std::string member_name(std::uint32_t member) const;
  StreamState& stream(std::uint32_t member) const { return *members_[member].stream; }
  yoke_communicator* communicator(std::uint32_t member) const { return communicators_[member].get(); }
  // Throws the error of the first member that failed.
  void check() const;
  // "member 1 of 3, stream 'cuda:1/stream0', failed: ..."; empty if none has failed.
  std::string failure() const;
  // Aborts all communicators, unless a member has failed already.
  void fail(std::uint32_t member, ErrorCode code, std::string_view reason) noexcept;
  // The first member whose stream has failed by itself, or else the first one whose communicator has failed; size():
  // none has.
  std::uint32_t find_failed() const noexcept;
  // Finds out whether a member has failed unnoticed. Costs a call per member, at most every few milliseconds.
  void poll() noexcept;
  // Collectives queued up to this ticket of the member's stream use its communicator.
  void set_last_ticket(std::uint32_t member, std::uint64_t ticket) noexcept {
    members_[member].last_ticket.store(ticket);
  }
  // Returns false if queued collectives are still pending after wait_timeout.
  bool wait_idle() noexcept;

 private:
  struct Member {
    std::shared_ptr<StreamState> stream;
    std::atomic<std::uint64_t> last_ticket{0};
  };
  CollectiveGroup(std::span<const std::shared_ptr<Stream>> streams, const GroupRanks& ranks);

  std::uint32_t first_rank_;
  std::uint32_t total_;
  std::vector<Member> members_;
  std::vector<Communicator> communicators_;
  std::atomic<std::int64_t> next_poll_ns_{0};  // of the steady clock
  mutable std::mutex mutex_;
  bool has_failed_ = false;
  ErrorCode code_ = ErrorCode::kOk;
  std::string failure_;
};

// One collective of a group, linked once and run many times: the parts of the members that are in this process.
class CollectiveCall {
 public:
  struct Shape {
    std::int32_t kind = YOKE_COLLECTIVE_ALL_REDUCE;
    std::int32_t type = YOKE_TYPE_F32;
    std::uint64_t count = 0;  // elements of a part
    std::uint32_t root = 0;
  };
  // What a member reads and writes: ranges of one buffer, one within the other.
  struct Part {
    BufferView source;  // without a buffer: reads nothing
    BufferView target;
  };

  // `parts` are in the order of the members; `tensor` is for messages. A reduction is a sum.
  // Throws Error kInvalidArgument for a buffer that is not on its member's device.
  static std::shared_ptr<const CollectiveCall> link(std::shared_ptr<CollectiveGroup> group,
                                                    std::span<const std::shared_ptr<Stream>> streams,
                                                    const Shape& shape, std::vector<Part> parts,
                                                    std::string_view tensor);

  // Queues the parts of all members, in one call of the backend if no stream has commands that wait for its worker
  // thread. Allocates nothing. Throws the error of a member that has failed; nothing is queued then. If queuing
  // fails for one member, it fails for all.
  void run() const;

  // Called by the streams.
  const yoke_collective* row(std::uint32_t member) const { return &rows_[member]; }
  // "all_reduce of 400 bytes of tensor 'g', member 1 of 3"
  std::string describe(std::uint32_t member) const;
  const std::string& tensor() const { return tensor_; }
  // Call it when the member's part was skipped or has failed.
  void fail(std::uint32_t member) const noexcept;

 private:
  CollectiveCall(std::shared_ptr<CollectiveGroup> group, std::span<const std::shared_ptr<Stream>> streams,
                 const Shape& shape, std::vector<Part> parts, std::string_view tensor);
  ~CollectiveCall() = default;
  static void end(const CollectiveCall* call);

  void begin() const;
  bool is_immediate() const;
  void queue_together() const noexcept;
  void queue_each() const;
  std::int32_t call_backend(class Status& status, std::uint32_t& failed) const;
  // Completes the promised tickets of the members [first, end), which another member's failure left without
  // work.
  void retire(std::uint32_t first, std::uint32_t end) const noexcept;

  std::shared_ptr<CollectiveGroup> group_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<Part> parts_;
  std::vector<yoke_collective> rows_;
  std::vector<std::vector<Access>> accesses_;
  std::vector<std::uint32_t> lock_order_;       // of the streams: by address
  mutable std::vector<std::uint64_t> tickets_;  // of the queuing thread
  std::string tensor_;
  std::uint64_t byte_count_;
};

}  // namespace yoke::detail
