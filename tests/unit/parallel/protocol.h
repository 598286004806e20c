// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/protocol.h: a search through all orders in which recorded calls can run, with a failure at any
// point of any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "call_graph.h"

namespace yoke::test {

// The model: each stream runs its calls in order, and may wait for calls of other streams. A call writes a value that
// stands for the call and everything that it has read; a copy keeps values. When a stream fails, its call writes bad
// values, and none of its later calls runs; a stream that waits for one of these calls also fails. A lost device is the
// failure of several streams. Every state after a stop or an abort is a state that the search visits.
class Protocol {
 public:
  // The replica of one member: the range of bytes that holds its parameters.
  struct Replica : CallGraph::Range {
    std::uint32_t number = 0;  // replicas with the same number start with the same values
  };
  // `ends`: the number of calls at the end of each step. `replicas` hold parameters; `alike` also start alike.
  Protocol(const CallGraph& graph, std::vector<std::size_t> ends, std::vector<Replica> replicas,
           std::vector<Replica> alike);

  struct Result {
    std::size_t states = 0;
    std::size_t ends_of_failed_runs = 0;
    std::string problem;  // empty: none
  };
  // Visits all states. Up to `failures` streams fail, each at any call. `without`: as if the call did not wait for the
  // awaited one. Ends at the first problem: a state whose memory depends on the order of calls; a stream that waits
  // forever; a call that reads bad values; a replica that is neither that of the end of a step nor marked as bad by the
  // failure; replicas that differ without a failed stream that should have written them.
  Result search(std::uint32_t failures, std::optional<CallGraph::Wait> without = {}) const;
  // The problem if all calls run in the order in which they were queued: the replicas differ, or a step changed
  // nothing.
  std::string problem_in_order() const;

 private:
  using Memory = std::vector<std::uint64_t>;  // per segment
  struct Op {
    std::size_t call = 0;
    std::vector<std::size_t> awaited;
    std::vector<std::size_t> reads, writes;  // segments
    bool is_copy = false;
  };
  struct Place {
    std::size_t stream = 0;
    std::size_t position = 0;
  };
  struct State {
    std::vector<std::uint8_t> positions;  // per stream
    std::uint32_t failed = 0;             // bit per stream
    std::uint32_t failures = 0;           // that may still happen
  };
  class Walk;

  std::vector<std::size_t> segments_of(const CallGraph::Range& range) const;
  void make_segments(const CallGraph& graph);
  void make_ops(const CallGraph& graph);
  bool apply(const Op& op, Memory& memory) const;  // false: it reads bad values
  std::vector<Memory> in_order() const;            // at the start, and at the end of each step

  std::vector<std::size_t> ends_;
  std::vector<std::vector<Op>> streams_;
  std::map<std::size_t, Place> places_;  // of calls
  std::vector<std::size_t> order_;       // of calls that are not waits
  std::map<std::pair<const yoke_buffer*, std::uint64_t>, std::size_t> segments_;  // by their first byte
  Memory start_;
  std::vector<std::vector<std::size_t>> replicas_;  // segments
  std::vector<std::size_t> names_;                  // per call: a hash of its name
  std::vector<Memory> right_;
};

}  // namespace yoke::test
