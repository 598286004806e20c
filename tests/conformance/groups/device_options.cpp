// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/device_options.cpp: the schema of options, and every edge of every range in it.
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "groups.h"

namespace yoke::conformance {
namespace {

std::vector<yoke_option_spec> schema(Kit& kit) {
  Plugin& plugin = kit.plugin();
  if (!plugin.has<&yoke_backend_api::option_specs>()) {
    unsupported("the plugin has no options");
  }
  std::uint32_t count = 0;
  expect_ok(plugin.call<&yoke_backend_api::option_specs>(plugin.get(), 0U,
                                                         static_cast<yoke_option_spec*>(nullptr), &count),
            "counting the options");
  check(count < 100000, "option_specs counts ", count, " options");
  std::vector<yoke_option_spec> specs(count, sized<yoke_option_spec>());
  expect_ok(plugin.call<&yoke_backend_api::option_specs>(plugin.get(), count, specs.data(), &count),
            "listing the options");
  check_equal(specs.size(), count, "the count of options, asked again");
  return specs;
}

bool is_choice(const std::string& choices, const std::string& value) {
  return value.find('|') == std::string::npos &&
         ("|" + choices + "|").find("|" + value + "|") != std::string::npos;
}

void check_spec(const yoke_option_spec& spec) {
  check(spec.name != nullptr && *spec.name != '\0', "an option has no name");
  check(spec.help != nullptr && *spec.help != '\0' && is_utf8(spec.help), "option '", spec.name,
        "' has no help");
  if (spec.type == YOKE_OPTION_INTEGER || spec.type == YOKE_OPTION_FLAG) {
    check(spec.integer_min <= spec.integer_default && spec.integer_default <= spec.integer_max,
          "the default ", spec.integer_default, " of option '", spec.name, "' is outside of ",
          spec.integer_min, " to ", spec.integer_max);
    check(spec.type != YOKE_OPTION_FLAG || (spec.integer_min == 0 && spec.integer_max == 1), "the flag '",
          spec.name, "' has a range other than 0 to 1");
  } else if (spec.type == YOKE_OPTION_NUMBER) {
    check(spec.number_min <= spec.number_default && spec.number_default <= spec.number_max,
          "the default of option '", spec.name, "' is outside of its range");
  } else {
    check_equal(spec.type, YOKE_OPTION_TEXT, "the type of option '", spec.name, "'");
    check(spec.text_default != nullptr, "the text option '", spec.name, "' has no default");
    check(spec.text_choices == nullptr || is_choice(spec.text_choices, spec.text_default), "the default '",
          spec.text_default, "' of option '", spec.name, "' is none of its choices ",
          spec.text_choices == nullptr ? "" : spec.text_choices);
  }
}

void schema_is_sound(Kit& kit) {
  std::set<std::string> names;
  const auto specs = schema(kit);
  for (const yoke_option_spec& spec : specs) {
    check_spec(spec);
    check(names.insert(spec.name).second, "two options are called '", spec.name, "'");
  }
  kit.note(text(specs.size(), " options"));
}

// Capacities from 0 to more than there are, with rows as long as a newer host's.
void capacities(Kit& kit) {
  Plugin& plugin = kit.plugin();
  const auto specs = schema(kit);
  constexpr unsigned char kUntouched = 0xa5;
  constexpr std::size_t kRow = sizeof(yoke_option_spec) + 64;
  const auto whole = static_cast<std::uint32_t>(specs.size());
  for (std::uint32_t capacity = 0; capacity <= whole + 2; ++capacity) {
    // Room for every row and one more, whatever the capacity: who ignores it is to be seen, not to overrun.
    const std::uint32_t room = std::max(capacity, whole) + 1;
    std::vector<unsigned char> rows(room * kRow, kUntouched);
    for (std::uint32_t i = 0; i < room; ++i) {
      const std::uint64_t size = kRow;
      std::memcpy(rows.data() + i * kRow, &size, sizeof size);
    }
    const std::vector<unsigned char> before = rows;
    std::uint32_t count = UINT32_MAX;
    expect_ok(plugin.call<&yoke_backend_api::option_specs>(
                  plugin.get(), capacity, reinterpret_cast<yoke_option_spec*>(rows.data()), &count),
              text("listing options with room for ", capacity));
    check_equal(count, whole, "the count of options with room for ", capacity);
    const std::size_t written = std::min(capacity, whole);
    check(std::equal(rows.begin() + static_cast<std::ptrdiff_t>(written * kRow), rows.end(),
                     before.begin() + static_cast<std::ptrdiff_t>(written * kRow)),
          "option_specs wrote behind ", written, " rows (capacity ", capacity, ")");
    for (std::size_t i = 0; i < written; ++i) {
      yoke_option_spec row;
      std::memcpy(&row, rows.data() + i * kRow, sizeof row);
      check(row.struct_size == kRow && std::string(row.name) == specs[i].name, "row ", i,
            " is not where the first row's struct_size puts it (capacity ", capacity, ")");
    }
  }
}

// Opens with these options. A device that opens is closed at once.
Answer open_with(Kit& kit, const std::vector<yoke_option>& options) {
  Plugin& plugin = kit.plugin();
  yoke_device* const untouched = reinterpret_cast<yoke_device*>(&kit);
  yoke_device* device = untouched;
  Answer answer =
      plugin.call<&yoke_backend_api::device_open>(plugin.get(), kit.settings().device, options.data(),
                                                  static_cast<std::uint32_t>(options.size()), &device);
  if (answer.ok()) {
    check(device != untouched && device != nullptr, "device_open answered OK without a device");
    expect_ok(plugin.call<&yoke_backend_api::device_close>(device), "closing the device again");
  } else {
    check(device == untouched, "device_open refused, and yet *out_device was written");
  }
  return answer;
}

yoke_option option_of(const yoke_option_spec& spec) {
  yoke_option option = sized<yoke_option>();
  option.name = spec.name;
  option.type = spec.type;
  option.integer = spec.integer_default;
  option.number = spec.number_default;
  option.text = spec.text_default;
  return option;
}

void needs_device(Kit& kit) {
  std::uint32_t count = 0;
  const Answer answer = kit.plugin().call<&yoke_backend_api::device_count>(kit.plugin().get(), &count);
  if (count == 0) {
    unsupported("there is no device: " + answer.status.text);
  }
}

void defaults(Kit& kit) {
  needs_device(kit);
  std::vector<yoke_option> options;
  for (const yoke_option_spec& spec : schema(kit)) {
    options.push_back(option_of(spec));
    expect_ok(open_with(kit, {options.back()}), text("opening with option '", spec.name, "' at its default"));
  }
  expect_ok(open_with(kit, options), "opening with every option at its default");
}

void unknown_option(Kit& kit) {
  needs_device(kit);
  for (const char* name : {"no_such_option_of_this_backend", "", "\xc3\xa4"}) {
    yoke_option option = sized<yoke_option>();
    option.name = name;
    option.type = YOKE_OPTION_INTEGER;
    expect_code(open_with(kit, {option}), YOKE_INVALID_ARGUMENT,
                text("opening with the unknown option '", name, "'"));
  }
}

void wrong_types(Kit& kit) {
  needs_device(kit);
  for (const yoke_option_spec& spec : schema(kit)) {
    yoke_option option = option_of(spec);
    for (const std::int32_t type : {0, YOKE_OPTION_INTEGER, YOKE_OPTION_NUMBER, YOKE_OPTION_TEXT, 99}) {
      // A flag is an integer of 0 or 1; which of the two names it has is a matter of the host's.
      const bool both_integers = type == YOKE_OPTION_INTEGER && spec.type == YOKE_OPTION_FLAG;
      if (type != spec.type && !both_integers) {
        option.type = type;
        option.text = "1";
        expect_code(open_with(kit, {option}), YOKE_INVALID_ARGUMENT,
                    text("opening with option '", spec.name, "' of type ", type));
      }
    }
    option = option_of(spec);
    expect_code(open_with(kit, {option, option}), YOKE_INVALID_ARGUMENT,
                text("opening with option '", spec.name, "' given twice"));
  }
}

void refused_value(Kit& kit, const yoke_option& option, const std::string& value) {
  expect_code(open_with(kit, {option}), YOKE_INVALID_ARGUMENT,
              text("opening with option '", option.name, "' at ", value, ", which is outside of its schema"));
}

// Inside of the schema: taken, or refused by this machine in words.
void edge_value(Kit& kit, const yoke_option& option, const std::string& value, unsigned& refused) {
  const Answer answer = open_with(kit, {option});
  if (!answer.ok()) {
    expect_refused(answer, text("opening with option '", option.name, "' at ", value));
    check(answer.code != YOKE_INTERNAL && answer.code != YOKE_UNKNOWN, "opening with option '", option.name,
          "' at ", value, ": ", answer.words());
    ++refused;
  }
}

void integer_edges(Kit& kit, const yoke_option_spec& spec, unsigned& refused) {
  yoke_option option = option_of(spec);
  for (const std::int64_t edge : {spec.integer_min, spec.integer_max}) {
    option.integer = edge;
    edge_value(kit, option, std::to_string(edge), refused);
  }
  if (spec.integer_min > INT64_MIN) {
    option.integer = spec.integer_min - 1;
    refused_value(kit, option, std::to_string(option.integer));
    option.integer = INT64_MIN;
    refused_value(kit, option, std::to_string(option.integer));
  }
  if (spec.integer_max < INT64_MAX) {
    option.integer = spec.integer_max + 1;
    refused_value(kit, option, std::to_string(option.integer));
    option.integer = INT64_MAX;
    refused_value(kit, option, std::to_string(option.integer));
  }
}

void number_edges(Kit& kit, const yoke_option_spec& spec, unsigned& refused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  yoke_option option = option_of(spec);
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
  yoke_option option = option_of(spec);
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
  needs_device(kit);
  unsigned refused = 0;
  for (const yoke_option_spec& spec : schema(kit)) {
    if (spec.type == YOKE_OPTION_NUMBER) {
      number_edges(kit, spec, refused);
    } else if (spec.type == YOKE_OPTION_TEXT) {
      text_edges(kit, spec, refused);
    } else {
      integer_edges(kit, spec, refused);
    }
  }
  kit.note(text(refused, " values of the schema that this machine refuses"));
}

}  // namespace

std::vector<Test> device_options_tests() {
  return {
      {"options-schema",
       "every option has a name of its own, a help, a known type, and a default inside its range",
       {28},
       schema_is_sound},
      {"options-capacity",
       "at most `capacity` rows are written, at the distance that the first row says, and the count is whole",
       {5, 12, 28},
       capacities},
      {"options-defaults",
       "a device opens with each option at its default, and with all of them",
       {28},
       defaults},
      {"options-unknown", "an unknown option is INVALID_ARGUMENT with a text", {28}, unknown_option},
      {"options-types", "an option of another type, or given twice, is INVALID_ARGUMENT", {28}, wrong_types},
      {"options-edges",
       "both ends of a range are inside, and one step beyond is INVALID_ARGUMENT",
       {28},
       edges},
  };
}

}  // namespace yoke::conformance
