// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/report.cpp: what streams are doing, and waiting for all streams of a device.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "device/state.h"
#include "schedule/stream_state.h"

namespace yoke {

namespace detail {

void StreamState::note_wait(const Command& command) noexcept {
  running_.begin(command.kind, {});
  const std::lock_guard lock(error_mutex_);
  noted_wait_ = command.other;
  noted_ticket_ = command.other_ticket;
  has_note_ = true;
}

void StreamState::forget_wait() noexcept {
  std::shared_ptr<StreamState> noted;  // released after the lock
  const std::lock_guard lock(error_mutex_);
  noted.swap(noted_wait_);
  has_note_ = false;
}

StreamReport StreamState::report() {
  refresh();
  StreamReport report;
  report.stream = name;
  report.device = device->name();
  report.completed = completed_.load();
  report.queued = std::max(reserved_.load(), report.completed);
  report.running = running_.text();
  if (report.completed < report.queued) {
    report.step = step_of(report.completed + 1).value_or(-1);
  }
  {
    const std::lock_guard lock(error_mutex_);
    if (noted_wait_ != nullptr) {
      report.waits_for = noted_wait_->name;
      report.waits_for_command = noted_ticket_;
    }
  }
  if (has_failed()) {
    report.error = error().what();
  }
  return report;
}

std::string StreamState::activity() {
  std::shared_ptr<StreamState> awaited;
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(error_mutex_);
    awaited = noted_wait_;
    ticket = noted_ticket_;
  }
  const std::string own = running_.text();
  if (awaited == nullptr) {
    return own.empty() ? own : "; it runs " + own;
  }
  const std::string other = awaited->running_.text();
  return "; it waits for command " + std::to_string(ticket) + " of stream '" + awaited->name + "'" +
         (other.empty() ? std::string() : ", which runs " + other);
}

}  // namespace detail

namespace {

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      (void)std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      result += code.data();
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace

std::vector<std::shared_ptr<Stream>> Device::streams() const {
  std::vector<std::shared_ptr<Stream>> streams = backend_->state().runtime->live_streams();
  std::erase_if(streams, [this](const auto& stream) { return stream->device().get() != this; });
  return streams;
}

void sync_device(const Device& device) {
  const detail::Clock::time_point deadline =
      detail::deadline_after(device.backend()->state().runtime->options.wait_timeout);
  std::optional<Error> first;
  for (const auto& stream : device.streams()) {
    try {
      stream->wait(std::max(deadline - detail::Clock::now(), detail::Clock::duration::zero()));
    } catch (const Error& error) {
      first = first ? first : error;
    }
  }
  if (first) {
    throw Error(*first);
  }
}

StreamReport debug_info(const Stream& stream) {
  return stream.state().report();
}

std::vector<StreamReport> debug_info(const Runtime& runtime) {
  std::vector<StreamReport> reports;
  for (const auto& stream : runtime.state()->live_streams()) {
    reports.push_back(debug_info(*stream));
  }
  return reports;
}

std::string debug_table(std::span<const StreamReport> reports) {
  std::vector<std::array<std::string, 6>> rows = {{"stream", "step", "done", "runs", "waits for", "error"}};
  for (const StreamReport& report : reports) {
    rows.push_back(
        {report.stream, report.step < 0 ? "" : std::to_string(report.step),
         std::to_string(report.completed) + "/" + std::to_string(report.queued), report.running,
         report.waits_for.empty() ? "" : report.waits_for + " #" + std::to_string(report.waits_for_command),
         report.error});
  }
  std::array<std::size_t, 6> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += padded(row[i], widths[i] + 2);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string debug_json(std::span<const StreamReport> reports) {
  std::string text = "[";
  for (const StreamReport& report : reports) {
    text += text.size() == 1 ? "" : ",";
    text += "{\"stream\":" + json_text(report.stream) + ",\"device\":" + json_text(report.device) +
            ",\"step\":" + std::to_string(report.step) + ",\"queued\":" + std::to_string(report.queued) +
            ",\"completed\":" + std::to_string(report.completed) +
            ",\"running\":" + json_text(report.running) + ",\"waits_for\":" + json_text(report.waits_for) +
            ",\"waits_for_command\":" + std::to_string(report.waits_for_command) +
            ",\"error\":" + json_text(report.error) + "}";
  }
  return text + "]";
}

}  // namespace yoke
