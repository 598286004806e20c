// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/call_graph.cpp: functions in the plugin's tables that record each call, and questions
// about the recorded graph.
#include "call_graph.h"

#include <yoke/sdk/entry.h>
#include <yoke/sdk/worker_stream.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace yoke::test {

namespace {

CallGraph* recorder = nullptr;

bool overlap(const CallGraph::Access& a, const CallGraph::Access& b) {
  return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end && (a.writes || b.writes);
}

}  // namespace

// The functions in the tables. Each records its call and passes it on.
struct CallGraph::Hooks {
  // `call` queues the call.
  template <class Call>
  static std::int32_t work(yoke_stream* stream, std::string name, std::vector<Access> accesses,
                           const Call& call) {
    const std::size_t number = recorder->number_without_waits(recorder->calls_.size());
    if (number == recorder->awaited_) {
      sdk::WorkerStream::run(stream->object.get(), [done = recorder->user_done_] {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!*done && std::chrono::steady_clock::now() < limit) {
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
      });
    }
    recorder->add(stream, std::move(name)).accesses = std::move(accesses);
    const std::int32_t status = call();
    if (number == recorder->user_) {
      sdk::WorkerStream::run(stream->object.get(), [done = recorder->user_done_] { *done = true; });
    }
    return status;
  }
  static std::int32_t from_host(yoke_stream* stream, yoke_buffer* dst, std::uint64_t offset, const void* src,
                                std::uint64_t byte_count, std::int32_t* out_source, yoke_error* error) {
    return work(stream, "from_host", {{{dst, offset, offset + byte_count}, true, false}}, [&] {
      return recorder->backend_.from_host(stream, dst, offset, src, byte_count, out_source, error);
    });
  }
  static std::int32_t to_host(yoke_stream* stream, yoke_buffer* src, std::uint64_t offset, void* dst,
                              std::uint64_t byte_count, yoke_error* error) {
    return work(stream, "to_host", {{{src, offset, offset + byte_count}, false}},
                [&] { return recorder->backend_.to_host(stream, src, offset, dst, byte_count, error); });
  }
  static std::int32_t copy(yoke_stream* stream, yoke_buffer* dst, std::uint64_t dst_offset, yoke_buffer* src,
                           std::uint64_t src_offset, std::uint64_t byte_count, yoke_error* error) {
    return work(stream, "copy",
                {{{dst, dst_offset, dst_offset + byte_count}, true, false},
                 {{src, src_offset, src_offset + byte_count}, false}},
                [&] {
                  return recorder->backend_.device_to_device(stream, dst, dst_offset, src, src_offset,
                                                             byte_count, error);
                });
  }
  static std::int32_t fill(yoke_stream* stream, yoke_buffer* dst, std::uint64_t offset,
                           std::uint64_t byte_count, const void* pattern, std::uint32_t pattern_byte_count,
                           yoke_error* error) {
    return work(stream, "fill", {{{dst, offset, offset + byte_count}, true, false}}, [&] {
      return recorder->backend_.fill(stream, dst, offset, byte_count, pattern, pattern_byte_count, error);
    });
  }
  static std::int32_t link(yoke_code* code, const yoke_link_args* args, yoke_routine** out_routine,
                           yoke_error* error) {
    const std::int32_t status = recorder->program_.routine_link(code, args, out_routine, error);
    if (status != YOKE_STATUS_OK) {
      return status;
    }
    std::vector<Access>& accesses = recorder->routines_[*out_routine];
    accesses.clear();
    for (std::uint32_t i = 0; i < args->binding_count; ++i) {
      yoke_argument_info info{};
      info.struct_size = sizeof info;
      recorder->program_.code_argument(code, args->entry, i, &info, error);
      const yoke_binding binding = sdk::read_row(args->bindings, args->binding_stride, i);
      accesses.push_back({{binding.buffer, binding.offset, binding.offset + info.byte_count},
                          info.access != YOKE_ACCESS_IN,
                          info.access != YOKE_ACCESS_OUT});
    }
    yoke_entry_info entry{};
    entry.struct_size = sizeof entry;
    recorder->program_.code_describe(code, args->entry, &entry, error);
    recorder->names_[*out_routine] = entry.name;
    return status;
  }
  static std::int32_t launch(yoke_stream* stream, yoke_routine* routine, const std::int64_t* values,
                             std::uint32_t count, yoke_error* error) {
    return work(stream, recorder->names_[routine], recorder->routines_[routine],
                [&] { return recorder->program_.routine_launch(stream, routine, values, count, error); });
  }
  static std::int32_t record(yoke_stream* stream, const yoke_event_args* args, yoke_event** out_event,
                             yoke_error* error) {
    const std::int32_t status = recorder->stream_.event_record(stream, args, out_event, error);
    const auto latest = recorder->latest_.find(stream);
    recorder->recorded_[*out_event] =
        latest == recorder->latest_.end() ? std::nullopt : std::optional(latest->second);
    return status;
  }
  static std::int32_t wait(yoke_stream* stream, yoke_event* event, yoke_error* error) {
    CallGraph& graph = *recorder;
    const std::optional<std::size_t> awaited = graph.recorded_[event];
    graph.add(stream, "wait", true).awaited = awaited;
    const bool is_dropped = awaited && graph.awaited_ == graph.number_without_waits(*awaited) &&
                            graph.user_ == graph.number_without_waits(graph.calls_.size());
    if (is_dropped) {
      graph.missing_ = graph.calls_.size() - 1;
      return YOKE_STATUS_OK;
    }
    return graph.stream_.stream_wait_event(stream, event, error);
  }
};

