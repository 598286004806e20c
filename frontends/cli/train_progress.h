// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_progress.h: draws a progress line on a terminal and prints one line per epoch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace yoke::cli {

// A line that is shorter than `width`, with a bar of up to 24 characters, of which `share`, 0 to 1, is filled. If the
// line has no room for the bar, it has none. Precondition: width > 0.
std::string progress_line(const std::string& before, double share, const std::string& after,
                          std::size_t width);

// Draws the progress line on standard error and prints permanent lines to `out`.
class Progress {
 public:
  // `loss` may make the host wait, so it is called only when a line is drawn.
  // The last of the `epochs` may be cut short by `total_steps`.
  Progress(std::ostream& out, bool on_terminal, std::int64_t epochs, std::int64_t steps_per_epoch,
           std::int64_t total_steps, std::int64_t rows_per_step, std::function<double()> loss);

  void begin_epoch(std::int64_t epoch);  // from 1
  void step_done(std::int64_t step_in_epoch);
  void line(const std::string& text);   // replaces the progress line
  void warn(const std::string& text);   // "yoke: warning: ...", on standard error
  void error(const std::string& text);  // "yoke: ...", on standard error

 private:
  void clear() const;
  void draw(std::int64_t steps_done, std::chrono::steady_clock::time_point now);

  std::ostream& out_;
  bool on_terminal_;
  std::int64_t epochs_;
  std::int64_t steps_per_epoch_;
  std::int64_t total_steps_;
  std::int64_t rows_per_step_;
  std::function<double()> loss_;
  std::int64_t epoch_ = 0;
  std::int64_t steps_done_ = 0;
  std::optional<std::int64_t> first_step_;  // the steps before it were done by an earlier run
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace yoke::cli
