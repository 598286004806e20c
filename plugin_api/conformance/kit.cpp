// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/kit.cpp: the process of one test: its
// plugin and device, and the report to the driver.
#include "kit.h"

#include <atomic>
#include <charconv>
#include <cstdlib>

namespace yoke::conformance {
namespace {

// A process runs one test.
std::atomic<Kit*> the_kit{nullptr};
std::atomic<int> quiet{0};
std::atomic<bool> was_announced{false};

// Exit codes of the process.
constexpr int kPassed = 0;
constexpr int kNotPassed = 1;

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

void announce(const std::string& failure) {
  if (Kit* const kit = the_kit.load(); kit != nullptr && quiet == 0) {
    kit->send('f', failure);
    was_announced = true;
  }
}

bool has_failed() {
  return was_announced;
}

void give_up() {
  if (has_failed()) {
    std::_Exit(kNotPassed);
  }
}

void fail(const std::string& text) {
  announce(text);
  throw Failed(text);
}

Quiet::Quiet() {
  ++quiet;
}

Quiet::~Quiet() {
  --quiet;
}

std::uint64_t longest_wait_ns() {
  const Kit* const kit = the_kit.load();
  const double timeout_s = kit == nullptr ? Settings().timeout_s : kit->settings().timeout_s;
  return static_cast<std::uint64_t>(timeout_s / 3 * 1e9);
}

Kit::Kit(const Settings& settings, std::string test_name, int report_descriptor)
    : settings_(settings), test_name_(std::move(test_name)), outlet_(report_descriptor) {
  the_kit = this;
}

Kit::~Kit() {
  the_kit = nullptr;
}

const Library& Kit::library() {
  if (library_ == nullptr) {
    library_ = std::make_unique<Library>(settings_.plugin, settings_.plugin_options);
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
    plugin().some_devices();
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
        "--option was given, but the plugin has no options (option_specs is NULL)");
  const std::vector<yoke_option_spec> specs = plugin().option_specs();
  for (const auto& [name, value] : settings_.options) {
    yoke_option option{};
    option.name = name.c_str();
    option.type = YOKE_OPTION_TEXT;  // for an unknown option, which the plugin rejects
    for (const yoke_option_spec& spec : specs) {
      if (name == spec.name) {
        check(spec.scope == YOKE_OPTION_SCOPE_DEVICE, "'", name,
              "' is an option of the whole plugin; set it with --plugin-option ", name, "=VALUE");
        option.type = spec.type;
      }
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
      complain("the test destroyed every object, but live_counts still reports " + alive);
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

void Kit::send(char kind, const std::string& text) {
  const std::lock_guard lock(mutex_);
  outlet_.send(kind, text);
}

namespace {

// "--option a=1, --option b=x: ", and the plugin's text. Empty for a refusal that is not about arguments.
std::string options_text(const char* word, const NamesAndValues& pairs, const Refused& refusal) {
  const std::int32_t code = refusal.answer.code;
  if (pairs.empty() || (code != YOKE_STATUS_INVALID_ARGUMENT && code != YOKE_STATUS_OUT_OF_RANGE &&
                        code != YOKE_STATUS_NOT_FOUND)) {
    return {};
  }
  std::string names;
  for (const auto& [name, value] : pairs) {
    names += text(names.empty() ? "" : ", ", word, " ", name, "=", value);
  }
  return names + ": " + (refusal.answer.status.text.empty() ? refusal.what() : refusal.answer.status.text);
}

std::string wrong_option(Kit& kit) {
  const Settings& settings = kit.settings();
  try {
    kit.plugin();
  } catch (const Refused& refusal) {
    return options_text("--plugin-option", settings.plugin_options, refusal);
  }
  if (settings.options.empty() || kit.plugin().device_count() <= settings.device) {
    return {};
  }
  std::vector<yoke_option> options;
  try {
    options = kit.device_options();
  } catch (const Failed& failure) {
    return failure.what();
  }
  Device(kit, kit.plugin(), settings.device).close();  // not an error of the options if this fails
  try {
    Device(kit, kit.plugin(), settings.device, options).close();
  } catch (const Refused& refusal) {
    return options_text("--option", settings.options, refusal);
  }
  return {};
}

}  // namespace

int check_options(Kit& kit) {
  const Quiet by_tests;
  std::string wrong;
  try {
    check_loadable(kit.settings().plugin);
    wrong = wrong_option(kit);
  } catch (const std::exception&) {
    wrong.clear();
  }
  kit.send(wrong.empty() ? 'O' : 'U', wrong);
  return kPassed;
}

int load_only(Kit& kit) {
  try {
    check_loadable(kit.settings().plugin);
    const std::uint32_t ordinal = kit.settings().device;
    const std::uint32_t count = ordinal == 0 ? 1 : kit.plugin().device_count();
    kit.plugin();
    if (ordinal >= count && count != 0) {  // without devices, each test reports the plugin's reason
      kit.send('U', text("--device ", ordinal, " is out of range: the plugin has ", count,
                         count == 1 ? " device; leave out --device" : " devices, numbered from 0"));
    } else {
      kit.send('O', "");
    }
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
    kit.send('F', "the test threw an exception that is not a std::exception");
  }
  return kNotPassed;
}

}  // namespace yoke::conformance
