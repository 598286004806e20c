// SPDX-License-Identifier: Apache-2.0
// tests/support/fake_backend.h: the backend of the tests: host memory and the reference executor, built on
// the SDK, with switches, hooks and tables that a test may change. README.md shows how to use it.
#pragma once

#include <yoke/sdk/entry.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::test {

// Shared by a test and its backend.
struct Control {
  // Properties of the plugin. Set before it is entered.
  std::string name;  // empty: "test<slot>"
  sdk::Provides provides{.streams = false, .programs = true, .peers = true};
  std::uint32_t device_count = 2;
  std::string no_device_reason = "no card is plugged in";
  // The same for all devices; an empty name becomes "test device", an empty unique_id "test:<ordinal>".
  sdk::DeviceInfo device_info;
  std::vector<sdk::OptionSpec> option_specs;
  bool has_peers = true;  // devices access each other's memory

  // The plugin's tables: copies of the SDK's. A test may set a function to
  // nullptr or to its own, before or after entry.
  yoke_backend_api backend = sdk::detail::kBackendTable;
  yoke_stream_api stream = sdk::detail::kStreamTable;
  yoke_program_api program = sdk::detail::kProgramTable;
  yoke_peer_api peer = sdk::detail::kPeerTable;
  yoke_memory_api memory = sdk::detail::kMemoryTable;
  const yoke_host_api* host = nullptr;  // the table that the host passed at entry

  // Hooks; an empty one does nothing. They run in the plugin, on the calling thread, and may sleep or throw.
  // The second group is called outside of the SDK, so their exceptions cross the ABI.
  std::function<void(const sdk::Options&)> on_configure;  // options of the whole plugin
  std::function<void(const sdk::Options&)> on_open;
  std::function<void(std::string_view text)> on_compile;
  std::function<void(std::vector<sdk::Entry>&)> on_describe;  // changes the descriptions of programs
  std::function<void(std::span<const std::int64_t>)> on_launch;
  std::function<void(std::string_view program)> on_run;  // as on_launch; not for `entries`

  std::function<void(yoke_plugin&)> on_entry;                              // may change the prefix
  std::function<const void*(const char* id, const void* found)> on_table;  // returns what get_table returns
  std::function<void()> on_destroy;

  // Devices and programs.
  bool opens_nothing = false;  // open_device returns null
  std::uint64_t memory_limit = 0;
  std::string unsupported;                // statements that contain this text are unsupported; empty: none
  std::vector<sdk::Entry> entries;        // not empty: code has these programs, and texts are not read
  std::vector<sdk::Verdict> verdicts;     // if not empty, the result of can_compile
  std::atomic<int> enumeration_count{0};  // calls of device_count
  std::atomic<int> live_code_count{0};
  std::atomic<std::uint64_t> pinned_count{0};  // calls of pinned_allocate
  std::atomic<int> live_pinned_count{0};

  // Every copy, fill and launch is one call, on a stream's thread if it has a stream.
  std::atomic<std::uint32_t> delay_us{0};    // each call takes this much longer,
  std::atomic<std::uint64_t> delay_seed{0};  // or, if this is not 0, a random part of it
  std::atomic<bool> is_blocked{false};       // calls wait until it is false, at most 20 s
  // This many more calls succeed and the next one fails with fail_code; -1: none fails.
  std::atomic<std::int64_t> fail_after{-1};
  std::atomic<std::int32_t> fail_code{YOKE_STATUS_INTERNAL};
  std::atomic<std::uint64_t> call_count{0};   // calls begun
  std::atomic<std::uint64_t> ended_count{0};  // copies and fills that have ended without a failure
  std::atomic<std::uint64_t> launch_count{0};
  std::atomic<std::uint64_t> link_count{0};
  std::atomic<bool> freed_in_use{false};  // a buffer was destroyed during a call that uses it
  std::atomic<bool> is_aborted{false};    // device_abort was called

  // What collectives_describe returns.
  std::uint64_t collectives_features = 0;
  std::uint32_t member_limit = 0;

  // Removes optional abilities: device_to_device, fill and the host address of buffers.
  void make_bare();
};

// The entry of an in-process plugin. A slot holds one `control` (null:
// a default one) until the next call for it.
inline constexpr int kSlotCount = 8;
yoke_plugin_entry_fn entry_of(int slot, std::shared_ptr<Control> control = nullptr);

// Registers the backend, "test<slot>" unless `control` has a name, with a runtime.
template <class Runtime>
std::shared_ptr<Control> register_backend(Runtime& runtime, int slot,
                                          std::shared_ptr<Control> control = nullptr) {
  if (control == nullptr) {
    control = std::make_shared<Control>();
  }
  const yoke_plugin_entry_fn entry = entry_of(slot, control);
  runtime.register_backend(control->name, entry);
  return control;
}

// For modules: the body of yoke_plugin_entry, and the <name> of the
// libyoke_backend_<name>.so that contains this code.
std::int32_t enter(const std::shared_ptr<Control>& control, const yoke_entry_args* args,
                   yoke_plugin** out_plugin, yoke_error* error);
std::string module_name();

}  // namespace yoke::test
