// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/load_entry.cpp: the inputs of the entry: options of the whole plugin, and
// tables of the host.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>

#include "groups.h"
#include "scenario.h"
#include "sized.h"

namespace yoke::conformance {
namespace {

// Enters with these options, given as text, and destroys the plugin.
Answer enter_with(Kit& kit, const NamesAndValues& options) {
  const Library library(kit.settings().plugin, options);
  Host host;
  const yoke_entry_args args = entry_args(host, library);
  yoke_plugin untouched{};
  yoke_plugin* plugin = &untouched;
  Answer answer = call_entry(library, &args, &plugin);
  if (answer.ok()) {
    check(plugin != nullptr && plugin != &untouched, "the entry returned OK but did not set *out_plugin");
    destroy_plugin(plugin);
  } else {
    check(plugin == &untouched, "the entry failed but wrote *out_plugin");
  }
  check_equal(host.allocations_alive(), 0U,
              "the number of host allocations alive after the entry and destroy");
  return answer;
}

void expect_rejected(Kit& kit, const NamesAndValues& options) {
  expect_code(enter_with(kit, options), YOKE_STATUS_INVALID_ARGUMENT,
              text("entering with the option '", options.back().first, "' = '", options.back().second, "'",
                   options.size() > 1 ? ", given twice" : ""));
}

void unknown_options(Kit& kit) {
  for (const char* name : {"no_such_option_of_this_plugin", "", "\xc3\xa4"}) {
    expect_rejected(kit, {{name, "1"}});
  }
  const std::vector<yoke_option_spec> specs = kit.plugin().option_specs(YOKE_OPTION_SCOPE_PLUGIN);
  for (const auto& [name, value] : kit.settings().plugin_options) {
    check(std::any_of(specs.begin(), specs.end(),
                      [name = name](const yoke_option_spec& spec) { return name == spec.name; }),
          "the entry accepts the option '", name, "', but option_specs does not list it");
  }
}

void option_scopes(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const std::vector<yoke_option_spec> specs = plugin.option_specs();
  if (specs.empty()) {
    unsupported("the plugin has no options");
  }
  const bool has_device = plugin.device_count() > kit.settings().device;
  for (const yoke_option_spec& spec : specs) {
    const bool in_both = std::any_of(specs.begin(), specs.end(), [&](const yoke_option_spec& other) {
      return other.scope != spec.scope && std::strcmp(other.name, spec.name) == 0;
    });
    const yoke_option option = default_option(spec);
    if (in_both) {
      continue;
    }
    if (spec.scope == YOKE_OPTION_SCOPE_DEVICE) {
      expect_rejected(kit, {{spec.name, "1"}});
    } else if (has_device) {
      expect_no_object<yoke_device>(YOKE_STATUS_INVALID_ARGUMENT,
                                    text("opening a device with the plugin option '", spec.name, "'"),
                                    [&](yoke_device** out) {
                                      return plugin.device_open(kit.settings().device, {&option, 1}, out);
                                    });
    }
  }
}

// Values that the schema excludes.
std::vector<std::string> invalid_values(const yoke_option_spec& spec) {
  if (spec.type == YOKE_OPTION_TEXT) {
    return spec.text_choices == nullptr ? std::vector<std::string>{}
                                        : std::vector<std::string>{"no such choice"};
  }
  std::vector<std::string> values = {"", "x", "1x", "nan",
                                     "9999999999999999999999999999999999999999999999e999"};
  if (spec.type != YOKE_OPTION_NUMBER && spec.integer_min > INT64_MIN) {
    values.push_back(std::to_string(spec.integer_min - 1));
  }
  if (spec.type != YOKE_OPTION_NUMBER && spec.integer_max < INT64_MAX) {
    values.push_back(std::to_string(spec.integer_max + 1));
  }
  return values;
}

std::string default_text(const yoke_option_spec& spec) {
  if (spec.type == YOKE_OPTION_NUMBER) {
    char digits[32] = {};  // the shortest that read back the same
    std::to_chars(std::begin(digits), std::end(digits), spec.number_default);
    return digits;
  }
  return spec.type == YOKE_OPTION_TEXT ? spec.text_default : std::to_string(spec.integer_default);
}

void option_values(Kit& kit) {
  const std::vector<yoke_option_spec> specs = kit.plugin().option_specs(YOKE_OPTION_SCOPE_PLUGIN);
  if (specs.empty()) {
    unsupported("the plugin has no options of the whole plugin");
  }
  for (const yoke_option_spec& spec : specs) {
    const std::string valid = default_text(spec);
    expect_ok(enter_with(kit, {{spec.name, valid}}),
              text("entering with the option '", spec.name, "' at its default"));
    for (const std::string& value : invalid_values(spec)) {
      expect_rejected(kit, {{spec.name, value}});
    }
    expect_rejected(kit, {{spec.name, valid}, {spec.name, valid}});
  }
}

// Calls device_count with several capacities of the reason. Returns the number of devices.
std::uint32_t check_reason(const Plugin& plugin) {
  const std::uint32_t count = plugin.device_count();
  check(count < 100000, "device_count returned ", count, " devices");
  std::string whole;
  for (const std::uint64_t capacity :
       {std::uint64_t{YOKE_REASON_CAPACITY}, std::uint64_t{20}, std::uint64_t{1}, std::uint64_t{0}}) {
    constexpr char kUntouched = '\x7f';
    std::vector<char> reason(std::size_t{2} * YOKE_REASON_CAPACITY, kUntouched);
    std::uint32_t again = UINT32_MAX;
    const Answer answer = plugin.call<&yoke_backend_api::device_count>(
        plugin.get(), &again, capacity == 0 ? nullptr : reason.data(), capacity);
    expect_ok(answer, "counting the devices");
    check_equal(again, count, "the device count in a later call");
    check(answer.status.text.empty(), "device_count returned OK but set an error text");
    const auto end = reason.begin() + static_cast<std::ptrdiff_t>(capacity);
    check(std::all_of(end, reason.end(), [](char c) { return c == kUntouched; }),
          "device_count wrote past the capacity ", capacity, " of the reason");
    check(capacity == 0 || std::find(reason.begin(), end, '\0') != end,
          "the reason for no devices with capacity ", capacity, " has no terminating zero");
    if (capacity == YOKE_REASON_CAPACITY) {
      whole = reason.data();
      check(count != 0 || !whole.empty(), "the reason for no devices is empty");
      check(count == 0 || whole.empty(), "there are devices, but the reason for no devices is '", whole, "'");
      check(is_utf8(whole), "the reason for no devices is not UTF-8");
    }
    check(capacity == 0 || whole.starts_with(reason.data()),
          "the reason for no devices changes with the capacity");
  }
  return count;
}

// Enters with each plugin option at its smallest value, to find an instance without devices.
void no_devices(Kit& kit) {
  std::vector<NamesAndValues> tried = {kit.settings().plugin_options};
  for (const yoke_option_spec& spec : kit.plugin().option_specs(YOKE_OPTION_SCOPE_PLUGIN)) {
    if (spec.type == YOKE_OPTION_INTEGER || spec.type == YOKE_OPTION_FLAG) {
      tried.push_back({{spec.name, std::to_string(spec.integer_min)}});
    }
  }
  bool found = false;
  for (const NamesAndValues& options : tried) {
    if (enter_with(kit, options).ok()) {
      const Library library(kit.settings().plugin, options);
      Plugin plugin(library);
      if (check_reason(plugin) == 0) {
        found = true;
        check_untouched<yoke_device_info>(
            "describing device 0 of 0", YOKE_STATUS_OUT_OF_RANGE,
            [&](yoke_device_info* info) { return plugin.device_describe(0, info); });
        expect_no_object<yoke_device>(YOKE_STATUS_OUT_OF_RANGE, "opening device 0 of 0",
                                      [&](yoke_device** out) { return plugin.device_open(0, {}, out); });
      }
      plugin.leave();
    }
  }
  kit.note(found ? "an instance without devices was found" : "there are devices with any option");
}

// A table that contains only its size. The bytes after it are not functions.
struct EmptyTable {
  std::uint64_t struct_size = sizeof struct_size;
  std::uint64_t beyond[31];
  EmptyTable() { std::fill(std::begin(beyond), std::end(beyond), UINT64_MAX); }
};

void host_tables(Kit& kit) {
  using GetTable = const void* (*)(void*, const char*);
  const GetTable empty = [](void*, const char*) -> const void* {
    static const EmptyTable table;
    return &table;
  };
  for (const GetTable get_table : {GetTable{nullptr}, empty}) {
    auto host = std::make_unique<Host>();
    host->api().get_table = get_table;
    const yoke_entry_args args = entry_args(*host, kit.library());
    Plugin plugin(kit.library(), args, std::move(host));
    use_and_leave(kit, plugin);
  }
}

}  // namespace

std::vector<Test> load_entry_tests() {
  return {
      {"options-unknown", "an unknown plugin option is INVALID_ARGUMENT with a text", {49}, unknown_options},
      {"options-scope",
       "the entry rejects device options, and device_open rejects plugin options",
       {49},
       option_scopes},
      {"options-values",
       "the entry accepts the defaults of the schema and rejects values that the schema excludes",
       {28, 49},
       option_values},
      {"no-devices",
       "device_count returns the same count each time; without devices it writes a reason that fits the "
       "capacity",
       {12, 48},
       no_devices},
      {"host-tables", "the plugin works if the host has no tables or only empty ones", {5, 50}, host_tables},
  };
}

}  // namespace yoke::conformance
