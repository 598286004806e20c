// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/basic_use.cpp: each function of each tier once or so.
#include "basic_use.h"

#include <vector>

namespace yoke::conformance {
namespace {

// Calls that must answer OK; counts the texts that came with an OK.
class Calls {
 public:
  explicit Calls(const Plugin& plugin) : plugin_(plugin) {}

  template <auto Member, class... Args>
  void ok(Args... args) {
    const Answer answer = plugin_.call<Member>(args...);
    expect_ok(answer, "a plain use of the plugin");
    texts_ += answer.status.times_set > 0 ? 1 : 0;
  }
  template <auto Member, class... Args>
  void ok_if_there(Args... args) {
    if (plugin_.has<Member>()) {
      ok<Member>(args...);
    }
  }
  std::uint64_t texts() const { return texts_; }

 private:
  const Plugin& plugin_;
  std::uint64_t texts_ = 0;
};

void use_memory(Device& device, Calls& calls, yoke_stream* stream) {
  constexpr std::uint64_t kBytes = 4096;
  const Buffer a(device, kBytes);
  const Buffer b(device, kBytes);
  std::vector<std::byte> host(kBytes, std::byte{7});
  const std::uint32_t pattern = 0x01020304U;
  std::int32_t source = 0;
  calls.ok<&yoke_backend_api::from_host>(stream, a.get(), std::uint64_t{0}, host.data(), kBytes, &source);
  calls.ok_if_there<&yoke_backend_api::fill>(stream, b.get(), std::uint64_t{0}, kBytes, &pattern,
                                             std::uint32_t{sizeof pattern});
  calls.ok_if_there<&yoke_backend_api::device_to_device>(stream, b.get(), std::uint64_t{0}, a.get(),
                                                         std::uint64_t{64}, kBytes - 64);
  calls.ok<&yoke_backend_api::to_host>(stream, b.get(), std::uint64_t{0}, host.data(), kBytes);
  if (stream != nullptr) {
    calls.ok<&yoke_stream_api::stream_wait>(stream, longest_wait_ns());
  }
  yoke_buffer_info info = sized<yoke_buffer_info>();
  calls.ok<&yoke_backend_api::buffer_describe>(a.get(), &info);
  yoke_memory_info memory = sized<yoke_memory_info>();
  calls.ok<&yoke_backend_api::device_memory>(device.get(), &memory);
}

void use_program(Device& device, Calls& calls, yoke_stream* stream) {
  const Plugin& plugin = device.plugin();
  const Code code = compile_add_one(device);
  const Buffer x(device, kAddCount * sizeof(float));
  const Buffer y(device, kAddCount * sizeof(float));
  const Buffer workspace(device, workspace_byte_count(plugin, code));
  x.write(0, std::vector<std::byte>(x.byte_count()));
  const Routine routine = link_add_one(plugin, code, x, y, workspace);
  calls.ok<&yoke_program_api::routine_launch>(stream, routine.get(), nullptr, 0U);
  if (stream != nullptr) {
    calls.ok<&yoke_stream_api::stream_wait>(stream, longest_wait_ns());
  }
}

void use_stream(Device& device, Calls& calls) {
  const Stream first(device);
  const Stream second(device);
  use_memory(device, calls, first.get());
  const Event event = first.record();
  calls.ok<&yoke_stream_api::stream_wait_event>(second.get(), event.get());
  calls.ok<&yoke_stream_api::event_wait>(event.get(), longest_wait_ns());
  std::int32_t done = 0;
  calls.ok<&yoke_stream_api::event_query>(event.get(), &done);
  calls.ok<&yoke_stream_api::stream_wait>(second.get(), longest_wait_ns());
  calls.ok<&yoke_stream_api::stream_query>(second.get(), &done);
  char text[256];
  calls.ok_if_there<&yoke_stream_api::stream_debug_text>(first.get(), text, std::uint64_t{sizeof text});
  if (device.plugin().has_table<yoke_program_api>()) {
    use_program(device, calls, first.get());
  }
}

}  // namespace

yoke_program_text program_text(std::string_view bytes) {
  yoke_program_text text = sized<yoke_program_text>();
  text.format = YOKE_PROGRAM_FORMAT;
  text.version = YOKE_PROGRAM_VERSION;
  text.bytes = bytes.data();
  text.byte_count = bytes.size();
  return text;
}

Code compile_add_one(Device& device) {
  const yoke_program_text source = program_text(kAddOne);
  yoke_code* raw = nullptr;
  expect_ok(device.plugin().call<&yoke_program_api::code_compile>(device.get(), &source, &raw),
            "compiling y[i] = x[i] + 1");
  check(raw != nullptr, "code_compile answered OK without code");
  return {device.plugin(), raw};
}

std::uint64_t workspace_byte_count(const Plugin& plugin, const Code& code) {
  yoke_entry_info info = sized<yoke_entry_info>();
  expect_ok(plugin.call<&yoke_program_api::code_describe>(code.get(), 0U, &info), "describing code");
  return info.workspace_byte_count;
}

Routine link_add_one(const Plugin& plugin, const Code& code, const Buffer& x, const Buffer& y,
                     const Buffer& workspace) {
  const yoke_binding bindings[] = {{x.get(), 0}, {y.get(), 0}};
  yoke_routine* raw = nullptr;
  expect_ok(plugin.call<&yoke_program_api::routine_link>(code.get(), 0U, bindings, 2U, workspace.get(),
                                                         std::uint64_t{0}, &raw),
            "linking y[i] = x[i] + 1");
  check(raw != nullptr, "routine_link answered OK without a routine");
  return {plugin, raw};
}

std::uint64_t use_everything(Device& device) {
  Calls calls(device.plugin());
  yoke_device_info info = sized<yoke_device_info>();
  calls.ok<&yoke_backend_api::device_describe>(device.plugin().get(), device.kit().settings().device, &info);
  use_memory(device, calls, nullptr);
  if (device.plugin().has_table<yoke_stream_api>()) {
    use_stream(device, calls);
  }
  if (device.plugin().has_table<yoke_program_api>()) {
    use_program(device, calls, nullptr);
  }
  return calls.texts();
}

}  // namespace yoke::conformance
