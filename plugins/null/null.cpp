// SPDX-License-Identifier: Apache-2.0
// plugins/null/null.cpp: programs are read, verified and described, and launched for nothing.
#include "null.h"

#include <unistd.h>
#include <yoke/sdk/program.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace yoke::null {
namespace {

constexpr std::uint64_t kAlignment = 64;

// What a backend that keeps every temporary would ask for, so that the host's planning has something to do.
std::uint64_t temporaries_byte_count(const program::Program& source) {
  std::uint64_t byte_count = 0;
  for (const program::Tensor& tensor : source.tensors) {
    if (tensor.role == program::Role::kTemp) {
      byte_count += (tensor.byte_count() + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
  return byte_count;
}

}  // namespace

void Point::check() const {
  if (aborted->load()) {
    throw sdk::Failure(YOKE_ABORTED, "the null device was aborted; close it and open it again");
  }
  if (failure && Clock::now() >= ready) {
    throw sdk::Failure(*failure);
  }
}

bool Point::done() const {
  check();
  return Clock::now() >= ready;
}

void Point::wait(std::uint64_t timeout_ns) const {
  const auto begin = Clock::now();
  const auto allowed = std::chrono::nanoseconds(std::min<std::uint64_t>(timeout_ns, INT64_MAX));
  // In slices, so that an abort is seen; nothing but an injected delay ever makes this wait.
  constexpr std::chrono::milliseconds kSlice(5);
  while (!done()) {
    const auto waited = Clock::now() - begin;
    if (waited >= allowed) {
      throw sdk::Failure(YOKE_DEADLINE_EXCEEDED, "the null stream's delayed work was not done in time");
    }
    std::this_thread::sleep_for(std::min<Clock::duration>({kSlice, ready - Clock::now(), allowed - waited}));
  }
}

void Point::join(const Point& other) {
  ready = std::max(ready, other.ready);
  if (!failure) {
    failure = other.failure;
  }
}

Point Stream::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

bool Stream::done() {
  return end().done();
}

void Stream::wait(std::uint64_t timeout_ns) {
  end().wait(timeout_ns);
}

std::unique_ptr<sdk::Event> Stream::record() {
  return std::make_unique<Event>(end());
}

void Stream::wait_event(sdk::Event& event) {
  const std::lock_guard lock(mutex_);
  end_.join(static_cast<Event&>(event).point());
}

void Stream::poison(const sdk::Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!end_.failure) {
    end_.failure = failure;
  }
}

void Stream::pause(std::uint64_t delay_ns) {
  const std::lock_guard lock(mutex_);
  constexpr std::uint64_t kMost = 3'600'000'000'000U;  // an hour
  end_.ready = std::max(end_.ready, Clock::now()) + std::chrono::nanoseconds(std::min(delay_ns, kMost));
}

std::uint64_t Event::elapsed_since(sdk::Event& start) {
  const auto elapsed = point_.ready - static_cast<Event&>(start).point_.ready;
  if (elapsed.count() < 0) {
    throw sdk::Failure(YOKE_INVALID_ARGUMENT, "the start event was recorded after the stop event");
  }
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(elapsed).count());
}

Code::Code(std::string_view text) {
  for (program::Program& source : sdk::read_program(text).programs) {
    sdk::Entry entry = sdk::entry_of(source);
    entry.workspace_byte_count = temporaries_byte_count(source);
    entry.fingerprint = "null-" + program::fingerprint(program::Module{{std::move(source)}});
    entries_.push_back(std::move(entry));
  }
}

std::unique_ptr<sdk::Routine> Code::link(std::uint32_t, std::span<const sdk::Binding>, const sdk::Binding&) {
  return std::make_unique<Routine>();
}

std::unique_ptr<sdk::Code> Device::compile(std::string_view text) {
  return std::make_unique<Code>(text);
}

std::vector<sdk::Verdict> Device::can_compile(std::string_view text) {
  std::vector<sdk::Verdict> verdicts;
  const program::Module module = sdk::read_program(text);
  for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
    for (std::uint32_t s = 0; s < module.programs[p].statements.size(); ++s) {
      verdicts.push_back({p, s, YOKE_VERDICT_NATIVE, "null computes nothing"});
    }
  }
  return verdicts;
}

std::unique_ptr<sdk::Stream> Device::create_stream(std::int32_t) {
  return std::make_unique<Stream>(aborted_);
}

sdk::DeviceInfo Backend::describe(std::uint32_t ordinal) {
  sdk::DeviceInfo info;
  info.name = "null device, computes nothing";
  info.unique_id = "null:" + std::to_string(ordinal);
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_size > 0) {
    info.memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size);
  }
  info.types = {YOKE_F64, YOKE_F32, YOKE_F16, YOKE_BF16, YOKE_I64, YOKE_I32, YOKE_U32, YOKE_U8, YOKE_BOOL};
  info.suggested_stream_count = 2;
  info.host_visible = true;
  return info;
}

std::vector<sdk::OptionSpec> Backend::option_specs() {
  return {sdk::OptionSpec::integer("memory_limit", "Bytes that buffers of the device may take; 0: no limit.",
                                   0, 0, std::numeric_limits<std::int64_t>::max())};
}

std::unique_ptr<sdk::Device> Backend::open_device(std::uint32_t ordinal, const sdk::Options& options) {
  host().log(YOKE_LOG_DEBUG, "device.open backend=null device=" + std::to_string(ordinal));
  return std::make_unique<Device>(static_cast<std::uint64_t>(options.integer("memory_limit")));
}

}  // namespace yoke::null
