// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/memory.cpp: yoke.memory/1: pinned and imported memory, native handles.
#include <algorithm>
#include <cstring>

#include "foreign.h"
#include "groups.h"
#include "sized.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

// Copies with a stream if the plugin has streams.
void write(Device& device, yoke_buffer* target, std::uint64_t offset, const Bytes& bytes) {
  const std::optional<Stream> stream = stream_if_any(device);
  expect_ok(device.plugin().from_host(raw_of(stream), target, offset, bytes.data(), bytes.size(), nullptr),
            "from_host to imported memory");
  if (stream) {
    stream->synchronize();
  }
}

// The device of the test, if it can import host memory.
Device& importing_device(Kit& kit) {
  kit.plugin().need<&yoke_memory_api::buffer_import>();
  Lent lent{Bytes(64)};
  imported(kit.device(), lent.args()).reset();
  return kit.device();
}

void pinned(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_memory_api>();
  kit.device();
  Device device = another_handle(kit);
  Random random = kit.random();
  for (const std::uint64_t byte_count : {1U, 255U, 4096U, (1U << 20U) + 7U}) {
    const Pinned source(device, byte_count);
    const Pinned target(device, byte_count);
    expect_code(plugin.device_close(device.get()), YOKE_STATUS_FAILED_PRECONDITION,
                "closing a device with live pinned memory");
    check_equal(device.memory().used_bytes, 0U, "used_bytes with live pinned memory and no buffer");
    random.fill(source.bytes);
    std::fill(target.bytes.begin(), target.bytes.end(), std::byte{0});
    const Buffer buffer(device, byte_count);
    const std::optional<Stream> stream = stream_if_any(device);
    expect_ok(plugin.from_host(raw_of(stream), buffer.get(), 0, source.bytes.data(), byte_count, nullptr),
              "from_host from pinned memory");
    expect_ok(plugin.to_host(raw_of(stream), buffer.get(), 0, target.bytes.data(), byte_count),
              "to_host to pinned memory");
    if (stream) {
      stream->synchronize();
    }
    check(std::equal(source.bytes.begin(), source.bytes.end(), target.bytes.begin()),
          "copies from and to pinned memory have wrong results");
  }
}

void pinned_refusals(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_memory_api>();
  const Device& device = kit.device();
  const auto rejected = [&](const yoke_pinned_args& args, std::int32_t code, const std::string& doing) {
    expect_no_object<void>(code, doing, [&](void** out) {
      return plugin.call<&yoke_memory_api::pinned_allocate>(device.get(), &args, out);
    });
  };
  for (const std::uint64_t byte_count : {UINT64_MAX, UINT64_MAX - 255, std::uint64_t{1} << 60U}) {
    rejected({sizeof(yoke_pinned_args), 0, byte_count}, YOKE_STATUS_RESOURCE_EXHAUSTED,
             text("pinning ", byte_count, " bytes"));
  }
  const yoke_pinned_args args = {sizeof args, std::uint64_t{1} << 40U, 64};
  rejected(args, YOKE_STATUS_UNIMPLEMENTED, "pinning memory with an unknown flag");
}

std::uint64_t address_of(const Plugin& plugin, const Buffer& buffer) {
  std::uint64_t address = 0;
  expect_supported(plugin.call<&yoke_memory_api::buffer_device_address>(buffer.get(), &address),
                   "querying a device address");
  return address;
}

// Imports a part of a buffer by its device address: both must be the same memory.
void check_alias(const Device& device, const Buffer& buffer, std::uint64_t address) {
  const yoke_import_args args = {sizeof args, 0, address + 256, 512, YOKE_MEMORY_DEVICE, 0, nullptr, nullptr};
  yoke_buffer* raw = nullptr;
  const Answer answer = import(device, args, &raw);
  if (answer.code == YOKE_STATUS_UNIMPLEMENTED) {
    return;
  }
  const BufferHandle alias(device.plugin(), answer, raw, "importing the device address of a buffer");
  const Bytes sent(512, std::byte{0x3d});
  expect_ok(device.plugin().from_host(nullptr, alias.get(), 0, sent.data(), sent.size(), nullptr));
  Bytes received(512);
  buffer.read(256, received);
  check(received == sent, "the memory at a buffer's device address is not the buffer's");
}

void device_addresses(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_memory_api::buffer_device_address>();
  std::vector<Buffer> alive;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const std::uint64_t byte_count : {1U, 64U, 1000U, 4097U, 1U << 20U}) {
    alive.emplace_back(kit.device(), byte_count);
    const std::uint64_t address = address_of(plugin, alive.back());
    check(address != 0 && address % YOKE_BUFFER_ALIGNMENT == 0, "the device address of a ", byte_count,
          "-byte buffer is 0 or not a multiple of ", YOKE_BUFFER_ALIGNMENT);
    check_equal(address_of(plugin, alive.back()), address, "the device address in a second call");
    ranges.emplace_back(address, address + byte_count);
  }
  if (plugin.has<&yoke_memory_api::buffer_import>()) {
    check_alias(kit.device(), alive.back(), ranges.back().first);
  }
  check_disjoint(std::move(ranges), "the device addresses of two live buffers overlap");
}

