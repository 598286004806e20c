// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/plugin.cpp: the backend and its devices.
#include <yoke/sdk/entry.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "buffer.h"
#include "bugs.h"
#include "code.h"
#include "stream.h"

namespace yoke::handmade {

namespace {

constexpr std::size_t kThreads = 3;  // that help the thread of a stream

// Freed blocks of pinned memory, by power of two; with the bug pinned_class. A block may be smaller than the request.
class PinnedBlocks {
 public:
  template <class Allocate>
  void* take(std::uint64_t byte_count, const Allocate& allocate) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t size_class = std::bit_ceil(std::max<std::uint64_t>(byte_count, 1));
    void* memory = nullptr;
    if (std::vector<void*>& free = free_[size_class]; !free.empty()) {
      memory = free.back();
      free.pop_back();
    } else {
      memory = allocate();
    }
    if (memory != nullptr) {
      live_[memory] = size_class;
    }
    return memory;
  }
  // Returns whether it keeps the block.
  bool keep(void* memory) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(memory);
    if (found == live_.end()) {
      return false;
    }
    std::vector<void*>& free = free_[found->second];
    const bool has_room = free.size() < kKept;
    if (has_room) {
      free.push_back(memory);
    }
    live_.erase(found);
    return has_room;
  }
  template <class Free>
  void clear(const Free& free_one) {
    for (const auto& [size_class, free] : free_) {
      std::for_each(free.begin(), free.end(), free_one);
    }
  }

 private:
  static constexpr std::size_t kKept = 4;
  std::mutex mutex_;
  std::map<void*, std::uint64_t> live_;               // to their class
  std::map<std::uint64_t, std::vector<void*>> free_;  // by class
};

class Device final : public sdk::Device {
 public:
  explicit Device(const std::shared_ptr<Hub>& hub) : hub_(hub), streams_(std::make_shared<Group>(hub)) {
    if (hub_->was_aborted && bug("reopened_aborted")) {
      abort();
    }
  }
  ~Device() override {
    pinned_.clear([this](void* memory) { sdk::Device::pinned_free(memory); });
  }

  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    if (!sdk::machine_holds(byte_count)) {
      throw sdk::Failure(
          bug("memory_code") ? YOKE_STATUS_RESOURCE_EXHAUSTED : YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
          "a buffer of " + std::to_string(byte_count) + " bytes exceeds the machine's memory");
    }
    return std::make_unique<Buffer>(staging_, byte_count, host());
  }
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override {
    if (bug("import_null") && memory.address == 0) {  // the SDK has refused it for memory that is not empty
      throw sdk::Failure(YOKE_STATUS_INVALID_ARGUMENT, "buffer_import: the address is 0");
    }
    sdk::Import used = memory;
    used.address -= bug("import_aligned") ? used.address % YOKE_BUFFER_ALIGNMENT : 0;
    return std::make_unique<Buffer>(staging_, used);
  }
  void* pinned_allocate(std::uint64_t byte_count) override {
    if (bug("pinned_class")) {
      return pinned_.take(byte_count, [&] { return sdk::Device::pinned_allocate(byte_count); });
    }
    return bug("pinned_alignment") && sdk::machine_holds(byte_count)
               ? host().allocate(byte_count, 64)
               : sdk::Device::pinned_allocate(byte_count);
  }
  void pinned_free(void* memory) noexcept override {
    if (!bug("pinned_class") || !pinned_.keep(memory)) {
      sdk::Device::pinned_free(memory);
    }
  }
  sdk::Native native() override { return {.api = "host"}; }

  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    try {
      return std::make_unique<Code>(text, engine_);
    } catch (const sdk::Failure& failure) {
      throw sdk::Failure(failure.code(), bug("no_reason") ? "the program is invalid" : failure.text());
    }
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override { return verdicts(text); }

  std::unique_ptr<sdk::Stream> create_stream(std::int32_t) override {
    return std::make_unique<Stream>(streams_);
  }
  void abort() override {
    hub_->was_aborted = true;
    streams_->fail(sdk::Failure(YOKE_STATUS_ABORTED, "the device was aborted; close it and open it again"));
  }
  bool can_fail(std::int32_t) override { return true; }

 private:
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<Group> streams_;
  std::shared_ptr<Staging> staging_ = std::make_shared<Staging>();
  std::shared_ptr<Engine> engine_ = std::make_shared<Engine>(kThreads);
  PinnedBlocks pinned_;
};

class Backend final : public sdk::Backend {
 public:
  Backend() {
    active_bug = read_bug();
    if (bug("early_thread")) {  // before the first device_count, the application may fork
      timer_ = start_thread([hub = hub_] {
        std::unique_lock lock(hub->mutex);
        hub->changed.wait(lock, [&] { return hub->is_closing; });
      });
    }
  }
  ~Backend() override {
    if (timer_.joinable()) {
      {
        const std::lock_guard lock(hub_->mutex);
        hub_->is_closing = true;
        hub_->changed.notify_all();
      }
      timer_.join();
    }
  }
  sdk::Provides provides() const override {
    return {.streams = true, .programs = true, .memory = true, .faults = true, .profile = true};
  }
  std::uint32_t device_count() override { return 2; }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override {
    sdk::DeviceInfo info;
    info.name = "handmade loops";
    info.unique_id = "handmade:" + std::to_string(bug("same_unique_id") ? 0 : ordinal);
    info.types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16, YOKE_TYPE_I64,
                  YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8,  YOKE_TYPE_BOOL};
    info.kind = YOKE_DEVICE_CPU;
    info.compute_unit_count = kThreads + 1;
    info.suggested_stream_count = 2;
    info.host_visible = true;
    return info;
  }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options&) override {
    return std::make_unique<Device>(hub_);
  }

 private:
  std::shared_ptr<Hub> hub_ = std::make_shared<Hub>();
  std::thread timer_;  // with the bug early_thread
};

}  // namespace
}  // namespace yoke::handmade

YOKE_SDK_PLUGIN(yoke::handmade::Backend, "handmade", "1.0.0", "yoke")
