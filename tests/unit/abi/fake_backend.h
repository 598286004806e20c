// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/fake_backend.h: a backend inside the test, to see what the SDK does with what a plugin does.
#pragma once

#include <yoke/sdk/entry.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke::test {

// What the fake does, set by each test; `on_open` runs when a device is opened, and may throw.
struct Script {
  sdk::Provides provides{.streams = false, .programs = true, .peers = true};
  std::uint32_t device_count = 2;
  std::uint64_t memory_limit = 0;
  bool opens_nothing = false;
  std::function<void(const sdk::Options&)> on_open = [](const sdk::Options&) {};
  std::vector<std::vector<std::int64_t>> launches;
  bool keep_launches = true;
  int codes_alive = 0;
  std::vector<sdk::Entry> entries;
};

class FakeRoutine final : public sdk::Routine {
 public:
  explicit FakeRoutine(Script& script) : script_(script) {}
  void launch(sdk::Stream*, std::span<const std::int64_t> values) override {
    if (script_.keep_launches) {
      script_.launches.emplace_back(values.begin(), values.end());
    }
  }

 private:
  Script& script_;
};

class FakeCode final : public sdk::Code {
 public:
  explicit FakeCode(Script& script) : script_(script), entries_(script.entries) { ++script_.codes_alive; }
  ~FakeCode() override { --script_.codes_alive; }
  FakeCode(const FakeCode&) = delete;
  FakeCode& operator=(const FakeCode&) = delete;
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t, std::span<const sdk::Binding>,
                                     const sdk::Binding&) override {
    return std::make_unique<FakeRoutine>(script_);
  }

 private:
  Script& script_;
  std::vector<sdk::Entry> entries_;
};

class FakeDevice final : public sdk::Device {
 public:
  explicit FakeDevice(Script& script) : script_(script) {}
  std::uint64_t memory_limit() override { return script_.memory_limit; }
  std::unique_ptr<sdk::Code> compile(std::string_view) override {
    return std::make_unique<FakeCode>(script_);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view) override {
    return {{0, 0, YOKE_VERDICT_NATIVE, ""}, {0, 1, YOKE_VERDICT_UNSUPPORTED, std::string(600, 'x')}};
  }

 private:
  Script& script_;
};

class FakeBackend final : public sdk::Backend {
 public:
  explicit FakeBackend(Script& script) : script_(script) {}
  sdk::Provides provides() const override { return script_.provides; }
  std::uint32_t device_count() override { return script_.device_count; }
  std::string why_no_device() override { return "no card is plugged in"; }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override {
    sdk::DeviceInfo info;
    info.name =
        std::string(126, 'n') + "\xC3\xA4";  // the letter's second byte would take the place of the zero
    info.unique_id = "fake:" + std::to_string(ordinal);
    info.types = {YOKE_F32, YOKE_BOOL};
    return info;
  }
  std::vector<sdk::OptionSpec> option_specs() override {
    return {sdk::OptionSpec::integer("threads", "How many threads.", 4, 1, 64),
            sdk::OptionSpec::number("share", "How much of it.", 0.5, 0.0, 1.0),
            sdk::OptionSpec::text("mode", "Which way.", "fast", "fast|exact"),
            sdk::OptionSpec::flag("verify", "Check everything.", false)};
  }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options& options) override {
    script_.on_open(options);
    return script_.opens_nothing ? nullptr : std::make_unique<FakeDevice>(script_);
  }

 private:
  Script& script_;
};

// The script of the test that runs: an entry is a plain function.
inline Script* current_script = nullptr;

inline std::int32_t fake_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  return sdk::enter(args, out_plugin, error, {"fake", "1.2.3", "tests"},
                    [] { return std::make_unique<FakeBackend>(*current_script); });
}

}  // namespace yoke::test
