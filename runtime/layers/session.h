// SPDX-License-Identifier: Apache-2.0
// runtime/layers/session.h: the layers of one runtime and their shared state: the ledger and the trace file.
#pragma once

#include <yoke/runtime/layers.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace yoke::layers {

class Interposer;
class Layer;
class TraceWriter;

// The violations that validation found.
class Ledger {
 public:
  Ledger(bool fail_calls, LogSink sink) : fail_calls_(fail_calls), sink_(std::move(sink)) {}

  bool fail_calls() const noexcept { return fail_calls_; }
  // Violations are also written to the trace file.
  void write_to(std::weak_ptr<TraceWriter> trace) { trace_ = std::move(trace); }
  // Counts and logs a violation, and keeps the first ones.
  void report(Violation violation) noexcept;
  ValidationReport validation() const;

 private:
  const bool fail_calls_;
  const LogSink sink_;
  std::weak_ptr<TraceWriter> trace_;
  mutable std::mutex mutex_;
  ValidationReport report_;
};

struct Session {
  // Creates the layers of one plugin, in order from the host to the plugin.
  std::vector<std::unique_ptr<Layer>> make_layers(const Interposer& plugin) const;

  std::vector<std::string> names;  // of the layers
  std::shared_ptr<Ledger> ledger;
  std::shared_ptr<TraceWriter> writer;  // null without the layer trace
  LogSink sink;
  bool strict = false;
};

}  // namespace yoke::layers
