// SPDX-License-Identifier: Apache-2.0
// frontends/cli/preparation.cpp: writes and reads how data was prepared, as JSON.
#include "preparation.h"

#include <yoke/runtime/ending.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "json.h"

namespace yoke::cli {
namespace {

constexpr std::array<const char*, 3> kKinds = {"table", "images", "text"};
constexpr std::uint64_t kMostClasses = 256;  // a label is one byte
constexpr std::uint64_t kMostPixels = 1U << 28U;

bool is_increasing(const std::string& alphabet) {
  return std::adjacent_find(alphabet.begin(), alphabet.end(), [](char a, char b) {
           return static_cast<unsigned char>(a) >= static_cast<unsigned char>(b);
         }) == alphabet.end();
}

bool are_moments(const Preparation& made, std::size_t count) {
  const auto is_finite = [](double value) { return std::isfinite(value); };
  const auto is_positive = [](double value) { return std::isfinite(value) && value > 0; };
  return made.means.size() == count && made.deviations.size() == count && std::isfinite(made.target_mean) &&
         is_positive(made.target_deviation) && std::all_of(made.means.begin(), made.means.end(), is_finite) &&
         std::all_of(made.deviations.begin(), made.deviations.end(), is_positive);
}

bool is_valid(const Preparation& made) {
  const std::uint64_t count = made.output_count;
  if (count == 0 || count > kMostClasses || (made.is_regression && count != 1)) {
    return false;
  }
  switch (made.kind) {
    case DataKind::kTable:
      return !made.columns.empty() && are_moments(made, made.columns.size()) &&
             (made.column_count == 0 || made.column_count > made.columns.size());
    case DataKind::kImages:
      return are_moments(made, 1) && made.row_count > 0 && made.column_count > 0 &&
             made.row_count <= kMostPixels && made.column_count <= kMostPixels / made.row_count;
    default:
      return made.alphabet.size() == count && is_increasing(made.alphabet);
  }
}

}  // namespace

std::string preparation_text(const Preparation& preparation) {
  std::vector<unsigned> alphabet;
  for (const char each : preparation.alphabet) {
    alphabet.push_back(static_cast<unsigned char>(each));
  }
  return json_text({{"kind", kKinds.at(static_cast<std::size_t>(preparation.kind))},
                    {"outputs", preparation.output_count},
                    {"is_regression", preparation.is_regression},
                    {"means", preparation.means},
                    {"deviations", preparation.deviations},
                    {"columns", preparation.columns},
                    {"label", preparation.label},
                    {"classes", preparation.classes},
                    {"target_mean", preparation.target_mean},
                    {"target_deviation", preparation.target_deviation},
                    {"row_count", preparation.row_count},
                    {"column_count", preparation.column_count},
                    {"is_lines", preparation.is_lines},
                    {"alphabet", alphabet}});
}

Preparation parse_preparation(const std::string& text, const std::string& where) {
  Preparation made;
  bool is_read = false;
  try {
    const Json all = Json::parse(text);
    const auto kind = std::find(kKinds.begin(), kKinds.end(), all.at("kind").get<std::string>());
    made.kind = static_cast<DataKind>(kind - kKinds.begin());
    // A negative number would become a large one.
    const auto count = [&](const char* key) {
      return all.at(key).is_number_unsigned() ? all.at(key).get<std::uint64_t>() : std::uint64_t{0};
    };
    made.output_count = count("outputs");
    all.at("is_regression").get_to(made.is_regression);
    all.at("means").get_to(made.means);
    all.at("deviations").get_to(made.deviations);
    all.at("columns").get_to(made.columns);
    all.at("label").get_to(made.label);
    all.at("classes").get_to(made.classes);
    all.at("target_mean").get_to(made.target_mean);
    all.at("target_deviation").get_to(made.target_deviation);
    made.row_count = count("row_count");
    made.column_count = count("column_count");
    all.at("is_lines").get_to(made.is_lines);
    for (const Json& each : all.at("alphabet")) {
      made.alphabet += static_cast<char>(static_cast<unsigned char>(each.get<unsigned>()));
    }
    is_read = kind != kKinds.end();
  } catch (const nlohmann::json::exception&) {
    is_read = false;
  }
  if (!is_read || !is_valid(made)) {
    throw Error(ErrorCode::kDataLoss,
                where + ": the note 'data' is damaged; use another checkpoint, or train again");
  }
  return made;
}

bool is_table_file(const std::filesystem::path& file) {
  const std::string ending = detail::ending_of(file);
  return ending == ".csv" || ending == ".txt" || ending == ".tsv" || ending == ".dat" || ending == ".data";
}

datasets::Table read_table(const std::filesystem::path& file, const std::string& label,
                           datasets::LabelColumn column, const datasets::TableOptions& options) {
  return detail::ending_of(file) == ".csv" ? datasets::read_csv(file, label, column, options)
                                           : datasets::read_columns(file, label, column, options);
}

}  // namespace yoke::cli
