// SPDX-License-Identifier: Apache-2.0
// runtime/layers/replay_contents.cpp: what buffers hold, as far as the trace tells, and what comes out of
// them.
#include <algorithm>
#include <utility>

#include "layers/replay.h"

namespace yoke::layers {
namespace {

using F = Function;

}  // namespace

// After a call, done or skipped: which bytes hold now what they held when recorded.
void Replayer::note_writes(const Row& row, const TraceRecord& record, bool is_done, bool is_made_up) {
  if (!compares() || (record.code != YOKE_OK && !is_done)) {
    return;
  }
  const bool is_same = is_done && record.code == YOKE_OK && !is_made_up;
  const auto& values = record.values;
  const auto write = [&](const Key& buffer, std::uint64_t begin, std::uint64_t byte_count, bool is_known) {
    is_known ? taint_.remove(buffer, begin, byte_count) : taint_.add(buffer, begin, byte_count);
  };
  if (row.function == F::from_host) {
    write({record.plugin, values[1].number}, values[2].number, values[4].number, is_same);
  } else if (row.function == F::fill) {
    write({record.plugin, values[1].number}, values[2].number, values[3].number, is_same);
  } else if (row.function == F::device_to_device) {
    const bool is_known =
        is_same && !taint_.meets({record.plugin, values[3].number}, values[4].number, values[5].number);
    write({record.plugin, values[1].number}, values[2].number, values[5].number, is_known);
  } else if (row.function == F::buffer_destroy) {
    taint_.remove({record.plugin, values[0].number});
  } else if (row.function == F::routine_launch) {
    const auto& bound = bound_[{record.plugin, values[1].number}];
    const bool is_known =
        is_same && std::none_of(bound.begin(), bound.end(), [&](const Bound& one) {
          return one.role != program::Role::kOut && taint_.meets(one.buffer, one.begin, one.byte_count);
        });
    for (const Bound& one : bound) {
      if (one.role != program::Role::kIn) {
        write(one.buffer, one.begin, one.byte_count, is_known);
      }
    }
  }
}

// Before the call: a stream may use its host memory when it has returned, so that is kept here, whatever
// throws.
void Replayer::hold(const Row& row, const TraceRecord& record, Prepared& call) {
  if (row.function == F::from_host && call.has_stream) {
    for (auto& area : call.areas) {
      keep(std::move(area));
    }
  } else if (row.function == F::to_host) {
    const Key buffer{record.plugin, record.values[1].number};
    const std::uint64_t offset = record.values[2].number;
    const std::uint64_t byte_count = call.target.size();
    const bool is_known = !taint_.meets(buffer, offset, byte_count);
    targets_.try_emplace(record.number,
                         Target{std::move(call.target), call.stream, buffer, offset, is_known});
    host_bytes_ += byte_count;
  }
}

void Replayer::keep(std::vector<std::byte>&& bytes) {
  const std::uint64_t byte_count = bytes.size();
  kept_.push_back(std::move(bytes));
  kept_bytes_ += byte_count;
}

void Replayer::drop_target(std::uint64_t call) {
  const auto target = targets_.find(call);
  host_bytes_ -= target->second.bytes.size();
  targets_.erase(target);
}

// Waits until it is written, compares it where there is a hash, and drops it.
void Replayer::take_target(const TraceRecord& record, const TraceHash* hash) {
  Target& target = targets_.at(record.number);
  const bool is_idle = sync(target.stream);
  target.is_known = target.is_known && is_idle;
  if (hash != nullptr) {
    compare_contents(record, target, *hash);
  }
  if (!is_idle) {
    host_bytes_ -= target.bytes.size();
    keep(std::move(target.bytes));
    target.bytes.clear();
  }
  drop_target(record.number);
}

void Replayer::compare_contents(const TraceRecord& record, const Target& target, const TraceHash& hash) {
  std::span<const std::byte> wanted;
  if (!compares() || !target.is_known || !reader_.blob(hash, wanted)) {
    ++report_.contents_unknown;
    if (compares() && report_.why_unknown.empty()) {
      report_.why_unknown = target.is_known ? "the trace does not hold all of them"
                                            : "calls that were skipped, or made-up input, made them";
    }
    return;
  }
  const Comparison result =
      compare(target.bytes, wanted, target.offset, types_of(target.buffer), options_.tolerance);
  if (result.is_equal) {
    ++report_.contents_equal;
  } else if (result.is_close) {
    ++report_.contents_close;
  } else {
    differ(record, "the contents differ: " + result.text);
  }
}

void Replayer::content(const TraceRecord& record) {
  if (targets_.count(record.number) != 0) {
    TraceRecord at = record;
    at.function = nullptr;
    take_target(at, &record.hash);
  }
}

}  // namespace yoke::layers
