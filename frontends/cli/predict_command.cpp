// SPDX-License-Identifier: Apache-2.0
// frontends/cli/predict_command.cpp: yoke predict: a prediction for each row of data, and metrics if there are labels.
#include <yoke/models.h>
#include <yoke/output_file.h>
#include <yoke/runtime/ending.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iostream>
#include <utility>

#include "json.h"
#include "predict_data.h"
#include "stopwatch.h"
#include "text.h"
#include "trained.h"

namespace yoke::cli {
namespace {

constexpr std::uint64_t kRowsAtOnce = 1000;

struct PredictOptions {
  TrainedOptions trained;
  std::string data;
  std::string out;
  bool json = false;
};

std::optional<PredictOptions> parse_predict(Arguments arguments) {
  PredictOptions options;
  CommandLine line(
      "yoke predict --from DIR --data DIR_OR_FILE [OPTION...]",
      "Makes predictions with a model that yoke train has saved as a checkpoint. The data is prepared as "
      "in training.\n"
      "Writes a line of CSV for each row: the class and its probability, or the value of a regression. "
      "If the data\n"
      "has labels, the summary has the loss, and the accuracy or the rmse.");
  describe_trained(line, options.trained);
  line.text("data", &options.data,
            "data to make predictions for: a table with the columns used in training, a folder or file of "
            "IDX images, or a text",
            "DIR_OR_FILE");
  line.text("out", &options.out,
            "write the predictions to this file: .csv, or .npy with the probabilities of all classes or the "
            "values of a regression; default CSV on standard output",
            "FILE");
  line.flag("json", &options.json,
            "print the summary as one JSON object; predictions are written only to --out");
  if (!line.parse(arguments)) {
    return std::nullopt;
  }
  const std::string ending = detail::ending_of(options.out);
  if (options.data.empty()) {
    throw UsageError("--data is missing; give a table, a folder or file of images, or a text");
  }
  if (!options.out.empty() && ending != ".csv" && ending != ".npy") {
    throw UsageError("--out takes a file that ends in .csv or .npy, not '" + options.out + "'");
  }
  return options;
}

// Sums over the rows that have labels.
struct Totals {
  std::uint64_t rows = 0;  // predictions, of a text one per character
  std::uint64_t correct = 0;
  double loss = 0;
  double squares = 0;  // of the errors of a regression, in the unit of the labels
};

std::string number_text(float value) {  // the shortest that reads back as the same f32
  std::array<char, 32> text{};
  if (std::isnan(value)) {
    return "nan";  // without a sign, which differs between backends
  }
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// Quoted if RFC 4180 requires it.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char each : text) {
    quoted += each == '"' ? "\"\"" : std::string(1, each);
  }
  return quoted + "\"";
}

// Turns the outputs of the model into predictions, and compares them with the labels.
class Predictions {
 public:
  Predictions(const Preparation& data, std::ostream* csv, bool keep) : data_(data), csv_(csv), keep_(keep) {
    if (csv_ != nullptr) {
      *csv_ << (data.is_regression ? "prediction\n" : "prediction,probability\n");
    }
  }

  // `labels` has one per prediction, or is empty.
  void add(std::span<const float> outputs, std::span<const double> labels) {
    const std::size_t width = data_.output_count;
    for (std::size_t i = 0; i < outputs.size() / width; ++i) {
      const double* const label = labels.empty() ? nullptr : &labels[i];
      data_.is_regression ? add_value(outputs[i], label)
                          : add_class(outputs.subspan(i * width, width), label);
      ++totals_.rows;
    }
  }
  const Totals& totals() const { return totals_; }

  NamedArray array() && {
    NamedArray made;
    made.dims = {totals_.rows};
    if (!data_.is_regression) {
      made.dims.push_back(data_.output_count);
    }
    made.bytes.resize(kept_.size() * sizeof(float));
    std::memcpy(made.bytes.data(), kept_.data(), made.bytes.size());
    return made;
  }

 private:
  void add_value(float output, const double* label) {
    const double value = static_cast<double>(output) * data_.target_deviation + data_.target_mean;
    if (csv_ != nullptr) {
      *csv_ << number_text(static_cast<float>(value)) << '\n';
    }
    if (keep_) {
      kept_.push_back(static_cast<float>(value));
    }
    if (label != nullptr) {
      // The targets of the training are f32.
      const double error =
          output -
          static_cast<double>(static_cast<float>((*label - data_.target_mean) / data_.target_deviation));
      totals_.loss += error * error;
      totals_.squares += error * error * data_.target_deviation * data_.target_deviation;
    }
  }

  void add_class(std::span<const float> logits, const double* label) {
    const auto best = std::max_element(logits.begin(), logits.end());
    const auto number = static_cast<std::size_t>(best - logits.begin());
    double sum = 0;
    for (const float logit : logits) {
      sum += std::exp(static_cast<double>(logit) - *best);
    }
    if (csv_ != nullptr) {
      *csv_ << field(class_name(data_, number)) << ',' << number_text(static_cast<float>(1 / sum)) << '\n';
    }
    if (keep_) {
      for (const float logit : logits) {
        kept_.push_back(static_cast<float>(std::exp(static_cast<double>(logit) - *best) / sum));
      }
    }
    if (label != nullptr) {
      const auto right = static_cast<std::size_t>(*label);
      totals_.correct += number == right ? 1 : 0;
      totals_.loss += std::log(sum) + *best - logits[right];
    }
  }

