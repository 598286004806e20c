// SPDX-License-Identifier: Apache-2.0
// device.cpp: what an opened device makes.
#include "device.h"

#include <utility>

#include "code.h"

namespace ocl {

Device::Device(std::shared_ptr<Context> context, DeviceOptions options, const yoke::sdk::Host& host)
    : context_(std::move(context)),
      hub_(std::make_shared<Hub>()),
      options_(std::move(options)),
      host_(host),
      immediate_(context_, hub_) {}

std::unique_ptr<yoke::sdk::Buffer> Device::create_buffer(std::uint64_t byte_count, std::int32_t kind) {
  if (kind != YOKE_MEMORY_DEVICE) {
    throw yoke::sdk::Failure(
        YOKE_UNIMPLEMENTED,
        "OpenCL maps and unmaps what the host may address; there is no memory that both address "
        "at all times, use YOKE_MEMORY_DEVICE");
  }
  return std::make_unique<Buffer>(*this, byte_count);
}

std::unique_ptr<yoke::sdk::Code> Device::compile(std::string_view text) {
  return std::make_unique<Code>(*this, text);
}

std::vector<yoke::sdk::Verdict> Device::can_compile(std::string_view text) {
  return verdicts(hardware(), text);
}

std::unique_ptr<yoke::sdk::Stream> Device::create_stream(std::int32_t) {
  hub_->check();
  return std::make_unique<Stream>(context_, hub_);
}

void Device::submit(yoke::sdk::Stream* stream, const Label& label, const Enqueue& work) {
  if (stream == nullptr) {
    immediate_.run(label, work);
  } else {
    static_cast<Stream*>(stream)->enqueue(label, work);
  }
}

}  // namespace ocl
