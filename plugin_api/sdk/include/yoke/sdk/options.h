// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/options.h: the schema of a plugin's options, and values that match it.
#pragma once

#include <yoke/backend.h>
#include <yoke/sdk/failure.h>
#include <yoke/sdk/sized.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace yoke::sdk {

// One option. Create it with one of the four functions; `for_plugin` makes it an option of the whole plugin.
struct OptionSpec {
  std::string name;
  std::string help;  // one sentence
  std::int32_t type = YOKE_OPTION_INTEGER;
  std::int32_t scope = YOKE_OPTION_SCOPE_DEVICE;
  std::int64_t integer_min = 0;
  std::int64_t integer_max = 0;
  std::int64_t integer_default = 0;
  double number_min = 0;
  double number_max = 0;
  double number_default = 0;
  std::string text_default;
  std::string text_choices;  // "a|b|c"; empty: any text

  static OptionSpec integer(std::string name, std::string help, std::int64_t fallback, std::int64_t min,
                            std::int64_t max) {
    OptionSpec spec = make(std::move(name), std::move(help), YOKE_OPTION_INTEGER);
    spec.integer_min = min;
    spec.integer_max = max;
    spec.integer_default = fallback;
    return spec;
  }
  static OptionSpec number(std::string name, std::string help, double fallback, double min, double max) {
    OptionSpec spec = make(std::move(name), std::move(help), YOKE_OPTION_NUMBER);
    spec.number_min = min;
    spec.number_max = max;
    spec.number_default = fallback;
    return spec;
  }
  static OptionSpec text(std::string name, std::string help, std::string fallback, std::string choices = {}) {
    OptionSpec spec = make(std::move(name), std::move(help), YOKE_OPTION_TEXT);
    spec.text_default = std::move(fallback);
    spec.text_choices = std::move(choices);
    return spec;
  }
  static OptionSpec flag(std::string name, std::string help, bool fallback) {
    OptionSpec spec = make(std::move(name), std::move(help), YOKE_OPTION_FLAG);
    spec.integer_max = 1;
    spec.integer_default = fallback ? 1 : 0;
    return spec;
  }
  // Makes it an option of the entry (Backend::configure) instead of device_open.
  OptionSpec for_plugin() && {
    scope = YOKE_OPTION_SCOPE_PLUGIN;
    return std::move(*this);
  }

 private:
  static OptionSpec make(std::string name, std::string help, std::int32_t type) {
    OptionSpec spec;
    spec.name = std::move(name);
    spec.help = std::move(help);
    spec.type = type;
    return spec;
  }
};

// The option values of one device_open or of the entry. Options that were not given have their defaults.
class Options {
 public:
  // Reads the options of `scope`. Options of the plugin arrive as text and are
  // converted to their types. Throws YOKE_STATUS_INVALID_ARGUMENT for an unknown name,
  // a name given twice, a wrong type or a value out of range.
  Options(std::span<const OptionSpec> specs, std::int32_t scope, const yoke_option* options,
          std::uint32_t option_count, std::uint32_t option_stride);

  std::int64_t integer(std::string_view name) const { return find(name, YOKE_OPTION_INTEGER).integer; }
  double number(std::string_view name) const { return find(name, YOKE_OPTION_NUMBER).number; }
  const std::string& text(std::string_view name) const { return find(name, YOKE_OPTION_TEXT).text; }
  bool flag(std::string_view name) const { return find(name, YOKE_OPTION_FLAG).integer != 0; }
  // Whether the option was given. Otherwise it has its default value.
  bool given(std::string_view name) const { return find(name, 0).given; }

 private:
  struct Value {
    std::string name;
    std::int32_t type;
    std::int64_t integer;
    double number;
    std::string text;
    bool given;
  };

  const Value& find(std::string_view name, std::int32_t type) const;
  static void set(const OptionSpec& spec, Value& value, yoke_option option);

  std::vector<Value> values_;
};

