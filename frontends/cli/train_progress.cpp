// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_progress.cpp: draws the line at most ten times a second.
#include "train_progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <ostream>
#include <utility>

#include "text.h"

namespace yoke::cli {

using Clock = std::chrono::steady_clock;

namespace {

std::size_t terminal_width() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

std::string progress_line(const std::string& before, double share, const std::string& after,
                          std::size_t width) {
  constexpr std::size_t kLongest = 24;
  constexpr std::size_t kShortest = 5;
  constexpr std::size_t kFrame = 4;  // brackets, a space, and the last column, which some terminals wrap
  const std::size_t text = before.size() + after.size() + kFrame;
  const std::size_t bar = std::min(kLongest, width > text ? width - text : 0);
  if (bar < kShortest) {
    return (before + after).substr(0, width - 1);
  }
  const auto filled = static_cast<std::size_t>(static_cast<double>(bar) * share);
  return before + "[" + std::string(filled, '#') + std::string(bar - filled, '.') + "] " + after;
}

Progress::Progress(std::ostream& out, bool on_terminal, std::int64_t epochs, std::int64_t steps_per_epoch,
                   std::int64_t total_steps, std::int64_t rows_per_step, std::function<double()> loss)
    : out_(out),
      on_terminal_(on_terminal),
      epochs_(epochs),
      steps_per_epoch_(steps_per_epoch),
      total_steps_(total_steps),
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
  if (!first_step_) {
    first_step_ = steps_done_ - 1;
  }
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
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double per_second = static_cast<double>(steps_done_ - *first_step_) / seconds;
  const auto left = static_cast<double>(total_steps_ - steps_done_);
  const std::string loss = fixed(loss_(), 4);  // may print a warning
  const std::string before = "epoch " + std::to_string(epoch_) + "/" + std::to_string(epochs_) + ", step " +
                             std::to_string(steps_done_) + "/" + std::to_string(total_steps_) + " ";
  const std::string after =
      "loss " + loss + ", " +
      grouped(static_cast<std::uint64_t>(per_second * static_cast<double>(rows_per_step_))) +
      " examples/s, " + duration(left / per_second) + " left";
  const std::int64_t in_epoch = std::min(steps_per_epoch_, total_steps_ - (epoch_ - 1) * steps_per_epoch_);
  const auto share = static_cast<double>(steps_done) / static_cast<double>(in_epoch);
  std::cerr << "\r\033[K" << progress_line(before, share, after, terminal_width()) << std::flush;
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

void Progress::error(const std::string& text) {
  clear();
  std::cerr << "yoke: " << text << std::endl;
}

void Progress::line(const std::string& text) {
  clear();
  out_ << text << std::endl;  // flushed, so that it appears at once in a pipe, too
}

}  // namespace yoke::cli
