// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/rig.h: a runtime with test backends, and short words for what these tests do all the
// time.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/runtime/context.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "test_backend.h"

namespace yoke::test {

using namespace std::chrono_literals;

// With whose streams a test runs: the runtime's worker threads, or the backend's own.
enum class Streams { kWorker, kNative };

// What GoogleTest makes of a parameter otherwise is its bytes, padding and all: another name each time.
inline void PrintTo(Streams streams, std::ostream* out) {
  *out << (streams == Streams::kWorker ? "worker" : "native");
}

inline std::string streams_name(const testing::TestParamInfo<Streams>& info) {
  return info.param == Streams::kWorker ? "Worker" : "Native";
}

struct Rig {
  explicit Rig(Streams streams = Streams::kWorker, RuntimeOptions options = {})
      : Rig(make_control(streams), std::move(options)) {}
  Rig(std::shared_ptr<Control> with, RuntimeOptions options) : runtime(with_defaults(std::move(options))) {
    control = register_backend(runtime, 0, std::move(with));
    backend = runtime.backend("test0");
    device = backend->open_device(0);
  }

  static std::shared_ptr<Control> make_control(Streams streams) {
    auto control = std::make_shared<Control>();
    control->has_streams = streams == Streams::kNative;
    return control;
  }
  static RuntimeOptions with_defaults(RuntimeOptions options) {
    options.search_environment = false;
    options.log_level = LogLevel::kOff;
    if (options.wait_timeout == std::chrono::minutes(10)) {
      options.wait_timeout = 30s;  // a hanging test ends before ctest ends it
    }
    return options;
  }

  std::shared_ptr<Stream> stream(std::string name = {}) const {
    return Stream::create(device, std::move(name));
  }

  Runtime runtime;
  std::shared_ptr<Control> control;
  std::shared_ptr<Backend> backend;
  std::shared_ptr<Device> device;
};

template <class T>
BufferView buffer_of(const std::shared_ptr<Device>& device, std::size_t count) {
  const std::uint64_t byte_count = count * sizeof(T);
  return {std::make_shared<Buffer>(device, byte_count), 0, byte_count};
}

template <class T>
BufferView part(const BufferView& view, std::size_t begin, std::size_t count) {
  return {view.buffer, view.offset + begin * sizeof(T), count * sizeof(T)};
}

template <class T>
std::vector<T> read(Stream& stream, const BufferView& view) {
  std::vector<T> values(view.byte_count / sizeof(T));
  stream.to_host(values.data(), view);
  stream.wait(30s);  // also where the runtime's own deadline is short
  return values;
}

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span<const T>(values));
}

// Until `count` calls have begun: only then does a blocked one hold its stream up. False after half a minute.
inline bool wait_for_calls(const Control& control, std::uint64_t count) {
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (control.call_count.load() < count && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  return control.call_count.load() >= count;
}

// The Error that `act` throws; a test failure when it throws none.
inline Error error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return {ErrorCode::kOk, "no error"};
}

inline std::shared_ptr<const Routine> link(const std::shared_ptr<Device>& device, const std::string& text,
                                           std::vector<BufferView> bindings) {
  return Routine::link(compile(device, text), 0, std::move(bindings));
}

}  // namespace yoke::test
