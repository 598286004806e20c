// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_page.cpp: writes curves as SVG and options as a table.
#include "train_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "json.h"
#include "text.h"

namespace yoke::cli {
namespace {

using Points = std::vector<std::pair<double, double>>;  // step and value

struct Curve {
  std::string name;
  const char* color;
  Points points;
};

constexpr double kWidth = 560;
constexpr double kHeight = 240;
constexpr double kLeft = 64;
constexpr double kRight = 12;
constexpr double kTop = 12;
constexpr double kBottom = 28;
constexpr const char* kBlue = "#2a6fdb";
constexpr const char* kOrange = "#d9730d";

constexpr const char* kHead =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1180px;padding:0 1em;color:#222}\n"
    "h1{font-size:1.4em}h2{font-size:1.05em;margin:.8em 0 .2em}\n"
    ".curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1em}\n"
    "svg{width:100%;height:auto;background:#fff}text{font:11px system-ui,sans-serif;fill:#555}\n"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.15em 1.2em .15em 0;vertical-align:top;"
    "border-bottom:1px solid #eee;overflow-wrap:anywhere}\n</style>\n";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char each : text) {
    switch (each) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += each;
    }
  }
  return result;
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

// The range of the finite values along an axis, not empty.
std::pair<double, double> range_of(const std::vector<Curve>& curves,
                                   double std::pair<double, double>::*axis) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Curve& curve : curves) {
    for (const auto& point : curve.points) {
      if (std::isfinite(point.second)) {
        low = std::min(low, point.*axis);
        high = std::max(high, point.*axis);
      }
    }
  }
  // A range of a few roundings counts as one value: marks that close would be the same number.
  const double size = std::max(std::abs(low), std::abs(high));
  const double gap = high - low > 1e-9 * size ? 0 : std::max(size * 0.1, 1e-9);
  return {low - gap, high + gap};
}

// A distance between marks: 1, 2 or 5 times a power of ten, so that there are 3 to 8.
double tick_of(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / 4)));
  const double ratio = span / 4 / power;
  return power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
}

std::string line_text(double x1, double y1, double x2, double y2) {
  return "<path d=\"M" + fixed(x1, 1) + " " + fixed(y1, 1) + "L" + fixed(x2, 1) + " " + fixed(y2, 1) +
         "\" stroke=\"#e4e4e4\"/>";
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(text) + "</text>";
}

// A chart of curves over the steps. Values that are not finite leave gaps. Empty if all are not finite.
std::string chart(const std::string& title, const std::vector<Curve>& curves) {
  const auto [first, last] = range_of(curves, &std::pair<double, double>::first);
  const auto [low, high] = range_of(curves, &std::pair<double, double>::second);
  if (!std::isfinite(low) || !std::isfinite(high) || !std::isfinite(high - low)) {
    return {};
  }
  const auto x_of = [first = first, last = last](double step) {
    return kLeft + (step - first) / (last - first) * (kWidth - kLeft - kRight);
  };
  const auto y_of = [low = low, high = high](double value) {
    return kHeight - kBottom - (value - low) / (high - low) * (kHeight - kTop - kBottom);
  };
  std::string text = "<section><h2>" + escaped(title) + "</h2><svg viewBox=\"0 0 " + fixed(kWidth, 0) + " " +
                     fixed(kHeight, 0) + "\" role=\"img\">";
  const double y_tick = tick_of(high - low);
  for (double value = std::ceil(low / y_tick) * y_tick; value <= high; value += y_tick) {
    text += line_text(kLeft, y_of(value), kWidth - kRight, y_of(value)) +
            label(kLeft - 6, y_of(value) + 4, "end", short_number(std::abs(value) < y_tick / 2 ? 0 : value));
  }
  const double x_tick = std::max(1.0, tick_of(last - first));
  for (double step = std::ceil(first / x_tick) * x_tick; step <= last; step += x_tick) {
    text += label(x_of(step), kHeight - 8, "middle", short_number(step));
  }
  double legend = kLeft + 8;
  for (const Curve& curve : curves) {
    std::string path;
    bool is_drawing = false;
    for (const auto& [step, value] : curve.points) {
      if (std::isfinite(value)) {
        path += (is_drawing ? "L" : "M") + fixed(x_of(step), 1) + " " + fixed(y_of(value), 1);
        // A single point is a line of length 0; round ends make it visible.
        path += is_drawing ? "" : "h0";
      }
      is_drawing = std::isfinite(value);
    }
    text += "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + curve.color +
            "\" stroke-width=\"2\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/>";
    if (curves.size() > 1) {
      text += "<path d=\"M" + fixed(legend, 1) + " 20h16\" stroke=\"" + curve.color +
              "\" stroke-width=\"3\"/>" + label(legend + 22, 24, "start", curve.name);
      legend += 40 + 7 * static_cast<double>(curve.name.size());
    }
  }
  return text + "</svg></section>\n";
}

