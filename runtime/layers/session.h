// SPDX-License-Identifier: Apache-2.0
// runtime/layers/session.h: the layers of one runtime, and what they share: counters and the trace's file.
#pragma once

#include <yoke/runtime/layers.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace yoke::layers {

class Layer;
class TraceWriter;

// What validate finds. Dead handles keep it alive for long, so it holds nothing else.
class Ledger {
 public:
  Ledger(bool fail_calls, LogSink sink) : fail_calls_(fail_calls), sink_(std::move(sink)) {}

  bool fail_calls() const noexcept { return fail_calls_; }
  // From now on what is found is also written there.
  void write_to(std::weak_ptr<TraceWriter> trace) { trace_ = std::move(trace); }
  // Counts it, keeps the first ones, and logs one line. Never throws. Where it may not wait (in a forked
  // child) it is not logged, and counted only when nothing is in the way.
  void report(Violation violation, bool may_wait = true) noexcept;
  ValidationReport validation() const;

 private:
  void count(Violation violation);  // mutex_ is held

  const bool fail_calls_;
  const LogSink sink_;
  std::weak_ptr<TraceWriter> trace_;
  mutable std::mutex mutex_;
  ValidationReport report_;
};

class Session {
 public:
  Session(const LayerOptions& options, std::vector<std::string> names, LogSink sink);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::shared_ptr<TraceWriter>& writer() const noexcept { return writer_; }  // null without trace
  const std::shared_ptr<Ledger>& ledger() const noexcept { return ledger_; }
  bool validates() const noexcept;
  // New layers for one plugin, from the host to the plugin.
  std::vector<std::shared_ptr<Layer>> make_layers() const;

 private:
  const std::vector<std::string> names_;
  const std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<TraceWriter> writer_;
};

std::shared_ptr<Layer> make_validate_layer(std::shared_ptr<Ledger> ledger);
std::shared_ptr<Layer> make_trace_layer(std::shared_ptr<TraceWriter> writer);

}  // namespace yoke::layers
