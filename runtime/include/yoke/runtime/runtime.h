// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/runtime.h: backends by name, devices, buffers. No globals: two runtimes live
// in one process.
#pragma once

#include <yoke/backend.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/layers.h>
#include <yoke/runtime/log.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace yoke {

namespace detail {
struct RuntimeState;
struct BackendState;
}  // namespace detail

// Untrusted plugins are first loaded by a child process (yoke-probe), so that one that crashes, hangs, exits
// or throws takes that down and not the application (abi.md rule 33). It is no sandbox: what passes is
// loaded.
struct ProbeOptions {
  enum class Which {
    kNone,
    kUntrusted,  // every file outside the install folder: who writes there can replace libyoke itself
    kAll
  };
  Which which = Which::kUntrusted;
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  bool required = false;  // refuse what could not be probed; else it is loaded, and the report says so
  bool remember = true;   // keep verdicts on disk, until the file changes
  std::filesystem::path program;    // empty: libexec/yoke/yoke-probe beside libyoke
  std::filesystem::path cache_dir;  // empty: $XDG_CACHE_HOME/yoke/probe or ~/.cache/yoke/probe
};

struct RuntimeOptions {
  // Looked at first, in this order; absolute. Then YOKE_PLUGIN_PATH, the user's folder, the install folder.
  std::vector<std::filesystem::path> plugin_dirs;
  bool search_environment = true;  // YOKE_PLUGIN_PATH and the user's folder
  LogLevel log_level = LogLevel::kWarn;
  LogSink log_sink;  // empty: spdlog on stderr
  std::chrono::nanoseconds wait_timeout =
      std::chrono::minutes(10);  // every wait without a deadline of its own
  // Where plugins get memory for their host-side buffers, to count, place or limit it: both or neither;
  // empty: the system's. `allocate` gets bytes and alignment (a power of two) and gives null when there is
  // none. Called from any thread, until the last object made from the runtime is gone.
  std::function<void*(std::uint64_t, std::uint64_t)> allocate_host_memory;
  std::function<void(void*)> free_host_memory;
  // Programs that a device's backend does not run are run by this one, on its first device, and counted:
  // Runtime::fallbacks(). Empty: by none.
  std::string fallback_backend = "cc";
  bool strict = false;  // such programs are errors when they are compiled
  LayerOptions layers;  // validation and tracing between the runtime and its plugins
  // For tests: a worker-thread stream sleeps before each command, 0 to this many microseconds, drawn from the
  // seed.
  std::uint32_t injected_delay_us = 0;
  std::uint64_t injected_delay_seed = 0;
  ProbeOptions probe;
  // Lines as sha256sum prints them, `<sum>  <absolute path or file name>`: no other plugin may load, and no
  // other library that one brings along. Empty: YOKE_PLUGIN_ALLOW_LIST with search_environment, else any may.
  std::filesystem::path allow_list;
};

// One file that might be a backend, found by listing; nothing was loaded. The report of abi.md rule 32.
struct BackendCandidate {
  std::string name;                   // from the file's name; empty: a place that was not searched
  std::filesystem::path path;         // canonical where it can be resolved
  std::string stage;                  // "found", "checked", "opened", "entered", "loaded": how far it got
  bool usable = false;                // not refused so far
  std::string verdict;                // "not loaded yet", "loaded", or why it was refused
  std::string mend;                   // what would help; empty when usable
  std::string shadowed_by;            // path of the file that wins; empty: none
  std::string build_id;               // the linker's, in hex; empty: it has none, or is no ELF file
  std::string probed;                 // "yes", "cached", or "no: " and why not
  std::vector<std::string> warnings;  // what is doubtful but no reason to refuse it, one sentence each
};

// A program that ran on another backend than its device's, since the runtime was made (abi.md rule 27).
struct FallbackCount {
  std::string routine;               // the program's name
  std::string device;                // whose backend does not run it: "minimal:0"
  std::string to;                    // which runs it: "cc:0"
  std::string reason;                // in the backend's words where it has any
  std::uint64_t launch_count = 0;    // that succeeded
  std::uint64_t byte_count = 0;      // copied for them, to the other backend and back
  std::chrono::nanoseconds time{0};  // that they took, copies included
};

