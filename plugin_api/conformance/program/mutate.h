// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/mutate.h: makes valid program texts invalid.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "../random.h"

namespace yoke::conformance {

// An invalid text and the library's error for it: "line 3, column 9: ...".
struct Invalid {
  std::string text;
  std::string reason;
};

// Changes one or two tokens of a valid text. Returns nothing if the result is
// still valid, or its error has no line number.
std::optional<Invalid> mutate(std::string_view valid, Random& random);

}  // namespace yoke::conformance
