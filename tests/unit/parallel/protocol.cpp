// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/protocol.cpp: the search, which visits each state once.
#include "protocol.h"

#include <algorithm>
#include <functional>
#include <set>

namespace yoke::test {

namespace {

constexpr std::uint64_t kBad = 0;

std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t x = (seed ^ value) * 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 29U)) * 0xBF58476D1CE4E5B9U;
  return (x ^ (x >> 32U)) | 1U;  // not kBad
}

}  // namespace

Protocol::Protocol(const CallGraph& graph, std::vector<std::size_t> ends, std::vector<Replica> replicas,
                   std::vector<Replica> alike)
    : ends_(std::move(ends)) {
  make_segments(graph);
  make_ops(graph);
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    start_.push_back(mix(1, s));
  }
  alike.insert(alike.end(), replicas.begin(), replicas.end());
  for (const Replica& replica : alike) {
    const auto parts = segments_of(replica);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      start_[parts[i]] = mix(mix(2, replica.number), i);
    }
  }
  for (const Replica& replica : replicas) {
    replicas_.push_back(segments_of(replica));
  }
  right_ = in_order();
}

// Cuts all memory at the bounds of every access, copy and replica.
void Protocol::make_segments(const CallGraph& graph) {
  std::set<std::uint64_t> cuts;
  std::map<const yoke_buffer*, std::uint64_t> sizes;
  for (const CallGraph::Call& call : graph.calls()) {
    for (const CallGraph::Access& access : call.accesses) {
      cuts.insert(access.begin);
      cuts.insert(access.end);
      sizes[access.buffer] = std::max(sizes[access.buffer], access.end);
    }
  }
  for (std::size_t before = 0; before != cuts.size();) {
    before = cuts.size();
    for (const CallGraph::Call& call : graph.calls()) {
      if (call.accesses.size() != 2 || call.name != "copy") {
        continue;
      }
      for (const auto& [from, to] :
           {std::pair(call.accesses[0], call.accesses[1]), std::pair(call.accesses[1], call.accesses[0])}) {
        const std::vector<std::uint64_t> inside(cuts.lower_bound(from.begin), cuts.upper_bound(from.end));
        for (const std::uint64_t cut : inside) {
          cuts.insert(cut - from.begin + to.begin);
        }
      }
    }
  }
  for (const auto& [buffer, size] : sizes) {
    for (const std::uint64_t cut : cuts) {
      if (cut < size) {
        segments_.try_emplace({buffer, cut}, segments_.size());
      }
    }
  }
}

std::vector<std::size_t> Protocol::segments_of(const CallGraph::Range& range) const {
  std::vector<std::size_t> result;
  for (auto at = segments_.lower_bound({range.buffer, range.begin});
       at != segments_.end() && at->first.first == range.buffer && at->first.second < range.end; ++at) {
    result.push_back(at->second);
  }
  return result;
}

// A stream's waits become part of its next call.
void Protocol::make_ops(const CallGraph& graph) {
  std::map<const yoke_stream*, std::size_t> numbers;
  std::map<std::size_t, std::vector<std::size_t>> pending;
  for (std::size_t i = 0; i < graph.calls().size(); ++i) {
    const CallGraph::Call& call = graph.calls()[i];
    names_.push_back(std::hash<std::string>()(call.name));
    const std::size_t stream = numbers.try_emplace(call.stream, numbers.size()).first->second;
    streams_.resize(numbers.size());
    if (call.is_wait) {
      if (call.awaited) {
        pending[stream].push_back(*call.awaited);
      }
      continue;
    }
    Op op{i, std::exchange(pending[stream], {}), {}, {}, call.name == "copy"};
    for (const CallGraph::Access& access : call.accesses) {
      const auto parts = segments_of(access);
      if (access.reads) {
        op.reads.insert(op.reads.end(), parts.begin(), parts.end());
      }
      if (access.writes) {
        op.writes.insert(op.writes.end(), parts.begin(), parts.end());
      }
    }
    places_[i] = {stream, streams_[stream].size()};
    order_.push_back(i);
    streams_[stream].push_back(std::move(op));
  }
  // A wait for a wait is one for the call before it.
  for (auto& stream : streams_) {
    for (Op& op : stream) {
      for (std::size_t& awaited : op.awaited) {
        while (graph.calls()[awaited].is_wait && graph.calls()[awaited].before) {
          awaited = *graph.calls()[awaited].before;
        }
      }
      std::erase_if(op.awaited, [&](std::size_t awaited) { return !places_.contains(awaited); });
    }
  }
}

bool Protocol::apply(const Op& op, Memory& memory) const {
  if (std::any_of(op.reads.begin(), op.reads.end(), [&](std::size_t s) { return memory[s] == kBad; })) {
    return false;
  }
  std::uint64_t read = names_[op.call];
  for (const std::size_t segment : op.reads) {
    read = mix(read, memory[segment]);
  }
  std::vector<std::uint64_t> copied;
  for (std::size_t i = 0; op.is_copy && i < op.reads.size(); ++i) {
    copied.push_back(memory[op.reads[i]]);
  }
  for (std::size_t i = 0; i < op.writes.size(); ++i) {
    memory[op.writes[i]] = op.is_copy ? copied.at(i) : mix(read, i);
  }
  return true;
}

std::vector<Protocol::Memory> Protocol::in_order() const {
  std::vector<Memory> result = {start_};
  Memory memory = start_;
  std::size_t next = 0;
  for (const std::size_t end : ends_) {
    for (; next < order_.size() && order_[next] < end; ++next) {
      const Place& place = places_.at(order_[next]);
      apply(streams_[place.stream][place.position], memory);
    }
    result.push_back(memory);
  }
  return result;
}

