// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/memory_classes.cpp: frees and recreates memory of every kind and size, and creates
// memory after refused calls.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>

#include "foreign.h"
#include "groups.h"

namespace yoke::conformance {
namespace {

enum class MemoryClass : std::uint8_t { kDevice, kUnified, kPinned };

constexpr const char* name_of(MemoryClass kind) {
  return kind == MemoryClass::kDevice ? "device" : kind == MemoryClass::kUnified ? "unified" : "pinned";
}

// Memory that a test has filled, with its range of addresses if the backend reports one.
class Block {
 public:
  Block(Device& device, Random& random, MemoryClass kind, std::uint64_t byte_count)
      : kind_(kind), contents_(random.bytes(byte_count)) {
    if (kind == MemoryClass::kPinned) {
      pinned_ = std::make_unique<Pinned>(device, byte_count);
      std::copy(contents_.begin(), contents_.end(), pinned_->bytes.begin());
      begin_ = number_of(pinned_->bytes.data());
    } else {
      buffer_ = Buffer(device, byte_count,
                       kind == MemoryClass::kUnified ? YOKE_MEMORY_UNIFIED : YOKE_MEMORY_DEVICE);
      buffer_.write(0, contents_);
      begin_ = buffer_.describe().host_address;
      check(begin_ % YOKE_BUFFER_ALIGNMENT == 0, "the host address of a ", byte_count,
            "-byte buffer is not a multiple of ", YOKE_BUFFER_ALIGNMENT, " after others were destroyed");
    }
  }

  std::pair<std::uint64_t, std::uint64_t> range() const { return {begin_, begin_ + contents_.size()}; }
  bool has_address() const { return begin_ != 0; }
  void check_contents() const {
    const Bytes now =
        pinned_ != nullptr ? Bytes(pinned_->bytes.begin(), pinned_->bytes.end()) : buffer_.contents();
    check(now == contents_, contents_.size(), " bytes of ", name_of(kind_),
          " memory changed while the test created and freed other memory");
  }

