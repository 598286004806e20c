// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/fixture.h: a folder for plugins, a runtime that looks only there, and the lines that it
// logs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>
#include <yoke/runtime/device.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace yoke::test {

// An environment variable, put back at the end.
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

inline std::string version(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

class LoaderTest : public ::testing::Test {
 protected:
  LoaderTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "yoke_loader_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~LoaderTest() override { std::filesystem::remove_all(root_); }

  // The built file of a variant.
  static std::filesystem::path built(const std::string& variant, const std::string& name = "good") {
    return std::filesystem::path(LOADER_TEST_PLUGINS) / variant / ("libyoke_backend_" + name + ".so");
  }
  // A folder of its own, with a copy of that file: as a new file it is mapped anew.
  std::filesystem::path folder_with(const std::string& variant, const std::string& name = "good") {
    const auto folder = root_ / variant;
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(built(variant, name), folder / ("libyoke_backend_" + name + ".so"));
    return folder;
  }
  void write(const std::filesystem::path& path, const std::string& bytes) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  RuntimeOptions options(std::vector<std::filesystem::path> folders) {
    RuntimeOptions options;
    options.plugin_dirs = std::move(folders);
    options.search_environment = false;
    options.probe.which = ProbeOptions::Which::kNone;  // tests/bad_plugins has the probe
    options.log_level = LogLevel::kTrace;
    options.log_sink = [this](LogLevel level, std::string_view line) {
      lines_.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(line));
    };
    return options;
  }

  static Error error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {ErrorCode::kOk, ""};
  }
  // Why variant `name` is refused when it is asked for.
  Error refusal_of(const std::string& variant, const std::string& name = "good") {
    Runtime runtime(options({folder_with(variant, name)}));
    return error_of([&] { runtime.backend(name); });
  }
  // What a listing says of a name; the install folder may hold others.
  static std::vector<BackendCandidate> of(const Runtime& runtime, const std::string& name) {
    auto all = runtime.list_backends();
    std::erase_if(all, [&](const auto& one) { return one.name != name; });
    return all;
  }
  static bool is_mapped(const std::string& part) {
    return read("/proc/self/maps").find(part) != std::string::npos;
  }

  std::filesystem::path root_;
  std::vector<std::string> lines_;
};

}  // namespace yoke::test
