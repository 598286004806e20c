// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/scenario.cpp: handles are owned before the next call can fail.
#include "scenario.h"

#include "basic_use.h"

namespace yoke::conformance {
namespace {

struct Refused {
  Answer answer;
};

// Whatever happens, nothing is destroyed while work that uses it may be queued.
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

  template <auto Member, class... Args>
  void must(Args... args) const {
    Answer answer = plugin_.call<Member>(args...);
    if (!answer.ok()) {
      throw Refused{std::move(answer)};
    }
  }
  template <auto Member, auto Destroy, class T, class... Args>
  Handle<T, Destroy> make(Args... args) const {
    T* raw = nullptr;
    must<Member>(args..., &raw);
    check(raw != nullptr, Function<Member>::kName, " answered OK without a result");
    return {plugin_, raw};
  }
  auto buffer(std::uint64_t byte_count) const {
    return make<&yoke_backend_api::buffer_create, &yoke_backend_api::buffer_destroy, yoke_buffer>(
        device_, byte_count, YOKE_MEMORY_DEVICE);
  }

  void memory(yoke_stream* stream) const {
    std::vector<std::byte> host(kBytes, std::byte{0x11});
    const auto a = buffer(kBytes);
    const auto b = buffer(kBytes);
    const WaitAtEnd wait(plugin_, stream);
    copies(stream, a.get(), b.get(), host);
    if (stream != nullptr) {
      must<&yoke_stream_api::stream_wait>(stream, longest_wait_ns());
    }
    const std::byte due{
        static_cast<unsigned char>(plugin_.has<&yoke_backend_api::device_to_device>() ? 0x11 : 0x22)};
    check(host[0] == due, "every copy answered OK, but the bytes are wrong");
  }
  void streams() const {
    const auto first =
        make<&yoke_stream_api::stream_create, &yoke_stream_api::stream_destroy, yoke_stream>(device_, 0);
    const auto second =
        make<&yoke_stream_api::stream_create, &yoke_stream_api::stream_destroy, yoke_stream>(device_, 0);
    const WaitAtEnd wait_first(plugin_, first.get());
    const WaitAtEnd wait_second(plugin_, second.get());
    memory(first.get());
    const auto event =
        make<&yoke_stream_api::event_record, &yoke_stream_api::event_destroy, yoke_event>(first.get());
    must<&yoke_stream_api::stream_wait_event>(second.get(), event.get());
    must<&yoke_stream_api::event_wait>(event.get(), longest_wait_ns());
    must<&yoke_stream_api::stream_wait>(second.get(), longest_wait_ns());
  }
  void program(yoke_stream* stream) const {
    const yoke_program_text source = program_text(kAddOne);
    const auto code =
        make<&yoke_program_api::code_compile, &yoke_program_api::code_destroy, yoke_code>(device_, &source);
    yoke_entry_info info = sized<yoke_entry_info>();
    must<&yoke_program_api::code_describe>(code.get(), 0U, &info);
    const auto x = buffer(kAddCount * sizeof(float));
    const auto y = buffer(kAddCount * sizeof(float));
    const auto workspace = buffer(info.workspace_byte_count);
    const yoke_binding bindings[] = {{x.get(), 0}, {y.get(), 0}};
    const auto routine =
        make<&yoke_program_api::routine_link, &yoke_program_api::routine_destroy, yoke_routine>(
            code.get(), 0U, bindings, 2U, workspace.get(), std::uint64_t{0});
    const std::vector<float> values(kAddCount, 1.0F);
    must<&yoke_backend_api::from_host>(nullptr, x.get(), std::uint64_t{0}, values.data(),
                                       std::uint64_t{kAddCount * sizeof(float)}, nullptr);
    must<&yoke_program_api::routine_launch>(stream, routine.get(), nullptr, 0U);
  }

 private:
  static constexpr std::uint64_t kBytes = 4096;

  void copies(yoke_stream* stream, yoke_buffer* a, yoke_buffer* b, std::vector<std::byte>& host) const {
    const auto pattern = std::uint32_t{0x22222222};
    std::int32_t source = 0;
    must<&yoke_backend_api::from_host>(stream, a, std::uint64_t{0}, host.data(), kBytes, &source);
    if (plugin_.has<&yoke_backend_api::fill>()) {
      must<&yoke_backend_api::fill>(stream, b, std::uint64_t{0}, kBytes, &pattern, 4U);
    } else {
      const std::vector<std::byte> twos(kBytes, std::byte{0x22});
      must<&yoke_backend_api::from_host>(nullptr, b, std::uint64_t{0}, twos.data(), kBytes, &source);
    }
    if (plugin_.has<&yoke_backend_api::device_to_device>()) {
      must<&yoke_backend_api::device_to_device>(stream, b, std::uint64_t{0}, a, std::uint64_t{0}, kBytes);
    }
    if (stream != nullptr) {
      must<&yoke_stream_api::stream_wait>(stream, longest_wait_ns());  // the source must stay until then
    }
    must<&yoke_backend_api::to_host>(stream, b, std::uint64_t{0}, host.data(), kBytes);
  }

  const Plugin& plugin_;
  yoke_device* device_;
};

void play(const Plugin& plugin, yoke_device* device) {
  const Player player(plugin, device);
  player.memory(nullptr);
  if (plugin.has_table<yoke_stream_api>()) {
    player.streams();
  }
  if (plugin.has_table<yoke_program_api>()) {
    player.program(nullptr);
  }
}

}  // namespace

std::optional<Answer> play_scenario(Kit& kit, const Plugin& plugin,
                                    const std::function<void(yoke_device*)>& prepare) {
  const std::vector<yoke_option> options = kit.device_options();
  yoke_device* device = nullptr;
  Answer opened =
      plugin.call<&yoke_backend_api::device_open>(plugin.get(), kit.settings().device, options.data(),
                                                  static_cast<std::uint32_t>(options.size()), &device);
  if (!opened.ok()) {
    return opened;
  }
  std::optional<Answer> refused;
  try {
    if (prepare) {
      prepare(device);
    }
    play(plugin, device);
  } catch (Refused& call) {
    refused = std::move(call.answer);
  }
  expect_ok(plugin.call<&yoke_backend_api::device_close>(device),
            "closing a device after a failure, with all its objects destroyed");
  return refused;
}

void check_nothing_alive(const Plugin& plugin, const std::string& when) {
  const yoke_live_counts live = plugin.live_counts();
  check(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines == 0, when,
        " there are alive ", live.devices, " devices, ", live.buffers, " buffers, ", live.streams,
        " streams, ", live.events, " events, ", live.codes, " codes, ", live.routines, " routines");
}

}  // namespace yoke::conformance