void import_in_place(Kit& kit) {
  Device& device = importing_device(kit);
  const Plugin& plugin = kit.plugin();
  constexpr std::uint64_t kBytes = 4000;
  Random random = kit.random();
  const std::uint64_t used = device.memory().used_bytes;
  for (const std::uint64_t offset : {0U, 1U, 68U}) {
    const std::string what = text("a buffer imported at address ... + ", offset);
    Lent lent{random.bytes(kBytes + 100)};
    const BufferHandle buffer = imported(device, lent.args(offset, kBytes));
    yoke_buffer_info info = sized<yoke_buffer_info>();
    expect_ok(plugin.call<&yoke_backend_api::buffer_describe>(buffer.get(), &info), "describing " + what);
    check_equal(info.byte_count, kBytes, "byte_count of ", what);
    check_equal(info.kind, YOKE_MEMORY_HOST, "the kind of ", what);
    check_equal(device.memory().used_bytes, used, "used_bytes with ", what);
    lent.memory[offset + 7] ^= std::byte{0xff};  // the host writes
    Bytes received(kBytes);
    expect_ok(plugin.to_host(nullptr, buffer.get(), 0, received.data(), kBytes), "to_host from " + what);
    check(std::equal(received.begin(), received.end(), lent.memory.data() + offset), what,
          " does not have the contents of the imported memory");
    const Bytes sent = random.bytes(100);
    Bytes expected = lent.memory;
    std::copy(sent.begin(), sent.end(), expected.data() + offset + 50);
    write(device, buffer.get(), 50, sent);
    check(lent.memory == expected, "from_host to ", what, " did not write exactly its range of the memory");
    expect_code(plugin.to_host(nullptr, buffer.get(), kBytes - 1, received.data(), 2),
                YOKE_STATUS_OUT_OF_RANGE, "to_host beyond the end of " + what);
  }
}

void import_release(Kit& kit) {
  importing_device(kit);
  const Plugin& plugin = kit.plugin();
  Device device = another_handle(kit);
  Lent first{Bytes(64)};
  Lent second{Bytes(64)};
  {
    BufferHandle a = imported(device, first.args());
    BufferHandle b = imported(device, second.args());
    yoke_import_args unowned = second.args();
    unowned.release = nullptr;
    imported(device, unowned).reset();
    check_equal(plugin.live_counts().buffers, 2U, "the number of live buffers with two imported ones");
    for (BufferHandle* each : {&a, &b}) {
      write(device, each->get(), 0, Bytes(64, std::byte{1}));
    }
    check(first.releases == 0 && second.releases == 0, "`release` was called before buffer_destroy");
    b.reset();
    check_equal(second.releases, 1, "the number of calls of `release` by buffer_destroy");
    check(second.thread == std::this_thread::get_id(),
          "`release` was not called on the thread of buffer_destroy");
    check_equal(first.releases, 0, "the number of calls of `release` for a live buffer");
    expect_code(plugin.device_close(device.get()), YOKE_STATUS_FAILED_PRECONDITION,
                "closing a device with a live imported buffer");
  }
  device.close();
  check(first.releases == 1 && second.releases == 1, "`release` was called again by device_close");
  check(first.is_all_released() && second.is_all_released(),
        "imported memory was written after `release` was called");
}

void import_refusals(Kit& kit) {
  const Device& device = importing_device(kit);
  Lent lent{Bytes(64)};
  const auto rejected = [&](const yoke_import_args& args, std::int32_t code, const std::string& doing) {
    expect_no_object<yoke_buffer>(code, doing, [&](yoke_buffer** out) { return import(device, args, out); });
  };
  yoke_import_args args = lent.args();
  args.address = 0;
  rejected(args, YOKE_STATUS_INVALID_ARGUMENT, "importing 64 bytes at address 0");
  args = lent.args();
  for (const std::int32_t kind : {0, YOKE_MEMORY_HOST + 1, -1, 99}) {
    args.kind = kind;
    rejected(args, YOKE_STATUS_UNIMPLEMENTED, text("importing memory of the unknown kind ", kind));
  }
  args = lent.args();
  args.flags = std::uint64_t{1} << 40U;
  rejected(args, YOKE_STATUS_UNIMPLEMENTED, "importing memory with an unknown flag");
  check_equal(lent.releases, 0, "the number of calls of `release` after failed imports");
  check_equal(kit.plugin().live_counts().buffers, 0U, "the number of live buffers after failed imports");
  args = lent.args();
  args.address = args.byte_count = 0;
  imported(device, args).reset();
  check_equal(lent.releases, 1, "the number of calls of `release` for 0 bytes at address 0");
}

