// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/runtime.h: Runtime, which loads backends by name, and Backend. There is no
// global state: a process may have several runtimes.
#pragma once

#include <yoke/backend.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/layers.h>
#include <yoke/runtime/log.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace yoke {

namespace detail {
struct RuntimeEnd;
struct RuntimeState;
struct BackendState;
}  // namespace detail

// A child process (yoke-probe) loads untrusted plugins first, so that a plugin that crashes, hangs, exits or
// throws ends the child and not the application (rule 33 of plugin_api/RULES.md). It is not a sandbox: a
// plugin that passes is loaded into the application.
struct ProbeOptions {
  enum class Which {
    kNone,
    kUntrusted,  // files outside the install folder; users who can write to it can replace libyoke anyway
    kAll
  };
  Which which = Which::kUntrusted;
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  bool required = false;  // refuse a plugin that cannot be probed; otherwise it is loaded and reported
  bool remember = true;   // keep verdicts on disk until the file changes
  std::filesystem::path program = {};    // empty: libexec/yoke/yoke-probe beside libyoke
  std::filesystem::path cache_dir = {};  // empty: $XDG_CACHE_HOME/yoke/probe or ~/.cache/yoke/probe
};

// A piece of work of a stream, recorded when it ends, for timelines. Failed and skipped work has no record.
struct WorkRecord {
  enum class Kind { kLaunch, kCopy, kFill, kCollective, kWait, kCallback };
  Kind kind = Kind::kLaunch;
  std::string_view stream;  // its name
  // kLaunch: of the program. kCopy: "from_host", "to_host" or "device_to_device". kWait: of the stream that was
  // waited for. Otherwise of the kind, such as "fill", or of the backend's function.
  std::string_view name;
  std::string_view tensor;       // copies of named tensors
  std::uint64_t byte_count = 0;  // copies and fills; 0 if unknown
  std::int64_t step = -1;        // of Stream::begin_step; -1: none, or unknown
  // By the host's steady clock.
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

struct RuntimeOptions {
  // Absolute folders, searched first and in this order. YOKE_PLUGIN_PATH, the
  // user's folder and the install folder follow.
  std::vector<std::filesystem::path> plugin_dirs = {};
  bool search_environment = true;  // search YOKE_PLUGIN_PATH and the user's folder
  LogLevel log_level = LogLevel::kWarn;
  LogSink log_sink = {};  // empty: spdlog on stderr
  // The timeout of every wait that has no deadline argument.
  std::chrono::nanoseconds wait_timeout = std::chrono::minutes(10);
  // Allocate and free the host memory of plugins, to count, place or limit it. Set both or neither; if they
  // are empty, the system's allocator is used. `allocate_host_memory` takes a byte count and an alignment (a
  // power of two) and returns null on failure. Both are called from any thread until the last object made
  // from the runtime is destroyed.
  std::function<void*(std::uint64_t, std::uint64_t)> allocate_host_memory = {};
  std::function<void(void*)> free_host_memory = {};
  // Runs the programs that a device's backend cannot run, on its first device. Runtime::fallbacks() counts
  // them. Empty: fallback is disabled. compile() throws Error kNotFound if there is no such backend, except
  // for the default, which may be missing if no program needs it.
  std::string fallback_backend = "cc";
  bool strict = false;       // compiling a program that needs the fallback is an error
  LayerOptions layers = {};  // validation and tracing between the runtime and its plugins
  // Called with a record of each piece of work, on any thread: in order for one stream, at the same time for
  // several. It must return soon; its exceptions are dropped. A wait for a stream returns after the records of its work.
  // Work of a backend's own streams is recorded if the backend has the table yoke.profile/1, that of the
  // runtime's threads always. Empty: nothing is recorded, at no cost.
  std::function<void(const WorkRecord&)> on_work = {};
  // The maximum number of threads that run commands at the same time for backends without streams, independent of the
  // number of streams. 0: one per core that the process may use.
  std::uint32_t worker_threads = 0;
  // For tests: a worker-thread stream sleeps before each command, for 0 to
  // this many microseconds, drawn from the seed.
  std::uint32_t injected_delay_us = 0;
  std::uint64_t injected_delay_seed = 0;
  ProbeOptions probe = {};
  // A file in the format of sha256sum: lines `<sum>  <absolute path or file name>`. Plugins and private
  // libraries of plugins that are not listed are refused. If empty, YOKE_PLUGIN_ALLOW_LIST is used if
  // search_environment is set, else no list.
  std::filesystem::path allow_list = {};
  // Options of whole plugins as "name=value" texts, by backend name. A plugin gets them when it is entered
  // and is refused if one is unknown or invalid. Backend::option_specs() lists those of a loaded plugin.
  std::map<std::string, std::vector<std::string>> plugin_options = {};
  // Tables that the application offers to plugins through yoke_host_api.get_table, by id. A table starts with
  // its own struct_size and must stay valid until the last object made from the runtime is destroyed.
  // yoke-probe enters a plugin without them, so a plugin must not fail at entry because one is missing.
  std::map<std::string, const void*, std::less<>> host_tables = {};
};

// A file that may be a backend, found without loading it (rule 32).
struct BackendCandidate {
  std::string name;            // from the file name; empty: a folder that was not searched
  std::filesystem::path path;  // canonical if it can be resolved
  std::string stage;           // the last stage reached: "found", "checked", "opened", "entered", "loaded"
  bool usable = false;         // not refused so far
  std::string verdict;         // "not loaded yet", "loaded", or the reason why it was refused
  std::string fix;             // how to fix it; empty if usable
  std::string shadowed_by;     // path of the file that is loaded instead; empty: none
  std::string build_id;        // the linker's, in hex; empty: it has none, or is not an ELF file
  std::string probed;          // "yes", "cached", or "no: " and the reason
  std::vector<std::string> warnings;  // problems that do not make the file unusable, one sentence each
};

// The launches of a program that ran on another backend than its device's (rule 27).
struct FallbackCount {
  std::string routine;               // the program's name
  std::string device;                // whose backend cannot run it: "minimal:0"
  std::string to;                    // that ran it: "cc:0"
  std::string reason;                // from the backend, if it gave one
  std::uint64_t launch_count = 0;    // successful launches
  std::uint64_t byte_count = 0;      // copied to the other backend and back
  std::chrono::nanoseconds time{0};  // total, copies included
};

using OptionValue = std::variant<bool, std::int64_t, double, std::string>;
struct Option {
  std::string name;
  OptionValue value;
};
// A row of a backend's option schema.
struct OptionSpec {
  std::string name, help;
  std::int32_t type = YOKE_OPTION_INTEGER;        // YOKE_OPTION_*
  std::int32_t scope = YOKE_OPTION_SCOPE_DEVICE;  // YOKE_OPTION_SCOPE_*
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

// How many streams a device gets if their number is not given.
enum class StreamUse {
  kOnlyDevicesParallel,  // one stream per device
  kForParallelCopying,   // a second one where copies use no cores: on all devices except CPUs
  kMostParallelStreams   // as many as the device suggests
};
// At least 1, and at most info.suggested_stream_count. Throws Error kInvalidArgument for a number that is not an
// enumerator.
std::uint32_t suggested_stream_count(const DeviceInfo& info, StreamUse use);

class Backend;
class Device;
class Stream;
struct StreamReport;  // stream.h

// Loads backends. Thread-safe. Objects made from it share ownership
// of its state, so it may be destroyed first. A moved-from Runtime throws Error kFailedPrecondition.
class Runtime {
 public:
  explicit Runtime(RuntimeOptions options = {});
  const RuntimeOptions& options() const;