  const Preparation& data_;
  std::ostream* csv_;
  bool keep_;
  Totals totals_;
  std::vector<float> kept_;
};

void predict_all(Predictor& predictor, const PredictData& data, Predictions& predictions) {
  const std::uint64_t rows = data.inputs.dims()[0];
  const std::uint64_t row_bytes = data.inputs.byte_count() / rows;
  const std::size_t row_labels = data.labels.size() / rows;
  for (std::uint64_t row = 0; row < rows; row += kRowsAtOnce) {
    Dims dims = data.inputs.dims();
    dims[0] = std::min(kRowsAtOnce, rows - row);
    const auto bytes = data.inputs.host_bytes().subspan(row * row_bytes, dims[0] * row_bytes);
    const Tensor outputs = predictor.predict(
        literal(data.inputs.type(), dims, std::vector<std::byte>(bytes.begin(), bytes.end())), kRowsAtOnce);
    std::vector<float> values(outputs.element_count());
    std::memcpy(values.data(), outputs.host_bytes().data(), values.size() * sizeof(float));
    predictions.add(values,
                    std::span<const double>(data.labels).subspan(row * row_labels, dims[0] * row_labels));
  }
}

struct Summary {
  Totals totals;
  double seconds = 0;
  bool has_labels = false;
  double mean(double sum) const { return sum / static_cast<double>(totals.rows); }
  double accuracy() const { return mean(static_cast<double>(totals.correct)); }
};

std::string sentence(const Trained& trained, const Summary& summary) {
  std::string text = trained.model + " after step " + std::to_string(trained.step) + ": " +
                     counted(summary.totals.rows, "prediction") + " in " + duration(summary.seconds);
  if (!summary.has_labels) {
    return text;
  }
  text += ", loss " + fixed(summary.mean(summary.totals.loss), 4);
  return text + (trained.data.is_regression
                     ? ", rmse " + significant(std::sqrt(summary.mean(summary.totals.squares)))
                     : ", accuracy " + fixed(100 * summary.accuracy(), 2) + " %");
}

std::string json_of(const PredictOptions& options, const Trained& trained, const Summary& summary,
                    const std::string& device) {
  const bool has = summary.has_labels;
  const bool is_regression = trained.data.is_regression;
  const double loss = summary.mean(summary.totals.loss);
  const auto if_true = [](bool condition, double value) { return condition ? Json(value) : Json(nullptr); };
  return json_text({{"checkpoint", trained.checkpoint.string()},
                    {"step", trained.step},
                    {"model", trained.model},
                    {"data", options.data},
                    {"device", device},
                    {"predictions", summary.totals.rows},
                    {"loss", if_true(has, loss)},
                    {"accuracy", if_true(has && !is_regression, summary.accuracy())},
                    {"rmse", if_true(has && is_regression, std::sqrt(summary.mean(summary.totals.squares)))},
                    {"perplexity", if_true(has && trained.data.kind == DataKind::kText, std::exp(loss))},
                    {"out", options.out.empty() ? Json(nullptr) : Json(options.out)},
                    {"seconds", summary.seconds}});
}

}  // namespace

int predict_command(Arguments arguments) {
  const std::optional<PredictOptions> options = parse_predict(arguments);
  if (!options) {
    return kDone;
  }
  check_files({{"--data", options->data}, {"--from", options->trained.from}}, {{"--out", options->out}});
  Trained trained = load_trained(options->trained);
  const PredictData data = read_predict_data(options->data, trained);
  const bool is_npy = detail::ending_of(options->out) == ".npy";
  std::optional<OutputFile> file;  // fails before the work if it cannot be written
  if (!options->out.empty() && !is_npy) {
    file.emplace(options->out);
  } else if (is_npy) {
    check_can_save(options->out);
  }
  const bool on_output = options->out.empty() && !options->json;
  Predictor predictor = make_predictor(options->trained, trained);
  Predictions predictions(trained.data, file ? &file->stream() : on_output ? &std::cout : nullptr, is_npy);
  const Stopwatch watch;
  predict_all(predictor, data, predictions);
  const Summary summary{
      .totals = predictions.totals(), .seconds = watch.seconds(), .has_labels = !data.labels.empty()};
  if (file) {
    file->commit();
  } else if (is_npy) {
    save_npy(options->out, std::move(predictions).array());
  }
  (on_output || options->json ? std::cerr : std::cout) << sentence(trained, summary) << std::endl;
  if (options->json) {
    std::cout << json_of(*options, trained, summary, predictor.device_name()) << std::endl;
  }
  return kDone;
}

}  // namespace yoke::cli
