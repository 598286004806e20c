// SPDX-License-Identifier: Apache-2.0
// runtime/probe/main.cpp: yoke-probe: tries one plugin in a process that may crash.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/enter.h"
#include "loader/file_check.h"
#include "loader/library.h"
#include "loader/logger.h"
#include "loader/memory_reader.h"
#include "loader/plugin_options.h"
#include "loader/probe_protocol.h"
#include "loader/status.h"
#include "probe/process_state.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
// Without these options a crash would not end in a signal, and the
// sanitizer's report would count as plugin output.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming): the
// sanitizers' libraries call these names
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0";
}
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0:detect_leaks=0";
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
#endif

namespace {

using namespace yoke::loader;  // NOLINT(google-build-using-namespace): a front end of that namespace
using yoke::probe::ProcessState;

const pid_t own_process = ::getpid();  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Writes one line. In a process that the plugin forked it exits instead.
void report(const std::string& line) {
  if (::getpid() != own_process) {
    ::_exit(0);
  }
  const std::string closed = line + "\n";
  if (::write(kProbeDescriptor, closed.data(), closed.size()) != static_cast<ssize_t>(closed.size())) {
    ::_exit(1);  // libyoke closed the pipe
  }
}

void report_refusal(const char* reached, const Refusal& refusal) {
  report(std::string(kProbeRefused) + "\t" + reached + "\t" + printable(refusal.reason, 2000) + "\t" +
         printable(refusal.fix, 500));
}

void report_exception() {
  std::string what = "of an unknown type";
  try {
    if (const auto thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
    what = "std::terminate was called without one";
  } catch (const std::exception& exception) {
    what = printable(exception.what(), 500);
  } catch (...) {  // NOLINT(bugprone-empty-catch): `what` is set
  }
  report(std::string(kProbeThrew) + "\t" + what);
  ::_exit(1);
}

// Reports the settings that changed since `before`, and updates it.
void compare(ProcessState& before, const char* stage) {
  const ProcessState now = yoke::probe::process_state();
  for (const std::string& difference : yoke::probe::differences(before, now)) {
    report(std::string(kProbeBroke) + "\t" + stage + "\t" + difference);
  }
  // Reported only once, although the child process still exists at the next stage.
  static bool has_child = false;
  if (!has_child && ::waitpid(-1, nullptr, WNOHANG) >= 0) {
    has_child = true;
    report(std::string(kProbeBroke) + "\t" + stage + "\tthe number of processes (it started one)");
  }
  before = now;
}

template <class Number>
bool parse(const char* text, Number& out) {
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, out);
  return error == std::errc() && stop == end;
}

std::optional<Stamp> parse_stamp(char** words) {
  Stamp stamp;
  const bool whole = parse(words[0], stamp.device) && parse(words[1], stamp.inode) &&
                     parse(words[2], stamp.byte_count) && parse(words[3], stamp.modified_ns) &&
                     parse(words[4], stamp.changed_ns);
  return whole ? std::optional(stamp) : std::nullopt;
}

// Loads and enters the plugin, counts its devices, and releases it. Opens no device.
void try_plugin(const File& file, const Admission& admission, const char* name,
                const std::vector<std::string>& option_texts) {
  ProcessState state = yoke::probe::process_state();
  report(std::string(kProbeStage) + "\t" + kStageConstructor);
  const Library library = open_library(file.path, admission);
  if (library.refusal) {
    report_refusal(library.mapped ? "opened" : "checked", library.refusal);
    return;
  }
  compare(state, kStageConstructor);

  yoke::RuntimeOptions options;
  options.log_level = yoke::LogLevel::kOff;
  yoke::detail::Logger logger(options.log_level, {});
  const auto host = std::make_shared<const Host>(Host{options, logger});
  EnteredPlugin plugin;
  plugin.name = name;
  plugin.path = file.path;
  state = yoke::probe::process_state();
  const auto on_stage = [](const char* stage) { report(std::string(kProbeStage) + "\t" + stage); };
  const Refusal refusal =
      enter(host, library.entry, parse_plugin_options(name, option_texts), plugin, on_stage);
  compare(state, kStageEntry);
  if (refusal) {
    report_refusal("entered", refusal);
    return;
  }
  on_stage(kStageDevices);  // the first call may start a driver and its threads
  std::uint32_t device_count = 0;
  yoke::detail::Status status;
  plugin.backend.device_count(plugin.plugin.get(), &device_count, nullptr, 0, status.get());
  state = yoke::probe::process_state();
  on_stage(kStageDestroy);
  if (const Refusal failed = release(plugin)) {
    report_refusal("entered", failed);
    return;
  }
  compare(state, kStageDestroy);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8 || ::fcntl(kProbeDescriptor, F_GETFD) < 0) {
    std::fputs("yoke-probe: libyoke starts this program to check a plugin; do not run it by hand\n", stderr);
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::fcntl(kProbeDescriptor, F_SETFD, FD_CLOEXEC);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::set_terminate(report_exception);
  // Unbuffered: this process exits without flushing, and all output of the plugin must be seen.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  report(kProbeGreeting);
  const auto expected = parse_stamp(argv + 3);
  const File file = resolve(argv[1]);
  const Admission admission = admit(file, {});
  if (!expected || admission.refusal || admission.stamp != *expected) {
    report_refusal("found", admission.refusal ? admission.refusal
                                              : Refusal{"it was replaced while being probed",
                                                        "try again when its installation is complete"});
  } else {
    try_plugin(file, admission, argv[2], {argv + 8, argv + argc});
  }
  report(kProbeDone);
  ::_exit(0);  // without running the plugin's destructors, as loaded plugins stay mapped
}
