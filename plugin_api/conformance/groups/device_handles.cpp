// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/device_handles.cpp: what two handles of one device share and what is
// separate.
#include <algorithm>
#include <memory>

#include "groups.h"
#include "small_program.h"
#include "wide_kernels.h"

namespace yoke::conformance {
namespace {

void handles_share(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  Device& first = kit.device();
  Device second = another_handle(kit);
  check(second.get() != first.get(), "opening a device twice returned the same handle");
  const Buffer a(first, 4096);
  const Buffer b(second, 4096);
  const bool copies = plugin.has<&yoke_backend_api::device_to_device>();
  const Bytes sent = kit.random().bytes(4096);
  Bytes received(4096);
  Stream of_first(first);
  const Stream of_second(second);
  const Event begin = of_first.record_timed();
  of_first.write(b, 0, sent);
  of_second.wait_for(of_first.record());
  if (copies) {
    of_second.copy(a, 0, b, 0, 4096);
  }
  of_second.read(copies ? a : b, 0, received);
  const Event end = of_second.record_timed();
  of_first.wait_for(end);
  of_first.synchronize();
  check(received == sent, "work on streams of two handles of one device has wrong results");
  if (plugin.has<&yoke_stream_api::event_elapsed>()) {
    end.ns_since(begin);
  }
}

void handles_routine(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  Device& first = kit.device();
  const SmallProgram program(first);
  Device second = another_handle(kit);
  const Code code = compile(first, program.text());
  const Buffer x(second, kSmallCount * sizeof(float));
  const Buffer y(first, kSmallCount * sizeof(float));
  const Buffer workspace = workspace_for(second, code);
  const std::vector<float> values(kSmallCount, 4.0F);
  x.write(0, std::as_bytes(std::span(values)));
  const yoke_binding bindings[] = {binding(x), binding(y)};
  const Routine routine = link(plugin, code, 0, bindings, binding(workspace));
  const std::optional<Stream> stream = stream_if_any(second);
  launch(plugin, routine, {}, stream ? &*stream : nullptr);
  std::vector<float> results(kSmallCount);
  y.read(0, std::as_writable_bytes(std::span(results)));
  check(results == program.results(values),
        "a routine that uses two handles of one device has a wrong result");
}

// The same texts on several handles, some of which are closed before the others launch. A code compiled on a handle may
// share parts with equal codes of others, but not the threads of a handle.
void handles_kernels(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  kit.device();
  std::optional<Device> first;
  const auto open = [&](std::optional<Device>& device, std::uint32_t ordinal) {
    device.emplace(kit, kit.plugin(), ordinal,
                   ordinal == kit.settings().device ? kit.device_options() : std::vector<yoke_option>());
  };
  open(first, kit.settings().device);
  for (std::uint32_t i = 1; i <= std::min(plugin.device_count(), 2U); ++i) {
    std::optional<Device> second;  // of the same device, then of another
    open(second, (kit.settings().device + i - 1) % plugin.device_count());
    {
      const WideKernels later(*second);
      {
        const WideKernels kernels(*first);
        kernels.check_all(wide_input(i), "on the first of two handles");
      }
      first->close();
      later.check_all(wide_input(i + 1), "on a handle, after another one that ran the same text was closed");
      const WideKernels newer(*second);
      newer.check_all(wide_input(i + 2), "compiled after a handle that ran the same text was closed");
    }
    second->close();
    open(first, kit.settings().device);
  }
}

void handles_count(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  Device& first = kit.device();
  const Buffer of_first(first, 5000);
  const Bytes sent = kit.random().bytes(5000);
  of_first.write(0, sent);
  const yoke_memory_info before = first.memory();
  Device second = another_handle(kit);
  check_equal(second.memory().used_bytes, 0U, "used_bytes of a new handle");
  Buffer of_second(second, 100000);
  check(second.memory().used_bytes >= 100000, "used_bytes of a handle does not count its buffer");
  check_equal(first.memory().used_bytes, before.used_bytes,
              "used_bytes after another handle created a buffer");
  check_equal(first.memory().peak_bytes, before.peak_bytes,
              "peak_bytes after another handle created a buffer");
  expect_code(plugin.device_close(second.get()), YOKE_STATUS_FAILED_PRECONDITION,
              "closing a handle with a live buffer");
  check_equal(plugin.live_counts().devices, 2U,
              "the number of live devices after closing one of two has failed");
  of_second.write(0, Bytes(100000, std::byte{0x5a}));
  of_second.reset();
  second.close();
  check_equal(plugin.live_counts().devices, 1U,
              "the number of live devices after the second handle was closed");
  check(of_first.contents() == sent, "a buffer of one handle changed while another handle was used");
}

// Opens a second handle with each integer option changed. Only its memory limit can be observed.
void handles_options(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const Device& first = kit.device();
  unsigned limits = 0;
  for (const yoke_option_spec& spec : plugin.option_specs(YOKE_OPTION_SCOPE_DEVICE)) {
    yoke_option option = default_option(spec);
    if (spec.type != YOKE_OPTION_INTEGER || spec.integer_max - 1 < spec.integer_default) {
      continue;
    }
    option.integer = spec.integer_default + 1;
    const std::uint64_t limit = first.memory().limit_bytes;
    yoke_device* second = nullptr;
    const Answer answer = plugin.device_open(kit.settings().device, {&option, 1}, &second);
    if (!answer.ok()) {
      continue;
    }
    yoke_memory_info memory = sized<yoke_memory_info>();
    expect_ok(plugin.call<&yoke_backend_api::device_memory>(second, &memory),
              "querying the memory of a device");
    check_equal(first.memory().limit_bytes, limit, "limit_bytes after another handle was opened with '",
                spec.name, "' = ", option.integer);
    const Buffer buffer(kit.device(), 4096);
    if (memory.limit_bytes != 0 && memory.limit_bytes != limit) {
      ++limits;
      expect_no_object<yoke_buffer>(
          YOKE_STATUS_OUT_OF_DEVICE_MEMORY, "creating a buffer beyond the limit of its handle",
          [&](yoke_buffer** out) {
            return plugin.buffer_create(second, memory.limit_bytes + 1, YOKE_MEMORY_DEVICE, out);
          });
    }
    expect_ok(plugin.device_close(second), "closing the second handle");
  }
  if (limits == 0) {
    unsupported("no option of the backend changes limit_bytes");
  }
}

// An abort does not affect a handle that is opened later.
void check_new_handle(Kit& kit, const char* when) {
  Device device = another_handle(kit);
  const Buffer buffer(device, 64);
  Stream stream(device);
  stream.write(buffer, 0, Bytes(64, std::byte{7}));
  expect_ok(stream.wait(), text("waiting for a stream of a handle that was opened ", when));
  check(buffer.contents() == Bytes(64, std::byte{7}), "a copy is wrong on a handle that was opened ", when);
}

// Opens a handle with one option set; null if the backend refuses the value.
std::unique_ptr<Device> handle_with(Kit& kit, const yoke_option& option) {
  try {
    const Quiet quiet;
    return std::make_unique<Device>(kit, kit.plugin(), kit.settings().device, std::vector{option});
  } catch (const Failed&) {
    return nullptr;
  }
}

// Small limits, and values around large powers of two. Opening a device may take a part of a second.
std::vector<std::int64_t> limit_values() {
  std::vector<std::int64_t> values = {1, 255, 4096, 100'001, 3'145'735, 4'294'967'301, 1'234'567'890'123};
  for (const unsigned bit : {16U, 24U, 30U, 31U, 32U, 33U, 36U, 40U, 48U, 53U, 60U, 62U}) {
    values.push_back((std::int64_t{1} << bit) - 1);
    values.push_back((std::int64_t{1} << bit) + (bit % 2 == 0 ? 0 : 4096));
  }
  return values;
}

// An option that sets limit_bytes limits memory to exactly this number of bytes, whatever the value.
void limits(Kit& kit) {
  constexpr std::int64_t kProbe = 64 << 20;
  constexpr std::int64_t kLarge = 4 << 20;  // a device may count memory in large pages
  constexpr std::uint64_t kRoom = 4096;
  kit.device();  // stays open, so that a driver need not start again for each handle
  unsigned count = 0;
  for (const yoke_option_spec& spec : kit.plugin().option_specs(YOKE_OPTION_SCOPE_DEVICE)) {
    yoke_option option = default_option(spec);
    const auto open = [&](std::int64_t value) {
      option.integer = value;
      return spec.type != YOKE_OPTION_INTEGER || value < spec.integer_min || value > spec.integer_max
                 ? nullptr
                 : handle_with(kit, option);
    };
    const std::unique_ptr<Device> probe = open(kProbe);
    if (probe == nullptr || probe->memory().limit_bytes != static_cast<std::uint64_t>(kProbe)) {
      continue;
    }
    for (const std::int64_t value : limit_values()) {
      const std::unique_ptr<Device> device = open(value);
      if (device == nullptr) {
        continue;
      }
      ++count;
      const std::uint64_t limit = device->memory().limit_bytes;
      check(limit != 0 && limit <= static_cast<std::uint64_t>(value), "limit_bytes is ", limit, " with '",
            spec.name, "' = ", value);
      if (value >= kLarge) {
        const Buffer fits(*device, kRoom);
        fits.write(kRoom - 8, Bytes(8, std::byte{1}));
      }
      expect_no_buffer(*device, static_cast<std::uint64_t>(value) + 1, YOKE_MEMORY_DEVICE,
                       YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                       text("creating a buffer beyond '", spec.name, "' = ", value));
    }
  }
  if (count == 0) {
    unsupported("no option of the backend sets limit_bytes");
  }
}

void handles_fail(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  Device& first = kit.device();
  Random random = kit.random();
  const Buffer buffer(first, 64);
  const std::optional<Stream> stream = stream_if_any(first);
  const auto check_first_works = [&](const std::string& after) {
    const Bytes sent = random.bytes(64);
    expect_ok(plugin.from_host(raw_of(stream), buffer.get(), 0, sent.data(), 64, nullptr), "a copy " + after);
    if (stream) {
      expect_ok(stream->wait(), "waiting for a stream " + after);
    }
    check(buffer.contents() == sent, "a copy has wrong results ", after);
  };
  bool any = false;
  if (plugin.has<&yoke_stream_api::device_abort>()) {
    any = true;
    Device second = another_handle(kit);
    expect_ok(plugin.call<&yoke_stream_api::device_abort>(second.get()), "aborting a device");
    {
      const Stream later(second);
      expect_code(later.wait(), YOKE_STATUS_ABORTED, "waiting for a stream created after device_abort");
    }
    check_first_works("after device_abort on another handle of the device");
    check_new_handle(kit, "while an aborted one is open");
    second.close();
    check_new_handle(kit, "after an aborted one was closed");
  }
  if (plugin.has<&yoke_fault_api::fault_arm>()) {
    any = true;
    Device second = another_handle(kit);
    lose_device(second);
    check_first_works("after DEVICE_LOST on another handle of the device");
  }
  if (!any) {
    unsupported("the plugin has neither device_abort nor yoke.fault/1");
  }
}

}  // namespace

std::vector<Test> device_handles_tests() {
  return {
      {"handles-share",
       "streams, buffers and events of two handles of one device can be used together",
       {53},
       handles_share},
      {"handles-routine",
       "a routine can use memory and streams of two handles of one device",
       {53},
       handles_routine},
      {"handles-kernels",
       "large kernels of one text run on a handle after another handle that ran them was closed",
       {15, 53},
       handles_kernels},
      {"handles-count",
       "device_memory and device_close apply to one handle only; handles do not affect each other's buffers",
       {14, 53},
       handles_count},
      {"handles-options", "the memory limit of one handle does not apply to another", {53}, handles_options},
      {"limits",
       "an option that limits memory is exact to the byte, for small values and around powers of two",
       {26, 28},
       limits},
      {"handles-fail", "device_abort and DEVICE_LOST affect one handle only", {19, 53}, handles_fail},
  };
}

}  // namespace yoke::conformance
