// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_text.cpp: windows of a text, for models of characters.
#include <yoke/datasets.h>
#include <yoke/models.h>
#include <yoke/shuffle.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "command_line.h"
#include "text.h"
#include "train.h"

namespace yoke::cli {
namespace {

// Windows that begin at these positions: the symbols, and those that follow each of them.
Batch windows_at(const std::vector<std::uint8_t>& symbols, const std::vector<std::uint64_t>& positions,
                 std::uint64_t context) {
  std::vector<std::uint8_t> inputs(positions.size() * context);
  std::vector<std::uint8_t> targets(inputs.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    std::memcpy(inputs.data() + i * context, symbols.data() + positions[i], context);
    std::memcpy(targets.data() + i * context, symbols.data() + positions[i] + 1, context);
  }
  const Dims dims{positions.size(), context};
  return {tensor(inputs, dims), tensor(targets, dims)};
}

// The lines of a text, shuffled by the seed; each ends with a line break.
std::vector<std::uint8_t> with_drawn_lines(std::vector<std::uint8_t> symbols, std::uint8_t line_break,
                                           std::int64_t seed) {
  if (symbols.back() != line_break) {
    symbols.push_back(line_break);
  }
  std::vector<std::size_t> starts = {0};
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i] == line_break) {
      starts.push_back(i + 1);
    }
  }
  const Permutation drawn(starts.size() - 1, seed, 0);
  std::vector<std::uint8_t> result;
  result.reserve(symbols.size());
  for (std::uint64_t i = 0; i < drawn.count(); ++i) {
    const std::size_t line = drawn(i);
    result.insert(result.end(), symbols.begin() + static_cast<std::ptrdiff_t>(starts[line]),
                  symbols.begin() + static_cast<std::ptrdiff_t>(starts[line + 1]));
  }
  return result;
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
}

// The number of characters for training, at the start. With --lines, puts the lines into an order by --seed first.
std::uint64_t divide(const TrainOptions& options, const std::string& alphabet,
                     std::vector<std::uint8_t>& symbols) {
  std::uint64_t train_count = symbols.size() - symbols.size() / 10;
  if (!options.lines) {
    return train_count;
  }
  const std::size_t found = alphabet.find('\n');
  if (found == std::string::npos) {
    throw UsageError("--lines needs a text with several lines; " + options.data.string() + " has one");
  }
  const auto line_break = static_cast<std::uint8_t>(found);
  symbols = with_drawn_lines(std::move(symbols), line_break, options.seed);
  while (train_count < symbols.size() && symbols[train_count - 1] != line_break) {
    ++train_count;
  }
  return train_count;
}

// Windows at distinct random positions of the first `train_count` symbols, as long as these last.
Feed feed_of(const std::shared_ptr<std::vector<std::uint8_t>>& symbols, std::uint64_t train_count,
             std::uint64_t context, std::uint64_t batch, std::int64_t seed) {
  const std::uint64_t rows = std::max<std::uint64_t>(1, train_count / context / batch) * batch;
  const TensorSpec spec{YOKE_TYPE_U8, {rows, context}};
  const auto next = [symbols, context, batch, seed, starts = train_count - context](std::int64_t number) {
    const std::uint64_t first = static_cast<std::uint64_t>(number) * batch;
    std::vector<std::uint64_t> chosen(batch);
    for (std::uint64_t i = 0; i < batch; ++i) {
      const std::uint64_t drawn = first + i;
      chosen[i] = Permutation(starts, seed, static_cast<std::int64_t>(drawn / starts))(drawn % starts);
    }
    return windows_at(*symbols, chosen, context);
  };
  return {spec, spec, next};
}

}  // namespace

TrainData text_file(TrainOptions& options) {
  constexpr std::int64_t kEpochs = 5;
  constexpr std::int64_t kBatch = 32;
  options.batch = options.batch == 0 ? kBatch : options.batch;
  options.epochs = options.epochs == 0 ? kEpochs : options.epochs;
  const datasets::Characters text = datasets::read_text(options.data);
  const auto bytes = text.symbols.host_bytes();
  const auto symbols = std::make_shared<std::vector<std::uint8_t>>(bytes.size());
  std::memcpy(symbols->data(), bytes.data(), bytes.size());
  const models::TextModel model = models::text_model(options.model, text.alphabet.size());
  const std::uint64_t context = model.context;
  const std::uint64_t train_count = divide(options, text.alphabet, *symbols);
  const std::uint64_t test_count = symbols->size() - train_count;
  if (symbols->size() < 10 || test_count <= context || train_count <= context) {
    throw Error(
        ErrorCode::kInvalidArgument,
        options.data.string() + ": the text has " + counted(symbols->size(), "character") + ", but --model " +
            options.model + " needs at least " + grouped(10 * (context + 1)) +
            ": the last tenth is for testing; use a longer text, or a smaller context, as with --model " +
            options.model.substr(0, options.model.find(':')) + ":context=2");
  }
  std::vector<std::uint64_t> positions;
  for (std::uint64_t i = train_count; i + context < symbols->size(); i += model.predicts_last ? 1 : context) {
    positions.push_back(i);
  }
  const Batch test = windows_at(*symbols, positions, context);
  TrainData data;
  data.name = options.data.string();
  data.sentence = data.name + ": " + counted(symbols->size(), "character") + ", " +
                  std::to_string(text.alphabet.size()) + " distinct" +
                  (is_ascii(text.alphabet) ? "" : " (a character that is not ASCII counts once per byte)") +
                  "; the last " + grouped(test_count) + (test_count == 1 ? " is" : " are") + " for testing" +
                  (options.lines ? ", after the lines were shuffled by --seed" : "");
  data.feed = feed_of(symbols, train_count, context, static_cast<std::uint64_t>(options.batch), options.seed);
  data.text = text.symbols;
  data.test_inputs = test["inputs"];
  data.test_labels = test["targets"];
  data.class_count = text.alphabet.size();
  data.preparation = {.kind = DataKind::kText,
                      .output_count = text.alphabet.size(),
                      .is_lines = options.lines,
                      .alphabet = text.alphabet};
  return data;
}

}  // namespace yoke::cli
