// SPDX-License-Identifier: Apache-2.0
// frontends/replay/handles.cpp: waits until streams are idle before it destroys objects that their work uses.
#include "replay/handles.h"

#include <algorithm>
#include <cstring>

#include "device/state.h"
#include "loader/status.h"

namespace yoke::replay {
namespace {

using abi::Slot;

// Copies the functions of a table that the plugin offers.
void copy_table(const void* table, std::size_t most, Slot* slots) {
  std::uint64_t size = 0;
  if (table != nullptr) {
    std::memcpy(&size, table, sizeof(size));
    size = std::min<std::uint64_t>(size, most);
    std::memcpy(slots, static_cast<const std::byte*>(table) + sizeof(size), size - sizeof(size));
  }
}

}  // namespace

Functions::Functions(const Backend& backend) : plugin_(backend.state().plugin.get()) {
#define YOKE_REPLAY_FIRST(table, member, need) static_cast<std::size_t>(Function::member),
#define YOKE_REPLAY_TABLE(table, id, list) \
  copy_table(plugin_->get_table(plugin_, id), sizeof(table), &slots_[std::array{list(YOKE_REPLAY_FIRST)}[0]]);
  YOKE_ABI_TABLES(YOKE_REPLAY_TABLE)
#undef YOKE_REPLAY_TABLE
#undef YOKE_REPLAY_FIRST
}

std::int32_t Functions::call(Function function, const std::uint64_t* words, std::string* error) const {
  const abi::Row& row = abi::row_of(function);
  const auto index = static_cast<std::size_t>(function);
  std::array<std::uint64_t, abi::kMostParameters> all{};
  detail::Status status;
  std::copy_n(words, row.parameter_count - (row.has_status() ? 1U : 0U), all.begin());
  if (row.has_status()) {
    all[row.parameter_count - 1U] = reinterpret_cast<std::uint64_t>(status.get());
  }
  const std::int32_t code = abi::call(function, slots_[index], all.data());
  if (error != nullptr) {
    *error = status.text();
  }
  return code;
}

Handles::~Handles() {
  constexpr std::chrono::seconds kGrace(1);
  if (!is_idle_within(timeout_)) {
    call_for_each(Kind::kDevice, Function::device_abort);
    (void)is_idle_within(kGrace);
  }
  call_for_each(Kind::kEvent, Function::event_destroy);
  call_for_each(Kind::kStream, Function::stream_destroy);
  call_for_each(Kind::kRoutine, Function::routine_destroy);
  call_for_each(Kind::kCode, Function::code_destroy);
  call_for_each(Kind::kBuffer, Function::buffer_destroy);
  call_for_each(Kind::kPinned, Function::pinned_free);
  call_for_each(Kind::kDevice, Function::device_close);
}

void Handles::add(Key key, Kind kind, std::uint64_t word, std::uint64_t parent) {
  live_[key] = {kind, word, parent};
  if (kind == Kind::kStream) {
    streams_.insert(word);
  }
}

void Handles::remove(Key key) {
  if (const auto found = live_.find(key); found != live_.end()) {
    streams_.erase(found->second.kind == Kind::kStream ? found->second.word : 0);
    live_.erase(found);
  }
}

std::optional<std::uint64_t> Handles::find(Key key, Kind kind) const {
  const auto found = live_.find(key);
  return found != live_.end() && found->second.kind == kind ? std::optional(found->second.word)
                                                            : std::nullopt;
}

std::int32_t Handles::wait_for(Function wait, std::uint64_t object, std::chrono::nanoseconds timeout) const {
  const std::uint64_t words[] = {object,
                                 static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 0))};
  return functions_.call(wait, words);
}

std::int32_t Handles::wait_until_done(Function wait, std::uint64_t object, const char* what) const {
  const std::int32_t code = wait_for(wait, object, timeout_);
  if (code == YOKE_STATUS_DEADLINE_EXCEEDED) {
    throw Error(ErrorCode::kDeadlineExceeded,
                std::string("the replay ends early: ") + what + " after " +
                    std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout_).count()) +
                    " s");
  }
  return code;
}

bool Handles::wait(std::uint64_t stream) const {
  return streams_.count(stream) == 0 ||
         wait_until_done(Function::stream_wait, stream, "a stream was still busy") == YOKE_STATUS_OK;
}

void Handles::wait_as_queried(Function function, const Record& call, std::uint64_t object) const {
  const bool is_event = function == Function::event_query;
  if ((!is_event && function != Function::stream_query) || call.code != YOKE_STATUS_OK ||
      call.values[abi::row_of(function).find("out_state")].number == YOKE_STATE_PENDING) {
    return;
  }
  if (is_event) {
    (void)wait_until_done(Function::event_wait, object, "the work before an event was still running");
  } else {
    (void)wait(object);
  }
}

void Handles::wait_for_all() const {
  std::for_each(streams_.begin(), streams_.end(), [&](std::uint64_t stream) { (void)wait(stream); });
}

bool Handles::is_idle_within(std::chrono::nanoseconds timeout) const {
  const auto end = std::chrono::steady_clock::now() + timeout;
  return std::all_of(streams_.begin(), streams_.end(), [&](std::uint64_t stream) {
    return wait_for(Function::stream_wait, stream, end - std::chrono::steady_clock::now()) !=
           YOKE_STATUS_DEADLINE_EXCEEDED;
  });
}

void Handles::call_for_each(Kind kind, Function function) const {
  for (const auto& [key, live] : live_) {
    if (live.kind == kind && functions_.has(function)) {
      const std::uint64_t words[] = {kind == Kind::kPinned ? live.parent : live.word, live.word};
      (void)functions_.call(function, words);
    }
  }
}

}  // namespace yoke::replay
