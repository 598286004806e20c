// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/device_options.cpp: the option schema, and the limits of every range in it.
#include <yoke/runtime/counted.h>

#include <cmath>
#include <limits>
#include <set>

#include "groups.h"

namespace yoke::conformance {
namespace {

std::vector<yoke_option_spec> schema(Kit& kit, std::optional<std::int32_t> scope = std::nullopt) {
  std::vector<yoke_option_spec> specs = kit.plugin().option_specs(scope);
  if (specs.empty()) {
    unsupported(scope ? "the plugin has no such options" : "the plugin has no options");
  }
  return specs;
}

std::vector<yoke_option_spec> device_schema(Kit& kit) {
  kit.plugin().some_devices();
  return schema(kit, YOKE_OPTION_SCOPE_DEVICE);
}

bool is_choice(const std::string& choices, const std::string& value) {
  return value.find('|') == std::string::npos &&
         ("|" + choices + "|").find("|" + value + "|") != std::string::npos;
}

void check_spec(const yoke_option_spec& spec) {
  check(spec.name != nullptr && *spec.name != '\0', "the name of an option is NULL or empty");
  check(spec.help != nullptr && *spec.help != '\0' && is_utf8(spec.help), "the help of option '", spec.name,
        "' is missing or not UTF-8");
  check(spec.scope == YOKE_OPTION_SCOPE_DEVICE || spec.scope == YOKE_OPTION_SCOPE_PLUGIN, "option '",
        spec.name, "' has the unknown scope ", spec.scope);
  if (spec.type == YOKE_OPTION_INTEGER || spec.type == YOKE_OPTION_FLAG) {
    check(spec.integer_min <= spec.integer_default && spec.integer_default <= spec.integer_max,
          "the default ", spec.integer_default, " of option '", spec.name, "' is out of its range ",
          spec.integer_min, " to ", spec.integer_max);
    check(spec.type != YOKE_OPTION_FLAG || (spec.integer_min == 0 && spec.integer_max == 1),
          "the range of flag '", spec.name, "' is not 0 to 1");
  } else if (spec.type == YOKE_OPTION_NUMBER) {
    check(spec.number_min <= spec.number_default && spec.number_default <= spec.number_max,
          "the default of option '", spec.name, "' is out of its range");
  } else {
    check_equal(spec.type, YOKE_OPTION_TEXT, "the type of option '", spec.name, "'");
    check(spec.text_default != nullptr, "the text option '", spec.name, "' has no default");
    check(spec.text_choices == nullptr || is_choice(spec.text_choices, spec.text_default), "the default '",
          spec.text_default, "' of option '", spec.name, "' is not one of its choices ",
          spec.text_choices == nullptr ? "" : spec.text_choices);
  }
}

void schema_is_sound(Kit& kit) {
  std::set<std::pair<std::int32_t, std::string>> names;
  const auto specs = schema(kit);
  for (const yoke_option_spec& spec : specs) {
    check_spec(spec);
    check(names.emplace(spec.scope, spec.name).second, "two options of one scope are named '", spec.name,
          "'");
  }
  kit.note(yoke::detail::counted(specs.size(), "option"));
}

// Opens a device with these options and closes it again.
Answer open_with(Kit& kit, const std::vector<yoke_option>& options) {
  const Plugin& plugin = kit.plugin();
  yoke_device* const untouched = reinterpret_cast<yoke_device*>(&kit);
  yoke_device* device = untouched;
  Answer answer = plugin.device_open(kit.settings().device, options, &device);
  if (answer.ok()) {
    check(device != untouched && device != nullptr, "device_open returned OK without a device");
    expect_ok(plugin.device_close(device), "closing the device");
  } else {
    check(device == untouched, "device_open failed but wrote *out_device");
  }
  return answer;
}

void defaults(Kit& kit) {
  std::vector<yoke_option> options;
  for (const yoke_option_spec& spec : device_schema(kit)) {
    options.push_back(default_option(spec));
    expect_ok(open_with(kit, {options.back()}),
              text("opening a device with option '", spec.name, "' at its default"));
  }
  expect_ok(open_with(kit, options), "opening a device with every option at its default");
}

void unknown_option(Kit& kit) {
  kit.plugin().some_devices();
  for (const char* name : {"no_such_option_of_this_backend", "", "\xc3\xa4"}) {
    yoke_option option{};
    option.name = name;
    option.type = YOKE_OPTION_INTEGER;
    expect_code(open_with(kit, {option}), YOKE_STATUS_INVALID_ARGUMENT,
                text("opening a device with the unknown option '", name, "'"));
  }
}

void wrong_types(Kit& kit) {
  for (const yoke_option_spec& spec : device_schema(kit)) {
    yoke_option option = default_option(spec);
    for (const std::int32_t type : {0, YOKE_OPTION_INTEGER, YOKE_OPTION_NUMBER, YOKE_OPTION_TEXT, 99}) {
      // A flag is an integer of 0 or 1, so a host may pass either type.
      const bool both_integers = type == YOKE_OPTION_INTEGER && spec.type == YOKE_OPTION_FLAG;
      if (type != spec.type && !both_integers) {
        option.type = type;
        option.text = "1";
        expect_code(open_with(kit, {option}), YOKE_STATUS_INVALID_ARGUMENT,
                    text("opening a device with option '", spec.name, "' of type ", type));
      }
    }
    option = default_option(spec);
    expect_code(open_with(kit, {option, option}), YOKE_STATUS_INVALID_ARGUMENT,
                text("opening a device with option '", spec.name, "' given twice"));
  }
}

void refused_value(Kit& kit, const yoke_option& option, const std::string& value) {
  expect_code(open_with(kit, {option}), YOKE_STATUS_INVALID_ARGUMENT,
              text("opening a device with option '", option.name, "' = ", value,
                   ", which its schema does not allow"));
}

// A value that the schema allows: accepted, or rejected with a reason, such as a limit of this machine.
void edge_value(Kit& kit, const yoke_option& option, const std::string& value, unsigned& refused) {
  const Answer answer = open_with(kit, {option});
  if (!answer.ok()) {
    expect_refused(answer, text("opening a device with option '", option.name, "' = ", value));
    check(answer.code != YOKE_STATUS_INTERNAL && answer.code != YOKE_STATUS_UNKNOWN,
          "opening a device with option '", option.name, "' = ", value, ": ", answer.words());
    ++refused;
  }
}

void integer_edges(Kit& kit, const yoke_option_spec& spec, unsigned& refused) {
  yoke_option option = default_option(spec);
  for (const std::int64_t edge : {spec.integer_min, spec.integer_max}) {
    option.integer = edge;
    edge_value(kit, option, std::to_string(edge), refused);
  }
  for (const std::int64_t beyond : {spec.integer_min - (spec.integer_min > INT64_MIN ? 1 : 0), INT64_MIN,
                                    spec.integer_max + (spec.integer_max < INT64_MAX ? 1 : 0), INT64_MAX}) {
    if (beyond < spec.integer_min || beyond > spec.integer_max) {
      option.integer = beyond;
      refused_value(kit, option, std::to_string(beyond));
    }
  }
}

void number_edges(Kit& kit, const yoke_option_spec& spec, unsigned& refused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  yoke_option option = default_option(spec);
  for (const double edge : {spec.number_min, spec.number_max}) {
    option.number = edge;
    edge_value(kit, option, std::to_string(edge), refused);
  }
  for (const double beyond : {std::nextafter(spec.number_min, -kInfinity),
                              std::nextafter(spec.number_max, kInfinity), std::nan("")}) {
    if (!(beyond >= spec.number_min && beyond <= spec.number_max)) {
      option.number = beyond;
      refused_value(kit, option, std::to_string(beyond));
    }
  }
}

void text_edges(Kit& kit, const yoke_option_spec& spec, unsigned& refused) {
  if (spec.text_choices == nullptr) {
    return;
  }
  yoke_option option = default_option(spec);
  const std::string choices = spec.text_choices;
  for (std::size_t begin = 0; begin <= choices.size();) {
    const std::size_t end = std::min(choices.find('|', begin), choices.size());
    const std::string choice = choices.substr(begin, end - begin);
    option.text = choice.c_str();
    edge_value(kit, option, "'" + choice + "'", refused);
    begin = end + 1;
  }
  for (const std::string& wrong :
       {std::string("no such choice"), choices + "|", "|" + choices, std::string("|")}) {
    option.text = wrong.c_str();
    refused_value(kit, option, "'" + wrong + "'");
  }
}

void edges(Kit& kit) {
  unsigned refused = 0;
  for (const yoke_option_spec& spec : device_schema(kit)) {
    if (spec.type == YOKE_OPTION_NUMBER) {
      number_edges(kit, spec, refused);
    } else if (spec.type == YOKE_OPTION_TEXT) {
      text_edges(kit, spec, refused);
    } else {
      integer_edges(kit, spec, refused);
    }
  }
  kit.note(text(yoke::detail::counted(refused, "value"), " of the schema rejected on this machine"));
}

}  // namespace

std::vector<Test> device_options_tests() {
  return {
      {"options-schema",
       "every option has a unique name, a help, a known type, and a default in its range",
       {28},
       schema_is_sound},
      {"options-defaults",
       "a device opens with each option at its default, and with all defaults",
       {28},
       defaults},
      {"options-unknown", "an unknown option is INVALID_ARGUMENT with a text", {28}, unknown_option},
      {"options-types",
       "an option of the wrong type, or given twice, is INVALID_ARGUMENT",
       {28},
       wrong_types},
      {"options-limits",
       "both ends of a range are accepted, and one step past them is INVALID_ARGUMENT",
       {28},
       edges},
  };
}

}  // namespace yoke::conformance
