// SPDX-License-Identifier: Apache-2.0
// frontends/cli/json.h: writes JSON on one line.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::cli {

// Inserts commas as needed: json.begin_object().field("loss", 0.5).end_object().
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  // Escapes quotes and control characters; replaces bytes that are not valid UTF-8.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  // Writes the shortest text that reads back as the same number; null if the number is not finite.
  JsonWriter& value(double number);
  JsonWriter& value(bool flag);
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) JsonWriter& value(Integer number) {
    return raw(std::to_string(number));
  }
  JsonWriter& null() { return raw("null"); }

  template <class Value>
  JsonWriter& field(std::string_view name, const Value& content) {
    return key(name).value(content);
  }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& raw(std::string_view content);
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string text_;
  std::vector<bool> filled_;  // per open bracket: true if it already holds a value
  bool after_key_ = false;
};

}  // namespace yoke::cli
