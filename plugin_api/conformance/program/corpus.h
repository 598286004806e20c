// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/corpus.h: the readable programs of plugin_api/program/corpus, which the build
// embeds, as cases.
#pragma once

#include <span>
#include <string_view>

#include "case.h"

namespace yoke::conformance {

struct CorpusText {
  std::string_view name;  // of the file, without .yoke
  std::string_view text;
};

std::span<const CorpusText> corpus();
// The text of the file with this name. Throws std::out_of_range if there is none.
std::string_view corpus_text(std::string_view name);

// The program of a text of the corpus, with initial data: multiples of 1/8, or what a comment after a declaration
// says: `# positive`, or `# below 10` for indices. The launches use the first and the last value of each symbol.
Case corpus_case(std::string_view text, std::uint64_t seed);

// The first and the last value of each symbol.
std::vector<std::vector<std::int64_t>> launches_of(const program::Program& program);

}  // namespace yoke::conformance
