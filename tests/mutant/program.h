// SPDX-License-Identifier: Apache-2.0
// tests/mutant/program.h: programs that the reference executor runs, with temporaries in the workspace.
#pragma once

#include <yoke/program/program.h>
#include <yoke/sdk/plugin.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fault.h"

namespace yoke::mutant {

std::vector<sdk::Verdict> verdicts_of(std::string_view text, bool elementwise_only);
// Throws Failure if a statement is not elementwise.
void refuse_unsupported(std::string_view text);

// A program in the form that runs: each temporary is an additional argument in the workspace.
struct Runnable {
  std::vector<program::Program> variants;  // one, or several that a bug runs in turn
  std::vector<std::int64_t> places;        // per argument: the number of its binding, or -1
  std::vector<std::uint64_t> offsets;      // per argument: its offset in the workspace
  std::vector<std::uint64_t> byte_counts;
  std::vector<bool> is_written;  // per binding
  std::vector<bool> is_read;
  std::uint64_t workspace_byte_count = 0;
};

class Code final : public sdk::Code {
 public:
  Code(std::string_view text, std::shared_ptr<DeviceState> device);
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override;
  // Bug: clears the statements that routines still run.
  void forget();

 private:
  std::shared_ptr<DeviceState> device_;
  std::vector<sdk::Entry> entries_;
  std::vector<Runnable> runnables_;
};

class Routine final : public sdk::Routine {
 public:
  Routine(const Runnable& runnable, std::span<const sdk::Binding> bindings, const sdk::Binding& workspace,
          std::shared_ptr<DeviceState> device);
  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override;

 private:
  void run(std::span<const std::int64_t> values);
  void execute(std::span<const std::int64_t> values);
  // Bug: the first bytes of the workspace are the address of the routine that was queued last.
  void sign_workspace();
  bool is_signed() const;
  // Bug: the inputs of one element when a launch is queued.
  std::map<std::size_t, std::vector<std::byte>> scalars() const;
  std::byte* end_of(std::size_t argument) const {
    return static_cast<std::byte*>(addresses_[argument]) + runnable_.byte_counts[argument];
  }

  const Runnable& runnable_;
  std::vector<void*> addresses_;  // per argument of the variants
  std::byte* workspace_ = nullptr;
  std::shared_ptr<DeviceState> device_;
  std::vector<std::int64_t> last_values_;
  std::uint64_t launches_ = 0;
};

}  // namespace yoke::mutant
