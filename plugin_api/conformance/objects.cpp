// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/objects.cpp: creates, uses and destroys handles; every failed call fails the test.
#include "objects.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iterator>
#include <thread>

#include "program/run/isolate.h"

namespace yoke::conformance {
namespace {

// The data pointer, never NULL: the ABI forbids NULL pointers even for empty ranges.
template <class Range>
auto* data_of(const Range& bytes) {
  static std::byte nothing{};
  return bytes.empty() ? &nothing : bytes.data();
}

std::int32_t checked_state(const Answer& answer, std::int32_t state) {
  expect_ok(answer, "querying");
  check(state >= YOKE_STATE_PENDING && state <= YOKE_STATE_FAILED, answer.function,
        " returned OK with the unknown state ", state);
  return state;
}

// Calls `wait`. A wait that returns OK must have been woken by the end of the work, not by its timeout.
template <class Wait>
Answer woken(std::uint64_t timeout_ns, const Wait& wait) {
  constexpr std::uint64_t kLong = 1000 * kMillisecond;
  const auto begin = Clock::now();
  Answer answer = wait();
  check(!answer.ok() || timeout_ns < kLong || ns_since(begin) < timeout_ns, answer.function,
        " with a timeout of ", timeout_ns / kMillisecond,
        " ms returned OK when its time was over, not when the work was done");
  return answer;
}

bool is_done(std::int32_t state, const Answer& failure) {
  if (state == YOKE_STATE_FAILED) {
    expect_ok(failure, "the queued work");
  }
  return state == YOKE_STATE_DONE;
}

}  // namespace

Device::Device(Kit& kit, Plugin& plugin, std::uint32_t ordinal, const std::vector<yoke_option>& options)
    : kit_(kit), plugin_(plugin), ordinal_(ordinal) {
  expect_ok(plugin.device_open(ordinal, options, &raw_), text("opening device ", ordinal));
  check(raw_ != nullptr, "device_open returned OK but left its out-parameter NULL");
}

Device::~Device() {
  // After a failure, closing may hang. A test that turns out to be unsupported closes what it has opened.
  if (raw_ != nullptr && (std::uncaught_exceptions() == 0 || !has_failed())) {
    const Answer answer = plugin_.device_close(raw_);
    if (!answer.ok()) {
      kit_.complain("closing a device after its objects were destroyed: " + answer.words());
    }
  }
}

void Device::close() {
  expect_ok(plugin_.device_close(raw_), "closing a device after its objects were destroyed");
  raw_ = nullptr;
}

yoke_device_info Device::info() const {
  yoke_device_info info = sized<yoke_device_info>();
  expect_ok(plugin_.device_describe(ordinal_, &info), text("describing device ", ordinal_));
  return info;
}

yoke_memory_info Device::memory() const {
  yoke_memory_info info = sized<yoke_memory_info>();
  expect_ok(plugin_.call<&yoke_backend_api::device_memory>(raw_, &info), "querying the memory of a device");
  return info;
}

Device another_handle(Kit& kit) {
  return {kit, kit.plugin(), kit.settings().device, kit.device_options()};
}

Buffer::Buffer(Device& device, std::uint64_t byte_count, std::int32_t kind)
    : plugin_(&device.plugin()), byte_count_(byte_count) {
  yoke_buffer* raw = nullptr;
  const Answer answer = plugin_->buffer_create(device.get(), byte_count, kind, &raw);
  handle_ = {*plugin_, answer, raw, text("creating a ", byte_count, "-byte buffer")};
}

yoke_buffer_info Buffer::describe() const {
  yoke_buffer_info info = sized<yoke_buffer_info>();
  expect_ok(plugin_->call<&yoke_backend_api::buffer_describe>(get(), &info), "describing a buffer");
  return info;
}

void Buffer::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  std::int32_t source = 0;
  expect_ok(
      plugin_->from_host(nullptr, get(), offset, data_of(bytes), bytes.size(), &source),
      text("copying ", bytes.size(), " bytes to offset ", offset, " of a ", byte_count_, "-byte buffer"));
}

void Buffer::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  expect_ok(
      plugin_->to_host(nullptr, get(), offset, data_of(bytes), bytes.size()),
      text("copying ", bytes.size(), " bytes from offset ", offset, " of a ", byte_count_, "-byte buffer"));
}

Bytes Buffer::contents() const {
  Bytes bytes(byte_count_);
  read(0, bytes);
  return bytes;
}

std::int32_t Event::state() const {
  std::int32_t state = -1;
  const Answer answer = plugin_->call<&yoke_stream_api::event_query>(get(), &state);
  return checked_state(answer, state);
}

