// SPDX-License-Identifier: Apache-2.0
// tests/support/rig.h: a runtime with fake backends, and helpers that most tests of the runtime need.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/runtime/context.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "error_of.h"
#include "fake_backend.h"

namespace yoke::test {

using namespace std::chrono_literals;

// The streams of a test: worker threads of the runtime, or the backend's own streams.
enum class Streams { kWorker, kNative };

// Without this, GoogleTest prints the bytes of a parameter with its padding, which differ in each run.
inline void PrintTo(Streams streams, std::ostream* out) {
  *out << (streams == Streams::kWorker ? "Worker" : "Native");
}

inline std::string streams_name(const ::testing::TestParamInfo<Streams>& info) {
  return ::testing::PrintToString(info.param);
}

// Names a case after all its parameters: "WorkerNative".
struct JoinedNames {
  template <class Info>
  std::string operator()(const Info& info) const {
    return std::apply([](const auto&... each) { return (::testing::PrintToString(each) + ...); }, info.param);
  }
};

// Collects the lines that a runtime logs.
class LogLines {
 public:
  LogSink sink() {
    return [state = state_](LogLevel, std::string_view line) {
      const std::lock_guard lock(state->mutex);
      state->lines.emplace_back(line);
    };
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(state_->mutex);
    return state_->lines;
  }

 private:
  struct State {
    std::mutex mutex;
    std::vector<std::string> lines;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A runtime whose backend "test0" is a fake, with device 0 open. `log` has its lines from level warn on.
struct Rig {
  explicit Rig(Streams streams = Streams::kWorker, RuntimeOptions options = {})
      : Rig(make_control(streams), std::move(options)) {}
  explicit Rig(std::shared_ptr<Control> with, RuntimeOptions options = {})
      : runtime(with_log(with_defaults(std::move(options)))),
        control(register_backend(runtime, 0, std::move(with))),
        backend(runtime.backend(control->name)),
        device(backend->open_device(0)) {}

  static std::shared_ptr<Control> make_control(Streams streams) {
    auto control = std::make_shared<Control>();
    control->provides.streams = streams == Streams::kNative;
    return control;
  }
  static RuntimeOptions with_defaults(RuntimeOptions options) {
    options.search_environment = false;
    if (!options.log_sink) {
      options.log_level = LogLevel::kOff;
    }
    if (options.wait_timeout == std::chrono::minutes(10)) {
      options.wait_timeout = 30s;  // a hanging test ends before ctest ends it
    }
    return options;
  }

  std::shared_ptr<Stream> stream(std::string name = {}) const {
    return Stream::create(device, std::move(name));
  }
  BufferView buffer(std::uint64_t byte_count) const {
    return {std::make_shared<Buffer>(device, byte_count), 0, byte_count};
  }

  LogLines log;
  Runtime runtime;
  std::shared_ptr<Control> control;
  std::shared_ptr<Backend> backend;
  std::shared_ptr<Device> device;

 private:
  RuntimeOptions with_log(RuntimeOptions options) {
    if (!options.log_sink) {
      options.log_level = LogLevel::kWarn;
      options.log_sink = log.sink();
    }
    return options;
  }
};

template <class T>
BufferView buffer_of(const std::shared_ptr<Device>& device, std::size_t count) {
  const std::uint64_t byte_count = count * sizeof(T);
  return {std::make_shared<Buffer>(device, byte_count), 0, byte_count};
}

// Returns `count` elements of `view`, starting at element `begin`.
template <class T>
BufferView part(const BufferView& view, std::size_t begin, std::size_t count) {
  return {view.buffer, view.offset + begin * sizeof(T), count * sizeof(T)};
}

template <class T>
void fill(Stream& stream, const BufferView& view, T value) {
  stream.fill(view, &value, sizeof(value));
}

template <class T>
std::vector<T> read(Stream& stream, const BufferView& view) {
  std::vector<T> values(view.byte_count / sizeof(T));
  stream.to_host(values.data(), view);
  stream.wait(30s);  // even if the runtime's own deadline is short
  return values;
}

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

template <class Ready>
bool wait_until(const Ready& ready, std::chrono::milliseconds timeout = 30s) {
  const auto limit = std::chrono::steady_clock::now() + timeout;
  while (!ready() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  return ready();
}

// Waits until `count` calls have begun, so that a blocked call holds up
// its stream. Returns false at the deadline.
inline bool wait_for_calls(const Control& control, std::uint64_t count) {
  return wait_until([&] { return control.call_count.load() >= count; });
}

// The values of a context's tensor of f32.
inline void set(Context& context, const std::string& name, const std::vector<float>& values) {
  context.init_from_host(name, {YOKE_TYPE_F32, {values.size()}}, bytes(values));
  context.stream()->wait();
}
inline std::vector<float> get(const Context& context, const std::string& name) {
  return read<float>(*context.stream(), context.tensor(name).view);
}

inline std::shared_ptr<const Routine> link(const std::shared_ptr<Device>& device, const std::string& text,
                                           std::vector<BufferView> bindings) {
  return Routine::link(compile(device, text), 0, std::move(bindings));
}

}  // namespace yoke::test
