// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/scenario.cpp: each handle has an owner before the next call can fail.
#include "scenario.h"

#include "add_one.h"

namespace yoke::conformance {
namespace {

struct Refused {
  Answer answer;
};

// Waits for a stream before the buffers that its work uses are destroyed.
class WaitAtEnd {
 public:
  WaitAtEnd(const Plugin& plugin, yoke_stream* stream) : plugin_(plugin), stream_(stream) {}
  ~WaitAtEnd() {
    if (stream_ != nullptr) {
      plugin_.call<&yoke_stream_api::stream_wait>(stream_, longest_wait_ns());
    }
  }
  WaitAtEnd(const WaitAtEnd&) = delete;
  WaitAtEnd& operator=(const WaitAtEnd&) = delete;

 private:
  const Plugin& plugin_;
  yoke_stream* stream_;
};

class Player {
 public:
  Player(const Plugin& plugin, yoke_device* device) : plugin_(plugin), device_(device) {}

  void play() {
    memory(nullptr);
    if (plugin_.has_table<yoke_stream_api>()) {
      streams();
    }
    if (plugin_.has_table<yoke_program_api>()) {
      program(nullptr);
    }
  }
  std::uint64_t texts() const { return texts_; }

 private:
  static constexpr std::uint64_t kBytes = 4096;

  void must(Answer answer) {
    if (!answer.ok()) {
      throw Refused{std::move(answer)};
    }
    texts_ += answer.status.times_set > 0 ? 1 : 0;
  }
  template <class Handle, class T>
  Handle owned(const Answer& answer, T*& raw) {
    must(answer);
    check(raw != nullptr, answer.function, " returned OK but left its out-parameter NULL");
    return {plugin_, raw};
  }
  BufferHandle buffer(std::uint64_t byte_count) {
    yoke_buffer* raw = nullptr;
    return owned<BufferHandle>(plugin_.buffer_create(device_, byte_count, YOKE_MEMORY_DEVICE, &raw), raw);
  }
  StreamHandle stream() {
    yoke_stream* raw = nullptr;
    return owned<StreamHandle>(plugin_.stream_create(device_, 0, &raw), raw);
  }
  void wait(yoke_stream* stream) {
    must(plugin_.call<&yoke_stream_api::stream_wait>(stream, longest_wait_ns()));
  }

  void memory(yoke_stream* stream) {
    Bytes host(kBytes, std::byte{0x11});
    const BufferHandle a = buffer(kBytes);
    const BufferHandle b = buffer(kBytes);
    const WaitAtEnd at_end(plugin_, stream);
    copies(stream, a.get(), b.get(), host);
    if (stream != nullptr) {
      wait(stream);
    }
    const std::byte expected{
        static_cast<unsigned char>(plugin_.has<&yoke_backend_api::device_to_device>() ? 0x11 : 0x22)};
    check(host[0] == expected, "every copy returned OK, but the bytes are wrong");
    yoke_buffer_info info = sized<yoke_buffer_info>();
    must(plugin_.call<&yoke_backend_api::buffer_describe>(a.get(), &info));
    yoke_memory_info memory = sized<yoke_memory_info>();
    must(plugin_.call<&yoke_backend_api::device_memory>(device_, &memory));
  }

  void copies(yoke_stream* stream, yoke_buffer* a, yoke_buffer* b, Bytes& host) {
    const auto pattern = std::uint32_t{0x22222222};
    const Bytes twos(kBytes, std::byte{0x22});
    std::int32_t source = 0;
    must(plugin_.from_host(stream, a, 0, host.data(), kBytes, &source));
    if (plugin_.has<&yoke_backend_api::fill>()) {
      must(plugin_.fill(stream, b, 0, kBytes, &pattern, sizeof pattern));
    } else {
      must(plugin_.from_host(nullptr, b, 0, twos.data(), kBytes, &source));
    }
    if (plugin_.has<&yoke_backend_api::device_to_device>()) {
      must(plugin_.device_to_device(stream, b, 0, a, 0, kBytes));
    }
    if (stream != nullptr) {
      wait(stream);  // `host` is the source until then
    }
    must(plugin_.to_host(stream, b, 0, host.data(), kBytes));
  }

