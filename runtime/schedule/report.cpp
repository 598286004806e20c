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

void IssuedWork::add(std::uint64_t ticket, CommandKind kind, std::string_view name) noexcept {
  const std::lock_guard lock(mutex_);
  Issued& command = commands_[command_count_++ % kCommands];
  forgotten_ = std::max(forgotten_, command.ticket);
  command.ticket = ticket;
  command.kind = kind;
  command.name[name.copy(command.name.data(), command.name.size() - 1)] = '\0';
}

void IssuedWork::add(const Wait& wait) noexcept {
  const std::lock_guard lock(mutex_);
  waits_[wait_count_++ % kWaits] = wait;
}

bool IssuedWork::next_wait(std::uint64_t first, std::uint64_t last, std::uint64_t& index, Wait& wait) const {
  const std::lock_guard lock(mutex_);
  for (index = std::max(index, wait_count_ - std::min(wait_count_, kWaits)); index < wait_count_;) {
    wait = waits_[index++ % kWaits];
    if (first <= wait.ticket && wait.ticket <= last) {
      return true;
    }
  }
  return false;
}

std::string IssuedWork::text(std::uint64_t first, std::uint64_t last) const {
  const std::lock_guard lock(mutex_);
  const bool is_known = forgotten_ < first;
  const Issued* oldest = nullptr;
  std::uint64_t others = 0;
  for (std::uint64_t i = command_count_ - std::min(command_count_, kCommands);
       first <= last && i < command_count_; ++i) {
    const Issued& command = commands_[i % kCommands];
    if (first <= command.ticket && (command.ticket <= last || !is_known)) {
      others += oldest == nullptr ? 0 : 1;
      oldest = oldest == nullptr ? &command : oldest;
    }
  }
  if (oldest == nullptr) {
    return {};
  }
  const std::string work = describe_work(oldest->kind, oldest->name.data());
  if (!is_known) {
    return "a command before " + work;
  }
  return others == 0   ? work
         : others == 1 ? work + " or the command after it"
                       : work + " or one of the " + std::to_string(others) + " commands after it";
}

// The command that the device runs is between the last known completion and the oldest pending event, and not after a
// wait for work that is pending.
StreamState::Activity StreamState::native_activity() {
  Activity now;
  const std::uint64_t first = completed_.load() + 1;
  std::uint64_t last = issued_.load();
  // Another thread may be in a call of the driver that never returns.
  if (const std::unique_lock lock(issue_mutex_, std::try_to_lock); lock.owns_lock()) {
    for (const NativeEvent& event : events_) {
      if (event.ticket >= first) {  // an unused one has ticket 0
        last = std::min(last, event.ticket);
      }
    }
  }
  IssuedWork::Wait wait;
  for (std::uint64_t index = 0; issued_work_.next_wait(first, last, index, wait);) {
    std::shared_ptr<StreamState> awaited = wait.awaited.lock();
    if (awaited == nullptr) {
      continue;  // it was closed, so its work is done
    }
    awaited->try_refresh_native();
    if (!awaited->is_complete(wait.awaited_ticket)) {
      now.awaited = std::move(awaited);
      now.awaited_ticket = wait.awaited_ticket;
      last = wait.ticket - 1;
      break;
    }
  }
  now.running = issued_work_.text(first, last);
  if (now.running.empty() && now.awaited != nullptr) {
    now.running = describe_work(CommandKind::kWait, {});
  }
  return now;
}

StreamState::Activity StreamState::activity() {
  Activity now = is_native_ ? native_activity() : Activity();
  if (now.running.empty()) {
    now.running = running_.text();
  }
  const std::lock_guard lock(error_mutex_);
  if (now.awaited == nullptr) {
    now.awaited = noted_wait_;
    now.awaited_ticket = noted_ticket_;
  }
  return now;
}

StreamReport StreamState::report() {
  try_refresh_native();
  StreamReport report;
  report.stream_id = id;
  report.device_id = device->id();
  report.stream = name;
  report.device = device->name();
  const Activity now = activity();
  report.completed = completed_.load();
  report.queued = std::max(reserved_.load(), report.completed);
  report.running = now.running;
  if (report.completed < report.queued) {
    report.step = step_of(report.completed + 1).value_or(-1);
  }
  if (now.awaited != nullptr) {
    report.waits_for = now.awaited->name;
    report.waits_for_id = now.awaited->id;
    report.waits_for_command = now.awaited_ticket;
  }
  if (has_failed()) {
    report.error = error().what();
  }
  return report;
}

std::string StreamState::activity_text() {
  const Activity now = activity();
  if (now.awaited == nullptr) {
    return now.running.empty() ? now.running : "; it runs " + now.running;
  }
  const std::string other = now.awaited->activity().running;
  return "; it waits for command " + std::to_string(now.awaited_ticket) + " of stream '" + now.awaited->name +
         "'" + (other.empty() ? std::string() : ", which runs " + other);
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
  std::vector<std::array<std::string, 7>> rows = {
      {"id", "stream", "step", "done", "runs", "waits for", "error"}};
  for (const StreamReport& report : reports) {
    rows.push_back(
        {std::to_string(report.stream_id), report.stream, report.step < 0 ? "" : std::to_string(report.step),
         std::to_string(report.completed) + "/" + std::to_string(report.queued), report.running,
         report.waits_for.empty() ? ""
                                  : report.waits_for + " (id " + std::to_string(report.waits_for_id) +
                                        "), command " + std::to_string(report.waits_for_command),
         report.error});
  }
  std::array<std::size_t, 7> widths{};
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
    text += "{\"stream_id\":" + std::to_string(report.stream_id) +
            ",\"device_id\":" + std::to_string(report.device_id) + ",\"stream\":" + json_text(report.stream) +
            ",\"device\":" + json_text(report.device) + ",\"step\":" + std::to_string(report.step) +
            ",\"queued\":" + std::to_string(report.queued) +
            ",\"completed\":" + std::to_string(report.completed) +
            ",\"running\":" + json_text(report.running) + ",\"waits_for\":" + json_text(report.waits_for) +
            ",\"waits_for_id\":" + std::to_string(report.waits_for_id) +
            ",\"waits_for_command\":" + std::to_string(report.waits_for_command) +
            ",\"error\":" + json_text(report.error) + "}";
  }
  return text + "]";
}

}  // namespace yoke
