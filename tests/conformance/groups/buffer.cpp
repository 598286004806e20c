// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/buffer.cpp: sizes, kinds, addresses, accounting.
#include <algorithm>
#include <cstring>
#include <limits>

#include "groups.h"
#include "sized.h"

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
    check_equal(info.byte_count, byte_count, "byte_count of a buffer of ", byte_count, " bytes");
    check_equal(info.kind, YOKE_MEMORY_DEVICE, "the kind of a buffer of YOKE_MEMORY_DEVICE");
    const std::uint64_t end = std::min<std::uint64_t>(byte_count, 100);
    const std::vector<std::byte> head = random.bytes(end);
    const std::vector<std::byte> tail = random.bytes(end);
    buffer.write(0, head);
    buffer.write(byte_count - end, tail);
    std::vector<std::byte> received(end);
    buffer.read(byte_count - end, received);
    check(received == tail, "the last bytes of a buffer of ", byte_count,
          " bytes are not those that were written");
    if (byte_count >= 2 * end) {
      buffer.read(0, received);
      check(received == head, "the first bytes of a buffer of ", byte_count,
            " bytes are not those that were written");
    }
  }
}

void absurd_sizes(Kit& kit) {
  Device& device = kit.device();
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
      yoke_buffer* const untouched = reinterpret_cast<yoke_buffer*>(&kit);
      yoke_buffer* buffer = untouched;
      const Answer answer =
          device.plugin().call<&yoke_backend_api::buffer_create>(device.get(), byte_count, kind, &buffer);
      const bool no_such_kind = kind == YOKE_MEMORY_UNIFIED && answer.code == YOKE_UNIMPLEMENTED;
      expect_code(answer, no_such_kind ? YOKE_UNIMPLEMENTED : YOKE_OUT_OF_DEVICE_MEMORY,
                  text("creating a buffer of ", byte_count, " bytes"));
      check(buffer == untouched, "buffer_create refused, and yet *out_buffer was written");
    }
  }
  check_equal(device.memory().used_bytes, before.used_bytes, "used_bytes after refused buffers");
  check_equal(device.plugin().live_counts().buffers, 0U, "live buffers after refused buffers");
}

void kinds(Kit& kit) {
  Device& device = kit.device();
  yoke_device_info info = sized<yoke_device_info>();
  expect_ok(device.plugin().call<&yoke_backend_api::device_describe>(device.plugin().get(),
                                                                     kit.settings().device, &info));
  const Buffer plain(device, 256);
  check((plain.describe().host_address != 0) >= (info.host_visible != 0),
        "the device says host_visible, but a buffer of YOKE_MEMORY_DEVICE has no host address");

  yoke_buffer* raw = nullptr;
  const Answer answer = device.plugin().call<&yoke_backend_api::buffer_create>(
      device.get(), std::uint64_t{256}, YOKE_MEMORY_UNIFIED, &raw);
  if (answer.ok()) {
    const Handle<yoke_buffer, &yoke_backend_api::buffer_destroy> owner(device.plugin(), raw);
    yoke_buffer_info unified = sized<yoke_buffer_info>();
    expect_ok(device.plugin().call<&yoke_backend_api::buffer_describe>(raw, &unified));
    check(unified.host_address != 0, "a buffer of YOKE_MEMORY_UNIFIED has no host address");
    check_equal(unified.kind, YOKE_MEMORY_UNIFIED, "the kind of a buffer of YOKE_MEMORY_UNIFIED");
  } else {
    expect_code(answer, YOKE_UNIMPLEMENTED, "creating a buffer of YOKE_MEMORY_UNIFIED");
    kit.note("no unified memory: " + answer.status.text);
  }
  for (const std::int32_t kind : {0, 3, -1, 77, std::numeric_limits<std::int32_t>::max()}) {
    yoke_buffer* none = nullptr;
    expect_code(
        device.plugin().call<&yoke_backend_api::buffer_create>(device.get(), std::uint64_t{256}, kind, &none),
        YOKE_UNIMPLEMENTED, text("creating a buffer of the unknown kind ", kind));
    check(none == nullptr, "buffer_create refused, and yet *out_buffer was written");
  }
}

std::byte* address_of(const Buffer& buffer) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(buffer.describe().host_address));
}

