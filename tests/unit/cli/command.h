// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/command.h: runs the built yoke command and captures its output.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test_files.h"
#include "test_paths.h"

namespace yoke::test {

struct Outcome {
  int code = -1;  // 128 + signal if a signal ended the process
  std::string out = {};
  std::string err = {};

  // The last line of standard output, without the newline.
  std::string last_line() const {
    const std::string text = out.substr(0, out.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
};

// A started command. It finds the plugins of the build tree and of the folders in the environment.
class Command {
 public:
  explicit Command(const std::vector<std::string>& arguments,
                   std::optional<std::uint64_t> file_size_limit = std::nullopt, bool drop_root = false,
                   const char* program = YOKE_TEST_COMMAND) {
    std::vector<char*> words = {const_cast<char*>(program)};
    for (const std::string& argument : arguments) {
      words.push_back(const_cast<char*>(argument.c_str()));
    }
    words.push_back(nullptr);
    // Opened before the child drops root, which then may not have access to the folder.
    std::FILE* const out = std::fopen((folder_ / "out").c_str(), "w");
    std::FILE* const err = std::fopen((folder_ / "err").c_str(), "w");
    process_ = fork();
    if (process_ == 0) {
      dup2(fileno(out), STDOUT_FILENO);
      dup2(fileno(err), STDERR_FILENO);
      setenv("YOKE_PLUGIN_PATH", test::plugin_folder().c_str(), 1);
      if (file_size_limit) {
        const rlimit limit{.rlim_cur = *file_size_limit, .rlim_max = *file_size_limit};
        setrlimit(RLIMIT_FSIZE, &limit);
      }
      if (drop_root && geteuid() == 0 && setuid(65534) != 0) {
        _exit(126);
      }
      execv(program, words.data());
      _exit(127);
    }
    std::fclose(out);
    std::fclose(err);
  }
  ~Command() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t process() const { return process_; }
  void signal(int number) const { kill(process_, number); }

  // Waits until standard output, or "err", contains `text`. Returns false after a minute.
  bool wait_for_output(const std::string& text, const char* stream = "out") const {
    constexpr int kTries = 6000;
    for (int i = 0; i < kTries; ++i) {
      if (read_whole(folder_ / stream).find(text) != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  Outcome wait() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            .out = read_whole(folder_ / "out"),
            .err = read_whole(folder_ / "err")};
  }

 private:
  TemporaryFolder folder_;
  pid_t process_ = -1;
};

// The plugin folder of the user who runs commands.
class UserFolder {
 public:
  UserFolder() {
    std::filesystem::create_directories(folder_ / "yoke/plugins");
    ::setenv("XDG_DATA_HOME", folder_.path().c_str(), 1);
  }
  ~UserFolder() { ::unsetenv("XDG_DATA_HOME"); }
  UserFolder(const UserFolder&) = delete;
  UserFolder& operator=(const UserFolder&) = delete;
#if defined(YOKE_TEST_BAD_PLUGIN)
  // A backend with memory only. Its file name selects its defect (tests/unit/loader).
  void place(const std::string& name) const {
    place(name, YOKE_TEST_BAD_PLUGIN);
  }
#endif
  void place(const std::string& name, const std::filesystem::path& plugin) const {
    std::filesystem::copy_file(plugin, file(name));
  }
  std::filesystem::path file(const std::string& name) const {
    return folder_ / ("yoke/plugins/libyoke_backend_" + name + ".so");
  }

 private:
  TemporaryFolder folder_;
};

inline Outcome run(const std::vector<std::string>& arguments) {
  return Command(arguments).wait();
}

// The value of a key in JSON on one line, as text; empty if the key is missing.
inline std::string json_value(const std::string& json, const std::string& key) {
  const std::size_t at = json.find("\"" + key + "\":");
  if (at == std::string::npos) {
    return {};
  }
  const std::size_t start = at + key.size() + 3;
  return json.substr(start, json.find_first_of(",}]", start) - start);
}

inline std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace yoke::test
