// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/backend.cpp: opens devices and creates their objects.
#include "backend.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "buffer.h"
#include "code_cache.h"
#include "communicator.h"
#include "context.h"
#include "routine.h"
#include "stream.h"

namespace yoke::gpu {
namespace {

struct DeviceOptions {
  std::uint64_t memory_limit = 0;
  CodeOptions code;
};

class Device final : public sdk::Device {
 public:
  Device(std::shared_ptr<Context> context, DeviceOptions options)
      : context_(std::move(context)), options_(std::move(options)) {}

  std::uint64_t memory_limit() override {
    return options_.memory_limit != 0 ? options_.memory_limit : context_->hardware().info.memory_bytes;
  }
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind) override {
    if (kind != YOKE_MEMORY_DEVICE) {
      throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED,
                         "the backend has no unified memory; use device memory and copies");
    }
    return std::make_unique<Buffer>(context_, byte_count);
  }
  bool peer_access(sdk::Device& other) override {
    return context_->can_access(*static_cast<Device&>(other).context_);
  }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    return std::make_unique<Code>(context_, text, options_.code);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    return verdicts(*context_, text, options_.code.plan);
  }
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t priority) override;
  void abort() override;

  void* pinned_allocate(std::uint64_t byte_count) override {
    const Current current = context_->enter();
    return context_->watch([&] { return context_->machine().host_memory().allocate(byte_count); });
  }
  void pinned_free(void* memory) noexcept override {
    if (const Current current = context_->try_enter()) {
      context_->machine().host_memory().free(memory);
    }
  }
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override {
    return std::make_unique<Buffer>(context_, memory);
  }
  sdk::Native native() override {
    const Peer peer = context_->peer();
    return {context_->vendor().facts().name, static_cast<std::uint64_t>(peer.device),
            reinterpret_cast<std::uintptr_t>(peer.context)};
  }
  bool can_fail(std::int32_t) override { return true; }

  sdk::CollectivesInfo collectives() override;
  sdk::GroupId create_group_id() override { return Communicator::make_group_id(comm()); }
  std::unique_ptr<sdk::Communicator> join_group(const sdk::GroupId& id, std::uint32_t rank,
                                                std::uint32_t size) override {
    return std::make_unique<Communicator>(context_, id, rank, size);
  }

 private:
  const Comm& comm();

  std::shared_ptr<Context> context_;
  DeviceOptions options_;
  std::mutex mutex_;
  std::optional<sdk::Failure> failure_;  // the abort of this handle
  std::vector<std::weak_ptr<Timeline>> timelines_;
};

std::unique_ptr<sdk::Stream> Device::create_stream(std::int32_t priority) {
  const Current current = context_->enter();
  int least = 0;
  int greatest = 0;  // the highest priority has the lowest number
  context_->call(context_->driver().stream_priorities, &least, &greatest);
  const int level = priority >= 0 ? std::max(greatest, -std::min(priority, 1000)) : least;
  const std::lock_guard lock(mutex_);
  auto timeline = std::make_shared<Timeline>(context_, std::clamp(level, greatest, least), failure_);
  std::erase_if(timelines_, [](const auto& weak) { return weak.expired(); });
  timelines_.push_back(timeline);
  context_->add(timeline);
  return std::make_unique<Stream>(std::move(timeline));
}

// The library is opened here, at its first use: it starts threads and takes a while.
const Comm& Device::comm() {
  Library& library = context_->machine().library();
  const Comm* const found = library.comm();
  if (found == nullptr) {
    throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED, library.comm_fault());
  }
  return *found;
}

sdk::CollectivesInfo Device::collectives() {
  (void)comm();
  const std::vector<std::int32_t> types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16,
                                           YOKE_TYPE_I64, YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8};
  return {.sum_types = types,
          .order_types = types,
          .sum_order = YOKE_SUM_ORDER_ANY,
          .features = YOKE_COLLECTIVES_PROCESSES,
          .member_limit = static_cast<std::uint32_t>(context_->machine().devices().size())};
}

void Device::abort() {
  const sdk::Failure failure(YOKE_STATUS_ABORTED, "the device was aborted; close it and open it again");
  std::vector<std::weak_ptr<Timeline>> timelines;
  {
    const std::lock_guard lock(mutex_);
    failure_.emplace(failure);
    timelines = timelines_;
  }
  for (const auto& weak : timelines) {
    if (const auto timeline = weak.lock()) {
      timeline->cancel(failure);
    }
  }
}

}  // namespace

