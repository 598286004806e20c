// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/fallback_routine.h: a routine of a backend that does not run it: its arguments are copied
// to another device, it runs there, and what it wrote is copied back (abi.md rule 27).
//
// One launch is one command of a worker thread, which calls both backends with NULL streams: order, hazards,
// errors, deadlines and abort are those of any other command. A stream of the backend's own hands such
// launches to a second one, its lane, that a worker drives (StreamState::fallback_lane).
#pragma once

#include <yoke/runtime/stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/fallback_ledger.h"
#include "schedule/hazards.h"

namespace yoke::detail {

class Status;

// Owned by Routine, which says when no launch of it is queued any more.
class FallbackRoutine {
 public:
  // Allocates the arguments on the fallback device and links the routine there.
  FallbackRoutine(const Code& code, std::uint32_t entry, const std::vector<BufferView>& bindings);
  FallbackRoutine(const FallbackRoutine&) = delete;
  FallbackRoutine& operator=(const FallbackRoutine&) = delete;
  ~FallbackRoutine() = default;

  // Queuing: held from before Hazards::enter until unchanged() has answered, so that launches by several
  // threads are noted in the order in which they will run.
  std::mutex& queuing() { return queuing_; }
  // Where the hazards leave the versions of the arguments' buffers.
  std::span<Versions> versions() { return versions_; }
  // Bit i: what argument i holds on the fallback device is what the launch being queued on `lane` will read.
  // That is known while nobody wrote the buffer since this routine's last launch, on the same stream: if that
  // one failed, the stream is poisoned and this one never runs. Arguments from 64 on are always copied.
  std::uint64_t unchanged(const std::shared_ptr<StreamState>& lane);

  // Runs it, on the lane's worker. A code other than YOKE_OK comes with text in `status`.
  std::int32_t run(Status& status, const std::int64_t* symbol_values, std::uint32_t symbol_count,
                   std::uint64_t unchanged) const;

 private:
  struct Argument {
    BufferView here;                     // of the routine's own device
    std::shared_ptr<Buffer> there;       // of the fallback device
    std::unique_ptr<std::byte[]> owned;  // host memory on the way, where the host cannot address `there`
    std::byte* host = nullptr;           // `owned`, or the address of `there`
    bool is_read = false;
    bool is_written = false;
  };

  std::int32_t copy_there(Status& status, const Argument& argument, std::uint64_t* byte_count) const;
  std::int32_t copy_back(Status& status, const Argument& argument, std::uint64_t* byte_count) const;

  std::vector<Argument> arguments_;
  std::shared_ptr<const Routine> routine_;  // on the fallback device; goes before its buffers
  std::shared_ptr<FallbackRow> row_;

  std::mutex queuing_;
  std::vector<Versions> versions_;
  std::vector<std::uint64_t> copied_;  // the version that each argument was brought to by the last launch
  std::shared_ptr<StreamState> last_lane_;
};

}  // namespace yoke::detail
