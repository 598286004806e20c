// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/mutate.h: changes program texts, which makes most of them invalid.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "../random.h"

namespace yoke::conformance {

// Changes one or two tokens or lines of a program text. Most changes keep the kind of the token, so many
// results parse, and only the verifier can reject them.
std::string change_tokens(std::string_view text, Random& random);

// An invalid text and the library's error for it: "line 3, column 9: ...".
struct Invalid {
  std::string text;
  std::string reason;
};

// Applies change_tokens to a valid text. Returns nothing if the result is valid or its error has no line number.
std::optional<Invalid> mutate(std::string_view valid, Random& random);

}  // namespace yoke::conformance
