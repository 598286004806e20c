// SPDX-License-Identifier: Apache-2.0
// tests/mutant/device.cpp: the devices and their options.
#include "device.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bug.h"
#include "program.h"

namespace yoke::mutant {

namespace {

constexpr std::uint64_t kPinnedShift = 8;
constexpr std::uint64_t kMostPinned = std::uint64_t{64} << 20U;
std::atomic<std::uint64_t> latest_limit{0};  // memory limit of the handle opened last
std::weak_ptr<DeviceState> latest_state;     // of the handle opened last; with the bug that needs it only

// What the bugs of growing memory never free.
void keep(std::string text) {
  static auto* const kept = new std::vector<std::string>;
  text.resize(text.size() + 1000);
  kept->push_back(std::move(text));
}

// A table that an application may offer.
struct Greeting {
  std::uint64_t struct_size;
  void (*greet)();
};

}  // namespace

Device::Device(std::shared_ptr<Hub> hub, const sdk::Options& options)
    : state_(std::make_shared<DeviceState>(std::move(hub))),
      memory_limit_(static_cast<std::uint64_t>(options.integer("memory_limit"))),
      elementwise_only_(options.text("statements") == "elementwise") {
  state_->starts_on_demand = options.text("start") == "demanded";
  latest_limit = memory_limit_;
  if (on<"streams_belong_to_the_device_opened_last">()) {
    latest_state = state_;
  }
  state_->hub.any_lost = false;
}

Device::~Device() {
  if (on<"close_aborts_other_handles">()) {
    const std::lock_guard lock(state_->hub.mutex);
    state_->hub.all_aborted = true;
  }
}

std::uint64_t Device::memory_limit() {
  return on<"handles_share_options">() ? latest_limit.load() : memory_limit_;
}

void* Device::pinned_allocate(std::uint64_t byte_count) {
  const std::uint64_t moved = on<"pinned_memory_is_misaligned">() ? kPinnedShift : 0;
  const std::uint64_t size = on<"pinned_size_is_truncated">() ? std::min(byte_count, kMostPinned)
                                                              : std::max(byte_count, byte_count + moved);
  void* const memory = sdk::Device::pinned_allocate(size);
  return memory == nullptr ? nullptr : static_cast<std::byte*>(memory) + moved;
}

void Device::pinned_free(void* memory) noexcept {
  sdk::Device::pinned_free(static_cast<std::byte*>(memory) -
                           (on<"pinned_memory_is_misaligned">() ? kPinnedShift : 0));
}

std::unique_ptr<sdk::Buffer> Device::import_buffer(const sdk::Import& memory) {
  state_->check_not_lost();
  if (on<"import_is_copied">()) {
    auto copy = std::make_unique<Buffer>(memory.byte_count, host(), state_);
    std::memcpy(copy->host_address(), reinterpret_cast<const void*>(memory.address), memory.byte_count);
    return copy;
  }
  return std::make_unique<Buffer>(memory, state_);
}

sdk::Native Device::native() {
  return {.api = on<"native_handle_has_no_name">() ? "" : "host"};
}

std::unique_ptr<sdk::Buffer> Device::create_buffer(std::uint64_t byte_count, std::int32_t) {
  state_->check_not_lost();
  if (state_->faults.next(YOKE_FAULT_ALLOCATION)) {
    throw sdk::Failure(YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                       "this allocation on the mutant device fails because a fault was armed");
  }
  return std::make_unique<Buffer>(byte_count, host(), state_);
}

std::unique_ptr<sdk::Code> Device::compile(std::string_view text) {
  state_->check_not_lost();
  if (on<"compiled_texts_are_kept">()) {
    keep(std::string(text));
  }
  if (elementwise_only_) {
    refuse_unsupported(text);
  }
  return std::make_unique<Code>(text, state_);
}

std::vector<sdk::Verdict> Device::can_compile(std::string_view text) {
  state_->check_not_lost();
  return verdicts_of(text, elementwise_only_);
}

std::unique_ptr<sdk::Stream> Device::create_stream(std::int32_t) {
  state_->check_not_lost();
  const std::shared_ptr<DeviceState> latest = latest_state.lock();
  return std::make_unique<Stream>(latest != nullptr ? latest : state_);
}

void Device::abort() {
  if (on<"abort_does_nothing">()) {
    return;
  }
  const std::lock_guard lock(state_->hub.mutex);
  state_->aborted.store(true);
  state_->hub.all_aborted = on<"abort_ends_every_device">();
  state_->hub.changed.notify_all();
}

void Backend::configure(const sdk::Options& options) {
  device_count_ = static_cast<std::uint32_t>(options.integer("devices"));
  if (const void* theirs = host().table("org.example.greeting/1")) {
    Greeting greeting{};
    if (on<"host_table_is_read_past_its_size">()) {
      std::memcpy(&greeting, theirs, sizeof greeting);
    } else {
      sdk::read_table(greeting, static_cast<const Greeting*>(theirs));
    }
    if (greeting.greet != nullptr) {
      greeting.greet();
    }
  }
}

std::uint32_t Backend::device_count() {
  return device_count_ + (on<"device_count_is_one_too_many">() ? 1 : 0);
}

std::string Backend::why_no_device() {
  return on<"no_devices_without_reason">() ? "" : "the plugin option devices is 0; set it to 1 or more";
}

sdk::DeviceInfo Backend::describe(std::uint32_t ordinal) {
  sdk::DeviceInfo info;
  info.name = "mutant device " + std::to_string(ordinal);
  info.unique_id = "mutant:" + std::to_string(ordinal);
  if (on<"device_id_changes">()) {
    info.unique_id += "@" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_size > 0) {
    info.memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size);
  }
  info.types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16, YOKE_TYPE_I64,
                YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8,  YOKE_TYPE_BOOL};
  info.suggested_stream_count = 2;
  info.host_visible = true;
  return info;
}

std::vector<sdk::OptionSpec> Backend::option_specs() {
  constexpr std::int64_t kMost = 1000;
  return {
      sdk::OptionSpec::integer("devices", "Number of devices.", 2, 0, 8).for_plugin(),
      sdk::OptionSpec::integer("memory_limit", "Limit for the bytes in buffers of the device; 0: no limit.",
                               0, 0, std::numeric_limits<std::int64_t>::max()),
      sdk::OptionSpec::integer("priority_levels", "Number of stream priorities.", 3, 1,
                               on<"option_range_is_off_by_one">() ? kMost + 1 : kMost),
      sdk::OptionSpec::number("share", "Share of the machine to use; a hint.", 1.0, 0.0, 1.0),
      sdk::OptionSpec::text("mode", "How commands run; a hint.", "steady", "steady|eager"),
      sdk::OptionSpec::text("start", "When the work of a stream starts.", "queued", "queued|demanded"),
      sdk::OptionSpec::text("statements", "The statements that the mutant runs.", "all", "all|elementwise"),
      sdk::OptionSpec::flag("verbose", "Log each stream.", false)};
}

std::unique_ptr<sdk::Device> Backend::open_device(std::uint32_t ordinal, const sdk::Options& options) {
  if (ordinal >= device_count_) {
    throw sdk::Failure(YOKE_STATUS_INTERNAL, "the mutant does not have that device");
  }
  host().log(YOKE_LOG_DEBUG, "device.open backend=mutant device=" + std::to_string(ordinal));
  if (on<"closed_devices_are_kept">()) {
    keep("");
  }
  return std::make_unique<Device>(hub_, options);
}

}  // namespace yoke::mutant
