// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/fallback_routine.h: a routine that its backend does not run. Its arguments are copied to
// another device, it runs there, and its results are copied back (plugin_api/RULES.md, rule 27).
//
// One launch is one command, for which a worker calls both backends with NULL streams. Order,
// hazards, errors, deadlines and abort are the same as for any other command. A native stream passes such
// launches to a second stream on the workers, its lane (StreamState::fallback_lane).
#pragma once

#include <yoke/runtime/stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/fallback_ledger.h"
#include "device/host_memory.h"
#include "schedule/hazards.h"

namespace yoke::detail {

class Status;

// Owned by Routine, which destroys it when no launch is pending.
class FallbackRoutine {
 public:
  // Allocates the arguments on the fallback device and links the routine there.
  FallbackRoutine(const Code& code, std::uint32_t entry, const std::vector<BufferView>& bindings);
  FallbackRoutine(const FallbackRoutine&) = delete;
  FallbackRoutine& operator=(const FallbackRoutine&) = delete;
  ~FallbackRoutine() = default;

  // The queuing thread holds it from before Hazards::enter until unchanged() returns, so that launches from
  // several threads are recorded in the order in which they will run.
  std::mutex& queuing() { return queuing_; }
  // Hazards::enter stores the versions of the arguments' buffers here.
  std::span<Versions> versions() { return versions_; }
  // Bit i is set if argument i on the fallback device already has the contents that the launch being queued
  // on `lane` will read: the last launch of this routine was on the same lane, and the buffer was not
  // written since. (If that launch fails, the lane is poisoned, and this one does not run.) Arguments from
  // 64 on are always copied.
  std::uint64_t unchanged(const std::shared_ptr<StreamState>& lane);
  // The launch was not queued after all, so the next one copies all arguments.
  void forget() { last_lane_.reset(); }

  // Called on a worker. On failure `status` has the text.
  std::int32_t run(Status& status, const std::int64_t* symbol_values, std::uint32_t symbol_count,
                   std::uint64_t unchanged) const;

 private:
  struct Argument {
    BufferView here;                // on the routine's own device
    std::shared_ptr<Buffer> there;  // on the fallback device
    HostMemory owned;               // intermediate memory, if the host cannot address `there`
    std::byte* host = nullptr;      // `owned`, or the host address of `there`
    bool is_read = false;
    bool is_written = false;
  };

  std::int32_t copy_there(Status& status, const Argument& argument, std::uint64_t* byte_count) const;
  std::int32_t copy_back(Status& status, const Argument& argument, std::uint64_t* byte_count) const;

  std::vector<Argument> arguments_;
  std::shared_ptr<const Routine> routine_;  // on the fallback device; destroyed before its buffers
  std::shared_ptr<FallbackRow> row_;

  std::mutex queuing_;
  std::vector<Versions> versions_;
  std::vector<std::uint64_t> copied_;  // the version of each argument after the last launch
  std::shared_ptr<StreamState> last_lane_;
};

}  // namespace yoke::detail
