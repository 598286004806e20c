// SPDX-License-Identifier: Apache-2.0
// tests/bad_plugins/bad_plugin_test.h: puts a bad plugin beside a good one, asks for it, and sees that the
// application goes on.
#pragma once

#include <cfenv>
#include <clocale>
#include <csignal>
#include <numeric>

#include "device/state.h"
#include "fixture.h"

namespace yoke::test {

// What asking for a plugin by name came to.
struct Outcome {
  std::string sentence;  // empty: it loaded
  BackendCandidate report;
};

class BadPluginTest : public LoaderTest {
 protected:
  BadPluginTest() : folder_(root_ / "plugins") { std::filesystem::create_directory(folder_); }
  ~BadPluginTest() override {  // what a bad plugin that is loaded without a probe leaves behind
    std::fesetround(FE_TONEAREST);
    std::setlocale(LC_ALL, "C");
    std::signal(SIGUSR1, SIG_DFL);
    ::unsetenv("YOKE_BAD_PLUGIN");
    std::filesystem::current_path(working_directory_);
  }

  static std::filesystem::path compiled(const std::string& name) {
    return std::filesystem::path(LOADER_TEST_PLUGINS) / ("libyoke_backend_" + name + ".so");
  }
  std::filesystem::path file(const std::string& name) const {
    return folder_ / ("libyoke_backend_" + name + ".so");
  }
  // Its own file, or the one that reads its case from its name.
  void place(const std::string& name) {
    const auto own = compiled(name);
    std::filesystem::copy_file(std::filesystem::exists(own) ? own : compiled("good"), file(name),
                               std::filesystem::copy_options::overwrite_existing);
  }

  RuntimeOptions with_probe() {
    auto given = options({folder_});
    given.probe.which = ProbeOptions::Which::kUntrusted;
    given.probe.required = true;  // a plugin that hangs must never get into the test itself
    given.probe.timeout = std::chrono::seconds(60);
    given.probe.cache_dir = root_ / "cache";
    return given;
  }
  RuntimeOptions without_probe() { return options({folder_}); }

  Outcome ask(Runtime& runtime, const std::string& name) {
    Outcome outcome;
    try {
      runtime.backend(name);
    } catch (const Error& error) {
      outcome.sentence = error.what();
    }
    outcome.report = of(runtime, name).at(0);
    EXPECT_EQ(outcome.report.usable, outcome.sentence.empty()) << outcome.report.verdict;
    return outcome;
  }
  // Places the plugin, asks for it, and then uses a good one in the same process.
  Outcome ask(const RuntimeOptions& given, const std::string& name) {
    place(name);
    Runtime runtime(given);
    auto outcome = ask(runtime, name);
    use_a_good_one(runtime);
    return outcome;
  }
  void use_a_good_one_of(const RuntimeOptions& given) {
    Runtime runtime(given);
    use_a_good_one(runtime);
  }
  void use_a_good_one(Runtime& runtime) {
    place("good");
    const Buffer buffer(runtime.backend("good")->open_device(0), 64);
    const auto& api = buffer.device()->backend()->state().backend;
    std::vector<unsigned char> sent(64);
    std::vector<unsigned char> received(64);
    std::iota(sent.begin(), sent.end(), static_cast<unsigned char>(1));
    EXPECT_EQ(api.from_host(nullptr, buffer.get(), 0, sent.data(), 64, nullptr, nullptr), YOKE_OK);
    EXPECT_EQ(api.to_host(nullptr, buffer.get(), 0, received.data(), 64, nullptr), YOKE_OK);
    EXPECT_EQ(received, sent);
  }

  const std::filesystem::path folder_;
  const std::filesystem::path working_directory_ = std::filesystem::current_path();
};

}  // namespace yoke::test
