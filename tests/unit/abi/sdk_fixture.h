// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_fixture.h: a plugin on the SDK, with options, for the tests of the SDK.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fake_backend.h"
#include "loaded_plugin.h"

namespace yoke::test {

class SdkTest : public testing::Test {
 protected:
  SdkTest() {
    control_->name = "fake";
    control_->provides.streams = true;
    control_->device_info.name = std::string(126, 'n') + "\xC3\xA4";  // one byte too long
    control_->device_info.types = {YOKE_TYPE_F32, YOKE_TYPE_BOOL};
    control_->option_specs = {sdk::OptionSpec::integer("threads", "Number of threads.", 4, 1, 64),
                              sdk::OptionSpec::number("share", "Share of the machine.", 0.5, 0.0, 1.0),
                              sdk::OptionSpec::text("mode", "How to compute.", "fast", "fast|exact"),
                              sdk::OptionSpec::flag("verify", "Check every result.", false)};
  }

  yoke_plugin_entry_fn entry() { return entry_of(0, control_); }
  // Opens device 0 and closes it. Returns the code, with the text in entered.error.
  static std::int32_t open_with(Entered& entered, const std::vector<yoke_option>& options = {}) {
    yoke_device* device = nullptr;
    const std::int32_t code = entered.try_open(0, options, &device);
    if (code == YOKE_STATUS_OK) {
      entered.close(device);
    } else {
      EXPECT_EQ(device, nullptr) << "out parameters must stay untouched on failure";
      EXPECT_EQ(entered.error.code, code);
    }
    return code;
  }

  std::shared_ptr<Control> control_ = std::make_shared<Control>();
};

inline constexpr std::uint64_t kTimeoutNs = 20'000'000'000;

// An open device with a stream and a buffer of 64 bytes.
class SdkStreamTest : public SdkTest {
 protected:
  void begin() {
    entered_.emplace(entry());
    device_ = entered_->open();
    buffer_ = entered_->buffer(device_, 64);
    const auto args = sized<yoke_stream_args>();
    ASSERT_EQ(entered_->streams->stream_create(device_, &args, &stream_, error()), YOKE_STATUS_OK);
  }
  void TearDown() override {
    if (entered_) {
      entered_->streams->stream_destroy(stream_);
      entered_->backend->buffer_destroy(buffer_);
      entered_->close(device_);
    }
  }

  yoke_error* error() { return &entered_->error; }
  std::int32_t copy_in() {
    std::int32_t source = 0;
    return entered_->backend->from_host(stream_, buffer_, 0, "12345678", 8, &source, error());
  }
  std::int32_t wait() { return entered_->streams->stream_wait(stream_, kTimeoutNs, error()); }

  std::optional<Entered> entered_;
  yoke_device* device_ = nullptr;
  yoke_buffer* buffer_ = nullptr;
  yoke_stream* stream_ = nullptr;
};

}  // namespace yoke::test
