// SPDX-License-Identifier: Apache-2.0
// frontends/cli/generate_command.cpp: yoke generate: text that a model generates character by character.
#include <yoke/models.h>
#include <yoke/program/execute.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "text.h"
#include "trained.h"

namespace yoke::cli {
namespace {

constexpr std::int64_t kMostCharacters = 1'000'000;
constexpr std::int64_t kLargestSeed = std::int64_t{1} << 62U;
constexpr std::int64_t kMostWarmUp = 1000;
constexpr std::int64_t kMostSymbols = 256;

struct GenerateOptions {
  TrainedOptions trained;
  std::string prompt;
  std::int64_t length = 500;
  std::optional<std::int64_t> line_count;
  double temperature = 1;
  std::int64_t top_k = kMostSymbols;
  std::optional<std::int64_t> seed;
};

std::optional<GenerateOptions> parse_generate(Arguments arguments) {
  GenerateOptions options;
  CommandLine line(
      "yoke generate --from DIR [OPTION...]",
      "Generates text with a character model that yoke train has saved as a checkpoint. The text starts "
      "a line with\n"
      "the prompt, followed by characters drawn from the model. A model that was trained with --lines "
      "stops at the\n"
      "end of the line. The seed is printed to standard error.");
  describe_trained(line, options.trained);
  line.text("prompt", &options.prompt, "how the text begins");
  line.integer("length", &options.length, {1, kMostCharacters},
               "largest number of characters after the prompt, default 500");
  line.integer(
      "lines", &options.line_count, {1, kMostCharacters},
      "stop after this many lines, default 1 for a model that was trained with --lines, otherwise no limit");
  line.number(
      "temperature", &options.temperature, {.high = 100},
      "divides the logits, default 1; smaller values favor likely characters, 0 always picks the likeliest");
  line.integer("top-k", &options.top_k, {1, kMostSymbols},
               "draw only from the N likeliest characters, default all");
  line.integer("seed", &options.seed, {0, kLargestSeed},
               "seed of the random draws, not negative; by default, chosen at random");
  if (!line.parse(arguments)) {
    return std::nullopt;
  }
  if (options.temperature == 0 && options.top_k != kMostSymbols) {
    throw UsageError(
        "--top-k has no effect with --temperature 0, which always picks the likeliest character; leave one "
        "of them out");
  }
  return options;
}

// Draws symbols. Random numbers depend only on the seed and on how many were drawn.
class Sampler {
 public:
  Sampler(const GenerateOptions& options, std::int64_t seed)
      : temperature_(options.temperature), top_k_(static_cast<std::size_t>(options.top_k)), seed_(seed) {}

  std::size_t draw(std::span<const float> logits) {
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0U);
    if (!std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); })) {
      throw Error(ErrorCode::kDataLoss,
                  "the outputs of the model are infinite or nan; train it again with a smaller --lr");
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    const std::uint32_t bits = program::random_bits(seed_, 0, drawn_++);
    if (temperature_ == 0) {
      return order[0];
    }
    order.resize(std::min(order.size(), top_k_));
    std::vector<double> sums;
    double sum = 0;
    for (const std::size_t symbol : order) {
      sum += std::exp((static_cast<double>(logits[symbol]) - logits[order[0]]) / temperature_);
      sums.push_back(sum);
    }
    const double at = (static_cast<double>(bits) + 0.5) * 0x1p-32 * sum;
    const auto found = std::upper_bound(sums.begin(), sums.end(), at);
    return order[std::min(static_cast<std::size_t>(found - sums.begin()), order.size() - 1)];
  }

 private:
  double temperature_;
  std::size_t top_k_;
  std::int64_t seed_;
  std::int64_t drawn_ = 0;
};

// A text that a model continues symbol by symbol.
class Writer {
 public:
  Writer(const Trained& trained, Predictor predictor, Sampler sampler)
      : predictor_(std::move(predictor)),
        sampler_(sampler),
        symbol_count_(trained.data.output_count),
        model_(models::text_model(trained.model, symbol_count_)) {}

  void add(std::uint8_t symbol) { symbols_.push_back(symbol); }
  // The number of symbols that the model needs before the next one.
  std::size_t least() const { return model_.predicts_last ? static_cast<std::size_t>(model_.context) : 1; }
  std::size_t size() const { return symbols_.size(); }

