// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/stream.h: streams of the driver, their events, and copies of pageable memory through pinned
// staging memory.
#pragma once

#include <yoke/sdk/plugin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "timeline.h"

namespace yoke::gpu {

class Event final : public sdk::Event {
 public:
  explicit Event(std::shared_ptr<Point> point) : point_(std::move(point)) {}
  std::int32_t state() override { return point_->state(); }
  void wait(std::uint64_t timeout_ns) override { point_->wait(timeout_ns); }
  std::uint64_t elapsed_since(sdk::Event& start) override {
    return point_->elapsed_since(*static_cast<Event&>(start).point_);
  }
  std::uint64_t time_ns() override { return point_->time_ns(); }
  const std::shared_ptr<Point>& point() const noexcept { return point_; }

 private:
  std::shared_ptr<Point> point_;
};

class Stream final : public sdk::Stream {
 public:
  explicit Stream(std::shared_ptr<Timeline> timeline) : timeline_(std::move(timeline)) {}
  ~Stream() override;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::int32_t state() override { return timeline_->state(); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(timeout_ns); }
  std::unique_ptr<sdk::Event> record(bool timing) override;
  void wait_event(sdk::Event& event) override { timeline_->wait_for(static_cast<Event&>(event).point()); }
  // Work that the driver already has still runs to its end; waits for it last until then.
  void abort() override;
  void host_callback(yoke_host_callback_fn callback, void* user) override;
  sdk::Native native() override;
  std::string debug_text() override { return timeline_->debug_text(); }
  void poison(const sdk::Failure& failure) override { timeline_->poison(failure); }
  void pause(std::uint64_t delay_ns) override { timeline_->pause(delay_ns); }

  Timeline& timeline() noexcept { return *timeline_; }

  // Copies between host memory and the device. Pinned memory is copied directly; other memory through
  // staging memory, so that no call waits for the device. Returns YOKE_SOURCE_*.
  std::int32_t upload(Address target, const void* source, std::uint64_t byte_count);
  void download(void* target, Address source, std::uint64_t byte_count);
  // Like upload, but keeps the bytes until they are copied.
  void upload_kept(Address target, std::vector<std::byte> bytes);

 private:
  // A small block of staging memory that the calling thread fills.
  struct Slot {
    std::byte* memory = nullptr;
    void* event = nullptr;  // the copy out of it
  };
  // The slot that is free, or null.
  Slot* free_slot();
  std::byte* chunk();
  void upload_chunks(Address target, const std::shared_ptr<const void>& source, std::uint64_t byte_count);

  std::shared_ptr<Timeline> timeline_;
  std::byte* slot_memory_ = nullptr;
  std::array<Slot, 8> slots_;
  std::size_t next_slot_ = 0;
  std::byte* chunk_ = nullptr;  // used in stream order only
};

}  // namespace yoke::gpu
