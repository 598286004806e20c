// SPDX-License-Identifier: Apache-2.0
// tests/conformance/kit.h: what a test is, and what it is given. Start here to write one.
//
//   void round_trip(Kit& kit) {
//     Buffer buffer(kit.device(), 64);
//     ...
//     check(received == sent, "to_host gave other bytes than from_host had sent");
//   }
//   std::vector<Test> copy_tests() { return {{"round-trip", "to_host gives back what from_host sent", {16},
//   round_trip}}; }
//
// A test runs in a process of its own: it may hang or crash, and nobody else suffers. It ends by returning
// (passed), or by throwing Failed or Unsupported (check.h).
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
#include "plugin.h"
#include "random.h"

namespace yoke::conformance {

class Kit;
class Device;

struct Test {
  std::string name;        // "random-ranges": words with dashes; the group's name comes before it
  std::string asks;        // one sentence: what holds when it passes
  std::vector<int> rules;  // of the plugin ABI
  void (*run)(Kit& kit) = nullptr;
  double deadline_factor = 1;  // how many times --timeout it may take
};

// What was typed. The same for every test of a run.
struct Settings {
  std::filesystem::path plugin;  // absolute
  std::uint64_t seed = 0;
  std::uint32_t device = 0;
  std::int64_t programs = 2000;                              // random programs, in all tests together
  std::vector<std::pair<std::string, std::string>> options;  // name=value, for device_open
  double timeout_s = 60;                                     // that a test may take, or a multiple of it
};

class Kit {
 public:
  // `report_descriptor`: where the driver listens; -1: nobody does.
  Kit(const Settings& settings, std::string test_name, int report_descriptor);
  ~Kit();
  Kit(const Kit&) = delete;
  Kit& operator=(const Kit&) = delete;

  const Settings& settings() const { return settings_; }
  const std::string& test_name() const { return test_name_; }  // "copy.random-ranges"

  // Made on first use. A test that looks at loading itself does so before it asks for them.
  const Library& library();
  Plugin& plugin();
  // The device of --device with the options of --option; Unsupported with the plugin's reason where there is
  // none.
  Device& device();
  // The options of --option in the types of the plugin's schema. Borrowed from the kit.
  std::vector<yoke_option> device_options();

  Random random(std::uint64_t stream = 0) const { return {settings_.seed, test_name_, stream}; }

  // Seen on the terminal, and in the report when the test does not end: "program 40 of 1000".
  void progress(const std::string& text);
  // A figure for the report of a test that passed: "1000 programs, worst error 0.6 units".
  void note(const std::string& text);
  // Fails the test at its end; for threads and destructors, which cannot throw. Any thread.
  void complain(const std::string& text);

  // Closes the device, looks for what is still alive, destroys the plugin. Called by the driver after the
  // test.
  void finish();

 private:
  friend int run_one(const Test& test, Kit& kit);
  friend int load_only(Kit& kit);
  friend void fail(const std::string& text);
  void will_fail(const std::string& text);
  void send(char kind, const std::string& text);

  Settings settings_;
  std::string test_name_;
  int report_descriptor_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Plugin> plugin_;
  std::unique_ptr<Device> device_;
  std::mutex mutex_;
  std::vector<std::string> complaints_;
};

// Runs a test to its end and reports; gives back the exit code of its process.
int run_one(const Test& test, Kit& kit);

// Maps and enters the plugin, and reports; gives nothing back, so that the process ends by _exit.
int load_only(Kit& kit);

}  // namespace yoke::conformance

#include "objects.h"  // Device, Buffer, Stream, Event, Code, Routine
