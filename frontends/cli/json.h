// SPDX-License-Identifier: Apache-2.0
// frontends/cli/json.h: the output of commands with --json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace yoke::cli {

using Json = nlohmann::ordered_json;

// One line of JSON. Bytes that are not valid UTF-8 are replaced; numbers that are not finite become null.
inline std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace yoke::cli
