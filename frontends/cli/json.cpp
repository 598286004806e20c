// SPDX-License-Identifier: Apache-2.0
// frontends/cli/json.cpp: escapes text and formats numbers.
#include "json.h"

#include <array>
#include <charconv>
#include <cmath>

namespace yoke::cli {
namespace {

// The size in bytes of the UTF-8 character at the front; 0 if it is invalid, overlong or a surrogate.
std::size_t utf8_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const unsigned first = byte(0);
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xc2 ? 0
                           : first < 0xe0 ? 2
                           : first < 0xf0 ? 3
                           : first < 0xf5 ? 4
                                          : 0;
  if (size > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) {
      return 0;
    }
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool out_of_range = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
  return overlong || out_of_range ? 0 : size;
}

}  // namespace

JsonWriter& JsonWriter::begin_object() {
  return open('{');
}
JsonWriter& JsonWriter::end_object() {
  return close('}');
}
JsonWriter& JsonWriter::begin_array() {
  return open('[');
}
JsonWriter& JsonWriter::end_array() {
  return close(']');
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "\"";
  while (!text.empty()) {
    const auto character = static_cast<unsigned char>(text[0]);
    const std::size_t size = utf8_size(text);
    if (character == '"' || character == '\\') {
      quoted += '\\';
      quoted += text[0];
    } else if (character == '\n') {
      quoted += "\\n";
    } else if (size == 0) {
      quoted += "\\ufffd";  // the replacement character
    } else if (character < 0x20 || character == 0x7f) {
      quoted += "\\u00";
      quoted += kDigits[character >> 4U];
      quoted += kDigits[character & 0xfU];
    } else {
      quoted += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return raw(quoted + '"');
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) {
    return null();
  }
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return raw(error == std::errc()
                 ? std::string_view(buffer.data(), static_cast<std::size_t>(end - buffer.data()))
                 : "null");
}

JsonWriter& JsonWriter::value(bool flag) {
  return raw(flag ? "true" : "false");
}

JsonWriter& JsonWriter::raw(std::string_view content) {
  separate();
  text_ += content;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  filled_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_ += bracket;
  filled_.pop_back();
  return *this;
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!filled_.empty()) {
    if (filled_.back()) {
      text_ += ", ";
    }
    filled_.back() = true;
  }
}

}  // namespace yoke::cli