std::string Protocol::problem_in_order() const {
  for (std::size_t step = 0; step < right_.size(); ++step) {
    for (const auto& replica : replicas_) {
      for (std::size_t i = 0; i < replica.size(); ++i) {
        if (right_[step][replica[i]] != right_[step][replicas_[0].at(i)]) {
          return "the replicas differ after step " + std::to_string(step);
        }
        if (step > 0 && right_[step][replica[i]] == right_[step - 1][replica[i]]) {
          return "step " + std::to_string(step) + " leaves parameters as they were";
        }
      }
    }
  }
  return "";
}

class Protocol::Walk {
 public:
  Walk(const Protocol& protocol, std::optional<CallGraph::Wait> without)
      : protocol_(protocol), without_(without) {}

  Result result(std::uint32_t failures) {
    visit({std::vector<std::uint8_t>(protocol_.streams_.size(), 0), 0, failures}, protocol_.start_);
    return result_;
  }

 private:
  enum class Ready { kYes, kNotYet, kNever };

  void report(const std::string& problem) {
    if (result_.problem.empty()) {
      result_.problem = problem;
    }
  }

  Ready ready(const State& state, const Op& op) const {
    for (const std::size_t awaited : op.awaited) {
      if (without_ && without_->user == op.call && without_->awaited == awaited) {
        continue;
      }
      const Place& place = protocol_.places_.at(awaited);
      if (state.positions[place.stream] > place.position) {
        continue;
      }
      return (state.failed >> place.stream & 1U) != 0 ? Ready::kNever : Ready::kNotYet;
    }
    return Ready::kYes;
  }

  // Whether the state is new. Its memory must not depend on the way to it.
  bool is_new(const State& state, const Memory& memory) {
    std::string key(state.positions.begin(), state.positions.end());
    for (const std::uint32_t number : {state.failed, state.failures}) {
      key.append(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    std::uint64_t hash = 3;
    for (const std::uint64_t value : memory) {
      hash = mix(hash, value);
    }
    const auto [seen, inserted] = seen_.try_emplace(std::move(key), hash);
    if (seen->second != hash) {
      report("two orders of the same calls give different memory");
    }
    return inserted;
  }

  void visit(const State& state, const Memory& memory) {
    if (!result_.problem.empty() || !is_new(state, memory)) {
      return;
    }
    ++result_.states;
    check_replicas(memory);
    bool moved = false;
    bool all_ended = true;
    for (std::size_t s = 0; s < protocol_.streams_.size(); ++s) {
      const bool has_failed = (state.failed >> s & 1U) != 0;
      if (has_failed || state.positions[s] == protocol_.streams_[s].size()) {
        continue;
      }
      all_ended = false;
      const Op& op = protocol_.streams_[s][state.positions[s]];
      const Ready now = ready(state, op);
      if (now == Ready::kNotYet) {
        continue;
      }
      moved = true;
      if (now == Ready::kNever) {
        State next = state;
        next.failed |= 1U << s;
        visit(next, memory);
        continue;
      }
      run(state, memory, s, op);
      if (state.failures > 0) {
        fail(state, memory, s, op);
      }
    }
    if (all_ended) {
      check_end(state, memory);
    } else if (!moved) {
      report("a stream waits for ever");
    }
  }

  void run(const State& state, const Memory& memory, std::size_t s, const Op& op) {
    State next = state;
    Memory changed = memory;
    ++next.positions[s];
    if (!protocol_.apply(op, changed)) {
      report("call " + std::to_string(op.call) + " uses what a failed call has left");
    }
    visit(next, changed);
  }

  void fail(const State& state, const Memory& memory, std::size_t s, const Op& op) {
    State next = state;
    Memory changed = memory;
    next.failed |= 1U << s;
    --next.failures;
    for (const std::size_t segment : op.writes) {
      changed[segment] = kBad;
    }
    visit(next, changed);
  }

  void check_replicas(const Memory& memory) {
    for (const auto& replica : protocol_.replicas_) {
      for (const std::size_t segment : replica) {
        const bool is_known =
            memory[segment] == kBad ||
            std::any_of(protocol_.right_.begin(), protocol_.right_.end(),
                        [&](const Memory& right) { return right[segment] == memory[segment]; });
        if (!is_known) {
          report("a replica has parameters that no step gives");
        }
      }
    }
  }

  // All members have applied all updates, or a failed stream should have written what is missing: reading it is an
  // error, so the failure is told.
  void check_end(const State& state, const Memory& memory) {
    result_.ends_of_failed_runs += state.failed != 0 ? 1 : 0;
    for (const auto& replica : protocol_.replicas_) {
      for (const std::size_t segment : replica) {
        if (memory[segment] == protocol_.right_.back()[segment]) {
          continue;
        }
        const Place& writer = last_writer(segment);
        const bool is_told =
            (state.failed >> writer.stream & 1U) != 0 && state.positions[writer.stream] <= writer.position;
        if (!is_told) {
          report("a member lacks an update, and no failed stream should have written it");
        }
      }
    }
  }

  const Place& last_writer(std::size_t segment) const {
    const auto writes = [&](std::size_t call) {
      const Place& place = protocol_.places_.at(call);
      const Op& op = protocol_.streams_[place.stream][place.position];
      return std::find(op.writes.begin(), op.writes.end(), segment) != op.writes.end();
    };
    return protocol_.places_.at(*std::find_if(protocol_.order_.rbegin(), protocol_.order_.rend(), writes));
  }

  const Protocol& protocol_;
  const std::optional<CallGraph::Wait> without_;
  std::unordered_map<std::string, std::uint64_t> seen_;
  Result result_;
};

Protocol::Result Protocol::search(std::uint32_t failures, std::optional<CallGraph::Wait> without) const {
  return Walk(*this, without).result(failures);
}

}  // namespace yoke::test
