// SPDX-License-Identifier: Apache-2.0
// plugins/null/null.cpp: programs are read, verified and described, and launched for nothing.
#include "null.h"

#include <unistd.h>
#include <yoke/sdk/program.h>

#include <limits>
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

void check_not_aborted(const std::atomic<bool>& aborted) {
  if (aborted.load()) {
    throw sdk::Failure(YOKE_ABORTED, "the null device was aborted; close it and open it again");
  }
}

}  // namespace

bool Stream::done() {
  check_not_aborted(*aborted_);
  return true;
}

void Stream::wait(std::uint64_t) {
  check_not_aborted(*aborted_);
}

std::unique_ptr<sdk::Event> Stream::record() {
  return std::make_unique<Event>(aborted_);
}

void Stream::wait_event(sdk::Event&) {}

bool Event::done() {
  check_not_aborted(*aborted_);
  return true;
}

void Event::wait(std::uint64_t) {
  check_not_aborted(*aborted_);
}

std::uint64_t Event::elapsed_since(sdk::Event& start) {
  const auto elapsed = recorded_ - static_cast<Event&>(start).recorded_;
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
