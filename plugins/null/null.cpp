// SPDX-License-Identifier: Apache-2.0
// plugins/null/null.cpp: reads, verifies and describes programs; launches do nothing.
#include "null.h"

#include <unistd.h>
#include <yoke/sdk/program.h>

#include <limits>
#include <string>
#include <utility>

namespace yoke::null {
namespace {

// The workspace of a backend that keeps every temporary in memory, so
// that the host has to allocate a workspace.
std::uint64_t temporaries_byte_count(const program::Program& source) {
  std::uint64_t byte_count = 0;
  for (const program::Tensor& tensor : source.tensors) {
    if (tensor.role == program::Role::kTemp) {
      const std::uint64_t blocks = (tensor.byte_count() + YOKE_BUFFER_ALIGNMENT - 1) / YOKE_BUFFER_ALIGNMENT;
      byte_count += blocks * YOKE_BUFFER_ALIGNMENT;
    }
  }
  return byte_count;
}

}  // namespace

void Event::wait(std::uint64_t) {
  if (failure_) {
    throw sdk::Failure(*failure_);
  }
}

std::uint64_t Event::elapsed_since(sdk::Event& start) {
  const auto elapsed = time_ - static_cast<Event&>(start).time_;
  if (elapsed.count() < 0) {
    throw sdk::Failure(YOKE_STATUS_INVALID_ARGUMENT, "the start event was recorded after the stop event");
  }
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(elapsed).count());
}

std::optional<sdk::Failure> Stream::failure() const {
  const std::lock_guard lock(mutex_);
  if (!failure_ && device_aborted_->load()) {
    return sdk::Failure(YOKE_STATUS_ABORTED, "the device was aborted; close it and open it again");
  }
  return failure_;
}

void Stream::wait(std::uint64_t) {
  if (const auto failed = failure()) {
    throw sdk::Failure(*failed);
  }
}

std::unique_ptr<sdk::Event> Stream::record(bool) {
  return std::make_unique<Event>(failure());
}

void Stream::wait_event(sdk::Event& event) {
  if (const auto& failed = static_cast<Event&>(event).failure()) {
    poison(*failed);
  }
}

void Stream::poison(const sdk::Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) {
    failure_ = failure;
  }
}

void Stream::abort() {
  poison({YOKE_STATUS_ABORTED, "the stream was aborted; destroy it and create another"});
}

// A backend with a real queue queues the call instead.
void Stream::host_callback(yoke_host_callback_fn callback, void* user) {
  const auto failed = failure();
  callback(user, failed ? failed->code() : YOKE_STATUS_OK);
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

std::unique_ptr<sdk::Buffer> Device::import_buffer(const sdk::Import& memory) {
  return std::make_unique<sdk::HostBuffer>(memory);
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
  info.types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16, YOKE_TYPE_I64,
                YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8,  YOKE_TYPE_BOOL};
  info.suggested_stream_count = 2;
  info.host_visible = true;
  return info;
}

std::vector<sdk::OptionSpec> Backend::option_specs() {
  return {
      sdk::OptionSpec::integer("devices", "Number of devices.", 1, 0, 64).for_plugin(),
      sdk::OptionSpec::integer("memory_limit",
                               "Maximum number of bytes that the device's buffers may use; 0: no limit.", 0,
                               0, std::numeric_limits<std::int64_t>::max()),
  };
}

void Backend::configure(const sdk::Options& options) {
  device_count_ = static_cast<std::uint32_t>(options.integer("devices"));
}

std::string Backend::why_no_device() {
  return "the plugin option devices is 0; leave it out, or set it to 1 or more";
}

std::unique_ptr<sdk::Device> Backend::open_device(std::uint32_t ordinal, const sdk::Options& options) {
  host().log(YOKE_LOG_DEBUG, "device.open backend=null device=" + std::to_string(ordinal));
  return std::make_unique<Device>(static_cast<std::uint64_t>(options.integer("memory_limit")));
}

}  // namespace yoke::null
