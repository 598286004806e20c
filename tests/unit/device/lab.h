// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/lab.h: a backend inside the test program, that counts what it is asked and misbehaves on
// request.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/runtime/stream.h>
#include <yoke/sdk/entry.h>
#include <yoke/sdk/program.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace yoke::test {

// What the backend does, and did; each test begins with a fresh one.
struct Lab {
  std::atomic<int> compiles{0};
  std::atomic<int> links{0};
  std::atomic<int> failures_left{0};    // so many compiles fail first
  std::atomic<int> compile_ms{0};       // each takes that long
  std::atomic<int> copy_ms{0};          // each to_host takes that long
  std::atomic<bool> is_blocked{false};  // to_host waits until it is false
  std::atomic<int> copies_running{0};
  std::atomic<bool> freed_in_use{false};  // a buffer was destroyed under a running copy
  std::string unsupported_op;             // statements with this text do not run
  std::string wrong;                      // "name", "bytes", "symbols": what is described wrongly
  std::uint64_t workspace_byte_count = 0;
  std::mutex mutex;  // of last_text
  std::string last_text;
  bool programs = true;
  bool peers = true;

  static Lab*& current() {
    static Lab* lab = nullptr;
    return lab;
  }
};

namespace lab {

class Buffer final : public sdk::HostBuffer {
 public:
  using sdk::HostBuffer::HostBuffer;
  ~Buffer() override {
    if (Lab::current()->copies_running > 0) {
      Lab::current()->freed_in_use = true;
    }
  }
  void to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override {
    auto& lab = *Lab::current();
    ++lab.copies_running;
    while (lab.is_blocked) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(lab.copy_ms.load()));
    sdk::HostBuffer::to_host(stream, offset, target, byte_count);
    --lab.copies_running;
  }
};

class Routine final : public sdk::Routine {
 public:
  void launch(sdk::Stream*, std::span<const std::int64_t>) override {}
};

class Code final : public sdk::Code {
 public:
  explicit Code(std::string_view text) {
    const auto& lab = *Lab::current();
    for (const auto& program : sdk::read_program(text).programs) {
      entries_.push_back(sdk::entry_of(program));
      entries_.back().workspace_byte_count = lab.workspace_byte_count;
      entries_.back().fingerprint = "lab";
      if (lab.wrong == "name") {
        entries_.back().name += "x";
      } else if (lab.wrong == "bytes") {
        entries_.back().arguments[0].byte_count += 4;
      } else if (lab.wrong == "symbols") {
        entries_.back().symbols.push_back({"ghost", 0, 1, 1});
      }
    }
    if (lab.wrong == "entries") {
      entries_.pop_back();
    }
  }
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t, std::span<const sdk::Binding>,
                                     const sdk::Binding&) override {
    ++Lab::current()->links;
    return std::make_unique<Routine>();
  }

 private:
  std::vector<sdk::Entry> entries_;
};

class Device final : public sdk::Device {
 public:
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    return std::make_unique<Buffer>(byte_count, host());
  }
  bool peer_access(sdk::Device& other) override { return Lab::current()->peers || this == &other; }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    auto& lab = *Lab::current();
    ++lab.compiles;
    {
      const std::lock_guard lock(lab.mutex);
      lab.last_text = text;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(lab.compile_ms.load()));
    if (lab.failures_left-- > 0) {
      throw sdk::Failure(YOKE_UNAVAILABLE, "the compiler is out for lunch");
    }
    for (const auto& verdict : can_compile(text)) {
      if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
        throw sdk::Failure(YOKE_UNIMPLEMENTED, "something does not run");
      }
    }
    return std::make_unique<Code>(text);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    const auto& unsupported = Lab::current()->unsupported_op;
    std::vector<sdk::Verdict> verdicts;
    const auto module = sdk::read_program(text);
    for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
      const auto& program = module.programs[p];
      for (std::uint32_t s = 0; s < program.statements.size(); ++s) {
        const bool runs =
            unsupported.empty() ||
            program::print(program, program.statements[s]).find(unsupported) == std::string::npos;
        verdicts.push_back({p, s, runs ? YOKE_VERDICT_NATIVE : YOKE_VERDICT_UNSUPPORTED,
                            runs ? "" : "there is no unit for " + unsupported});
      }
    }
    return verdicts;
  }
};

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = false, .programs = Lab::current()->programs, .peers = true};
  }
  std::uint32_t device_count() override { return 2; }
  sdk::DeviceInfo describe(std::uint32_t) override { return {}; }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options&) override {
    return std::make_unique<Device>();
  }
};

inline std::int32_t entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  return sdk::enter(args, out_plugin, error, {"lab", "1.0.0", "test"},
                    [] { return std::make_unique<Backend>(); });
}

}  // namespace lab

class LabTest : public ::testing::Test {
 protected:
  LabTest() { Lab::current() = &lab_; }
  ~LabTest() override {
    device_.reset();
    runtime_.reset();
    Lab::current() = nullptr;
  }

  std::shared_ptr<Backend> backend() {
    if (!runtime_) {
      options_.search_environment = false;
      options_.log_sink = [this](LogLevel, std::string_view line) {
        const std::lock_guard lock(lines_mutex_);
        lines_.emplace_back(line);
      };
      runtime_ = std::make_unique<Runtime>(options_);
      runtime_->register_backend("lab", &lab::entry);
    }
    return runtime_->backend("lab");
  }
  const std::shared_ptr<yoke::Device>& device() {
    if (!device_) {
      device_ = backend()->open_device(0);
    }
    return device_;
  }
  static Error error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {ErrorCode::kOk, ""};
  }

  Lab lab_;
  RuntimeOptions options_;
  std::mutex lines_mutex_;
  std::vector<std::string> lines_;
  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<yoke::Device> device_;
};

// Two programs: one with a symbol, one without; `b` is read and written.
inline constexpr std::string_view kTwoPrograms = R"(yoke.program 1
program first(symbol row in 0..100 step 10) {
  arg x : f32[100, 4] in
  arg y : f32[10, 4] out
  y[n, i] = x[row + n, i] * 2.0
}
program second() {
  arg a : f32[8] in
  arg b : f32[8] inout
  b[i] = b[i] + exp(a[i])
}
)";

}  // namespace yoke::test
