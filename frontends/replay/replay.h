// SPDX-License-Identifier: Apache-2.0
// frontends/replay/replay.h: runs the calls of a trace again and compares the results.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replay/trace.h"

namespace yoke::replay {

struct Options {
  std::string backend;
  // Floats are close within tolerance * max(1, |recorded|). The programs define
  // which bytes are floats; other bytes must be equal.
  double tolerance = 1e-5;
  bool compare_contents = true;                                         // where the trace has data
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);          // no wait takes longer
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // in calls
};

struct Difference {
  std::uint64_t call = 0;
  std::string function;
  std::string text;
};

struct Timing {  // of one function
  std::string name;
  std::uint64_t calls = 0;
  double recorded_seconds = 0, replayed_seconds = 0;
  double slowest_seconds = 0;  // replayed
};

struct Skip {
  std::string function;
  std::string reason;
  std::uint64_t calls = 0;
};

struct Report {
  std::uint64_t calls = 0;  // in the trace
  std::uint64_t replayed = 0;
  std::uint64_t skipped = 0;
  std::uint64_t differences = 0;
  std::uint64_t contents_equal = 0;    // every bit
  std::uint64_t contents_close = 0;    // within the tolerance
  std::uint64_t contents_ignored = 0;  // not compared
  std::string why_ignored;             // the first reason
  double recorded_seconds = 0, replayed_seconds = 0;
  std::vector<Difference> first;        // at most 100
  std::vector<Skip> skips;              // most calls first
  std::vector<Timing> functions;        // most time first
  std::string cut;                      // as Reader::cut
  std::vector<std::string> notes;       // where the backend differs from the recorded one, one sentence each
  std::vector<std::string> unfinished;  // names of calls and spans without an end, at most 100
};

// Repeats the recorded calls on one thread, in the order in which they returned. If the trace has calls of the
// backend itself, repeats only these and skips those of other backends, such as its fallback. Generates contents
// that the trace lacks from their hash. Skips calls that the backend does not offer, and calls that depend on
// them. Destroys all objects that it created.
// Errors: kNotFound          unknown backend
//         kDataLoss          the trace is damaged
//         kDeadlineExceeded  work does not end within the timeout
Report run(Runtime& runtime, std::span<const std::byte> file, const Options& options);

}  // namespace yoke::replay
