// SPDX-License-Identifier: Apache-2.0
// tests/conformance/kit.cpp: one test's process: what it is given, and how its end is told to the driver.
#include "kit.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace yoke::conformance {
namespace {

// A process runs one test.
std::atomic<Kit*> the_kit{nullptr};

// The exit codes of that process.
constexpr int kPassed = 0;
constexpr int kNotPassed = 1;

// "2 buffers, 1 event", or nothing.
std::string alive_text(const yoke_live_counts& live) {
  const std::pair<const char*, std::uint64_t> kinds[] = {
      {"device", live.devices}, {"buffer", live.buffers}, {"stream", live.streams},
      {"event", live.events},   {"code", live.codes},     {"routine", live.routines}};
  std::string alive;
  for (const auto& [name, count] : kinds) {
    if (count != 0) {
      alive += text(alive.empty() ? "" : ", ", count, " ", name, count == 1 ? "" : "s");
    }
  }
  return alive;
}

template <class Number>
Number number_of(const std::string& name, const std::string& value) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  check(error == std::errc() && end == value.data() + value.size(), "--option ", name,
        " takes a number, not '", value, "'");
  return number;
}

std::int64_t flag_of(const std::string& name, const std::string& value) {
  const bool is_on = value == "on" || value == "1";
  check(is_on || value == "off" || value == "0", "--option ", name, " takes on or off, not '", value, "'");
  return is_on ? 1 : 0;
}

}  // namespace

void fail(const std::string& text) {
  if (Kit* const kit = the_kit.load(); kit != nullptr) {
    kit->will_fail(text);
  }
  throw Failed(text);
}

std::uint64_t longest_wait_ns() {
  const Kit* const kit = the_kit.load();
  const double timeout_s = kit == nullptr ? Settings().timeout_s : kit->settings().timeout_s;
  return static_cast<std::uint64_t>(timeout_s / 3 * 1e9);
}

Kit::Kit(const Settings& settings, std::string test_name, int report_descriptor)
    : settings_(settings), test_name_(std::move(test_name)), report_descriptor_(report_descriptor) {
  the_kit = this;
}

Kit::~Kit() {
  the_kit = nullptr;
}

void Kit::will_fail(const std::string& text) {
  send('f', text);
}

const Library& Kit::library() {
  if (library_ == nullptr) {
    library_ = std::make_unique<Library>(settings_.plugin);
  }
  return *library_;
}

Plugin& Kit::plugin() {
  if (plugin_ == nullptr) {
    plugin_ = std::make_unique<Plugin>(library());
  }
  return *plugin_;
}

Device& Kit::device() {
  if (device_ == nullptr) {
    std::uint32_t count = 0;
    const Answer answer = plugin().call<&yoke_backend_api::device_count>(plugin().get(), &count);
    expect_ok(answer, "counting the devices");
    if (count == 0) {
      unsupported("there is no device: " +
                  (answer.status.text.empty() ? "the plugin gives no reason" : answer.status.text));
    }
    check(settings_.device < count, "there is no device ", settings_.device, " (--device): the plugin has ",
          count);
    device_ = std::make_unique<Device>(*this, plugin(), settings_.device, device_options());
  }
  return *device_;
}

std::vector<yoke_option> Kit::device_options() {
  std::vector<yoke_option> options;
  if (settings_.options.empty()) {
    return options;
  }
  check(plugin().has<&yoke_backend_api::option_specs>(),
        "the plugin has no options, option_specs is left out, so none can be given to it (--option)");
  std::uint32_t count = 0;
  expect_ok(plugin().call<&yoke_backend_api::option_specs>(plugin().get(), 0U, nullptr, &count),
            "counting the options");
  std::vector<yoke_option_spec> specs(count, sized<yoke_option_spec>());
  expect_ok(plugin().call<&yoke_backend_api::option_specs>(plugin().get(), count, specs.data(), &count),
            "listing the options");
  for (const auto& [name, value] : settings_.options) {
    yoke_option option = sized<yoke_option>();
    option.name = name.c_str();
    option.type = YOKE_OPTION_TEXT;  // the plugin refuses an unknown one
    for (const yoke_option_spec& spec : specs) {
      option.type = name == spec.name ? spec.type : option.type;
    }
    if (option.type == YOKE_OPTION_NUMBER) {
      option.number = number_of<double>(name, value);
    } else if (option.type == YOKE_OPTION_TEXT) {
      option.text = value.c_str();
    } else if (option.type == YOKE_OPTION_FLAG) {
      option.integer = flag_of(name, value);
    } else {
      option.integer = number_of<std::int64_t>(name, value);
    }
    options.push_back(option);
  }
  return options;
}

void Kit::progress(const std::string& text) {
  send('P', text);
}

void Kit::note(const std::string& text) {
  send('N', text);
}

void Kit::complain(const std::string& text) {
  const std::lock_guard lock(mutex_);
  complaints_.push_back(text);
}

void Kit::finish() {
  if (device_ != nullptr) {
    const auto device = std::move(device_);
    device->close();
  }
  if (plugin_ != nullptr) {
    const std::string alive = alive_text(plugin_->live_counts());
    if (!alive.empty()) {
      complain("the test gave everything back, but live_counts still counts " + alive);
    }
    const auto plugin = std::move(plugin_);
    plugin->leave();
  }
  std::vector<std::string> complaints;
  {
    const std::lock_guard lock(mutex_);
    complaints.swap(complaints_);
  }
  if (complaints.size() > 1) {
    fail(text(complaints[0], "; and ", complaints.size() - 1, " more, the last: ", complaints.back()));
  }
  if (!complaints.empty()) {
    fail(complaints[0]);
  }
}

// One message: its kind, four bytes of length, the text. Whole, or cut where nobody reads any more.
void Kit::send(char kind, const std::string& text) {
  if (report_descriptor_ < 0) {
    return;
  }
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string message(1, kind);
  message.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  const std::lock_guard lock(mutex_);
  std::size_t sent = 0;
  while (sent < message.size()) {
    const ssize_t count = ::write(report_descriptor_, message.data() + sent, message.size() - sent);
    if (count < 0 && errno != EINTR) {
      return;
    }
    sent += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

int load_only(Kit& kit) {
  try {
    check_loadable(kit.settings().plugin);
    kit.plugin();
    kit.send('O', "");
    return kPassed;
  } catch (const std::exception& failure) {
    kit.send('F', failure.what());
  }
  return kNotPassed;
}

int run_one(const Test& test, Kit& kit) {
  try {
    test.run(kit);
    kit.finish();
    kit.send('O', "");
    return kPassed;
  } catch (const Unsupported& reason) {
    try {
      kit.finish();
      kit.send('U', reason.what());
      return kPassed;
    } catch (const std::exception& failure) {
      kit.send('F', failure.what());
    }
  } catch (const std::exception& failure) {
    kit.send('F', failure.what());
  } catch (...) {
    kit.send('F', "something was thrown that is no std::exception");
  }
  return kNotPassed;
}

}  // namespace yoke::conformance
