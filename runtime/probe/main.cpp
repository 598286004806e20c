// SPDX-License-Identifier: Apache-2.0
// runtime/probe/main.cpp: yoke-probe: loads, enters and releases one plugin, in a process that may die of it.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "device/state.h"
#include "loader/enter.h"
#include "loader/file_check.h"
#include "loader/library.h"
#include "loader/memory_reader.h"
#include "loader/probe_protocol.h"
#include "loader/registry.h"
#include "probe/process_state.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
// A crash must stay a signal, and a report would count as something that the plugin printed.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming): the
// names that the sanitizers call, from libraries of their own
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

using namespace yoke::loader;  // NOLINT(google-build-using-namespace): one file of that namespace's own kind
using yoke::probe::ProcessState;

const pid_t own_process = ::getpid();  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// One write per line. A process that the plugin forked comes back here too: it ends without a word.
void say(const std::string& line) {
  if (::getpid() != own_process) {
    ::_exit(0);
  }
  const std::string closed = line + "\n";
  if (::write(kProbeDescriptor, closed.data(), closed.size()) != static_cast<ssize_t>(closed.size())) {
    ::_exit(1);  // nobody listens
  }
}

void say_refused(const char* reached, const Refusal& refusal) {
  say(std::string(kProbeRefused) + "\t" + reached + "\t" + printable(refusal.reason, 2000) + "\t" +
      printable(refusal.mend, 500));
}

void say_what_was_thrown() {
  std::string what = "of a type that yoke does not know";
  try {
    if (const auto thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
    what = "none: std::terminate was called";
  } catch (const std::exception& exception) {
    what = printable(exception.what(), 500);
  } catch (...) {  // NOLINT(bugprone-empty-catch): `what` says so
  }
  say(std::string(kProbeThrew) + "\t" + what);
  ::_exit(1);
}

// Holds the process against what it was before, names the stage, and starts anew from there.
void compare(ProcessState& before, const char* stage) {
  const ProcessState now = yoke::probe::process_state();
  for (const std::string& difference : yoke::probe::differences(before, now)) {
    say(std::string(kProbeBroke) + "\t" + stage + "\t" + difference);
  }
  // Told once: it is still there at the next stage.
  static bool told = false;
  if (!told && ::waitpid(-1, nullptr, WNOHANG) >= 0) {
    told = true;
    say(std::string(kProbeBroke) + "\t" + stage + "\tthe number of processes (it started one)");
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

// The plugin's whole life but its devices.
void live(const File& file, const Admission& admission, const char* name) {
  ProcessState state = yoke::probe::process_state();
  say(std::string(kProbeStage) + "\t" + kStageConstructor);
  const Library library = open_library(file.path, admission);
  if (library.refusal) {
    say_refused(library.mapped ? "opened" : "checked", library.refusal);
    return;
  }
  compare(state, kStageConstructor);

  yoke::RuntimeOptions options;
  options.search_environment = false;
  options.log_level = yoke::LogLevel::kOff;
  yoke::detail::BackendState backend(std::make_shared<yoke::detail::RuntimeState>(options));
  backend.name = name;
  state = yoke::probe::process_state();
  const auto on_stage = [](const char* stage) { say(std::string(kProbeStage) + "\t" + stage); };
  const Refusal refusal = enter(backend, library.entry, on_stage);
  compare(state, kStageEntry);
  if (refusal) {
    say_refused("entered", refusal);
    return;
  }
  on_stage(kStageDestroy);
  if (const Refusal failed = release(backend)) {
    say_refused("entered", failed);
    return;
  }
  compare(state, kStageDestroy);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8 || ::fcntl(kProbeDescriptor, F_GETFD) < 0) {
    std::fputs(
        "yoke-probe: libyoke starts it to try a plugin before it loads it; there is nothing to do by hand\n",
        stderr);
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::fcntl(kProbeDescriptor, F_SETFD, FD_CLOEXEC);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::set_terminate(say_what_was_thrown);
  // No buffer: this process ends without flushing, and what is printed into one must be seen as well.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  say(kProbeGreeting);
  const auto expected = parse_stamp(argv + 3);
  const File file = resolve(argv[1]);
  const Admission admission = admit(file, {});
  if (!expected || admission.refusal || admission.stamp != *expected) {
    say_refused("found", admission.refusal ? admission.refusal
                                           : Refusal{"it was replaced while it was probed",
                                                     "try again when its installation is done"});
  } else {
    live(file, admission, argv[2]);
  }
  say(kProbeDone);
  ::_exit(0);  // destructors of the plugin are not to run: a loaded plugin stays mapped
}
