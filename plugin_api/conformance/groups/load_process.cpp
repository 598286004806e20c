// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/load_process.cpp: process state that a plugin must not change.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "groups.h"
#include "scenario.h"

extern char** environ;

namespace yoke::conformance {
namespace {

// The settings that change results (rounding, exception masks, flush to
// zero), without the flags that arithmetic raises.
unsigned floating_point_mode() {
  unsigned mode = static_cast<unsigned>(std::fegetround()) << 16U;
#if defined(__SSE__)
  mode |= _mm_getcsr() & 0xffc0U;
#endif
  return mode;
}

std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

// SA_RESTORER: the C library sets this flag whenever it installs a handler, even one that it restores.
constexpr int kRestorer = 0x04000000;

// State that all code of a process shares.
struct ProcessState {
  std::array<struct sigaction, 65> actions{};
  sigset_t mask{};
  std::string locale;
  unsigned float_mode = 0;
  std::string folder;
  std::vector<std::string> variables;
  mode_t file_mask = 0;

  static ProcessState now() {
    ProcessState state;
    for (int number = 1; number < static_cast<int>(state.actions.size()); ++number) {
      ::sigaction(number, nullptr, &state.actions[static_cast<std::size_t>(number)]);
    }
    ::pthread_sigmask(SIG_SETMASK, nullptr, &state.mask);
    state.locale = std::setlocale(LC_ALL, nullptr);
    state.float_mode = floating_point_mode();
    state.folder = std::filesystem::current_path().string();
    state.variables = environment();
    state.file_mask = ::umask(0);
    ::umask(state.file_mask);
    return state;
  }

  void check_same(const ProcessState& before, const std::string& after_what) const {
    for (int number = 1; number < static_cast<int>(actions.size()); ++number) {
      const auto i = static_cast<std::size_t>(number);
      check(actions[i].sa_handler == before.actions[i].sa_handler &&
                ((actions[i].sa_flags ^ before.actions[i].sa_flags) & ~kRestorer) == 0,
            after_what, ", the handler of signal ", number, " (",
            ::sigabbrev_np(number) == nullptr ? "real-time" : ::sigabbrev_np(number), ") has changed");
      check(::sigismember(&mask, number) == ::sigismember(&before.mask, number), after_what, ", signal ",
            number, " is blocked or unblocked, unlike before");
    }
    check_equal(locale, before.locale, after_what, ", the locale");
    check(float_mode == before.float_mode, after_what, ", the floating-point mode is ", float_mode,
          ", before it was ", before.float_mode,
          " (rounding << 16 | MXCSR); linking with -ffast-math changes it");
    check_equal(folder, before.folder, after_what, ", the working directory");
    check(variables == before.variables, after_what, ", the environment variables have changed");
    check_equal(file_mask, before.file_mask, after_what, ", the umask");
  }
};

void process_state(Kit& kit) {
  std::setlocale(LC_ALL, "C.UTF-8");
  const ProcessState before = ProcessState::now();
  kit.library();
  ProcessState::now().check_same(before, "after dlopen");
  const bool has_device = kit.plugin().device_count() != 0;
  ProcessState::now().check_same(before, "after the entry");
  if (has_device) {
    use_everything(kit.device());
    ProcessState::now().check_same(before, "after opening a device and using it");
  }
  kit.finish();
  ProcessState::now().check_same(before, "after destroy");
}

void no_early_threads(Kit& kit) {
  const std::size_t before = thread_count();
  const auto look = [&](const char* after_what) {
    const std::size_t now = thread_count();
    check(now <= before, after_what, ", the process has ", now - before,
          " more threads than before; a plugin may start none before the first device_count");
  };
  kit.library();
  look("after dlopen");
  const Plugin& plugin = kit.plugin();
  look("after the entry");
  plugin.get()->get_table(plugin.get(), YOKE_BACKEND_TABLE);
  if (plugin.has<&yoke_backend_api::option_specs>()) {
    plugin.option_specs();
  }
  look("after option_specs");
  Plugin other(kit.library());
  other.leave();
  look("after another entry and destroy");
}

off_t printed_bytes() {
  std::fflush(nullptr);
  return ::lseek(STDOUT_FILENO, 0, SEEK_END) + ::lseek(STDERR_FILENO, 0, SEEK_END);
}

void prints_nothing(Kit& kit) {
  struct stat out {};
  if (::fstat(STDOUT_FILENO, &out) != 0 || !S_ISREG(out.st_mode)) {
    unsupported("standard output is not a file, so the test cannot read what was printed");
  }
  const off_t before = printed_bytes();
  const auto look = [&](const char* until) {
    check(printed_bytes() == before, "the plugin printed something ", until,
          "; log through the host instead");
  };
  kit.library();
  look("in a constructor");
  kit.plugin();
  look("in its entry");
  if (kit.plugin().device_count() != 0) {
    use_everything(kit.device());
    look("while a device was used");
    yoke_device_info info = sized<yoke_device_info>();
    kit.plugin().device_describe(UINT32_MAX, &info);
    look("in a call that failed");
  }
  kit.finish();
  look("while it was destroyed");
}

void success_sets_no_error(Kit& kit) {
  use_everything(kit.device());
}

}  // namespace

std::vector<Test> load_process_tests() {
  return {
      {"process-state",
       "the plugin does not change signal handlers, locale, floating-point mode, working directory, "
       "environment or umask",
       {22},
       process_state},
      {"no-early-threads",
       "the plugin starts no thread before the first device_count",
       {22, 47},
       no_early_threads},
      {"prints-nothing",
       "the plugin writes nothing to standard output or standard error",
       {22},
       prints_nothing},
      {"success-sets-no-error",
       "a call that returns OK does not fill the error object",
       {10},
       success_sets_no_error},
  };
}

}  // namespace yoke::conformance
