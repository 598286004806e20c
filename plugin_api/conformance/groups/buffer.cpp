// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/buffer.cpp: sizes, kinds, host addresses and accounting of buffers.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "groups.h"

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kSizes[] = {0,    1,    3,    63,       64,        65,           1000,
                                    4095, 4096, 4097, kMiB + 7, 16 * kMiB, 64 * kMiB + 1};

void sizes(Kit& kit) {
  Random random = kit.random();
  for (const std::uint64_t byte_count : kSizes) {
    const Buffer buffer(kit.device(), byte_count);
    const yoke_buffer_info info = buffer.describe();
    check_equal(info.byte_count, byte_count, "byte_count of a ", byte_count, "-byte buffer");
    check_equal(info.kind, YOKE_MEMORY_DEVICE, "the kind of a YOKE_MEMORY_DEVICE buffer");
    const std::uint64_t end = std::min<std::uint64_t>(byte_count, 100);
    const Bytes head = random.bytes(end);
    const Bytes tail = random.bytes(end);
    buffer.write(0, head);
    buffer.write(byte_count - end, tail);
    Bytes received(end);
    buffer.read(byte_count - end, received);
    check(received == tail, "the last bytes of a ", byte_count, "-byte buffer differ from what was written");
    if (byte_count >= 2 * end) {
      buffer.read(0, received);
      check(received == head, "the first bytes of a ", byte_count,
            "-byte buffer differ from what was written");
    }
  }
}

// Creates a YOKE_MEMORY_UNIFIED buffer and checks it, if the device has such memory.
Answer create_unified(const Device& device) {
  yoke_buffer* raw = nullptr;
  Answer answer = device.plugin().buffer_create(device.get(), 256, YOKE_MEMORY_UNIFIED, &raw);
  const BufferHandle owner(device.plugin(), answer.ok() ? raw : nullptr);
  if (answer.ok()) {
    yoke_buffer_info info = sized<yoke_buffer_info>();
    expect_ok(device.plugin().call<&yoke_backend_api::buffer_describe>(raw, &info), "describing a buffer");
    check(info.host_address != 0, "a YOKE_MEMORY_UNIFIED buffer has no host address");
    check_equal(info.kind, YOKE_MEMORY_UNIFIED, "the kind of a YOKE_MEMORY_UNIFIED buffer");
  }
  return answer;
}

void huge_sizes(Kit& kit) {
  Device& device = kit.device();
  const bool has_unified = create_unified(device).ok();
  const yoke_memory_info before = device.memory();
  std::vector<std::uint64_t> sizes;
  for (unsigned bit = 50; bit < 64; ++bit) {
    sizes.push_back(std::uint64_t{1} << bit);
  }
  for (const std::uint64_t below : {0U, 1U, 2U, 15U, 62U, 63U, 64U, 65U, 127U, 128U, 4095U, 4096U}) {
    sizes.push_back(UINT64_MAX - below);
    sizes.push_back(static_cast<std::uint64_t>(INT64_MAX) - below);
  }
  for (const std::uint64_t byte_count : sizes) {
    for (const std::int32_t kind : {YOKE_MEMORY_DEVICE, YOKE_MEMORY_UNIFIED}) {
      if (kind == YOKE_MEMORY_DEVICE || has_unified) {
        expect_no_buffer(device, byte_count, kind, YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                         text("creating a ", byte_count, "-byte buffer"));
      }
    }
  }
  check_equal(device.memory().used_bytes, before.used_bytes,
              "used_bytes after failed calls of buffer_create");
  check_equal(device.plugin().live_counts().buffers, 0U,
              "the number of live buffers after failed calls of buffer_create");
}

void kinds(Kit& kit) {
  Device& device = kit.device();
  const Buffer plain(device, 256);
  check(device.info().host_visible == 0 || plain.describe().host_address != 0,
        "host_visible of the device is 1, but a YOKE_MEMORY_DEVICE buffer has no host address");
  const Answer unified = create_unified(device);
  if (!unified.ok()) {
    expect_code(unified, YOKE_STATUS_UNIMPLEMENTED, "creating a YOKE_MEMORY_UNIFIED buffer");
    kit.note("no unified memory: " + unified.status.text);
  }
  for (const std::int32_t kind : {0, 3, -1, 77, std::numeric_limits<std::int32_t>::max()}) {
    expect_no_buffer(device, 256, kind, YOKE_STATUS_UNIMPLEMENTED,
                     text("creating a buffer of the unknown kind ", kind));
  }
}