bool Event::done() const {
  const std::int32_t now = state();
  return is_done(now, now == YOKE_STATE_FAILED ? wait(0) : Answer());
}

Answer Event::wait(std::uint64_t timeout_ns) const {
  return woken(timeout_ns, [&] { return plugin_->call<&yoke_stream_api::event_wait>(get(), timeout_ns); });
}

Answer Event::elapsed_since(const Event& start, std::uint64_t& ns) const {
  return plugin_->call<&yoke_stream_api::event_elapsed>(start.get(), get(), &ns);
}

std::uint64_t Event::ns_since(const Event& start) const {
  std::uint64_t ns = UINT64_MAX;
  expect_ok(elapsed_since(start, ns), "querying the time between two events");
  return ns;
}

Stream::Stream(Device& device, std::int32_t priority) : device_(&device) {
  static std::atomic<unsigned> count{0};
  recorded_ = count++;
  yoke_stream* raw = nullptr;
  const Answer answer = device.plugin().stream_create(device.get(), priority, &raw);
  handle_ = {device.plugin(), answer, raw, "creating a stream"};
}

Stream::~Stream() {
  try {
    if (handle_.get() == nullptr) {
      return;
    }
    const bool has_failed = std::uncaught_exceptions() != 0;
    const Answer answer = wait(has_failed ? longest_wait_ns() / 10 : longest_wait_ns());
    if (has_failed && answer.code == YOKE_STATUS_DEADLINE_EXCEEDED) {
      give_up();
    }
  } catch (const std::exception&) {
    // The plugin lacks the function; another test reports that.
  }
}

Event Stream::record() const {
  return record(recorded_++ % 2 == 0 ? YOKE_EVENT_TIMING : 0);
}

Event Stream::record_timed() const {
  return record(YOKE_EVENT_TIMING);
}

Event Stream::record(std::uint64_t flags) const {
  yoke_event* raw = nullptr;
  const Answer answer = device_->plugin().event_record(get(), &raw, flags);
  return {device_->plugin(), {device_->plugin(), answer, raw, "recording an event"}};
}

void Stream::wait_for(const Event& event) const {
  expect_ok(device_->plugin().call<&yoke_stream_api::stream_wait_event>(get(), event.get()),
            "making a stream wait for an event");
}

std::int32_t Stream::state() const {
  std::int32_t state = -1;
  const Answer answer = device_->plugin().call<&yoke_stream_api::stream_query>(get(), &state);
  return checked_state(answer, state);
}

bool Stream::done() const {
  const std::int32_t now = state();
  return is_done(now, now == YOKE_STATE_FAILED ? wait(0) : Answer());
}

Answer Stream::wait(std::uint64_t timeout_ns) const {
  return woken(timeout_ns,
               [&] { return device_->plugin().call<&yoke_stream_api::stream_wait>(get(), timeout_ns); });
}

void Stream::synchronize() const {
  expect_ok(wait(), "waiting for a stream");
}

void Stream::keep(std::vector<Bytes> bytes) {
  std::move(bytes.begin(), bytes.end(), std::back_inserter(kept_));
}

void Stream::write(const Buffer& target, std::uint64_t offset, Bytes bytes) {
  kept_.push_back(std::move(bytes));
  const Bytes& kept = kept_.back();
  std::int32_t source = 0;
  expect_ok(device_->plugin().from_host(get(), target.get(), offset, data_of(kept), kept.size(), &source),
            "queueing a from_host");
  check(source == YOKE_SOURCE_COPIED || source == YOKE_SOURCE_UNTIL_EVENT,
        "from_host returned OK with the unknown *out_source ", source);
}

void Stream::read(const Buffer& source, std::uint64_t offset, std::span<std::byte> bytes) const {
  expect_ok(device_->plugin().to_host(get(), source.get(), offset, data_of(bytes), bytes.size()),
            "queueing a to_host");
}

void Stream::copy(const Buffer& target, std::uint64_t target_offset, const Buffer& source,
                  std::uint64_t source_offset, std::uint64_t byte_count) const {
  expect_ok(device_->plugin().device_to_device(get(), target.get(), target_offset, source.get(),
                                               source_offset, byte_count),
            "queueing a device_to_device");
}

std::optional<Stream> stream_if_any(Device& device) {
  return device.plugin().has_table<yoke_stream_api>() ? std::optional<Stream>(std::in_place, device)
                                                      : std::nullopt;
}

yoke_compile_args program_text(std::string_view bytes) {
  yoke_compile_args args = sized<yoke_compile_args>();
  args.format = YOKE_PROGRAM_FORMAT;
  args.version = YOKE_PROGRAM_VERSION;
  args.text = bytes.data();
  args.byte_count = bytes.size();
  return args;
}

