// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/routine.h: compiled texts, and programs bound to memory.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compile.h"

namespace yoke::gpu {

class Stream;

struct CodeOptions {
  std::shared_ptr<const CodeCache> cache;
  bool graphs = true;
  PlanOptions plan;
};

class Code final : public sdk::Code {
 public:
  Code(const std::shared_ptr<Context>& context, std::string_view text, CodeOptions options);
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override;

 private:
  std::vector<sdk::Entry> entries_;
  std::vector<std::shared_ptr<const Kernels>> programs_;
  CodeOptions options_;
};

// How the device would run each statement of a text. Compiles nothing.
std::vector<sdk::Verdict> verdicts(Context& context, std::string_view text, const PlanOptions& options);

// The first launch calls the driver for each kernel. The second one records these calls as a graph, which
// later launches launch as a whole. A routine with one kernel needs no graph.
class Routine final : public sdk::Routine {
 public:
  Routine(std::shared_ptr<const Kernels> kernels, std::span<const sdk::Binding> bindings,
          const sdk::Binding& workspace, std::size_t symbol_count, bool graphs);
  ~Routine() override;
  Routine(const Routine&) = delete;
  Routine& operator=(const Routine&) = delete;
  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override;

 private:
  void launch_on(void* stream, std::span<const std::int64_t> symbol_values);
  void link_calls();
  void update_symbols(void* stream, std::span<const std::int64_t> symbol_values);
  void launch_kernels(void* stream);

  std::shared_ptr<const Kernels> kernels_;
  std::vector<Address> addresses_;            // of all launches, one after another
  std::vector<void*> parameters_;             // pointers to the values of the parameters, likewise
  std::vector<std::size_t> first_parameter_;  // of each launch
  Address symbols_ = 0;                       // the launch symbols in device memory
  std::vector<std::int64_t> known_symbols_;   // their values there
  bool symbols_are_known_ = false;
  std::map<DeviceLibrary*, DeviceLibrary::Handle> handles_;
  std::vector<std::unique_ptr<LinkedCall>> calls_;  // by launch; null for a kernel
  long long variable_ = 0;                          // of the repeat block
  std::uint64_t kernel_count_ = 0;                  // in one launch
  bool wants_graph_ = false;
  bool has_launched_ = false;
  void* graph_ = nullptr;
};

}  // namespace yoke::gpu