std::byte* address_of(const Buffer& buffer) {
  const auto address = static_cast<std::uintptr_t>(buffer.describe().host_address);
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

void host_addresses(Kit& kit) {
  Random random = kit.random();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  std::vector<Buffer> alive;
  std::vector<std::uint64_t> sizes(std::begin(kSizes), std::end(kSizes));
  for (int i = 0; i < 300; ++i) {  // a backend may have classes of sizes
    sizes.push_back(1 + random.below(std::uint64_t{16} << random.below(13)));
  }
  for (const std::uint64_t byte_count : sizes) {
    alive.emplace_back(kit.device(), byte_count);
    std::byte* const address = address_of(alive.back());
    if (address == nullptr) {
      unsupported("the device's buffers have no host address");
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    check(begin % YOKE_BUFFER_ALIGNMENT == 0, "the host address of a ", byte_count,
          "-byte buffer is not a multiple of ", YOKE_BUFFER_ALIGNMENT);
    check(address == address_of(alive.back()), "the host address of a buffer changed");
    ranges.emplace_back(begin, begin + byte_count);
    const Bytes sent = random.bytes(std::min<std::uint64_t>(byte_count, 500));
    alive.back().write(0, sent);
    check(std::equal(sent.begin(), sent.end(), address),
          "the memory at the host address differs from what from_host wrote");
    if (byte_count != 0) {
      address[byte_count - 1] = std::byte{0x3c};
      Bytes last(1);
      alive.back().read(byte_count - 1, last);
      check(last[0] == std::byte{0x3c}, "to_host does not return what the host wrote at the host address");
    }
  }
  check_disjoint(std::move(ranges), "two live buffers overlap in memory");
}

void memory_accounting(Kit& kit) {
  Device& device = kit.device();
  Random random = kit.random();
  const yoke_memory_info before = device.memory();
  std::uint64_t sum = 0;
  std::uint64_t most = before.peak_bytes;
  std::vector<Buffer> alive;
  for (int i = 0; i < 300; ++i) {
    if (!alive.empty() && random.chance(3)) {
      const std::size_t at = random.below(alive.size());
      sum -= alive[at].byte_count();
      std::swap(alive[at], alive.back());
      alive.pop_back();
    } else {
      alive.emplace_back(device, random.below(random.chance(10) ? 4 * kMiB : 5000));
      sum += alive.back().byte_count();
    }
    const yoke_memory_info now = device.memory();
    check(now.used_bytes >= before.used_bytes + sum, "used_bytes is ", now.used_bytes, " with ", sum,
          " bytes in live buffers; it was ", before.used_bytes, " without them");
    most = std::max(most, now.used_bytes);
    check_equal(now.peak_bytes, most, "peak_bytes, the most that used_bytes has been,");
    check(now.limit_bytes == 0 || now.used_bytes <= now.limit_bytes, "used_bytes ", now.used_bytes,
          " exceeds limit_bytes ", now.limit_bytes);
  }
  alive.clear();
  check_equal(device.memory().used_bytes, before.used_bytes, "used_bytes after every buffer was destroyed");
  expect_no_buffer(device, std::uint64_t{1} << 60U, YOKE_MEMORY_DEVICE, YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                   "creating a huge buffer");
  check_equal(device.memory().peak_bytes, most,
              "peak_bytes after buffers were destroyed and one was refused");
}

void memory_limit(Kit& kit) {
  Device& device = kit.device();
  const yoke_memory_info memory = device.memory();
  if (memory.limit_bytes == 0) {
    unsupported("the device has no memory limit (limit_bytes is 0)");
  }
  for (const std::uint64_t more : {std::uint64_t{1}, std::uint64_t{4096}, kMiB}) {
    expect_no_buffer(device, memory.limit_bytes - memory.used_bytes + more, YOKE_MEMORY_DEVICE,
                     YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                     text("creating a buffer that exceeds the memory limit by ", more, " bytes"));
  }
  check_equal(device.memory().used_bytes, memory.used_bytes, "used_bytes after a failed buffer_create");
}

// Creates `count` buffers of `byte_count` bytes together, and checks that they do not share memory. Returns false if
// the device has too little memory.
bool create_together(Device& device, std::uint64_t byte_count, std::uint64_t count) {
  std::vector<Buffer> alive;
  for (std::uint64_t i = 0; i < count; ++i) {
    yoke_buffer* raw = nullptr;
    const Answer answer = device.plugin().buffer_create(device.get(), byte_count, YOKE_MEMORY_DEVICE, &raw);
    if (answer.code == YOKE_STATUS_OUT_OF_DEVICE_MEMORY) {
      return false;
    }
    alive.emplace_back(device.plugin(), BufferHandle(device.plugin(), answer, raw, "creating a buffer"),
                       byte_count);
  }
  const auto mark_of = [](std::uint64_t i) { return Bytes(8, static_cast<std::byte>(i + 1)); };
  for (std::uint64_t i = 0; i < count; ++i) {
    alive[i].write(0, mark_of(i));
    alive[i].write(byte_count - 8, mark_of(i));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    Bytes there(16);
    alive[i].read(0, std::span(there).first(8));
    alive[i].read(byte_count - 8, std::span(there).last(8));
    check(std::all_of(there.begin(), there.end(), [&](std::byte byte) { return byte == mark_of(i)[0]; }),
          "buffer ", i, " of ", count, " of ", byte_count, " bytes shares memory with another");
  }
  return true;
}

// Fills most of the memory with buffers of one size, then of another. Freed memory must serve every size.
void reuse(Kit& kit) {
  Device& device = kit.device();
  const yoke_memory_info memory = device.memory();
  const yoke_device_info info = device.info();
  std::uint64_t total = memory.limit_bytes != 0 ? memory.limit_bytes - memory.used_bytes : info.memory_bytes;
  // The memory of the host belongs to other processes, too.
  if (total == 0 || (info.kind == YOKE_DEVICE_CPU && memory.limit_bytes == 0)) {
    total = std::min(total == 0 ? 1024 * kMiB : total, 1024 * kMiB);
  }
  total = total / 8 * 7;
  while (total > kMiB && !create_together(device, total, 1)) {
    total /= 2;
  }
  for (const std::uint64_t count : {2U, 5U, 31U, 3U, 1U}) {
    const std::uint64_t byte_count = total / count / kMiB * kMiB * 15 / 16 + 4096;
    kit.progress(text(count, " buffers of ", byte_count, " bytes"));
    check(byte_count * count > total || create_together(device, byte_count, count),
          "the device has no memory for ", count, " buffers of ", byte_count,
          " bytes, although one buffer of ", total, " bytes could be created before");
  }
  check_equal(device.memory().used_bytes, memory.used_bytes, "used_bytes after every buffer was destroyed");
}

}  // namespace

std::vector<Test> buffer_tests() {
  return {
      {"sizes", "buffers of 0, 1, odd and large sizes hold what is written to both ends", {16}, sizes},
      {"huge-sizes",
       "sizes that exceed any machine's memory are OUT_OF_DEVICE_MEMORY and leak nothing",
       {10, 11, 13},
       huge_sizes},
      {"kinds", "a buffer has the requested kind of memory; other kinds are UNIMPLEMENTED", {10}, kinds},
      {"host-addresses",
       "a host address is a multiple of 256, does not change, and points to the buffer's memory",
       {42},
       host_addresses},
      {"memory-accounting",
       "used_bytes counts the live buffers, and peak_bytes is the most that it has been",
       {26},
       memory_accounting},
      {"reuse", "memory of destroyed buffers can be used for buffers of any other size", {26}, reuse},
      {"memory-limit", "a buffer that exceeds limit_bytes is OUT_OF_DEVICE_MEMORY", {26}, memory_limit},
  };
}

}  // namespace yoke::conformance
