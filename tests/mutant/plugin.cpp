// SPDX-License-Identifier: Apache-2.0
// tests/mutant/plugin.cpp: the exported symbol, and the bugs of the entry and destroy.
#include <unistd.h>
#include <yoke/sdk/entry.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "bug.h"
#include "device.h"
#include "tables.h"

namespace {

using yoke::mutant::on;
namespace detail = yoke::sdk::detail;

// Runs when the file is mapped.
[[maybe_unused]] const int crashed_constructor = on<"constructor_crashes">() ? std::raise(SIGSEGV) : 0;

// Bugs that change the state of the process.
void disturb() {
  if (on<"entry_starts_a_thread">()) {
    std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(60)); }).detach();
  }
  if (on<"entry_changes_rounding">()) {
    std::fesetround(FE_TOWARDZERO);
  }
  if (on<"entry_changes_locale">()) {
    std::setlocale(LC_ALL, "C");
  }
  if (on<"entry_changes_folder">() && chdir("/") != 0) {
    std::abort();
  }
  if (on<"entry_changes_environment">()) {
    setenv("OMP_NUM_THREADS", "1", 1);
  }
  if (on<"entry_installs_a_signal_handler">()) {
    std::signal(SIGFPE, [](int) {});
  }
  if (on<"entry_prints">()) {
    std::puts("mutant backend, all rights reserved");
    std::fflush(stdout);
  }
  if (on<"atexit_handler_exits">()) {
    std::atexit([] { _exit(3); });
  }
}

void destroy_unchecked(yoke_plugin* plugin) {
  const volatile std::uint32_t magic = plugin->magic;
  (void)magic;
  detail::plugin_destroy(plugin);
}

void destroy_and_log_later(yoke_plugin* plugin) {
  if (plugin != nullptr) {
    std::thread([host = detail::state_of(plugin).host] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      host.log(YOKE_LOG_INFO, "plugin.destroy done=1");
    }).detach();
  }
  detail::plugin_destroy(plugin);
}

// Returns the options of the entry, except those that the active bug ignores.
std::vector<yoke_option> kept_options(const yoke_entry_args& args) {
  const std::vector<yoke::sdk::OptionSpec> specs = yoke::mutant::Backend().option_specs();
  std::vector<yoke_option> kept;
  for (std::uint32_t i = 0; i < args.option_count; ++i) {
    const yoke_option option = yoke::sdk::read_row(args.options, args.option_stride, i);
    const std::string_view value = option.text;
    const bool is_known =
        std::any_of(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == option.name; });
    const bool is_valid = value.size() == 1 && value[0] >= '0' && value[0] <= '8';
    if (!(on<"entry_ignores_unknown_options">() && !is_known) &&
        !(on<"entry_ignores_invalid_values">() && std::string_view(option.name) == "devices" && !is_valid)) {
      kept.push_back(option);
    }
  }
  return kept;
}

void change_prefix(yoke_plugin& plugin) {
  plugin.get_table = yoke::mutant::get_table;
  if (on<"backend_has_a_wrong_name">()) {
    plugin.name = "Mutant Backend";
  }
  if (on<"plugin_has_another_kind">()) {
    plugin.kind = YOKE_PLUGIN_KIND_BACKEND + 1;
  }
  if (on<"destroy_crashes_on_null">()) {
    plugin.destroy = destroy_unchecked;
  }
  if (on<"host_is_called_after_destroy">()) {
    plugin.destroy = destroy_and_log_later;
  }
}

}  // namespace

#ifdef YOKE_MUTANT_SECOND_SYMBOL
// The bug second_symbol_is_exported is a second build of the plugin.
extern "C" YOKE_EXPORT std::int32_t yoke_mutant_second() {
  return 2;
}
#endif

extern "C" YOKE_EXPORT std::int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                                      yoke_error* error) noexcept {
  if (yoke::mutant::planted() == yoke::mutant::kUnknownBug) {
    return yoke::sdk::Host(args->host)
        .report(error, YOKE_STATUS_INVALID_ARGUMENT, "YOKE_MUTANT_BUG is not a bug of tests/mutant/bugs.h");
  }
  disturb();
  yoke_entry_args seen{};
  yoke::sdk::read_sized(seen, args);
  seen.struct_size = sizeof seen;
  if (on<"entry_takes_any_version">()) {
    seen.min_major = seen.max_major = YOKE_ABI_MAJOR;
    seen.min_minor = seen.max_minor = YOKE_ABI_MINOR;
  }
  if (on<"entry_ignores_the_hosts_size">()) {
    static yoke_host_api whole;
    whole = *seen.host;
    whole.struct_size = sizeof whole;
    seen.host = &whole;
  }
  const std::vector<yoke_option> options = kept_options(seen);
  seen.options = options.data();
  seen.option_count = static_cast<std::uint32_t>(options.size());
  seen.option_stride = sizeof(yoke_option);
  const std::int32_t code =
      yoke::sdk::enter(&seen, out_plugin, on<"entry_fails_without_text">() ? nullptr : error,
                       {"mutant", "1.0.0", "yoke"}, [] { return std::make_unique<yoke::mutant::Backend>(); });
  if (code == YOKE_STATUS_OK) {
    change_prefix(**out_plugin);
  }
  return code;
}
