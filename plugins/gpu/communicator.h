// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/communicator.h: members of groups of devices, by NCCL or RCCL.
//
// Communicators are non-blocking, so that no call waits for other members: the library reports progress when it
// is asked. It can abort a communicator once, and then frees it.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "timeline.h"

namespace yoke::gpu {

// The library's numbers for YOKE_TYPE_* and YOKE_REDUCTION_*.
int comm_type(std::int32_t type);
int comm_reduction(std::int32_t reduction);

// The failure of a call of the library that returned `code`, such as "ncclAllReduce failed: ncclSystemError".
sdk::Failure failure_of_comm(const char* name, int code);

// Thread-safe.
class Communicator final : public sdk::Communicator {
 public:
  // Precondition: the machine's library of collectives is open.
  Communicator(std::shared_ptr<Context> context, const sdk::GroupId& id, std::uint32_t rank,
               std::uint32_t size);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  static sdk::GroupId make_group_id(const Comm& comm);
  // Queues the rows of all members in one group of the library. A member whose stream has failed is left out,
  // and its communicator fails; those of the others are aborted.
  static void queue(const Comm& comm, std::span<const sdk::Collective> rows);

  std::int32_t state() override;
  void wait(std::uint64_t timeout_ns) override;
  void abort() override;

 private:
  // The last work on a stream.
  struct Use {
    std::shared_ptr<Timeline> timeline;
    std::shared_ptr<Point> point;
  };
  struct Part;
  static std::vector<Part> take_parts(std::span<const sdk::Collective> rows);
  static void give_back(std::span<const Part> parts) noexcept;
  // The first failed part of the group of `of`; null: none has failed.
  static const Part* left_out(std::span<const Part> parts, const Part& of) noexcept;
  static int call_parts(const Comm& comm, std::span<const sdk::Collective> rows, std::span<Part> parts,
                        const char*& name);

  const Comm& comm() const { return *context_->machine().library().comm(); }
  // The library's communicator, which stays until give_back(). Throws the failure.
  void* take();
  void give_back() noexcept;
  int call(const sdk::Collective& row, void* handle, void* stream) const;
  // Waits until the library has queued what it was given. Returns its error number.
  int finish_queuing(void* handle);
  void note(Timeline& timeline);
  void fail(const sdk::Failure& failure);
  void begin_abort() noexcept;  // precondition: the lock is held

  std::shared_ptr<Context> context_;
  const sdk::GroupId id_;
  std::mutex mutex_;
  void* handle_ = nullptr;  // null: aborted
  int users_ = 0;
  bool has_joined_ = false;
  bool may_abort_ = false;  // its streams know the failure
  std::optional<sdk::Failure> failure_;
  std::vector<Use> uses_;
  std::thread aborter_;  // the library's abort may wait for the device
};

}  // namespace yoke::gpu
