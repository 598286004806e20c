// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/corpus.cpp: the readable programs of plugin_api/program/corpus as cases.
#include "corpus.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>

namespace yoke::conformance {
namespace {

constexpr CorpusText kCorpus[] = {
#include <corpus_texts.inc>
};

// The comment in the line that declares the tensor.
std::string_view comment_of(std::string_view text, const std::string& tensor) {
  const std::size_t at = text.find(" " + tensor + " :");
  const std::string_view line = text.substr(at, text.find('\n', at) - at);
  const std::size_t mark = line.find("# ");
  return mark == std::string_view::npos ? std::string_view() : line.substr(mark + 2);
}

Data data_of(std::string_view comment) {
  constexpr std::string_view kBelow = "below ";
  if (comment.starts_with(kBelow)) {
    Data data{DataKind::kIndex, 1, -1};
    comment.remove_prefix(kBelow.size());
    std::from_chars(comment.data(), comment.data() + comment.size(), data.limit);
    return data;
  }
  return {comment == "positive" ? DataKind::kPositive : DataKind::kDyadic, 1, -1};
}

}  // namespace

std::span<const CorpusText> corpus() {
  return kCorpus;
}

std::string_view corpus_text(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kCorpus), std::end(kCorpus),
                                         [&](const CorpusText& one) { return one.name == name; });
  if (found == std::end(kCorpus)) {
    throw std::out_of_range("the corpus has no program '" + std::string(name) + "'");
  }
  return found->text;
}

Case corpus_case(std::string_view text, std::uint64_t seed) {
  Case one;
  one.seed = seed;
  one.program = program::parse_and_verify(text).programs.at(0);
  for (const program::Tensor& tensor : one.program.tensors) {
    one.data.push_back(data_of(comment_of(text, tensor.name)));
  }
  one.launches = launches_of(one.program);
  return one;
}

std::vector<std::vector<std::int64_t>> launches_of(const program::Program& program) {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> last;
  for (const program::Symbol& symbol : std::span(program.symbols.data(), program.launch_symbol_count())) {
    first.push_back(symbol.low);
    last.push_back(symbol.low + (symbol.high - 1 - symbol.low) / symbol.step * symbol.step);
  }
  if (last == first) {
    return {first};
  }
  return {first, last};
}

}  // namespace yoke::conformance
