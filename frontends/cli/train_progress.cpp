// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_progress.cpp: draws the line at most ten times a second.
#include "train_progress.h"

#include <iostream>
#include <ostream>
#include <utility>

#include "text.h"

namespace yoke::cli {

using Clock = std::chrono::steady_clock;

Progress::Progress(std::ostream& out, bool on_terminal, std::int64_t epochs, std::int64_t steps_per_epoch,
                   std::int64_t rows_per_step, std::function<double()> loss)
    : out_(out),
      on_terminal_(on_terminal),
      epochs_(epochs),
      steps_per_epoch_(steps_per_epoch),
      rows_per_step_(rows_per_step),
      loss_(std::move(loss)),
      start_(Clock::now()) {}

void Progress::begin_epoch(std::int64_t epoch) {
  if (epoch_ == 0) {
    start_ = Clock::now();
  }
  epoch_ = epoch;
}

void Progress::step_done(std::int64_t step_in_epoch) {
  constexpr std::chrono::milliseconds kBetweenDrawings(100);
  steps_done_ = (epoch_ - 1) * steps_per_epoch_ + step_in_epoch + 1;
  if (!on_terminal_) {
    return;
  }
  const auto now = Clock::now();
  if (now - drawn_ >= kBetweenDrawings) {
    drawn_ = now;
    draw(step_in_epoch + 1, now);
  }
}

void Progress::draw(std::int64_t steps_done, Clock::time_point now) {
  constexpr std::int64_t kWidth = 24;
  const std::int64_t filled = kWidth * steps_done / steps_per_epoch_;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double per_second = static_cast<double>(steps_done_) / seconds;
  const auto left = static_cast<double>(epochs_ * steps_per_epoch_ - steps_done_);
  const std::string loss = fixed(loss_(), 4);  // may print a warning
  std::cerr << "\r\033[Kepoch " << epoch_ << "/" << epochs_ << " ["
            << std::string(static_cast<std::size_t>(filled), '#')
            << std::string(static_cast<std::size_t>(kWidth - filled), '.') << "] loss " << loss << ", "
            << grouped(static_cast<std::uint64_t>(per_second * static_cast<double>(rows_per_step_)))
            << " examples/s, " << duration(left / per_second) << " left" << std::flush;
}

void Progress::clear() const {
  if (on_terminal_) {
    std::cerr << "\r\033[K" << std::flush;
  }
}

void Progress::warn(const std::string& text) {
  clear();
  std::cerr << "yoke: warning: " << text << std::endl;
}

void Progress::line(const std::string& text) {
  clear();
  out_ << text << std::endl;  // flushed, so that it appears at once in a pipe, too
}

}  // namespace yoke::cli