Points of_epochs(const TrainReport& report, double EpochReport::*value) {
  Points points;
  for (const EpochReport& epoch : report.epochs) {
    points.emplace_back(epoch.step, epoch.*value);
  }
  return points;
}

Points of_curve(const TrainReport& report, double CurvePoint::*value) {
  Points points;
  for (const CurvePoint& point : report.curve) {
    points.emplace_back(point.step, point.*value);
  }
  return points;
}

std::string charts(const TrainData& data, const TrainReport& report) {
  std::string text = chart("Loss", {{"training", kBlue, of_curve(report, &CurvePoint::loss)},
                                    {"test", kOrange, of_epochs(report, &EpochReport::test_loss)}});
  Points metric = of_epochs(report, data.is_regression ? &EpochReport::rmse : &EpochReport::test_accuracy);
  text += chart(data.is_regression ? "Test rmse" : "Test accuracy", {{"", kOrange, metric}});
  if (data.feed.next) {
    Points perplexity = of_epochs(report, &EpochReport::test_loss);
    for (auto& [step, value] : perplexity) {
      value = std::exp(value);
    }
    text += chart("Test perplexity", {{"", kOrange, perplexity}});
  }
  text += chart("Learning rate", {{"", kBlue, of_curve(report, &CurvePoint::learning_rate)}});
  return text +
         chart("Examples per second", {{"", kBlue, of_curve(report, &CurvePoint::examples_per_second)}});
}

// The rows of a table; lists and objects as JSON, without the history.
std::string table_of(const Json& all) {
  std::string rows;
  for (const auto& [key, value] : all.items()) {
    if (key != "history") {
      rows += "<tr><th>" + escaped(key) + "</th><td>" +
              escaped(value.is_string() ? value.get<std::string>() : json_text(value)) + "</td></tr>\n";
    }
  }
  return "<table>\n" + rows + "</table>\n";
}

}  // namespace

std::string train_page(const TrainData& data, const TrainReport& report, const std::string& json) {
  const Json all = Json::parse(json);  // with valid UTF-8
  const std::string title = all.at("model").get<std::string>() + " on " + all.at("data").get<std::string>();
  const std::string curves = charts(data, report);
  return kHead + ("<title>" + escaped(title)) + "</title></head><body>\n<h1>" + escaped(title) +
         "</h1>\n<p>" + "yoke " + escaped(all.at("version").get<std::string>()) +
         "; plugins: " + escaped(join(report.plugins, ", ")) + "; " +
         counted(static_cast<std::uint64_t>(report.steps), "step") +
         (report.stopped         ? ", stopped before the end"
          : report.stopped_early ? ", stopped early"
                                 : "") +
         "</p>\n<div class=\"curves\">\n" + curves + "</div>\n<h2>Options and results</h2>\n" +
         table_of(all) + "</body></html>\n";
}

}  // namespace yoke::cli