yoke_binding binding(const Buffer& buffer, std::uint64_t offset) {
  return {buffer.get(), offset, buffer.byte_count() - offset, 0};
}

Code compile(const Device& device, std::string_view text) {
  yoke_code* raw = nullptr;
  const Answer answer = device.plugin().code_compile(device.get(), program_text(text), &raw);
  return {device.plugin(), answer, raw, "compiling a valid text without unsupported statements"};
}

yoke_entry_info describe_entry(const Plugin& plugin, const Code& code, std::uint32_t entry) {
  yoke_entry_info info = sized<yoke_entry_info>();
  expect_ok(plugin.call<&yoke_program_api::code_describe>(code.get(), entry, &info),
            text("describing entry ", entry));
  return info;
}

Buffer workspace_for(Device& device, const Code& code, std::uint32_t entry) {
  const std::uint64_t byte_count = describe_entry(device.plugin(), code, entry).workspace_byte_count;
  return byte_count == 0 ? Buffer() : Buffer(device, byte_count);
}

Routine link(const Plugin& plugin, const Code& code, std::uint32_t entry,
             std::span<const yoke_binding> bindings, const yoke_binding& workspace) {
  yoke_routine* raw = nullptr;
  const Answer answer = plugin.routine_link(code.get(), entry, bindings, workspace, &raw);
  return {plugin, answer, raw, text("linking entry ", entry)};
}

void launch(const Plugin& plugin, const Routine& routine, std::span<const std::int64_t> symbols,
            const Stream* stream) {
  expect_ok(plugin.routine_launch(stream == nullptr ? nullptr : stream->get(), routine.get(), symbols),
            "launching a routine");
  if (stream != nullptr) {
    stream->synchronize();
  }
}

void arm_fault(const Plugin& plugin, yoke_device* device, std::int32_t kind, std::uint64_t nth,
               std::uint64_t delay_ns) {
  expect_supported(plugin.call<&yoke_fault_api::fault_arm>(device, kind, nth, delay_ns),
                   text("arming a fault of kind ", kind));
}

void lose_device(Device& device) {
  const Plugin& plugin = device.plugin();
  const Buffer buffer(device, 64);
  arm_fault(plugin, device.get(), YOKE_FAULT_DEVICE_LOST, 1);
  Bytes host(64);
  expect_code(plugin.to_host(nullptr, buffer.get(), 0, host.data(), 64), YOKE_STATUS_DEVICE_LOST,
              "the copy for which DEVICE_LOST was armed");
}

void expect_no_buffer(const Device& device, std::uint64_t byte_count, std::int32_t kind, std::int32_t code,
                      const std::string& doing) {
  expect_no_object<yoke_buffer>(code, doing, [&](yoke_buffer** out) {
    return device.plugin().buffer_create(device.get(), byte_count, kind, out);
  });
}

void check_disjoint(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges, const char* what) {
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    check(ranges[i - 1].second <= ranges[i].first, what);
  }
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

std::string in_child(const std::function<std::string()>& body) {
  std::string result;
  const double limit_s = static_cast<double>(longest_wait_ns()) * 0.5e-9;
  const Ending ending = isolate(
      [&](const Outlet& outlet) {
        try {
          outlet.send('R', body());
        } catch (const std::exception& failure) {
          outlet.send('R', failure.what());
        }
      },
      [&](const Message& message) { result = message.text; }, limit_s, limit_s);
  return ending.well() ? result : result + "the child " + ending.words;
}

std::size_t thread_count() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

std::size_t wait_for_threads(std::size_t most, int tries) {
  std::size_t now = thread_count();
  for (int i = 0; i < tries && now > most; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    now = thread_count();
  }
  return now;
}

bool is_sanitized() {
  static const bool result =
      ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || ::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
  return result;
}

std::string alive_text(const yoke_live_counts& live) {
  const std::pair<const char*, std::uint64_t> kinds[] = {
      {"device", live.devices}, {"buffer", live.buffers}, {"stream", live.streams},
      {"event", live.events},   {"code", live.codes},     {"routine", live.routines}};
  std::string alive;
  for (const auto& [name, count] : kinds) {
    if (count != 0) {
      alive += text(alive.empty() ? "" : ", ", count, " ", name, count == 1 ? "" : "s");
    }
  }
  return alive;
}

void check_nothing_alive(const Plugin& plugin, const std::string& when) {
  const std::string alive = alive_text(plugin.live_counts());
  check(alive.empty(), when, ", live_counts reports ", alive);
}

}  // namespace yoke::conformance