  // Returns all candidates, sorted by name and search order. Loads nothing.
  std::vector<BackendCandidate> list_backends() const;

  // Loads libyoke_backend_<name>.so unless it is already in use. Throws Error kNotFound, which lists the
  // names found and why others were refused, or kFailedPrecondition if the plugin is refused.
  std::shared_ptr<Backend> backend(std::string_view name);

  // Registers a plugin that is linked into the process. It is found after plugin_dirs and before other
  // folders. Throws Error kInvalidArgument or kAlreadyExists.
  void register_backend(std::string_view name, yoke_plugin_entry_fn entry);

  // One row per routine, device and reason, sorted by device and
  // routine. Launches still queued are not counted.
  std::vector<FallbackCount> fallbacks() const;
  // The violations found so far by the layer validate; empty if it is off.
  ValidationReport validation() const;

  void log(LogLevel level, std::string_view line) const;
  bool logs(LogLevel level) const;

 private:
  const std::shared_ptr<detail::RuntimeState>& state() const;
  friend std::uint64_t compile_count(const Runtime& runtime);           // device.h
  friend std::vector<StreamReport> debug_info(const Runtime& runtime);  // stream.h
  friend struct detail::RuntimeState;
  static std::shared_ptr<Backend> load(const std::shared_ptr<detail::RuntimeState>& state,
                                       std::string_view name);
  std::shared_ptr<detail::RuntimeState> state_;
  std::shared_ptr<const detail::RuntimeEnd> end_;  // tells the state when the last copy of this object ends
};

// Checks a plugin's file as Runtime::backend does, maps it into the process, and returns its entry without
// calling it. The file stays mapped. For tools that load a plugin without a Runtime. Throws Error
// kFailedPrecondition with the reason and how to fix it.
yoke_plugin_entry_fn open_plugin_file(const std::filesystem::path& file);

// A loaded plugin. Its code stays in the process (rule 35). Thread-safe.
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
  std::string no_device_reason() const;  // why device_count() is 0; empty if there are devices
  DeviceInfo device_info(std::uint32_t ordinal) const;
  std::vector<OptionSpec> option_specs() const;
  // Parses texts such as "threads=2" for open_device and checks them against the schema. A flag is on, off, 1
  // or 0. Throws Error kInvalidArgument.
  std::vector<Option> parse_options(std::span<const std::string> texts) const;
  std::vector<Option> parse_options(std::initializer_list<std::string> texts) const {
    return parse_options(std::span(texts.begin(), texts.size()));
  }
  yoke_live_counts live_counts() const;

  // Opens another handle on the device. Throws Error kOutOfRange for a bad ordinal, kInvalidArgument for
  // options that the schema does not allow.
  std::shared_ptr<Device> open_device(std::uint32_t ordinal, std::span<const Option> options = {});
  std::shared_ptr<Device> open_device(std::uint32_t ordinal, std::initializer_list<Option> options) {
    return open_device(ordinal, std::span(options.begin(), options.size()));
  }

  bool has_streams() const;   // false: the runtime's worker threads call the backend
  bool has_programs() const;  // false: RuntimeOptions::fallback_backend runs programs

  // The plugin's table `id`, as far as both sides know it: T is a struct of the extension's header that
  // starts with its struct_size, and functions that the plugin lacks are null. Returns null if the plugin
  // does not have the table. Valid while the backend lives. Throws Error kInvalidArgument if `id` is null.
  template <class T>
  const T* extension(const char* id) const {
    return static_cast<const T*>(extension_table(id, sizeof(T)));
  }

  detail::BackendState& state() const { return *state_; }  // internal

 private:
  friend class Runtime;
  explicit Backend(std::unique_ptr<detail::BackendState> state);
  const void* extension_table(const char* id, std::size_t byte_count) const;
  std::unique_ptr<detail::BackendState> state_;
};

}  // namespace yoke
