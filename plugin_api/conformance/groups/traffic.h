// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/traffic.h: random copies and fills on one stream, with their expected results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>

#include "modelled.h"

namespace yoke::conformance {

// A stream with copies in every direction and fills, and their expected results. The caller's memory is overwritten as
// early as the ABI allows.
class Traffic {
 public:
  Traffic(Device& device, Random& random, std::uint64_t byte_count)
      : plugin_(device.plugin()), random_(random), model_(device, random, byte_count), stream_(device) {}

  const Stream& stream() const { return stream_; }

  // Queues one piece of work of at most `most` bytes. Starts again at the front of the buffer when it is full.
  void step(std::uint64_t most) {
    const std::uint64_t room = model_.bytes.size();
    const std::uint64_t byte_count = 1 + random_.below(std::min(most, room));
    if (at_ + byte_count > room) {
      at_ = 0;
    }
    const std::uint64_t kind = random_.below(8);
    if (kind == 0) {
      receive(byte_count);
    } else if (kind == 1 && plugin_.has<&yoke_backend_api::fill>()) {
      fill(byte_count);
    } else if (kind == 2 && byte_count <= at_ && plugin_.has<&yoke_backend_api::device_to_device>()) {
      move(byte_count);
    } else {
      send(byte_count);
    }
  }

  void check_pending() const {
    for (const Received& one : received_) {
      check(std::all_of(one.got.begin(), one.got.end(), [](std::byte byte) { return byte == kUnread; }),
            "a to_host of ", one.got.size(), " bytes on a stream that waits for an event wrote its target");
    }
  }
  // Waits for the stream and checks all results.
  void finish(const char* what) {
    expect_ok(stream_.wait(), text("waiting for ", what));
    for (const Received& one : received_) {
      check(one.got == one.expected, "a to_host of ", one.got.size(), " bytes on ", what,
            " returned other bytes than the work before it wrote");
    }
    received_.clear();
    sources_.clear();
    model_.check_same(text("after copies and fills on ", what));
  }
  // The stream was aborted: any part of the work may have run.
  void drop() {
    (void)stream_.wait();
    received_.clear();
    sources_.clear();
  }

 private:
  struct Received {
    Bytes got;
    Bytes expected;
  };
  static constexpr std::byte kUnread{0xc3};

  void send(std::uint64_t byte_count) {
    Bytes source = random_.bytes(byte_count);
    std::copy(source.begin(), source.end(), model_.bytes.begin() + static_cast<std::ptrdiff_t>(at_));
    std::int32_t state = 0;
    expect_ok(
        plugin_.from_host(stream_.get(), model_.buffer.get(), at_, source.data(), source.size(), &state),
        "queueing a from_host");
    if (state == YOKE_SOURCE_COPIED) {
      std::fill(source.begin(), source.end(), std::byte{0xdd});
    } else {
      sources_.push_back(std::move(source));
    }
    at_ += byte_count;
  }
  void fill(std::uint64_t byte_count) {
    const std::uint32_t size = 1U << random_.below(4);
    const std::uint64_t rounded = byte_count / size * size;
    std::uint64_t pattern = random_.next();
    for (std::uint64_t i = 0; i < rounded; i += size) {
      std::memcpy(model_.bytes.data() + at_ + i, &pattern, size);
    }
    expect_ok(plugin_.fill(stream_.get(), model_.buffer.get(), at_, rounded, &pattern, size),
              "queueing a fill");
    pattern = ~pattern;
    at_ += rounded;
  }
  void move(std::uint64_t byte_count) {
    const std::uint64_t from = random_.below(at_ - byte_count + 1);
    std::copy_n(model_.bytes.begin() + static_cast<std::ptrdiff_t>(from), byte_count,
                model_.bytes.begin() + static_cast<std::ptrdiff_t>(at_));
    stream_.copy(model_.buffer, at_, model_.buffer, from, byte_count);
    at_ += byte_count;
  }
  void receive(std::uint64_t byte_count) {
    const auto from = model_.bytes.begin() + static_cast<std::ptrdiff_t>(at_);
    received_.push_back(
        {Bytes(byte_count, kUnread), Bytes(from, from + static_cast<std::ptrdiff_t>(byte_count))});
    expect_ok(
        plugin_.to_host(stream_.get(), model_.buffer.get(), at_, received_.back().got.data(), byte_count),
        "queueing a to_host");
  }

  const Plugin& plugin_;
  Random& random_;
  Modelled model_;
  std::uint64_t at_ = 0;
  std::deque<Received> received_;  // its elements stay in place
  std::deque<Bytes> sources_;
  Stream stream_;  // after everything that its work uses
};

}  // namespace yoke::conformance