 private:
  MemoryClass kind_;
  Bytes contents_;
  std::unique_ptr<Pinned> pinned_;
  Buffer buffer_;
  std::uint64_t begin_ = 0;
};

bool has_unified(const Device& device) {
  yoke_buffer* raw = nullptr;
  const bool is_ok = device.plugin().buffer_create(device.get(), 64, YOKE_MEMORY_UNIFIED, &raw).ok();
  BufferHandle(device.plugin(), is_ok ? raw : nullptr).reset();
  return is_ok;
}

// A backend may keep freed memory in classes of sizes. Sizes around one power of two come and go, then those around the
// next, so that most blocks are in memory that another size had before.
void classes(Kit& kit) {
  Device& device = kit.device();
  Random random = kit.random();
  std::vector<MemoryClass> kinds = {MemoryClass::kDevice};
  if (kit.plugin().has_table<yoke_memory_api>() && kit.plugin().has<&yoke_memory_api::pinned_allocate>()) {
    kinds.push_back(MemoryClass::kPinned);
  }
  if (has_unified(device)) {
    kinds.push_back(MemoryClass::kUnified);
  }
  const std::uint64_t used = device.memory().used_bytes;
  std::list<Block> live;
  const auto destroy_one = [&] {
    const auto one = std::next(live.begin(), static_cast<std::ptrdiff_t>(random.below(live.size())));
    one->check_contents();
    live.erase(one);
  };
  for (unsigned power = 5; power <= 21; ++power) {
    const std::uint64_t size = std::uint64_t{1} << power;
    kit.progress(text("sizes about ", size));
    const std::uint64_t sizes[] = {size,
                                   size - 1,
                                   size + 1,
                                   size / 2 + 1,
                                   size / 2,
                                   size / 4 * 3,
                                   size + size / 2 + 1,
                                   size / 2 + size / 16};
    for (int step = 0; step < (power < 17 ? 50 : 12); ++step) {
      if (live.size() > (power < 17 ? 24U : 8U)) {
        destroy_one();
        destroy_one();
      }
      live.emplace_back(device, random, kinds[random.below(kinds.size())],
                        sizes[random.below(std::size(sizes))]);
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (const Block& block : live) {
      if (block.has_address()) {
        ranges.push_back(block.range());
      }
    }
    check_disjoint(std::move(ranges), "live memory overlaps other live memory");
    for (const Block& block : live) {
      block.check_contents();
    }
    while (live.size() > 6) {
      destroy_one();
    }
  }
  live.clear();
  check_equal(device.memory().used_bytes, used, "used_bytes after all memory was freed");
}

// Calls that must fail, one of each kind.
class Refusals {
 public:
  explicit Refusals(Kit& kit)
      : device_(kit.device()), plugin_(kit.plugin()), buffer_(device_, 64), limit_(device_.memory()) {}

  static constexpr int kKinds = 9;
  // Returns what was refused.
  std::string refuse(int kind, std::uint64_t round) {
    const unsigned bits = static_cast<unsigned>(round % 13);
    std::byte host[16]{};
    yoke_buffer* none = nullptr;
    switch (kind) {
      case 0:
        return refused(
            plugin_.buffer_create(device_.get(), std::uint64_t{1} << (50 + bits), YOKE_MEMORY_DEVICE, &none),
            "a huge buffer");
      case 1:
        return refused(plugin_.buffer_create(device_.get(), UINT64_MAX - round, YOKE_MEMORY_DEVICE, &none),
                       "a buffer whose size overflows");
      case 2:
        return limit_.limit_bytes == 0 ? refuse(0, round)
                                       : refused(plugin_.buffer_create(device_.get(), limit_.limit_bytes + 1,
                                                                       YOKE_MEMORY_DEVICE, &none),
                                                 "a buffer beyond the memory limit");
      case 3:
        return refused(plugin_.buffer_create(device_.get(), std::uint64_t{4096} << bits, 77, &none),
                       "a buffer of an unknown kind");
      case 4:
        return refused(plugin_.from_host(nullptr, buffer_.get(), 60, host, 8, nullptr),
                       "a from_host out of range");
      case 5:
        return refused(plugin_.to_host(nullptr, buffer_.get(), 65, host, 1), "a to_host out of range");
      case 6:
        return plugin_.has<&yoke_backend_api::fill>()
                   ? refused(plugin_.fill(nullptr, buffer_.get(), 0, 64, host, 3), "a fill of 3 bytes")
                   : refuse(4, round);
      case 7: {
        if (!plugin_.has_table<yoke_memory_api>() || !plugin_.has<&yoke_memory_api::pinned_allocate>()) {
          return refuse(0, round);
        }
        const yoke_pinned_args args = {sizeof args, 0, std::uint64_t{1} << (50 + bits)};
        void* raw = nullptr;
        return refused(plugin_.call<&yoke_memory_api::pinned_allocate>(device_.get(), &args, &raw),
                       "huge pinned memory");
      }
      default: {
        yoke_buffer_args args = buffer_args(std::uint64_t{4096} << bits, YOKE_MEMORY_DEVICE);
        args.flags = std::uint64_t{1} << 40U;
        return refused(plugin_.call<&yoke_backend_api::buffer_create>(device_.get(), &args, &none),
                       "a buffer with an unknown flag");
      }
    }
  }

 private:
  static std::string refused(const Answer& answer, const char* what) {
    expect_refused(answer, what);
    return what;
  }

  Device& device_;
  const Plugin& plugin_;
  Buffer buffer_;
  yoke_memory_info limit_;
};

// A refused call does not reduce what the device can create.
void after_refusals(Kit& kit) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
  Device& device = kit.device();
  Random random = kit.random();
  const yoke_memory_info before = device.memory();
  // Without a limit, other processes may use memory of the device at the same time.
  std::uint64_t large = 64 * kMiB;
  if (before.limit_bytes != 0) {
    large = std::min(512 * kMiB, (before.limit_bytes - before.used_bytes) / 2);
  }
  const auto can_create = [&](std::uint64_t byte_count) {
    yoke_buffer* raw = nullptr;
    const Answer answer = kit.plugin().buffer_create(device.get(), byte_count, YOKE_MEMORY_DEVICE, &raw);
    BufferHandle(kit.plugin(), answer.ok() ? raw : nullptr).reset();
    return answer.ok();
  };
  while (large > kMiB && !can_create(large)) {
    large /= 2;
  }
  Refusals refusals(kit);
  const std::uint64_t used = device.memory().used_bytes;
  const std::uint64_t alive = kit.plugin().live_counts().buffers;
  for (int kind = 0; kind < Refusals::kKinds; ++kind) {
    std::string what;
    for (std::uint64_t round = 0; round < 40; ++round) {
      what = refusals.refuse(kind, round);
      const Buffer small(device, 100 + round * 37);
      const Bytes sent = random.bytes(small.byte_count());
      small.write(0, sent);
      check(small.contents() == sent, "a buffer that was created after ", what,
            " was refused has wrong contents");
    }
    const yoke_memory_info now = device.memory();
    check_equal(now.used_bytes, used, "used_bytes after ", what, " was refused 40 times");
    check_equal(now.limit_bytes, before.limit_bytes, "limit_bytes after ", what, " was refused 40 times");
    check_equal(kit.plugin().live_counts().buffers, alive, "the number of live buffers after ", what,
                " was refused");
    check(can_create(large), "creating ", large, " bytes fails after ", what,
          " was refused 40 times, but succeeded before");
  }
}

}  // namespace

std::vector<Test> memory_class_tests() {
  return {
      {"classes",
       "memory of every kind and size keeps its contents while memory of other kinds and sizes is created "
       "and freed",
       {26, 42, 52},
       classes},
      {"after-refusals", "refused calls do not reduce what the device can create", {10, 26}, after_refusals}};
}

}  // namespace yoke::conformance
