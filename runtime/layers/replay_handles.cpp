// SPDX-License-Identifier: Apache-2.0
// runtime/layers/replay_handles.cpp: what a replay has made, until it is ended: the trace may name things
// twice, leave them, or end them while they are in use.
#include <algorithm>

#include "layers/replay.h"

namespace yoke::layers {
namespace {

using F = Function;

}  // namespace

// A handle that the trace has no name for, or has given the name of to another one, still has to be ended.
void Replayer::put(const Key& key, Live live) {
  if (live.word != 0 && live.kind == Kind::kStream) {
    streams_.insert(live.word);
  }
  devices_ += live.kind == Kind::kDevice ? 1 : 0;
  for (const std::uint64_t buffer : live.buffers) {
    ++bound_words_[buffer];
  }
  host_bytes_ += live.host_bytes;
  if (key.second == 0) {
    nameless_.push_back(std::move(live));
    return;
  }
  const auto [at, is_new] = live_.try_emplace(key);
  if (!is_new && at->second.word != 0) {
    nameless_.push_back(std::move(at->second));
  }
  at->second = std::move(live);
}

void Replayer::remove(const Key& key) {
  const auto found = live_.find(key);
  if (found == live_.end()) {
    return;
  }
  const Live& live = found->second;
  if (live.kind == Kind::kStream) {
    streams_.erase(live.word);
  }
  devices_ -= live.kind == Kind::kDevice ? 1 : 0;
  for (const std::uint64_t buffer : live.buffers) {
    if (--bound_words_[buffer] == 0) {
      bound_words_.erase(buffer);
    }
  }
  host_bytes_ -= live.host_bytes;
  live_.erase(found);
}

std::int32_t Replayer::wait_for(std::uint64_t stream, std::uint64_t timeout_ns) const {
  if (streams_.count(stream) == 0) {
    return YOKE_OK;  // none, or it was waited for and destroyed since
  }
  detail::Status status;
  const std::uint64_t words[] = {stream, timeout_ns, reinterpret_cast<std::uint64_t>(status.get())};
  return issue(F::stream_wait, words);
}

// Other errors of its work are also what the recorded waits are answered. Behind an abort, what runs may go
// on for a while.
bool Replayer::sync(std::uint64_t stream) {
  const std::int32_t code = wait_for(stream, most_wait());
  if (code == YOKE_DEADLINE_EXCEEDED) {
    check_time();
    throw Error(ErrorCode::kDeadlineExceeded,
                "the replay ends early: a stream was still busy after the longest wait, and what it uses has "
                "to be free for the next call");
  }
  return code != YOKE_ABORTED;
}

void Replayer::sync_all() {
  bool is_idle = true;
  for (const std::uint64_t stream : streams_) {
    is_idle = sync(stream) && is_idle;
  }
  if (is_idle) {
    kept_.clear();
    kept_bytes_ = 0;
  }
}

void Replayer::end_all(Kind kind, Function function) noexcept {
  const auto end = [&](const Live& live) {
    if (live.kind == kind && live.word != 0) {
      detail::Status status;
      const std::uint64_t words[] = {live.word, reinterpret_cast<std::uint64_t>(status.get())};
      (void)issue(function, words);
    }
  };
  for (const auto& [key, live] : live_) {
    end(live);
  }
  std::for_each(nameless_.begin(), nameless_.end(), end);
}

bool Replayer::streams_end_within(std::uint64_t timeout_ns) const {
  const std::uint64_t end = now_ns() + timeout_ns;
  return std::all_of(streams_.begin(), streams_.end(), [&](std::uint64_t one) {
    return wait_for(one, end - std::min(end, now_ns())) != YOKE_DEADLINE_EXCEEDED;
  });
}

// Streams go before what their work uses, and the memory of copies, which this object has, after all.
void Replayer::end_all() noexcept {
  constexpr std::uint64_t kGrace = 1'000'000'000;
  if (!streams_end_within(
          std::min(static_cast<std::uint64_t>(options_.timeout.count()), most_wait() + kGrace))) {
    end_all(Kind::kDevice, F::device_abort);
    (void)streams_end_within(kGrace);
  }
  end_all(Kind::kEvent, F::event_destroy);
  end_all(Kind::kStream, F::stream_destroy);
  end_all(Kind::kRoutine, F::routine_destroy);
  end_all(Kind::kCode, F::code_destroy);
  end_all(Kind::kBuffer, F::buffer_destroy);
  end_all(Kind::kDevice, F::device_close);
}

}  // namespace yoke::layers
