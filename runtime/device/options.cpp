// SPDX-License-Identifier: Apache-2.0
// runtime/device/options.cpp: checks options against the schema (plugin_api/RULES.md, rule 28).
#include "device/options.h"

#include <yoke/runtime/closest.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

namespace yoke::detail {
namespace {

std::string number_text(double value) {
  std::ostringstream text;  // "0.1" rather than to_string's "0.100000"
  text << value;
  return text.str();
}

std::string join(std::span<const std::string> words) {
  std::string text;
  for (const auto& word : words) {
    text.append(text.empty() ? "" : ", ").append(word);
  }
  return text;
}

// `flag`: the values of a flag.
std::string type_text(std::int32_t type, const char* flag) {
  switch (type) {
    case YOKE_OPTION_INTEGER:
      return "must be an integer";
    case YOKE_OPTION_NUMBER:
      return "must be a number";
    case YOKE_OPTION_TEXT:
      return "must be a text";
    case YOKE_OPTION_FLAG:
      return std::string("must be ") + flag;
    default:
      return "has a type that this version of yoke does not support";
  }
}

[[noreturn]] void refuse(const std::string& device, const std::string& name, const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument, device + ": option '" + name + "' " + reason);
}

void fill_integer(const std::string& device, const OptionSpec& spec, std::int64_t value, yoke_option& out) {
  if (value < spec.integer_min || value > spec.integer_max) {
    refuse(device, spec.name,
           "is " + std::to_string(value) + "; its range is " + std::to_string(spec.integer_min) + " to " +
               std::to_string(spec.integer_max));
  }
  out.integer = value;
}

void fill_number(const std::string& device, const OptionSpec& spec, double value, yoke_option& out) {
  if (!(value >= spec.number_min && value <= spec.number_max)) {  // NaN is refused too
    refuse(device, spec.name,
           "is " + number_text(value) + "; its range is " + number_text(spec.number_min) + " to " +
               number_text(spec.number_max));
  }
  out.number = value;
}

void fill_text(const std::string& device, const OptionSpec& spec, const std::string& value,
               yoke_option& out) {
  if (value.find('\0') != std::string::npos) {
    refuse(device, spec.name, "contains a zero byte");
  }
  if (!spec.text_choices.empty() &&
      std::find(spec.text_choices.begin(), spec.text_choices.end(), value) == spec.text_choices.end()) {
    refuse(device, spec.name,
           "is '" + value + "'; its values are " + join(spec.text_choices) +
               did_you_mean(value, spec.text_choices));
  }
  out.text = value.c_str();
}

yoke_option convert(const std::string& device, const OptionSpec& spec, const Option& given) {
  yoke_option out{};
  out.name = given.name.c_str();
  out.type = spec.type;
  const auto* flag = std::get_if<bool>(&given.value);
  const auto* integer = std::get_if<std::int64_t>(&given.value);
  const auto* number = std::get_if<double>(&given.value);
  const auto* text = std::get_if<std::string>(&given.value);
  if (spec.type == YOKE_OPTION_INTEGER && integer != nullptr) {
    fill_integer(device, spec, *integer, out);
  } else if (spec.type == YOKE_OPTION_NUMBER && (number != nullptr || integer != nullptr)) {
    fill_number(device, spec, number != nullptr ? *number : static_cast<double>(*integer), out);
  } else if (spec.type == YOKE_OPTION_TEXT && text != nullptr) {
    fill_text(device, spec, *text, out);
  } else if (spec.type == YOKE_OPTION_FLAG && flag != nullptr) {
    out.integer = *flag ? 1 : 0;
  } else {
    refuse(device, spec.name, type_text(spec.type, "true or false"));
  }
  return out;
}

// The spec of a device's option. Options of the whole plugin cannot be given to a device.
const OptionSpec& find_spec(const std::string& device, const std::string& name,
                            std::span<const OptionSpec> specs) {
  std::vector<std::string> names;
  for (const auto& spec : specs) {
    const bool of_device = spec.scope == YOKE_OPTION_SCOPE_DEVICE;
    if (spec.name == name && of_device) {
      return spec;
    }
    if (spec.name == name) {
      refuse(device, name,
             "is an option of the whole plugin; set it with --plugin-option, or in "
             "RuntimeOptions::plugin_options");
    }
    if (of_device) {
      names.push_back(spec.name);
    }
  }
  refuse(device, name,
         names.empty() ? "is unknown; the backend has no options"
                       : "is unknown; the options are " + join(names) + did_you_mean(name, names));
}

// Returns nothing unless the whole text is a number of this type.
template <typename Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<OptionValue> value_in(const std::string& text, std::int32_t type) {
  switch (type) {
    case YOKE_OPTION_INTEGER:
      return number_in<std::int64_t>(text);
    case YOKE_OPTION_NUMBER:
      return number_in<double>(text);
    case YOKE_OPTION_FLAG:
      if (text == "on" || text == "1") {
        return true;
      }
      return text == "off" || text == "0" ? std::optional<OptionValue>(false) : std::nullopt;
    case YOKE_OPTION_TEXT:
      return text;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<OptionSpec> to_spec(const loader::MemoryReader& memory, const yoke_option_spec& row) {
  constexpr std::size_t kMostTextBytes = 4096;
  bool whole = true;
  const auto read = [&](const char* from) {
    auto text = from == nullptr ? std::optional<std::string>("") : memory.text(from, kMostTextBytes);
    whole = whole && text.has_value();
    return text ? loader::printable(*text, kMostTextBytes) : std::string();
  };
  OptionSpec spec;
  spec.name = read(row.name);
  spec.help = read(row.help);
  spec.type = row.type;
  spec.scope = row.scope;
  spec.integer_min = row.integer_min;
  spec.integer_max = row.integer_max;
  spec.integer_default = row.integer_default;
  spec.number_min = row.number_min;
  spec.number_max = row.number_max;
  spec.number_default = row.number_default;
  spec.text_default = read(row.text_default);
  const std::string choices = read(row.text_choices);
  if (!whole || spec.name.empty()) {
    return std::nullopt;
  }
  std::string_view rest = choices;
  while (!rest.empty()) {
    const auto bar = rest.find('|');
    spec.text_choices.emplace_back(rest.substr(0, bar));
    rest.remove_prefix(bar == std::string_view::npos ? rest.size() : bar + 1);
  }
  return spec;
}

std::vector<yoke_option> check_options(const std::string& device, std::span<const Option> given,
                                       std::span<const OptionSpec> specs) {
  std::vector<yoke_option> out;
  for (const auto& option : given) {
    const OptionSpec& spec = find_spec(device, option.name, specs);
    if (std::any_of(out.begin(), out.end(), [&](const auto& one) { return option.name == one.name; })) {
      refuse(device, option.name, "is given twice");
    }
    out.push_back(convert(device, spec, option));
  }
  return out;
}

Option parse_option(const std::string& backend, const std::string& text, std::span<const OptionSpec> specs) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(ErrorCode::kInvalidArgument, backend + ": '" + text + "' is not an option; write name=value");
  }
  const std::string name = text.substr(0, equals);
  const std::string typed = text.substr(equals + 1);
  const OptionSpec& spec = find_spec(backend, name, specs);
  const auto value = value_in(typed, spec.type);
  if (!value) {
    refuse(backend, name, type_text(spec.type, "on or off") + ", not '" + typed + "'");
  }
  return {.name = name, .value = *value};
}

}  // namespace yoke::detail
