// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/scenario.cpp: buffers are older than streams, so that a stream ends its work
// before they are destroyed, even after a failed call.
#include "scenario.h"

#include "small_program.h"

namespace yoke::conformance {
namespace {

void copies(const Plugin& plugin, const Stream* stream, const Buffer& a, const Buffer& b) {
  yoke_stream* const raw = stream == nullptr ? nullptr : stream->get();
  const bool moves = plugin.has<&yoke_backend_api::device_to_device>();
  const auto pattern = std::uint32_t{0x22222222};
  Bytes host(a.byte_count(), std::byte{0x11});
  expect_ok(plugin.from_host(raw, a.get(), 0, host.data(), host.size(), nullptr));
  if (plugin.has<&yoke_backend_api::fill>()) {
    expect_ok(plugin.fill(raw, b.get(), 0, host.size(), &pattern, sizeof pattern));
  } else {
    b.write(0, Bytes(host.size(), std::byte{0x22}));
  }
  if (moves) {
    expect_ok(plugin.device_to_device(raw, b.get(), 0, a.get(), 0, host.size()));
  }
  if (stream != nullptr) {
    stream->synchronize();  // `host` is the source until then
  }
  expect_ok(plugin.to_host(raw, b.get(), 0, host.data(), host.size()));
  if (stream != nullptr) {
    stream->synchronize();
  }
  check(host == Bytes(host.size(), moves ? std::byte{0x11} : std::byte{0x22}),
        "every copy returned OK, but the bytes are wrong");
}

void use_streams(Device& device, const Buffer& a, const Buffer& b, const std::optional<SmallRun>& add) {
  const Plugin& plugin = device.plugin();
  const Stream first(device);
  const Stream second(device);
  copies(plugin, &first, a, b);
  const Event event = first.record();
  second.wait_for(event);
  expect_ok(event.wait());
  event.done();
  second.synchronize();
  second.done();
  char text[256];
  if (plugin.has<&yoke_stream_api::stream_debug_text>()) {
    expect_ok(
        plugin.call<&yoke_stream_api::stream_debug_text>(first.get(), text, std::uint64_t{sizeof text}));
  }
  if (add) {
    launch(plugin, add->routine, {}, &first);
  }
}

}  // namespace

void use_everything(Device& device) {
  const Plugin& plugin = device.plugin();
  device.info();
  const Buffer a(device, 4096);
  const Buffer b(device, 4096);
  copies(plugin, nullptr, a, b);
  a.describe();
  device.memory();
  const SmallRunIfAny small(device);
  if (small.run) {
    small.run->launch();
  }
  if (plugin.has_table<yoke_stream_api>()) {
    use_streams(device, a, b, small.run);
  }
}

std::optional<Answer> play_scenario(Kit& kit, Plugin& plugin,
                                    const std::function<void(yoke_device*)>& prepare) {
  const Quiet quiet;
  std::unique_ptr<Device> device;
  std::optional<Answer> refused;
  try {
    device = std::make_unique<Device>(kit, plugin, kit.settings().device, kit.device_options());
    if (prepare) {
      prepare(device->get());
    }
    use_everything(*device);
  } catch (const Refused& call) {
    refused = call.answer;
  }
  if (device != nullptr) {
    device->close();
  }
  return refused;
}

void use_and_leave(Kit& kit, Plugin& plugin) {
  if (plugin.device_count() > kit.settings().device) {
    Device device(kit, plugin, kit.settings().device, kit.device_options());
    use_everything(device);
    device.close();
  }
  plugin.leave();
}

}  // namespace yoke::conformance
