// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/json_tree.h: a JSON object that can be made and destroyed when no memory is left.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>

namespace yoke::detail {

// The destructor of a list or an object of the library allocates memory for its elements, and ends the process if none
// is left. This one clears the value in place. So build `value` without temporary lists and objects that have elements:
// make the place of an element first, and assign an empty object before its elements, because an object that the library
// fails to make of null cannot be destroyed.
class JsonTree {
 public:
  JsonTree() = default;
  ~JsonTree() { clear(value); }
  JsonTree(const JsonTree&) = delete;
  JsonTree& operator=(const JsonTree&) = delete;

  // Returns whether the whole text is one JSON value that is not nested too deeply.
  bool parse(const std::string& text) {
    if (is_deep(text)) {
      return false;
    }
    std::istringstream in(text);
    try {
      in >> value >> std::ws;
    } catch (const nlohmann::json::exception&) {
      return false;
    }
    return in.eof();
  }

  nlohmann::json value = nlohmann::json::object();

 private:
  static bool is_deep(std::string_view text) {
    constexpr std::size_t kMostDepth = 64;
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size() && depth <= kMostDepth; ++i) {
      const char c = text[i];
      if (c == '"') {
        in_string = !in_string;
      } else if (in_string) {
        i += c == '\\' ? 1U : 0U;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if ((c == ']' || c == '}') && depth > 0) {
        --depth;
      }
    }
    return depth > kMostDepth;
  }

  static void clear(nlohmann::json& of) noexcept {
    if (auto* const object = of.get_ptr<nlohmann::json::object_t*>()) {
      for (; !object->empty(); object->erase(object->begin())) {
        clear(object->begin()->second);
      }
    } else if (auto* const list = of.get_ptr<nlohmann::json::array_t*>()) {
      for (; !list->empty(); list->pop_back()) {
        clear(list->back());
      }
    }
  }
};

}  // namespace yoke::detail