  void streams() {
    const StreamHandle first = stream();
    const StreamHandle second = stream();
    const WaitAtEnd wait_first(plugin_, first.get());
    const WaitAtEnd wait_second(plugin_, second.get());
    memory(first.get());
    yoke_event* raw = nullptr;
    const EventHandle event = owned<EventHandle>(plugin_.event_record(first.get(), &raw), raw);
    must(plugin_.call<&yoke_stream_api::stream_wait_event>(second.get(), event.get()));
    must(plugin_.call<&yoke_stream_api::event_wait>(event.get(), longest_wait_ns()));
    std::int32_t done = 0;
    must(plugin_.call<&yoke_stream_api::event_query>(event.get(), &done));
    wait(second.get());
    must(plugin_.call<&yoke_stream_api::stream_query>(second.get(), &done));
    char text[256];
    if (plugin_.has<&yoke_stream_api::stream_debug_text>()) {
      must(plugin_.call<&yoke_stream_api::stream_debug_text>(first.get(), text, std::uint64_t{sizeof text}));
    }
    if (plugin_.has_table<yoke_program_api>()) {
      program(first.get());
    }
  }

  void program(yoke_stream* stream) {
    yoke_code* raw_code = nullptr;
    const Code code = owned<Code>(plugin_.code_compile(device_, program_text(kAddOne), &raw_code), raw_code);
    yoke_entry_info info = sized<yoke_entry_info>();
    must(plugin_.call<&yoke_program_api::code_describe>(code.get(), 0U, &info));
    const BufferHandle x = buffer(kAddCount * sizeof(float));
    const BufferHandle y = buffer(kAddCount * sizeof(float));
    const BufferHandle workspace = buffer(info.workspace_byte_count);
    constexpr std::uint64_t kSize = kAddCount * sizeof(float);
    const yoke_binding bindings[] = {{x.get(), 0, kSize, 0}, {y.get(), 0, kSize, 0}};
    yoke_routine* raw = nullptr;
    const Routine routine =
        owned<Routine>(plugin_.routine_link(code.get(), 0, bindings,
                                            {workspace.get(), 0, info.workspace_byte_count, 0}, &raw),
                       raw);
    const WaitAtEnd at_end(plugin_, stream);
    const std::vector<float> values(kAddCount, 1.0F);
    must(plugin_.from_host(nullptr, x.get(), 0, values.data(), kAddCount * sizeof(float), nullptr));
    must(plugin_.routine_launch(stream, routine.get(), {}));
    if (stream != nullptr) {
      wait(stream);
    }
  }

  const Plugin& plugin_;
  yoke_device* device_;
  std::uint64_t texts_ = 0;
};

}  // namespace

std::optional<Answer> play_scenario(Kit& kit, const Plugin& plugin,
                                    const std::function<void(yoke_device*)>& prepare) {
  yoke_device* device = nullptr;
  Answer opened = plugin.device_open(kit.settings().device, kit.device_options(), &device);
  if (!opened.ok()) {
    return opened;
  }
  std::optional<Answer> refused;
  try {
    if (prepare) {
      prepare(device);
    }
    Player(plugin, device).play();
  } catch (Refused& call) {
    refused = std::move(call.answer);
  }
  expect_ok(plugin.device_close(device), "closing a device after every object was destroyed");
  return refused;
}

std::uint64_t use_everything(Device& device) {
  device.info();
  Player player(device.plugin(), device.get());
  try {
    player.play();
  } catch (const Refused& call) {
    fail("a valid call failed: " + call.answer.words());
  }
  return player.texts();
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
