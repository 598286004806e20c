// SPDX-License-Identifier: Apache-2.0
// device.cpp: creates the objects of an open device.
#include "device.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "code.h"

namespace ocl {

Context::Context(const Hardware& device) : hardware(device) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(device.platform), 0};
  cl_int status = CL_SUCCESS;
  handle.reset(api().clCreateContext(properties, 1, &device.id, nullptr, nullptr, &status));
  check(status, "clCreateContext", "opening '" + device.info.name + "'");
}

Queue make_queue(const Context& context) {
  cl_int status = CL_SUCCESS;
  OwnedQueue queue(api().clCreateCommandQueue(context.handle.get(), context.hardware.id, 0, &status));
  check(status, "clCreateCommandQueue", "creating a queue");
  return queue;
}

void finish(cl_int status, const OwnedEvent& event, const char* call, const std::string& what) {
  check(status, call, what);
  cl_event waited = event.get();
  (void)api().clWaitForEvents(1, &waited);
  // The wait may fail while the work still runs, for example because the host is out of memory.
  for (;;) {
    cl_int state = CL_QUEUED;
    check(api().clGetEventInfo(waited, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr),
          "clGetEventInfo", what);
    if (state <= CL_COMPLETE) {
      check(state, call, what + " on the device");
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Device::Device(std::shared_ptr<Context> context, DeviceOptions options)
    : context_(std::move(context)), options_(std::move(options)), immediate_(make_queue(*context_)) {}

void Device::run(yoke::sdk::Stream* stream, std::function<void(cl_command_queue)> work) {
  const Queue& queue = stream == nullptr ? immediate_ : static_cast<Stream*>(stream)->queue();
  Stream::run(stream, [queue, work = std::move(work)] { work(queue.get()); });
}

void Device::submit(yoke::sdk::Stream* stream, const char* call, const char* what,
                    std::function<cl_int(cl_command_queue, cl_event*)> enqueue) {
  run(stream, [call, what, enqueue = std::move(enqueue)](cl_command_queue queue) {
    cl_event event = nullptr;
    const cl_int status = enqueue(queue, &event);
    finish(status, OwnedEvent(event), call, what);
  });
}

std::unique_ptr<yoke::sdk::Buffer> Device::create_buffer(std::uint64_t byte_count, std::int32_t kind) {
  if (kind != YOKE_MEMORY_DEVICE) {
    throw yoke::sdk::Failure(YOKE_STATUS_UNIMPLEMENTED,
                             "unsupported kind of memory: OpenCL 1.2 has none that host and device can "
                             "access at the same time; use "
                             "YOKE_MEMORY_DEVICE");
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
  return std::make_unique<Stream>(*context_, streams_);
}

void* Device::pinned_allocate(std::uint64_t byte_count) {
  const std::string what = "pinning " + std::to_string(byte_count) + " bytes of host memory";
  const std::uint64_t size = byte_count + YOKE_BUFFER_ALIGNMENT;  // drivers may align less
  if (size < byte_count || (hardware().max_buffer_bytes != 0 && size > hardware().max_buffer_bytes)) {
    return nullptr;
  }
  cl_int status = CL_SUCCESS;
  OwnedMemory memory(api().clCreateBuffer(context_->handle.get(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                          size, nullptr, &status));
  if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY) {
    return nullptr;
  }
  check(status, "clCreateBuffer", what);
  const std::lock_guard lock(mutex_);
  void* mapped = api().clEnqueueMapBuffer(immediate_.get(), memory.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                          0, size, 0, nullptr, nullptr, &status);
  check(status, "clEnqueueMapBuffer", what);
  void* aligned = mapped;
  std::size_t space = size;
  std::align(YOKE_BUFFER_ALIGNMENT, byte_count, aligned, space);
  pinned_.emplace(aligned, Pinned{std::move(memory), mapped});
  return aligned;
}

void Device::pinned_free(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = pinned_.find(memory);
  if (found != pinned_.end()) {
    (void)api().clEnqueueUnmapMemObject(immediate_.get(), found->second.memory.get(), found->second.mapped, 0,
                                        nullptr, nullptr);
    (void)api().clFinish(immediate_.get());
    pinned_.erase(found);
  }
}

std::unique_ptr<yoke::sdk::Buffer> Device::import_buffer(const yoke::sdk::Import& memory) {
  if (!hardware().is_cpu || memory.kind != YOKE_MEMORY_HOST) {
    throw yoke::sdk::Failure(YOKE_STATUS_UNIMPLEMENTED,
                             "unsupported memory: the plugin imports YOKE_MEMORY_HOST on CPUs only");
  }
  return std::make_unique<Buffer>(*this, memory);
}

yoke::sdk::Native Device::native() {
  return {"opencl", reinterpret_cast<std::uintptr_t>(hardware().id),
          reinterpret_cast<std::uintptr_t>(context_->handle.get())};
}

}  // namespace ocl