// Imported memory may have any alignment, so routine_link must check the address.
void import_routine(Kit& kit) {
  kit.plugin().table<yoke_program_api>();
  Device& device = importing_device(kit);
  const Plugin& plugin = kit.plugin();
  const SmallProgram program(device);
  const Code code = compile(device, program.text());
  const SmallRun add(device, code);
  constexpr std::uint64_t kBytes = kSmallCount * sizeof(float);
  yoke_argument_info info = sized<yoke_argument_info>();
  expect_ok(plugin.call<&yoke_program_api::code_argument>(code.get(), 0U, 1U, &info),
            "describing an argument");
  Lent lent{Bytes(kBytes + std::uint64_t{3} * YOKE_BUFFER_ALIGNMENT)};
  const std::uint64_t aligned =
      (YOKE_BUFFER_ALIGNMENT - number_of(lent.memory.data()) % YOKE_BUFFER_ALIGNMENT) % YOKE_BUFFER_ALIGNMENT;
  const auto try_at = [&](std::uint64_t shift) {
    std::fill(lent.memory.begin(), lent.memory.end(), std::byte{0});
    const BufferHandle y = imported(device, lent.args(aligned + shift, kBytes));
    const yoke_binding bindings[] = {binding(add.x), {y.get(), 0, kBytes, 0}};
    yoke_routine* raw = nullptr;
    Answer answer = plugin.routine_link(code.get(), 0, bindings, binding(add.workspace), &raw);
    if (answer.ok()) {
      const Routine routine(plugin, raw);
      launch(plugin, routine);
      std::vector<float> results(kSmallCount);
      std::memcpy(results.data(), lent.memory.data() + aligned + shift, kBytes);
      check(results == program.results(SmallRun::start()),
            "a routine did not write its results to imported memory");
    }
    return answer;
  };
  expect_ok(try_at(info.alignment),
            text("linking an imported buffer that is aligned to ", info.alignment, " bytes"));
  expect_code(try_at(info.alignment / 2), YOKE_STATUS_INVALID_ARGUMENT,
              text("linking an imported buffer that is not aligned to ", info.alignment, " bytes"));
}

// Returns whether the function is implemented.
bool check_native(const char* what, const std::function<Answer(yoke_native_info*)>& describe) {
  yoke_native_info info = sized<yoke_native_info>();
  const Answer answer = describe(&info);
  if (answer.code == YOKE_STATUS_UNIMPLEMENTED) {
    expect_code(answer, YOKE_STATUS_UNIMPLEMENTED, what);
    return false;
  }
  expect_ok(answer, what);
  check(std::memchr(info.api, '\0', sizeof info.api) != nullptr && info.api[0] != '\0' && is_utf8(info.api),
        what, ": `api` is empty, has no terminating zero, or is not UTF-8");
  check_sized<yoke_native_info>(what, describe);
  return true;
}

void native_handles(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_memory_api>();
  Device& device = kit.device();
  bool any = false;
  if (plugin.has<&yoke_memory_api::device_native>()) {
    any = check_native("device_native", [&](yoke_native_info* info) {
      return plugin.call<&yoke_memory_api::device_native>(device.get(), info);
    });
  }
  if (plugin.has<&yoke_memory_api::stream_native>() && plugin.has_table<yoke_stream_api>()) {
    const Stream stream(device);
    any |= check_native("stream_native", [&](yoke_native_info* info) {
      return plugin.call<&yoke_memory_api::stream_native>(stream.get(), info);
    });
  }
  if (!any) {
    unsupported("the plugin has no native handles");
  }
}

}  // namespace

std::vector<Test> memory_tests() {
  return {
      {"pinned",
       "pinned memory is aligned to 256 bytes, works in copies, and keeps its device open",
       {14, 52},
       pinned},
      {"pinned-refusals",
       "sizes that exceed any machine's memory are RESOURCE_EXHAUSTED",
       {40, 52},
       pinned_refusals},
      {"device-addresses",
       "a device address is a multiple of 256, does not change, and points to the buffer's memory",
       {42, 52},
       device_addresses},
      {"import-in-place",
       "imported host memory is used in place, at any alignment, and is not part of used_bytes",
       {52},
       import_in_place},
      {"import-release",
       "`release` is called once, by buffer_destroy, after the last use of the memory",
       {52},
       import_release},
      {"import-refusals",
       "a failed import creates nothing and does not call `release`",
       {40, 52},
       import_refusals},
      {"import-routine",
       "a routine writes to imported memory; routine_link checks the alignment of its address",
       {42, 52},
       import_routine},
      {"native-handles",
       "device_native and stream_native name their API and fill the struct up to struct_size",
       {5, 52},
       native_handles},
  };
}

}  // namespace yoke::conformance
