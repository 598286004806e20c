// SPDX-License-Identifier: Apache-2.0
// device.h: an open device, its memory and its streams.
#pragma once

#include <yoke/sdk/plugin.h>
#include <yoke/sdk/worker_stream.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hardware.h"

namespace ocl {

// The OpenCL context of one device, shared by all its handles. Devices do not share a
// context: OpenCL moves a buffer of a shared context between devices as a whole, so writes of
// two devices to different parts would be lost.
struct Context {
  explicit Context(const Hardware& device);

  const Hardware& hardware;
  OwnedContext handle;
};

// A command queue of the context's device. Shared, because work that is queued on a stream uses the stream's queue.
using Queue = std::shared_ptr<std::remove_pointer_t<cl_command_queue>>;
Queue make_queue(const Context& context);

// Returns when the command has ended. Throws if `status` is an error (it was not queued), or if it failed.
void finish(cl_int status, const OwnedEvent& event, const char* call, const std::string& what);

// A thread of the SDK with a command queue. The thread waits for each command, so
// an abort skips all commands but the one that runs.
class Stream final : public yoke::sdk::WorkerStream {
 public:
  Stream(const Context& context, const std::shared_ptr<yoke::sdk::WorkerGroup>& group)
      : WorkerStream(group), context_(context), queue_(make_queue(context)) {}

  const Queue& queue() const noexcept { return queue_; }
  // The queue does not have the stream's pending work: wait for the stream before using it.
  yoke::sdk::Native native() override {
    return {"opencl", reinterpret_cast<std::uintptr_t>(queue_.get()),
            reinterpret_cast<std::uintptr_t>(context_.handle.get())};
  }

 private:
  const Context& context_;
  Queue queue_;
};

struct DeviceOptions {
  std::uint64_t memory_limit = 0;  // bytes; 0: no limit
  std::string build_options;       // in addition to the default options
  std::uint32_t statements_per_kernel = 1;
  std::uint64_t optimize_from = 0;  // optimize statements with at least this many iterations
};

class Device final : public yoke::sdk::Device {
 public:
  Device(std::shared_ptr<Context> context, DeviceOptions options);

  std::uint64_t memory_limit() override { return options_.memory_limit; }
  std::unique_ptr<yoke::sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind) override;
  // Handles of the same device share its context. Memory of other devices cannot be used in place.
  bool peer_access(yoke::sdk::Device& other) override {
    return static_cast<Device&>(other).context_ == context_;
  }
  std::unique_ptr<yoke::sdk::Code> compile(std::string_view text) override;
  std::vector<yoke::sdk::Verdict> can_compile(std::string_view text) override;
  std::unique_ptr<yoke::sdk::Stream> create_stream(std::int32_t priority) override;
  void abort() override { streams_->abort(); }
  // "yoke.memory/1". Memory can be imported only on CPUs, which work in host memory.
  void* pinned_allocate(std::uint64_t byte_count) override;
  void pinned_free(void* memory) noexcept override;
  std::unique_ptr<yoke::sdk::Buffer> import_buffer(const yoke::sdk::Import& memory) override;
  yoke::sdk::Native native() override;
  bool can_fail(std::int32_t) override { return true; }

  // Runs `work` in stream order with the queue of the stream. Without a stream, the work is done on return.
  void run(yoke::sdk::Stream* stream, std::function<void(cl_command_queue)> work);
  // As run, for one command: `enqueue` calls the function named `call` of OpenCL.
  void submit(yoke::sdk::Stream* stream, const char* call, const char* what,
              std::function<cl_int(cl_command_queue, cl_event*)> enqueue);

  const Hardware& hardware() const noexcept { return context_->hardware; }
  const std::shared_ptr<Context>& context() const noexcept { return context_; }
  const DeviceOptions& options() const noexcept { return options_; }

 private:
  // Memory of the driver that stays mapped.
  struct Pinned {
    OwnedMemory memory;
    void* mapped;
  };

  std::shared_ptr<Context> context_;
  std::shared_ptr<yoke::sdk::WorkerGroup> streams_ = std::make_shared<yoke::sdk::WorkerGroup>();
  DeviceOptions options_;
  Queue immediate_;  // of work without a stream
  std::mutex mutex_;
  std::map<void*, Pinned> pinned_;  // by the address that pinned_allocate returned
};

class Buffer final : public yoke::sdk::Buffer {
 public:
  Buffer(Device& device, std::uint64_t byte_count);
  // Memory of another library, used in place.
  Buffer(Device& device, const yoke::sdk::Import& memory);

  void* host_address() noexcept override { return host_address_; }
  std::int32_t from_host(yoke::sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override;
  void to_host(yoke::sdk::Stream* stream, std::uint64_t offset, void* target,
               std::uint64_t byte_count) override;
  void copy_from(yoke::sdk::Stream* stream, std::uint64_t offset, yoke::sdk::Buffer& source,
                 std::uint64_t source_offset, std::uint64_t byte_count) override;
  void fill(yoke::sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override;

  cl_mem memory() const noexcept { return memory_.get(); }

 private:
  Device& device_;
  OwnedMemory memory_;
  void* host_address_ = nullptr;  // of imported memory
};

}  // namespace ocl
