// SPDX-License-Identifier: Apache-2.0
// tests/conformance/objects.cpp: handles are made here, and nowhere left behind.
#include "objects.h"

#include <exception>
#include <filesystem>
#include <iterator>
#include <thread>

namespace yoke::conformance {

namespace {

// Pointers are never NULL at the ABI, also where no byte is behind them.
template <class Bytes>
auto* present(const Bytes& bytes) {
  static std::byte nothing{};
  return bytes.empty() ? &nothing : bytes.data();
}

}  // namespace

Device::Device(Kit& kit, Plugin& plugin, std::uint32_t ordinal, const std::vector<yoke_option>& options)
    : kit_(kit), plugin_(plugin) {
  expect_ok(plugin.call<&yoke_backend_api::device_open>(plugin.get(), ordinal, options.data(),
                                                        static_cast<std::uint32_t>(options.size()), &raw_),
            text("opening device ", ordinal));
  check(raw_ != nullptr, "device_open answered OK without a device");
}

Device::~Device() {
  if (raw_ != nullptr && std::uncaught_exceptions() == 0) {
    const Answer answer = plugin_.call<&yoke_backend_api::device_close>(raw_);
    if (!answer.ok()) {
      kit_.complain("closing a device whose objects are all gone: " + answer.words());
    }
  }
}

void Device::close() {
  expect_ok(plugin_.call<&yoke_backend_api::device_close>(raw_),
            "closing a device whose objects are all gone");
  raw_ = nullptr;
}

yoke_memory_info Device::memory() const {
  yoke_memory_info info = sized<yoke_memory_info>();
  expect_ok(plugin_.call<&yoke_backend_api::device_memory>(raw_, &info), "asking for the device's memory");
  return info;
}

Buffer::Buffer(Device& device, std::uint64_t byte_count, std::int32_t kind)
    : plugin_(&device.plugin()), byte_count_(byte_count) {
  yoke_buffer* raw = nullptr;
  expect_ok(plugin_->call<&yoke_backend_api::buffer_create>(device.get(), byte_count, kind, &raw),
            text("creating a buffer of ", byte_count, " bytes"));
  check(raw != nullptr, "buffer_create answered OK without a buffer");
  handle_ = {*plugin_, raw};
}

yoke_buffer_info Buffer::describe() const {
  yoke_buffer_info info = sized<yoke_buffer_info>();
  expect_ok(plugin_->call<&yoke_backend_api::buffer_describe>(get(), &info), "describing a buffer");
  return info;
}

void Buffer::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  std::int32_t source = 0;
  expect_ok(plugin_->call<&yoke_backend_api::from_host>(nullptr, get(), offset, present(bytes),
                                                        std::uint64_t{bytes.size()}, &source),
            text("copying ", bytes.size(), " bytes to byte ", offset, " of a buffer of ", byte_count_));
}

void Buffer::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  expect_ok(plugin_->call<&yoke_backend_api::to_host>(nullptr, get(), offset, present(bytes),
                                                      std::uint64_t{bytes.size()}),
            text("copying ", bytes.size(), " bytes from byte ", offset, " of a buffer of ", byte_count_));
}

std::vector<std::byte> Buffer::contents() const {
  std::vector<std::byte> bytes(byte_count_);
  read(0, bytes);
  return bytes;
}

bool Event::done() const {
  std::int32_t done = -1;
  expect_ok(plugin_->call<&yoke_stream_api::event_query>(get(), &done), "asking an event");
  check(done == 0 || done == 1, "event_query answered OK with out_done ", done);
  return done == 1;
}

Answer Event::wait(std::uint64_t timeout_ns) const {
  return plugin_->call<&yoke_stream_api::event_wait>(get(), timeout_ns);
}

Stream::Stream(Device& device, std::int32_t priority) : device_(&device) {
  yoke_stream* raw = nullptr;
  expect_ok(device.plugin().call<&yoke_stream_api::stream_create>(device.get(), priority, &raw),
            "creating a stream");
  check(raw != nullptr, "stream_create answered OK without a stream");
  handle_ = {device.plugin(), raw};
}

Stream::~Stream() {
  if (handle_.get() != nullptr) {
    wait();
  }
}

Event Stream::record() const {
  yoke_event* raw = nullptr;
  expect_ok(device_->plugin().call<&yoke_stream_api::event_record>(get(), &raw), "recording an event");
  check(raw != nullptr, "event_record answered OK without an event");
  return {device_->plugin(), raw};
}

void Stream::wait_for(const Event& event) const {
  expect_ok(device_->plugin().call<&yoke_stream_api::stream_wait_event>(get(), event.get()),
            "making a stream wait for an event");
}

bool Stream::done() const {
  std::int32_t done = -1;
  expect_ok(device_->plugin().call<&yoke_stream_api::stream_query>(get(), &done), "asking a stream");
  check(done == 0 || done == 1, "stream_query answered OK with out_done ", done);
  return done == 1;
}

Answer Stream::wait(std::uint64_t timeout_ns) const {
  return device_->plugin().call<&yoke_stream_api::stream_wait>(get(), timeout_ns);
}

void Stream::synchronize() const {
  expect_ok(wait(), "waiting for a stream");
}

void Stream::write(const Buffer& target, std::uint64_t offset, std::vector<std::byte> bytes) {
  kept_.push_back(std::move(bytes));
  const std::vector<std::byte>& kept = kept_.back();
  std::int32_t source = 0;
  expect_ok(device_->plugin().call<&yoke_backend_api::from_host>(get(), target.get(), offset, present(kept),
                                                                 std::uint64_t{kept.size()}, &source),
            "queueing a from_host");
  check(source == YOKE_SOURCE_COPIED || source == YOKE_SOURCE_UNTIL_EVENT,
        "from_host answered OK with out_source ", source);
}

void Stream::read(const Buffer& source, std::uint64_t offset, std::span<std::byte> bytes) const {
  expect_ok(device_->plugin().call<&yoke_backend_api::to_host>(get(), source.get(), offset, present(bytes),
                                                               std::uint64_t{bytes.size()}),
            "queueing a to_host");
}

void Stream::copy(const Buffer& target, std::uint64_t target_offset, const Buffer& source,
                  std::uint64_t source_offset, std::uint64_t byte_count) const {
  expect_ok(device_->plugin().call<&yoke_backend_api::device_to_device>(
                get(), target.get(), target_offset, source.get(), source_offset, byte_count),
            "queueing a device_to_device");
}

std::size_t thread_count() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

void run_threads(unsigned count, const std::function<void(unsigned)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (first == nullptr) {
          first = std::current_exception();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first != nullptr) {
    std::rethrow_exception(first);
  }
}

}  // namespace yoke::conformance
