// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/scripted_rig.h: members on the fake backend, whose collectives do what the test says.
#pragma once

#include <yoke/runtime/collective.h>
#include <yoke/sdk/detail/collectives_table.h>
#include <yoke/sdk/worker_stream.h>

#include <condition_variable>
#include <utility>

#include "rig.h"

namespace yoke::test {

// What the calls of a backend do, and how often they came.
struct Script {
  static constexpr std::uint32_t kNone = ~0U;

  // collectives_queue; may throw sdk::Failure.
  std::function<void(std::span<const yoke_collective>)> on_queue = [](auto) {};
  std::atomic<int> queue_count{0};
  std::atomic<int> query_count{0};           // calls of communicator_query
  std::atomic<std::uint32_t> broken{kNone};  // the member whose communicator has failed
  std::atomic<bool> is_lost{false};          // event_record and stream_create report a lost device

  // Queues work that ends at release(), or fails when a communicator is aborted.
  void hold(yoke_stream* stream) {
    sdk::WorkerStream::run(&sdk::object_of(stream), [this] {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, 20s, [this] { return is_released_ || is_aborted_; });
      if (!is_released_) {
        throw sdk::Failure(YOKE_STATUS_ABORTED, "the communicator was aborted");
      }
    });
  }
  // Queues work that fails.
  static void fail(yoke_stream* stream, std::int32_t code, const char* text) {
    sdk::object_of(stream).poison(sdk::Failure(code, text));
  }
  // As fail(), and waits until the stream has failed.
  static void fail_now(yoke_stream* stream, std::int32_t code, const char* text) {
    fail(stream, code, text);
    EXPECT_TRUE(wait_until([&] { return sdk::object_of(stream).state() == YOKE_STATE_FAILED; }));
  }
  void release() { set(is_released_); }
  void abort() { set(is_aborted_); }

 private:
  void set(bool& flag) {
    const std::lock_guard lock(mutex_);
    flag = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_released_ = false;
  bool is_aborted_ = false;
};

inline Script* script = nullptr;  // of the running test

inline std::int32_t scripted_queue(const yoke_collective* rows, std::uint32_t count, std::uint32_t,
                                   yoke_error* error) {
  ++script->queue_count;
  return sdk::detail::guarded(rows->communicator->plugin(), error, [&] { script->on_queue({rows, count}); });
}
inline std::int32_t scripted_query(yoke_communicator* communicator, std::int32_t* out_state, yoke_error*) {
  ++script->query_count;
  *out_state = communicator->rank == script->broken ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
  return YOKE_STATUS_OK;
}
inline std::int32_t scripted_wait(yoke_communicator* communicator, std::uint64_t, yoke_error* error) {
  return sdk::detail::guarded(communicator->plugin(), error, [&] {
    if (communicator->rank == script->broken) {
      throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "the link is down");
    }
  });
}
inline std::int32_t scripted_abort(yoke_communicator*, yoke_error*) {
  script->abort();
  return YOKE_STATUS_OK;
}
inline std::int32_t scripted_record(yoke_stream* stream, const yoke_event_args* args, yoke_event** out_event,
                                    yoke_error* error) {
  return script->is_lost ? YOKE_STATUS_DEVICE_LOST
                         : sdk::detail::event_record(stream, args, out_event, error);
}
inline std::int32_t scripted_create(yoke_device* device, const yoke_stream_args* args,
                                    yoke_stream** out_stream, yoke_error* error) {
  return script->is_lost ? YOKE_STATUS_DEVICE_LOST
                         : sdk::detail::stream_create(device, args, out_stream, error);
}

// Three members, on devices 0, 1 and 0, with a tensor "g" of kCount elements.
class Scripted : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCount = 192;

  explicit Scripted(RuntimeOptions options = {}) : rig(control(script_), std::move(options)) {
    const std::vector<float> values(kCount);
    for (const auto& device : {rig.device, rig.backend->open_device(1), rig.device}) {
      contexts.emplace_back(Stream::create(device));
      contexts.back().init_from_host("g", {YOKE_TYPE_F32, {kCount}}, bytes(values));
      contexts.back().stream()->wait(30s);  // even if the deadline is short
    }
    group = Collectives::create(MergeStrategy::kNative, contexts);
  }
  ~Scripted() override {
    script->release();
    rig.control->is_blocked = false;
  }
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;

  static std::shared_ptr<Control> control(Script& of) {
    static constexpr yoke_collectives_api kTable = [] {
      yoke_collectives_api table = sdk::detail::kCollectivesTable;
      table.communicator_query = scripted_query;
      table.communicator_wait = scripted_wait;
      table.communicator_abort = scripted_abort;
      table.collectives_queue = scripted_queue;
      return table;
    }();
    script = &of;
    auto made = Rig::make_control(Streams::kNative);
    made->provides.collectives = true;
    made->stream.event_record = scripted_record;
    made->stream.stream_create = scripted_create;
    made->on_table = [](const char* id, const void* found) {
      return id == std::string_view(YOKE_COLLECTIVES_TABLE) ? &kTable : found;
    };
    return made;
  }

  Stream& stream(std::uint32_t k) const { return *contexts[k].stream(); }
  // Elements [begin, end) of a member's tensor.
  BufferView elements(std::uint32_t k, std::size_t begin, std::size_t end) const {
    return part<float>(contexts[k].tensor("g").view, begin, end - begin);
  }
  Error wait_error(std::uint32_t k) const {
    return error_of([&] { stream(k).wait(); });
  }

  Script script_;
  Rig rig;
  std::vector<Context> contexts;
  std::unique_ptr<Collectives> group;
};

}  // namespace yoke::test
