// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/loader_test.h: a folder of plugins with defects, runtimes that search it, and their logs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <yoke/runtime/device.h>

#include <filesystem>
#include <string>
#include <vector>

#include "device/state.h"
#include "test_files.h"

namespace yoke::test {

// Sets an environment variable and restores it.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* old = ::getenv(name);
    had_ = old != nullptr;
    old_ = had_ ? old : "";
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (had_) {
      ::setenv(name_, old_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string old_;
};

// The result of loading a backend by name.
struct Outcome {
  std::string error;  // empty: it loaded
  BackendCandidate report;
};

// A plugin with a defect, the error that it causes (empty: it loads), and the stage that it reaches.
struct Defect {
  const char* name;
  const char* error;
  const char* stage;
};

inline void PrintTo(const Defect& defect, std::ostream* out) {
  *out << defect.name;
}

class LoaderTest : public ::testing::Test {
 protected:
  using Path = std::filesystem::path;

  LoaderTest() : folder_(root_ / "plugins") { std::filesystem::create_directory(folder_); }

  static std::string file_name(const std::string& name) { return "libyoke_backend_" + name + ".so"; }
  Path file(const std::string& name) const { return folder_ / file_name(name); }
  // The built file for a plugin: its own file, or the one that reads its defect from its file name.
  static Path built(const std::string& name) {
    const auto own = Path(LOADER_TEST_PLUGINS) / file_name(name);
    return std::filesystem::exists(own) ? own : Path(LOADER_TEST_PLUGINS) / file_name("good");
  }
  // Copies a plugin into a folder. The linker treats the copy as a different file, with its own variables.
  Path place(const std::string& name, const Path& folder) {
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(built(name), folder / file_name(name),
                               std::filesystem::copy_options::overwrite_existing);
    return folder / file_name(name);
  }
  Path place(const std::string& name) { return place(name, folder_); }

  RuntimeOptions options(std::vector<Path> folders) {
    RuntimeOptions options;
    options.plugin_dirs = std::move(folders);
    options.search_environment = false;
    options.probe.which = ProbeOptions::Which::kNone;
    options.log_level = LogLevel::kTrace;
    options.log_sink = [this](LogLevel level, std::string_view line) {
      lines_.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(line));
    };
    return options;
  }
  RuntimeOptions options() { return options({folder_}); }
  RuntimeOptions with_probe() {
    auto given = options();
    given.probe.which = ProbeOptions::Which::kUntrusted;
    given.probe.required = true;  // a plugin that hangs must never enter the test itself
    given.probe.timeout = std::chrono::seconds(60);
    given.probe.cache_dir = root_ / "cache";
    return given;
  }

  // Options with an allow-list of these lines.
  RuntimeOptions allowing(const std::string& lines) {
    write_file(root_ / "allowed", lines);
    auto given = options();
    given.allow_list = root_ / "allowed";
    return given;
  }
  // Loads the backend and checks that report and error agree.
  Outcome load(Runtime& runtime, const std::string& name) {
    Outcome outcome;
    try {
      runtime.backend(name);
    } catch (const Error& error) {
      outcome.error = error.what();
    }
    outcome.report = report_of(runtime, name);
    EXPECT_EQ(outcome.report.usable, outcome.error.empty()) << outcome.report.verdict;
    return outcome;
  }
  // Copies and loads the plugin, and checks that the process can still use another plugin.
  Outcome load(const RuntimeOptions& given, const std::string& name) {
    place(name);
    Runtime runtime(given);
    auto outcome = load(runtime, name);
    use_good_backend(runtime);
    return outcome;
  }
  void use_good_backend(Runtime& runtime) {
    place("good");
    const Buffer buffer(runtime.backend("good")->open_device(0), 64);
    const auto& api = buffer.device()->backend()->state().backend;
    const std::string sent(64, 'x');
    std::string received(64, '\0');
    EXPECT_EQ(api.from_host(nullptr, buffer.get(), 0, sent.data(), 64, nullptr, nullptr), YOKE_STATUS_OK);
    EXPECT_EQ(api.to_host(nullptr, buffer.get(), 0, received.data(), 64, nullptr), YOKE_STATUS_OK);
    EXPECT_EQ(received, sent);
  }
  // Lists the candidates of one name; the install folder has others.
  static std::vector<BackendCandidate> reports_of(const Runtime& runtime, const std::string& name) {
    auto all = runtime.list_backends();
    std::erase_if(all, [&](const auto& one) { return one.name != name; });
    return all;
  }
  static BackendCandidate report_of(const Runtime& runtime, const std::string& name) {
    return reports_of(runtime, name).at(0);
  }
  static bool is_mapped(const std::string& part) {
    return read_whole("/proc/self/maps").find(part) != std::string::npos;
  }
  // Names of the plugins and libraries that were loaded, one per line. Needs a Variable YOKE_TEST_LOADED.
  std::string loaded() const { return read_whole(root_ / "loaded"); }

  const TemporaryFolder root_;
  const Path folder_;
  std::vector<std::string> lines_;
};

}  // namespace yoke::test
