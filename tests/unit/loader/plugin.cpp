// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/plugin.cpp: the fake backend as a file, with the defect that its file name names:
// libyoke_backend_<defect>.so. A test copies one built file; any other name is a backend without defects.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <tuple>

#include "fake_backend.h"

namespace {

namespace sdk = yoke::sdk;
using yoke::test::Control;

const char* const kWild = reinterpret_cast<const char*>(16);  // an address that cannot be read

const std::string& own_name() {
  static const std::string name = yoke::test::module_name();
  return name;
}

bool is(std::string_view defect) {
  return own_name() == defect;
}

template <class Function>
Function wild_function() {
  return reinterpret_cast<Function>(reinterpret_cast<std::uintptr_t>(kWild));
}

// Appends a line to the file that an environment variable names, for the test to read.
void record(const char* variable, const std::string& text) {
  const char* const path = std::getenv(variable);
  const int file = path == nullptr ? -1 : ::open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
  const std::string line = text + "\n";
  if (path != nullptr && (file < 0 || ::write(file, line.data(), line.size()) < 0 || ::close(file) != 0)) {
    std::abort();
  }
}

[[noreturn]] void hang() {
  while (true) {
    ::pause();
  }
}

// Returns when the child has recorded its process id.
void fork_and_stay() {
  int ready[2] = {-1, -1};
  if (::pipe(ready) != 0) {
    std::abort();
  }
  if (::fork() == 0) {
    record("YOKE_TEST_FORKED", std::to_string(::getpid()));
    ::close(ready[0]);
    ::close(ready[1]);
    hang();
  }
  char byte = 0;
  ::close(ready[1]);
  if (::read(ready[0], &byte, 1) != 0) {
    std::abort();
  }
  ::close(ready[0]);
}

// Defects that end a process, in "constructor", "entry", "get_table", "device_count" or "destroy".
void fail_in(const std::string& stage) {
  if (is("crash_in_" + stage)) {
    ::raise(SIGSEGV);
  } else if (is("hang_in_" + stage)) {
    hang();
  } else if (is("exit_in_" + stage)) {
    std::exit(3);
  } else if (is("throw_in_" + stage)) {
    throw std::runtime_error("oops\x1b[2J");
  }
}

// Defects that change the process (rule 22).
void change_the_process() {
  constexpr char kText[] = "hello from a plugin\x1b[31m\n";
  bool failed = false;
  if (is("fork_in_constructor")) {
    fork_and_stay();
  } else if (is("prints")) {
    failed = ::write(1, kText, sizeof(kText) - 1) < 0;
  } else if (is("prints_into_a_buffer")) {
    std::printf("hello");
  } else if (is("float_mode")) {
    std::fesetround(FE_UPWARD);
  } else if (is("locale")) {
    std::setlocale(LC_ALL, "C.UTF-8");
  } else if (is("working_directory")) {
    failed = ::chdir("/") != 0;
  } else if (is("environment")) {
    ::setenv("YOKE_TEST_CHANGED", "1", 1);
  } else if (is("signal_handler")) {
    std::signal(SIGUSR1, [](int) {});
  } else if (is("thread")) {
    pthread_t thread{};
    ::pthread_create(
        &thread, nullptr, [](void*) -> void* { hang(); }, nullptr);
  }
  if (failed) {
    std::abort();
  }
}

__attribute__((constructor)) void construct() {
  record("YOKE_TEST_LOADED", own_name());
  fail_in("constructor");
  change_the_process();
}

std::vector<sdk::OptionSpec> option_specs() {
  return {sdk::OptionSpec::integer("threads", "Threads per stream.", 2, 1, 8),
          sdk::OptionSpec::number("share", "Part of the memory.", 0.5, 0, 1),
          sdk::OptionSpec::text("mode", "How.", "fast", "fast|exact"),
          is("duplicate_option") ? sdk::OptionSpec::flag("mode", "How.", false)
          : is("text_option")    ? sdk::OptionSpec::text("pin", "Pin threads.", "no")
                                 : sdk::OptionSpec::flag("pin", "Pin threads.", false),
          sdk::OptionSpec::integer("level", "Of the whole plugin.", 0, 0, 9).for_plugin()};
}

// The host table that a test offers.
struct HostTable {
  std::uint64_t struct_size;
  int (*answer)();
};

// Logs the options of the plugin and the result of the host's table, if there is one.
void configure(const sdk::Host& host, const sdk::Options& options) {
  if (options.given("level")) {
    host.log(YOKE_LOG_INFO, "test.configure level=" + std::to_string(options.integer("level")));
  }
  if (const auto* table = static_cast<const HostTable*>(host.table("test.answer/1")); table != nullptr) {
    host.log(YOKE_LOG_INFO, "test.host_table answer=" + std::to_string(table->answer()));
  }
}

void open(const Control& control, const sdk::Options& options) {
  if (is("unknown_code")) {
    throw sdk::Failure(99, "a reason", -7);
  }
  if (!is("text_option")) {
    sdk::Host(control.host)
        .log(YOKE_LOG_INFO, "test.open threads=" + std::to_string(options.integer("threads")) +
                                " share=" + std::to_string(options.number("share")) +
                                " mode=" + std::string(options.text("mode")) +
                                " pin=" + std::to_string(static_cast<int>(options.flag("pin"))));
  }
}

void spoil_functions(yoke_backend_api& table) {
  if (is("null_required")) {
    table.device_open = nullptr;
    table.to_host = nullptr;
  } else if (is("wild_required")) {
    table.device_open = wild_function<decltype(table.device_open)>();
  } else if (is("crash_in_device_count")) {
    table.device_count = [](auto...) -> std::int32_t {
      fail_in("device_count");
      return YOKE_STATUS_OK;
    };
  } else if (is("null_optional")) {
    table.option_specs = nullptr;
  } else if (is("no_result")) {
    table.device_open = [](auto... args) -> std::int32_t {
      *std::get<sizeof...(args) - 2>(std::tie(args...)) = nullptr;
      return YOKE_STATUS_OK;
    };
  } else if (is("unterminated_name")) {
    table.device_describe = [](auto plugin, auto ordinal, auto info, auto error) {
      const std::int32_t code = sdk::detail::device_describe(plugin, ordinal, info, error);
      std::memset(info->name, 'n', sizeof(info->name));
      return code;
    };
  } else if (is("wild_option") || is("count_above_capacity")) {
    table.option_specs = [](auto plugin, auto capacity, auto stride, auto specs, auto out_count, auto error) {
      const std::int32_t code = sdk::detail::option_specs(plugin, capacity, stride, specs, out_count, error);
      specs[0].help = is("wild_option") ? kWild : specs[0].help;
      *out_count = is("count_above_capacity") ? capacity + 1 : *out_count;
      return code;
    };
  }
}

void spoil_copies(yoke_backend_api& table) {
  if (is("from_host_forgets_offset") || is("forgets_offsets")) {
    table.from_host = [](auto stream, auto dst, auto, auto... rest) {
      return sdk::detail::from_host(stream, dst, 0, rest...);
    };
  }
  if (is("to_host_forgets_offset") || is("forgets_offsets")) {
    table.to_host = [](auto stream, auto src, auto, auto... rest) {
      return sdk::detail::to_host(stream, src, 0, rest...);
    };
  }
  if (is("copy_forgets_offset")) {
    table.device_to_device = [](auto stream, auto dst, auto, auto... rest) {
      return sdk::detail::device_to_device(stream, dst, 0, rest...);
    };
  }
}

const void* table_for(const char* id, const void* found) {
  if (is("throw_in_get_table")) {
    throw 42;
  }
  fail_in("get_table");
  if (std::strcmp(id, YOKE_STREAM_TABLE) == 0 && is("null_required")) {
    static yoke_stream_api empty{};
    empty.struct_size = sizeof(empty);
    return &empty;
  }
  if (std::strcmp(id, YOKE_BACKEND_TABLE) != 0) {
    return found;
  }
  return is("no_table")           ? nullptr
         : is("wild_table")       ? kWild
         : is("misaligned_table") ? static_cast<const char*>(found) + 4
                                  : found;
}

const char* plugin_name() {
  static const std::string long_name(10240, 'x');
  return is("wrong_name")      ? "other"
         : is("path_name")     ? "../../etc/passwd"
         : is("empty_name")    ? ""
         : is("long_name")     ? long_name.c_str()
         : is("not_utf8_name") ? "caf\xe9\x1b[2J"
         : is("null_name")     ? nullptr
         : is("wild_name")     ? kWild
                               : own_name().c_str();
}

void spoil_prefix(yoke_plugin& prefix, const yoke_entry_args& args) {
  prefix.magic = is("wrong_magic") ? 42 : prefix.magic;
  prefix.prefix_size = is("prefix_size_zero")     ? 0
                       : is("prefix_size_small")  ? 16
                       : is("prefix_size_absurd") ? ~0U
                                                  : prefix.prefix_size;
  prefix.abi_major = is("newer_major") ? args.max_major + 1 : prefix.abi_major;
  prefix.abi_minor = is("newer_minor")   ? args.max_minor + 1
                     : is("older_minor") ? args.min_minor - 1
                                         : prefix.abi_minor;
  prefix.kind = is("unknown_kind") ? 7 : prefix.kind;
  prefix.flags = std::uint64_t{1} << 63U;  // unknown bits are ignored
  prefix.sanitizer = is("sanitizer") ? YOKE_SANITIZER_MEMORY : prefix.sanitizer;
  prefix.name = plugin_name();
  prefix.plugin_version = is("wild_version") ? kWild : is("odd_version") ? "0.0\x07" : prefix.plugin_version;
  prefix.destroy = is("null_destroy") ? nullptr : prefix.destroy;
  prefix.get_table = is("wild_get_table") ? wild_function<decltype(prefix.get_table)>() : prefix.get_table;
}

std::shared_ptr<Control> make_control(const yoke_entry_args* args) {
  auto control = std::make_shared<Control>();
  Control* const self = control.get();
  control->name = own_name();
  control->provides = {};
  control->device_info.kind = YOKE_DEVICE_CPU;
  control->device_info.compute_unit_count = 0;
  control->memory_limit = 1U << 20U;
  control->option_specs = option_specs();
  control->on_configure = [host = sdk::Host(args->host)](const sdk::Options& options) {
    configure(host, options);
  };
  control->on_open = [self](const sdk::Options& options) { open(*self, options); };
  control->on_table = table_for;
  if (is("kernel_hangs")) {
    control->provides.programs = true;
    control->on_launch = [](std::span<const std::int64_t>) { hang(); };
  }
  if (is("kernel_aborts")) {
    control->provides.programs = true;
    control->on_launch = [](std::span<const std::int64_t>) {
      throw sdk::Failure(YOKE_STATUS_ABORTED, "the driver has aborted the kernel");
    };
  }
  control->on_entry = [args](yoke_plugin& prefix) { spoil_prefix(prefix, *args); };
  control->on_destroy = [self] {
    sdk::Host(self->host).log(YOKE_LOG_INFO, "test.destroy");
    fail_in("destroy");
  };
  spoil_functions(control->backend);
  spoil_copies(control->backend);
  control->backend.struct_size = is("table_size_zero")     ? 0
                                 : is("table_size_small")  ? offsetof(yoke_backend_api, to_host)
                                 : is("table_size_older")  ? offsetof(yoke_backend_api, option_specs)
                                 : is("table_size_newer")  ? sizeof(yoke_backend_api) + 64
                                 : is("table_size_absurd") ? ~std::uint64_t{0}
                                                           : sizeof(yoke_backend_api);
  return control;
}

}  // namespace

extern "C" YOKE_EXPORT std::int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                                      yoke_error* error) {
  fail_in("entry");
  const sdk::Host host(args->host);
  if (is("refuses")) {
    return host.report(error, YOKE_STATUS_UNAVAILABLE, "the driver is too old\x07");
  }
  static std::uint64_t garbage[64];
  std::memset(garbage, 0xab, sizeof(garbage));
  if (is("null_plugin") || is("garbage_plugin") || is("wild_plugin")) {
    const void* const wrong = is("null_plugin")   ? nullptr
                              : is("wild_plugin") ? kWild
                                                  : static_cast<void*>(garbage);
    std::memcpy(out_plugin, &wrong, sizeof(wrong));
    return YOKE_STATUS_OK;
  }
  // A plugin with an invalid prefix is never destroyed; this keeps it reachable for the leak checker.
  static yoke_plugin* last;
  const std::int32_t code = yoke::test::enter(make_control(args), args, &last, error);
  if (code == YOKE_STATUS_OK) {
    host.log(YOKE_LOG_INFO, "test.enter");
    *out_plugin =
        is("misaligned_plugin") ? reinterpret_cast<yoke_plugin*>(reinterpret_cast<char*>(last) + 1) : last;
  }
  return code;
}
