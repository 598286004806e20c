// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/mutate.h: texts that are no valid programs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "../random.h"

namespace yoke::conformance {

// A text, and what the library says about it: "line 3, column 9: ...".
struct Invalid {
  std::string text;
  std::string reason;
};

// Changes a few tokens of a valid text. Nothing where the result is valid again, or wrong as a whole and not
// at a line.
std::optional<Invalid> mutate(std::string_view valid, Random& random);

}  // namespace yoke::conformance