CallGraph::CallGraph(Control& control)
    : control_(control), backend_(control.backend), stream_(control.stream), program_(control.program) {
  recorder = this;
  control.backend.from_host = Hooks::from_host;
  control.backend.to_host = Hooks::to_host;
  control.backend.device_to_device = Hooks::copy;
  control.backend.fill = Hooks::fill;
  control.program.routine_link = Hooks::link;
  control.program.routine_launch = Hooks::launch;
  control.stream.event_record = Hooks::record;
  control.stream.stream_wait_event = Hooks::wait;
}

CallGraph::~CallGraph() {
  control_.backend = backend_;
  control_.stream = stream_;
  control_.program = program_;
  recorder = nullptr;
}

void CallGraph::clear() {
  calls_.clear();
  latest_.clear();
  for (auto& [event, call] : recorded_) {
    call.reset();
  }
}

CallGraph::Call& CallGraph::add(yoke_stream* stream, std::string name, bool is_wait) {
  const auto [latest, is_first] = latest_.try_emplace(stream, calls_.size());
  Call& call = calls_.emplace_back(Call{std::move(name), stream, {}, {}, is_wait, {}});
  if (!is_first) {
    call.before = std::exchange(latest->second, calls_.size() - 1);
  }
  return call;
}

std::size_t CallGraph::number_without_waits(std::size_t call) const {
  return static_cast<std::size_t>(std::count_if(calls_.begin(),
                                                calls_.begin() + static_cast<std::ptrdiff_t>(call),
                                                [](const Call& each) { return !each.is_wait; }));
}

std::string CallGraph::text(std::size_t call) const {
  std::vector<const yoke_stream*> streams;
  for (const Call& each : calls_) {
    if (std::find(streams.begin(), streams.end(), each.stream) == streams.end()) {
      streams.push_back(each.stream);
    }
  }
  const auto at = std::find(streams.begin(), streams.end(), calls_[call].stream);
  std::string memory;
  for (const Access& access : calls_[call].accesses) {
    std::vector<const yoke_buffer*> buffers;
    for (const Call& each : calls_) {
      for (const Access& other : each.accesses) {
        if (std::find(buffers.begin(), buffers.end(), other.buffer) == buffers.end()) {
          buffers.push_back(other.buffer);
        }
      }
    }
    memory += (access.writes ? ", writes " : ", reads ") + std::to_string(access.begin) + " to " +
              std::to_string(access.end) + " of buffer " +
              std::to_string(std::find(buffers.begin(), buffers.end(), access.buffer) - buffers.begin());
  }
  return std::to_string(call) + ": " + calls_[call].name + " on stream " +
         std::to_string(at - streams.begin()) + memory;
}

// For each call, those that have finished when it starts. Calls only follow earlier ones.
std::vector<CallGraph::Set> CallGraph::ancestors(std::optional<std::size_t> without) const {
  std::vector<Set> sets(calls_.size(), Set(calls_.size()));
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const auto follow = [&](const std::optional<std::size_t>& call) {
      if (call) {
        std::transform(sets[*call].begin(), sets[*call].end(), sets[i].begin(), sets[i].begin(),
                       [](bool a, bool b) { return a || b; });
        sets[i][*call] = true;
      }
    };
    follow(calls_[i].before);
    if (i != without) {
      follow(calls_[i].awaited);
    }
  }
  return sets;
}

std::vector<CallGraph::Wait> CallGraph::needed_waits() const {
  std::vector<Wait> needed;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    std::size_t user = i;
    while (user < calls_.size() && (calls_[user].stream != calls_[i].stream || calls_[user].is_wait)) {
      ++user;
    }
    if (calls_[i].awaited && user < calls_.size() && !ancestors(i)[user][*calls_[i].awaited]) {
      needed.push_back({i, *calls_[i].awaited, user});
    }
  }
  return needed;
}

bool CallGraph::share_memory(std::size_t a, std::size_t b) const {
  return std::any_of(calls_[a].accesses.begin(), calls_[a].accesses.end(), [&](const Access& one) {
    return std::any_of(calls_[b].accesses.begin(), calls_[b].accesses.end(),
                       [&](const Access& other) { return overlap(one, other); });
  });
}

std::optional<CallGraph::Pair> CallGraph::conflict(std::optional<std::size_t> without) const {
  const std::vector<Set> before = ancestors(without);
  for (std::size_t b = 0; b < calls_.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (!before[b][a] && share_memory(a, b)) {
        return Pair(a, b);
      }
    }
  }
  return std::nullopt;
}

}  // namespace yoke::test
