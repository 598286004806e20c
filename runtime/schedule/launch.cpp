// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/launch.cpp: queues launches, on the stream or on its lane for fallbacks.
#include <yoke/runtime/stream.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "schedule/fallback_routine.h"
#include "schedule/range.h"
#include "schedule/routine_access.h"
#include "schedule/stream_state.h"

namespace yoke {

namespace {

void check_symbols(const detail::StreamState& state, const Code::Entry& entry,
                   std::span<const std::int64_t> values) {
  if (values.size() != entry.symbols.size()) {
    std::string names;
    for (const SymbolInfo& symbol : entry.symbols) {
      names += (names.empty() ? " ('" : "', '") + symbol.name;
    }
    detail::refuse(state, ErrorCode::kInvalidArgument, "launch of '" + entry.name + "'",
                   "the program has " + detail::counted(entry.symbols.size(), "symbol") + names +
                       (names.empty() ? "" : "')") + ", but " + detail::counted(values.size(), "value") +
                       (values.size() == 1 ? " was given" : " were given") +
                       "; pass one value per symbol, in this order, as symbol_values");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SymbolInfo& symbol = entry.symbols[i];
    const bool inside = values[i] >= symbol.low && values[i] < symbol.high;
    // Unsigned, because the difference of two int64 may not fit in an int64.
    const auto distance = static_cast<std::uint64_t>(values[i]) - static_cast<std::uint64_t>(symbol.low);
    if (!inside || distance % static_cast<std::uint64_t>(symbol.step) != 0) {
      detail::refuse(state, ErrorCode::kOutOfRange, "launch of '" + entry.name + "'",
                     "symbol '" + symbol.name + "' is " + std::to_string(values[i]) + "; its range is [" +
                         std::to_string(symbol.low) + ", " + std::to_string(symbol.high) + ")" +
                         (symbol.step > 1 ? " in steps of " + std::to_string(symbol.step) : std::string()));
    }
  }
}

}  // namespace

void Stream::launch(const Routine& routine, std::span<const std::int64_t> symbol_values) {
  const Code::Entry& entry = routine.entry();
  check_symbols(*state_, entry, symbol_values);
  if (!routine.code().device()->is_same(*state_->device)) {
    detail::refuse(
        *state_, ErrorCode::kInvalidArgument, "launch of '" + entry.name + "'",
        "it was compiled for '" + routine.code().device()->name() + "'; use a stream of that device");
  }
  const auto fill = [&](detail::Command& command) {
    command.kind = detail::CommandKind::kLaunch;
    command.routine = &routine;
    command.symbol_count = static_cast<std::uint32_t>(symbol_values.size());
    if (symbol_values.size() > detail::Command::kInlineSymbols) {
      command.more_symbols.assign(symbol_values.begin(), symbol_values.end());
    } else {
      std::copy(symbol_values.begin(), symbol_values.end(), command.symbols.begin());
    }
  };
  detail::FallbackRoutine* fallback = routine.fallback();
  if (fallback == nullptr) {
    state_->begin(routine.access_->accesses, 1);
    state_->emit(fill);
    return;
  }
  state_->check_alive(std::numeric_limits<std::uint64_t>::max() - 1);
  detail::StreamState& lane = state_->fallback_lane();
  const bool has_lane = &lane != state_.get();
  if (has_lane) {
    lane.depend({state_, state_->last_ticket(), true});
  }
  std::uint64_t unchanged = 0;
  {
    const std::lock_guard lock(fallback->queuing());
    lane.begin(routine.access_->accesses, 1);
    unchanged = fallback->unchanged(lane.shared_from_this());
  }
  std::uint64_t ticket = 0;
  try {
    ticket = lane.emit([&](detail::Command& command) {
      fill(command);
      command.unchanged = unchanged;
    });
  } catch (...) {
    const std::lock_guard lock(fallback->queuing());
    fallback->forget();
    throw;
  }
  if (has_lane) {
    state_->begin({}, 1);
    state_->depend({lane.shared_from_this(), ticket, true, true});
    state_->emit([](detail::Command& command) { command.kind = detail::CommandKind::kWait; });
  }
}

}  // namespace yoke
