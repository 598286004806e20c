// SPDX-License-Identifier: Apache-2.0
// frontends/cli/text.cpp: formats numbers, lists and tables, independent of the locale.
#include "text.h"

#include <unistd.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "subcommands.h"

namespace yoke::cli {
namespace {

template <class... Form>
std::string number_text(double value, Form... form) {
  if (std::isnan(value)) {
    return "nan";  // without a sign, which differs between backends
  }
  std::array<char, 400> buffer{};  // the largest double has 309 digits
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, form...);
  return error == std::errc() ? std::string(buffer.data(), end) : "?";
}

std::string two_digits(std::uint64_t value) {
  return (value < 10 ? "0" : "") + std::to_string(value);
}

}  // namespace

std::string fixed(double value, int digits) {
  return number_text(value, std::chars_format::fixed, digits);
}

std::string shortest(double value) {
  return number_text(value);
}

std::string significant(double value) {
  return number_text(value, std::chars_format::general, 5);
}

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3; at -= 3) {
    text.insert(at - 3, ",");
  }
  return text;
}

std::string counted(std::uint64_t value, const char* noun, const char* plural) {
  return grouped(value) + " " + detail::noun_for(value, noun, plural);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) {
    return "?";
  }
  if (seconds < 59.95) {
    return fixed(seconds, 1) + " s";
  }
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  const std::string tail = two_digits(whole % 60);
  if (whole < 3600) {
    return std::to_string(whole / 60) + ":" + tail;
  }
  return std::to_string(whole / 3600) + ":" + two_digits(whole / 60 % 60) + ":" + tail;
}

std::string byte_text(std::uint64_t byte_count) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(byte_count);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? detail::counted(byte_count, "byte") : fixed(value, 1) + " " + kUnits[unit];
}

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) {
    text += text.empty() ? "" : std::string(between);
    text += part;
  }
  return text;
}

std::string table_text(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < heads.size(); ++column) {
    widths.push_back(heads[column].size());
    for (const auto& row : rows) {
      widths.back() = std::max(widths.back(), row[column].size());
    }
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const bool is_last = column + 1 == cells.size();
      text += "  " + cells[column] + std::string(is_last ? 0 : widths[column] - cells[column].size(), ' ');
    }
    return text + "\n";
  };
  std::string text = line(heads);
  for (const auto& row : rows) {
    text += line(row);
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> csv_fields(const std::string& text, const char* option) {
  std::vector<std::string> fields;
  for (std::size_t at = 0; at <= text.size(); ++at) {  // at the start of a field
    std::string& field = fields.emplace_back();
    std::size_t end = std::min(text.find(',', at), text.size());
    if (!text.substr(at).starts_with('"')) {
      field = text.substr(at, end - at);
    } else {
      end = at;
      do {  // from a quote to the next one
        const std::size_t next = text.find('"', end + 1);
        if (next == std::string::npos) {
          throw UsageError(std::string(option) + " '" + text + "' has an unmatched double quote");
        }
        field += (field.empty() && end == at ? "" : "\"") + text.substr(end + 1, next - end - 1);
        end = next + 1;
      } while (text.substr(end).starts_with('"'));
      if (end < text.size() && text[end] != ',') {
        throw UsageError(std::string(option) + " '" + text + "' has text after the double quotes of a name");
      }
    }
    at = end;
  }
  return fields;
}

bool can_redraw() {
  const char* const type = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): no thread sets it
  return type != nullptr && *type != '\0' && std::string_view(type) != "dumb" && ::isatty(STDERR_FILENO) == 1;
}

LogLevel log_level_by_name(const std::string& name) {
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {
      {"trace", LogLevel::kTrace}, {"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo},
      {"warn", LogLevel::kWarn},   {"error", LogLevel::kError}, {"off", LogLevel::kOff}};
  const auto* const found = std::find_if(std::begin(kLevels), std::end(kLevels),
                                         [&](const auto& level) { return level.first == name; });
  if (found == std::end(kLevels)) {
    throw UsageError("--log-level takes trace, debug, info, warn, error or off, not '" + name + "'" +
                     did_you_mean(name, {"trace", "debug", "info", "warn", "error", "off"}));
  }
  return found->second;
}

}  // namespace yoke::cli
