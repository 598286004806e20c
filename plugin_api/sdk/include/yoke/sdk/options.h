// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/options.h: the schema of a plugin's options, and the values given, checked
// against it.
#pragma once

#include <yoke/backend.h>
#include <yoke/sdk/failure.h>
#include <yoke/sdk/sized.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke::sdk {

// One option. Make it with one of the four functions.
struct OptionSpec {
  std::string name;
  std::string help;  // one sentence
  std::int32_t type = YOKE_OPTION_INTEGER;
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

 private:
  static OptionSpec make(std::string name, std::string help, std::int32_t type) {
    OptionSpec spec;
    spec.name = std::move(name);
    spec.help = std::move(help);
    spec.type = type;
    return spec;
  }
};

// The values of one device_open: what was given, else the schema's default.
class Options {
 public:
  // Throws YOKE_INVALID_ARGUMENT: an unknown name, one given twice, a wrong type, a value out of its range.
  Options(std::span<const OptionSpec> specs, const yoke_option* options, std::uint32_t option_count);

  std::int64_t integer(std::string_view name) const { return find(name, YOKE_OPTION_INTEGER).integer; }
  double number(std::string_view name) const { return find(name, YOKE_OPTION_NUMBER).number; }
  const std::string& text(std::string_view name) const { return find(name, YOKE_OPTION_TEXT).text; }
  bool flag(std::string_view name) const { return find(name, YOKE_OPTION_FLAG).integer != 0; }
  // Was it given, rather than left to its default?
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
  void set(const OptionSpec& spec, Value& value, const yoke_option& option);

  std::vector<Value> values_;
};

inline Options::Options(std::span<const OptionSpec> specs, const yoke_option* options,
                        std::uint32_t option_count) {
  values_.reserve(specs.size());
  for (const OptionSpec& spec : specs) {
    values_.push_back(
        {spec.name, spec.type, spec.integer_default, spec.number_default, spec.text_default, false});
  }
  for (std::uint32_t i = 0; i < option_count; ++i) {
    yoke_option option{};
    read_sized(option, row_of(options, i));
    if (option.name == nullptr) {
      throw Failure(YOKE_INVALID_ARGUMENT, "option " + std::to_string(i) + " has no name");
    }
    std::size_t found = 0;
    while (found < specs.size() && specs[found].name != option.name) {
      ++found;
    }
    if (found == specs.size()) {
      std::string known;
      for (const OptionSpec& spec : specs) {
        known += (known.empty() ? "" : ", ") + spec.name;
      }
      throw Failure(YOKE_INVALID_ARGUMENT, "unknown option '" + std::string(option.name) + "'; " +
                                               (known.empty() ? "there are none" : "known are: " + known));
    }
    set(specs[found], values_[found], option);
  }
}

inline void Options::set(const OptionSpec& spec, Value& value, const yoke_option& option) {
  const auto fail = [&](const std::string& reason) {
    throw Failure(YOKE_INVALID_ARGUMENT, "option '" + spec.name + "' " + reason);
  };
  if (value.given) {
    fail("is given twice");
  }
  if (option.type != spec.type) {
    fail("has type " + std::to_string(option.type) + ", its schema says " + std::to_string(spec.type));
  }
  value.given = true;
  if (spec.type == YOKE_OPTION_NUMBER) {
    if (!(option.number >= spec.number_min && option.number <= spec.number_max)) {
      fail("is " + std::to_string(option.number) + ", allowed are " + std::to_string(spec.number_min) +
           " to " + std::to_string(spec.number_max));
    }
    value.number = option.number;
  } else if (spec.type == YOKE_OPTION_TEXT) {
    const std::string text = option.text == nullptr ? "" : option.text;
    const std::string choices = "|" + spec.text_choices + "|";
    if (!spec.text_choices.empty() &&
        (text.find('|') != std::string::npos || choices.find("|" + text + "|") == std::string::npos)) {
      fail("is '" + text + "', allowed are " + spec.text_choices);
    }
    value.text = text;
  } else {
    if (option.integer < spec.integer_min || option.integer > spec.integer_max) {
      fail("is " + std::to_string(option.integer) + ", allowed are " + std::to_string(spec.integer_min) +
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
  throw Failure(YOKE_INTERNAL, "the plugin asks for the option '" + std::string(name) +
                                   "', which its schema does not have in that type");
}

}  // namespace yoke::sdk