sdk::Provides Backend::provides() const {
  return {.streams = true,
          .programs = true,
          .peers = true,
          .memory = true,
          .faults = true,
          .collectives = true,
          .profile = true};
}

Machine& Backend::machine() const {
  std::call_once(made_, [this] { machine_ = std::make_shared<Machine>(make_vendor(), host()); });
  return *machine_;
}

std::vector<sdk::OptionSpec> Backend::option_specs() {
  return {
      sdk::OptionSpec::integer(
          "memory_limit", "Maximum number of bytes that the device's buffers may use; 0: all its memory.", 0,
          0, INT64_MAX),
      sdk::OptionSpec::integer(
          "kept_memory",
          "Bytes of freed device memory that are kept for later buffers; -1: an eighth of "
          "the device's memory.",
          -1, -1, INT64_MAX),
      sdk::OptionSpec::text(
          "cache", "Cache of compiled kernels on disk: on ($XDG_CACHE_HOME/yoke), off, or a folder.", "on"),
      sdk::OptionSpec::integer("cache_limit", "Maximum size of the cache on disk, in bytes.",
                               std::int64_t{1} << 28, 0, INT64_MAX),
      sdk::OptionSpec::flag(
          "graphs", "Launch routines with several kernels as graphs from the second launch on.", true),
      sdk::OptionSpec::flag(
          "vendor", "Let the vendor's library compute products of matrices, if it is installed.", true),
      sdk::OptionSpec::flag("vendor_relu", "Let the library also apply relu, which may turn NaN into 0.",
                            false),
      sdk::OptionSpec::flag(
          "vendor_convolution",
          "Let the vendor's library compute convolutions, if it is installed; with infinite "
          "factors, padding may become NaN.",
          false),
      sdk::OptionSpec::flag(
          "vendor_attention",
          "Let cuDNN, if it is installed, compute attention in bf16 and f16; it rounds in other places than "
          "kernels do. No effect with hip.",
          false),
      sdk::OptionSpec::flag(
          "atomics", "Let scatters add with atomics: in any order, so results may differ from run to run.",
          false),
      sdk::OptionSpec::flag("wgmma",
                            "Let kernels for products in bf16 and f16 use wgmma, which only devices of "
                            "compute capability 9.0 have. No effect on other devices.",
                            false),
      sdk::OptionSpec::flag("fused_attention",
                            "Let yoke's kernels compute attention in bf16 and f16 without storing scores, if "
                            "no library computes "
                            "it; rounding differs from that of the statements. Needs compute capability 8.0 "
                            "or higher. No effect "
                            "with hip.",
                            false),
      sdk::OptionSpec::flag("tf32", "Let the library round f32 factors to tf32, which has a 10-bit mantissa.",
                            false),
  };
}

std::unique_ptr<sdk::Device> Backend::open_device(std::uint32_t ordinal, const sdk::Options& options) {
  std::shared_ptr<Context> context = machine().context(ordinal);
  const Hardware& hardware = context->hardware();
  const std::int64_t kept = options.integer("kept_memory");
  const Current current = context->enter();
  context->pool().set_limit(kept < 0 ? hardware.info.memory_bytes / 8 : static_cast<std::uint64_t>(kept));
  const std::string name = machine().vendor().facts().name;
  DeviceOptions chosen;
  chosen.memory_limit = static_cast<std::uint64_t>(options.integer("memory_limit"));
  chosen.code.graphs = options.flag("graphs");
  chosen.code.plan = {{options.flag("vendor"), options.flag("tf32"), options.flag("vendor_relu"),
                       options.flag("vendor_convolution"), options.flag("vendor_attention")},
                      options.flag("atomics"),
                      options.flag("wgmma"),
                      options.flag("fused_attention")};
  chosen.code.cache = std::make_shared<CodeCache>(host(), CodeCache::folder_of(options.text("cache"), name),
                                                  static_cast<std::uint64_t>(options.integer("cache_limit")));
  host().log(YOKE_LOG_INFO, "device.open backend=" + name + " device=" + std::to_string(ordinal) +
                                " name=\"" + hardware.info.name +
                                "\" memory=" + std::to_string(hardware.info.memory_bytes));
  return std::make_unique<Device>(std::move(context), std::move(chosen));
}

void Backend::queue_collectives(std::span<const sdk::Collective> rows) {
  Communicator::queue(*machine().library().comm(), rows);
}

}  // namespace yoke::gpu
