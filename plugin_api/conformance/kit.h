// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/kit.h: what a test is and what it can use. Start here to write a test.
//
//   void round_trip(Kit& kit) {
//     const Buffer buffer(kit.device(), 64);
//     ...
//     check(received == sent, "to_host returned different bytes than from_host had written");
//   }
//   std::vector<Test> copy_tests() {
//     return {{"round-trip", "to_host returns what from_host wrote", {16}, round_trip}};
//   }
//
// A test runs in its own process, so it may crash or hang. It passes by returning, and ends otherwise
// by throwing Failed or Unsupported (check.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "messages.h"
#include "plugin.h"
#include "random.h"

namespace yoke::conformance {

class Kit;
class Device;

struct Test {
  std::string name;    // lower-case words joined by dashes; the report shows it after the group: "copy.edges"
  std::string checks;  // one sentence that holds if the test passes
  std::vector<int> rules;  // of plugin_api/RULES.md
  void (*run)(Kit& kit) = nullptr;
  double deadline_factor = 1;  // the test may take this many times --timeout
};

// Settings from the command line, the same for every test of a run.
struct Settings {
  std::filesystem::path plugin;  // absolute
  std::uint64_t seed = 0;
  std::uint32_t device = 0;
  std::int64_t programs = 2000;              // number of random programs in all tests
  bool thorough = false;                     // tests that repeat their work repeat it more often
  std::vector<std::string> required_tables;  // ids that load.required-tables expects
  NamesAndValues options;                    // for device_open
  NamesAndValues plugin_options;             // for the entry
  double timeout_s = 60;
};

class Kit {
 public:
  // `report_descriptor` is the driver's pipe; -1 if there is no driver.
  Kit(const Settings& settings, std::string test_name, int report_descriptor);
  ~Kit();
  Kit(const Kit&) = delete;
  Kit& operator=(const Kit&) = delete;

  const Settings& settings() const { return settings_; }
  const std::string& test_name() const { return test_name_; }  // "copy.random-ranges"

  // Loads, enters or opens at the first call. Tests of loading do their work before they call these.
  const Library& library();
  Plugin& plugin();
  // The device of --device, opened with the options of --option. Throws Unsupported with the
  // plugin's reason if the plugin has no devices.
  Device& device();
  // The options of --option with the types of the plugin's schema. Valid as long as the kit.
  std::vector<yoke_option> device_options();

  Random random(std::uint64_t stream = 0) const { return {settings_.seed, test_name_, stream}; }

  // How many times as often a test repeats its work.
  int effort() const { return settings_.thorough ? 20 : 1; }

  // Shown on the terminal, and in the report if the test does not finish: "program 40 of 1000".
  void progress(const std::string& text) { send('P', text); }
  // A result worth reporting if the test passes: "1000 programs, worst error 0.6 units".
  void note(const std::string& text) { send('N', text); }
  // Fails the test when it ends. For threads and destructors, which cannot throw. Any thread.
  void complain(const std::string& text);

  // Closes the device, checks that no object is alive, and destroys the plugin. Called after the test.
  void finish();

 private:
  friend int run_one(const Test& test, Kit& kit);
  friend int load_only(Kit& kit);
  friend int check_options(Kit& kit);
  friend void announce(const std::string& failure);
  void send(char kind, const std::string& text);

  Settings settings_;
  std::string test_name_;
  Outlet outlet_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Plugin> plugin_;
  std::unique_ptr<Device> device_;
  std::mutex mutex_;
  std::vector<std::string> complaints_;
};

// Runs a test, reports its result to the driver, and returns the exit code of the process.
int run_one(const Test& test, Kit& kit);

// Loads and enters the plugin and reports the result. Destroys nothing: the process ends by _exit.
int load_only(Kit& kit);

// Enters the plugin and opens the device with the options of the command line. Reports Unsupported, with what to
// correct, only if the options are wrong; other failures are those of tests. Destroys nothing, as load_only.
int check_options(Kit& kit);

}  // namespace yoke::conformance

#include "objects.h"  // Device, Buffer, Stream, Event, Code, Routine