  std::uint8_t next() {
    // One shape for all lengths: models that return logits for each position do not look at later ones.
    const std::size_t context = model_.context;
    const std::size_t count = std::min(context, symbols_.size());
    std::vector<std::uint8_t> window(context, 0);
    std::copy(symbols_.end() - static_cast<std::ptrdiff_t>(count), symbols_.end(), window.begin());
    const Tensor logits = predictor_.predict(tensor(window, {1, context}));
    std::vector<float> values(logits.element_count());
    std::memcpy(values.data(), logits.host_bytes().data(), values.size() * sizeof(float));
    const std::size_t row = model_.predicts_last ? 0 : count - 1;
    add(static_cast<std::uint8_t>(
        sampler_.draw(std::span<const float>(values).subspan(row * symbol_count_, symbol_count_))));
    return symbols_.back();
  }

 private:
  Predictor predictor_;
  Sampler sampler_;
  std::size_t symbol_count_;
  models::TextModel model_;
  std::vector<std::uint8_t> symbols_;
};

// The character at a byte of a text: "'x'", or "byte 10".
std::string shown_at(const std::string& text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const auto continues = [&](std::size_t i) { return i < text.size() && (text[i] & 0xC0) == 0x80; };
  std::size_t begin = at;
  while (begin > 0 && continues(begin)) {
    --begin;
  }
  std::size_t end = begin + 1;
  while (continues(end)) {
    ++end;
  }
  const bool is_shown =
      byte < 0x80 ? byte > 0x20 && byte != 0x7f : (text[begin] & 0xC0) == 0xC0 && end > begin + 1;
  return is_shown ? "'" + text.substr(begin, end - begin) + "'" : "byte " + std::to_string(byte);
}

std::vector<std::uint8_t> symbols_of(const std::string& prompt, const std::string& alphabet) {
  std::vector<std::uint8_t> symbols;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const std::size_t found = alphabet.find(prompt[i]);
    if (found == std::string::npos) {
      throw Error(ErrorCode::kInvalidArgument, "--prompt has " + shown_at(prompt, i) + " at position " +
                                                   std::to_string(i + 1) +
                                                   ", which is not in the training text; use only characters "
                                                   "of that text");
    }
    symbols.push_back(static_cast<std::uint8_t>(found));
  }
  return symbols;
}

// Begins at the start of a line. A model that needs several symbols gets line breaks and generates one line, which is
// not printed, because the training text may never have several line breaks in a row.
void begin(Writer& writer, const std::string& alphabet, const std::vector<std::uint8_t>& prompt) {
  const std::size_t line_break = alphabet.find('\n');
  if (line_break == std::string::npos) {
    if (prompt.size() < writer.least()) {
      throw UsageError("--prompt needs at least " + counted(writer.least(), "character") +
                       ", because the training text has no line breaks to start after");
    }
  } else {
    for (std::size_t i = 0; i < writer.least(); ++i) {
      writer.add(static_cast<std::uint8_t>(line_break));
    }
    bool is_at_start = writer.least() == 1;
    for (std::int64_t i = 0; i < kMostWarmUp && !is_at_start; ++i) {
      is_at_start = writer.next() == line_break;
    }
  }
  for (const std::uint8_t symbol : prompt) {
    writer.add(symbol);
  }
}

}  // namespace

int generate_command(Arguments arguments) {
  const std::optional<GenerateOptions> options = parse_generate(arguments);
  if (!options) {
    return kDone;
  }
  Trained trained = load_trained(options->trained);
  if (trained.data.kind != DataKind::kText) {
    throw Error(ErrorCode::kInvalidArgument,
                trained.checkpoint.string() + " has the model " + trained.model +
                    ", which does not generate text; use yoke predict, or train a "
                    "character model such as char-lstm");
  }
  const std::string& alphabet = trained.data.alphabet;
  const std::vector<std::uint8_t> prompt = symbols_of(options->prompt, alphabet);
  const std::int64_t seed = options->seed.value_or(std::random_device()());
  Predictor predictor = make_predictor(options->trained, trained);
  Writer writer(trained, std::move(predictor), Sampler(*options, seed));
  begin(writer, alphabet, prompt);
  std::cerr << "yoke: seed " << seed << std::endl;
  std::cout << options->prompt << std::flush;
  const std::int64_t most_lines = options->line_count.value_or(trained.data.is_lines ? 1 : 0);
  char last = options->prompt.empty() ? '\n' : options->prompt.back();
  std::int64_t lines = 0;
  for (std::int64_t i = 0; i < options->length && (most_lines == 0 || lines < most_lines); ++i) {
    last = alphabet[writer.next()];
    lines += last == '\n' ? 1 : 0;
    if (!(std::cout << last << std::flush)) {
      break;  // main reports it
    }
  }
  if (last != '\n') {
    std::cout << '\n';
  }
  return kDone;
}

}  // namespace yoke::cli
