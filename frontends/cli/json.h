// SPDX-License-Identifier: Apache-2.0
// frontends/cli/json.h: what the commands print with --json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace yoke::cli {

using Json = nlohmann::ordered_json;

// One line. Replaces bytes that are not valid UTF-8; numbers that are not finite are null.
inline std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace yoke::cli