void host_addresses(Kit& kit) {
  Random random = kit.random();
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
  std::vector<Buffer> alive;
  for (const std::uint64_t byte_count : kSizes) {
    alive.emplace_back(kit.device(), byte_count);
    std::byte* const address = address_of(alive.back());
    if (address == nullptr) {
      unsupported("buffers have no host address");
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    check(begin % 64 == 0, "the host address of a buffer of ", byte_count, " bytes is no multiple of 64");
    check(address == address_of(alive.back()), "a buffer's host address moved");
    ranges.emplace_back(begin, begin + byte_count);
    const std::vector<std::byte> sent = random.bytes(std::min<std::uint64_t>(byte_count, 500));
    alive.back().write(0, sent);
    check(std::equal(sent.begin(), sent.end(), address),
          "the host does not see at the address what from_host wrote");
    if (byte_count != 0) {
      address[byte_count - 1] = std::byte{0x3c};
      std::vector<std::byte> last(1);
      alive.back().read(byte_count - 1, last);
      check(last[0] == std::byte{0x3c}, "to_host does not see what the host wrote at the address");
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    check(ranges[i - 1].second <= ranges[i].first, "two living buffers overlap in memory");
  }
}

void memory_adds_up(Kit& kit) {
  Device& device = kit.device();
  Random random = kit.random();
  const yoke_memory_info before = device.memory();
  std::uint64_t sum = 0;
  std::uint64_t most = before.used_bytes;
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
          " bytes of living buffers and ", before.used_bytes, " before them");
    most = std::max(most, now.used_bytes);
    check(now.peak_bytes >= most, "peak_bytes is ", now.peak_bytes, ", but used_bytes was ", most);
    check(now.limit_bytes == 0 || now.used_bytes <= now.limit_bytes, "used_bytes is above limit_bytes");
  }
  alive.clear();
  const yoke_memory_info after = device.memory();
  check_equal(after.used_bytes, before.used_bytes, "used_bytes when every buffer is destroyed");
  check(after.peak_bytes >= most, "peak_bytes went down from ", most, " to ", after.peak_bytes);
}

void limit_holds(Kit& kit) {
  Device& device = kit.device();
  const yoke_memory_info memory = device.memory();
  if (memory.limit_bytes == 0) {
    unsupported("the device says that it has no limit (limit_bytes is 0)");
  }
  yoke_buffer* raw = nullptr;
  for (const std::uint64_t more : {std::uint64_t{1}, std::uint64_t{4096}, kMiB}) {
    const std::uint64_t byte_count = memory.limit_bytes - memory.used_bytes + more;
    expect_code(device.plugin().call<&yoke_backend_api::buffer_create>(device.get(), byte_count,
                                                                       YOKE_MEMORY_DEVICE, &raw),
                YOKE_OUT_OF_DEVICE_MEMORY, text("creating a buffer ", more, " bytes above the limit"));
  }
  check_equal(device.memory().used_bytes, memory.used_bytes, "used_bytes after a refused buffer");
}

void counted(Kit& kit) {
  Device& device = kit.device();
  std::vector<Buffer> alive;
  for (std::uint64_t i = 1; i <= 50; ++i) {
    alive.emplace_back(device, i);
    check_equal(device.plugin().live_counts().buffers, i, "live buffers");
  }
  while (!alive.empty()) {
    alive.pop_back();
    check_equal(device.plugin().live_counts().buffers, alive.size(), "live buffers");
  }
  device.plugin().call<&yoke_backend_api::buffer_destroy>(static_cast<yoke_buffer*>(nullptr));
  check_equal(device.plugin().live_counts().buffers, 0U, "live buffers after destroying NULL");
}

void description_sizes(Kit& kit) {
  const Buffer buffer(kit.device(), 100);
  check_sized<yoke_buffer_info>("buffer_describe", [&](yoke_buffer_info* info) {
    return kit.plugin().call<&yoke_backend_api::buffer_describe>(buffer.get(), info);
  });
}

// Many small buffers that come and go keep their own contents.
void many(Kit& kit) {
  Random random = kit.random();
  struct Known {
    Buffer buffer;
    std::vector<std::byte> bytes;
  };
  std::vector<Known> alive;
  for (int i = 0; i < 3000; ++i) {
    if (!alive.empty() && (alive.size() > 200 || random.chance(3))) {
      const std::size_t at = random.below(alive.size());
      check(alive[at].buffer.contents() == alive[at].bytes, "a buffer of ", alive[at].bytes.size(),
            " bytes lost its contents while others came and went");
      std::swap(alive[at], alive.back());
      alive.pop_back();
    } else {
      std::vector<std::byte> bytes = random.bytes(random.below(700));
      Buffer buffer(kit.device(), bytes.size());
      buffer.write(0, bytes);
      alive.push_back({std::move(buffer), std::move(bytes)});
    }
  }
}

}  // namespace

std::vector<Test> buffer_tests() {
  return {
      {"sizes", "buffers of 0, 1, odd and large sizes hold what is written to their ends", {16}, sizes},
      {"absurd-sizes",
       "sizes that no machine has are OUT_OF_DEVICE_MEMORY, and cost nothing",
       {10, 11, 13},
       absurd_sizes},
      {"kinds",
       "memory of a kind that the device has is of that kind; others are UNIMPLEMENTED",
       {10},
       kinds},
      {"host-addresses",
       "a host address is a multiple of 64, stays, and is the buffer's memory",
       {},
       host_addresses},
      {"memory-adds-up",
       "used_bytes counts every living buffer and nothing else, peak_bytes never falls",
       {26},
       memory_adds_up},
      {"limit", "a buffer above limit_bytes is OUT_OF_DEVICE_MEMORY", {26}, limit_holds},
      {"counted", "live_counts counts each buffer; destroying NULL is nothing", {14}, counted},
      {"description-sizes",
       "buffer_describe fills as much of its struct as both sides know",
       {5},
       description_sizes},
      {"many", "thousands of buffers that come and go keep their own contents", {14}, many},
  };
}

}  // namespace yoke::conformance