using OptionValue = std::variant<bool, std::int64_t, double, std::string>;
struct Option {
  std::string name;
  OptionValue value;
};
struct OptionSpec {  // a row of a backend's schema
  std::string name, help;
  std::int32_t type = YOKE_OPTION_INTEGER;  // YOKE_OPTION_*
  std::int64_t integer_min = 0, integer_max = 0, integer_default = 0;
  double number_min = 0, number_max = 0, number_default = 0;
  std::string text_default;
  std::vector<std::string> text_choices;  // empty: any
};

struct DeviceInfo {
  std::string name, unique_id;
  std::uint64_t memory_bytes = 0, type_mask = 0;
  std::int32_t kind = YOKE_DEVICE_OTHER;
  std::uint32_t compute_unit_count = 1, suggested_stream_count = 1;
  bool host_visible = false;
  std::int32_t numa_node = -1;
};

class Backend;
class Device;

// Owns what it loads. Thread-safe. Objects made from it keep what they need alive, so it may be destroyed
// first.
class Runtime {
 public:
  explicit Runtime(RuntimeOptions options = {});
  const RuntimeOptions& options() const;

  // All candidates, sorted by name, then by order of search; loads nothing.
  std::vector<BackendCandidate> list_backends() const;

  // Loads libyoke_backend_<name>.so, once. Error kNotFound lists the names found and why others were refused.
  std::shared_ptr<Backend> backend(std::string_view name);

  // Registers a plugin that is linked into the process (tests, static builds). It comes before every folder
  // but plugin_dirs.
  void register_backend(std::string_view name, yoke_plugin_entry_fn entry);

  // One row per routine, device and reason, sorted by device and routine; empty where every backend ran its
  // own programs. Launches still queued are not counted yet.
  std::vector<FallbackCount> fallbacks() const;
  // What the layer validate found so far; empty without it.
  ValidationReport validation() const;

  void log(LogLevel level, std::string_view line) const;
  bool logs(LogLevel level) const;

 private:
  friend std::uint64_t compile_count(const Runtime& runtime);  // device.h
  friend struct detail::RuntimeState;
  static std::shared_ptr<Backend> load(const std::shared_ptr<detail::RuntimeState>& state,
                                       std::string_view name);
  std::shared_ptr<detail::RuntimeState> state_;
};

// A loaded plugin. Shared; never unloaded from the process (abi.md rule 35).
class Backend : public std::enable_shared_from_this<Backend> {
 public:
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const std::string& name() const;
  const std::string& version() const;
  const std::string& vendor() const;
  const std::filesystem::path& path() const;  // empty for a registered one
  std::uint32_t device_count() const;
  std::string no_device_reason() const;  // why device_count() is 0; else empty
  DeviceInfo device_info(std::uint32_t ordinal) const;
  std::vector<OptionSpec> option_specs() const;
  // "threads=2" and so on, each value of its option's type (a flag is on or off, 1 or 0), checked as
  // open_device does, which takes them. Throws Error kInvalidArgument.
  std::vector<Option> parse_options(std::span<const std::string> texts) const;
  yoke_live_counts live_counts() const;

  // Checks options against the schema. One more handle on every call.
  std::shared_ptr<Device> open_device(std::uint32_t ordinal, std::span<const Option> options = {});

  bool has_streams() const;   // the backend brings streams of its own; else worker threads drive it
  bool has_programs() const;  // else RuntimeOptions::fallback_backend runs them

  detail::BackendState& state() const { return *state_; }  // for yoke's own sources

 private:
  friend class Runtime;
  explicit Backend(std::unique_ptr<detail::BackendState> state);
  std::unique_ptr<detail::BackendState> state_;
};

}  // namespace yoke