inline Options::Options(std::span<const OptionSpec> specs, std::int32_t scope, const yoke_option* options,
                        std::uint32_t option_count, std::uint32_t option_stride) {
  std::vector<const OptionSpec*> known;
  for (const OptionSpec& spec : specs) {
    if (spec.scope == scope) {
      known.push_back(&spec);
      values_.push_back(
          {spec.name, spec.type, spec.integer_default, spec.number_default, spec.text_default, false});
    }
  }
  for (std::uint32_t i = 0; i < option_count; ++i) {
    const yoke_option option = read_row(options, option_stride, i);
    if (option.name == nullptr) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "option " + std::to_string(i) + " has no name");
    }
    std::size_t found = 0;
    while (found < known.size() && known[found]->name != option.name) {
      ++found;
    }
    if (found == known.size()) {
      std::string names;
      for (const OptionSpec* spec : known) {
        names += (names.empty() ? "" : ", ") + spec->name;
      }
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT,
                    "unknown option '" + std::string(option.name) + "'; " +
                        (names.empty() ? "there are no options" : "known options: " + names));
    }
    set(*known[found], values_[found], option);
  }
}

namespace detail {

// Whether a value given as text must be converted. The host passes options of devices in their own types.
inline bool is_converted(const OptionSpec& spec, const yoke_option& option) {
  return spec.scope == YOKE_OPTION_SCOPE_PLUGIN && option.type == YOKE_OPTION_TEXT &&
         spec.type != YOKE_OPTION_TEXT;
}

// Converts a value that was given as text to the type of its schema.
// Returns false if the text does not match it.
inline bool convert(const OptionSpec& spec, yoke_option& option) {
  const std::string_view text = option.text == nullptr ? "" : option.text;
  const char* end = text.data() + text.size();
  option.type = spec.type;
  if (spec.type == YOKE_OPTION_FLAG && (text == "on" || text == "off" || text == "true" || text == "false")) {
    option.integer = text == "on" || text == "true" ? 1 : 0;
    return true;
  }
  const std::from_chars_result read = spec.type == YOKE_OPTION_NUMBER
                                          ? std::from_chars(text.data(), end, option.number)
                                          : std::from_chars(text.data(), end, option.integer);
  return read.ec == std::errc() && read.ptr == end;
}

}  // namespace detail

inline void Options::set(const OptionSpec& spec, Value& value, yoke_option option) {
  const auto fail = [&](const std::string& reason) {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "option '" + spec.name + "' " + reason);
  };
  if (value.given) {
    fail("is given twice");
  }
  if (detail::is_converted(spec, option)) {
    if (!detail::convert(spec, option)) {
      fail("is '" + std::string(option.text == nullptr ? "" : option.text) +
           "', which is not a value of its type");
    }
  } else if (option.type != spec.type) {
    fail("has type " + std::to_string(option.type) + "; its schema has type " + std::to_string(spec.type));
  }
  value.given = true;
  if (spec.type == YOKE_OPTION_NUMBER) {
    if (!(option.number >= spec.number_min && option.number <= spec.number_max)) {
      fail("is " + std::to_string(option.number) + "; the range is " + std::to_string(spec.number_min) +
           " to " + std::to_string(spec.number_max));
    }
    value.number = option.number;
  } else if (spec.type == YOKE_OPTION_TEXT) {
    const std::string text = option.text == nullptr ? "" : option.text;
    const std::string choices = "|" + spec.text_choices + "|";
    if (!spec.text_choices.empty() &&
        (text.find('|') != std::string::npos || choices.find("|" + text + "|") == std::string::npos)) {
      fail("is '" + text + "'; the choices are " + spec.text_choices);
    }
    value.text = text;
  } else {
    if (option.integer < spec.integer_min || option.integer > spec.integer_max) {
      fail("is " + std::to_string(option.integer) + "; the range is " + std::to_string(spec.integer_min) +
           " to " + std::to_string(spec.integer_max));
    }
    value.integer = option.integer;
  }
}

inline const Options::Value& Options::find(std::string_view name, std::int32_t type) const {
  for (const Value& value : values_) {
    if (value.name == name && (type == 0 || value.type == type)) {
      return value;
    }
  }
  throw Failure(YOKE_STATUS_INTERNAL, "the plugin reads the option '" + std::string(name) +
                                          "', which its schema lacks in this type");
}

}  // namespace yoke::sdk
