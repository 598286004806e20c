// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/load_process.cpp: what a plugin must leave as it was in the process that loads it.
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

#include "basic_use.h"
#include "groups.h"

extern char** environ;

namespace yoke::conformance {
namespace {

// Rounding, masked exceptions, flush to zero: what changes results; not the flags that arithmetic raises.
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

// Set by the C library in every handler that it sets, also where a handler is put back to what it was.
constexpr int kRestorer = 0x04000000;

// All that a process has one of, and that others in it rely on.
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
            after_what, " the handler of signal ", number, " (",
            ::sigabbrev_np(number) == nullptr ? "real-time" : ::sigabbrev_np(number), ") is another");
      check(::sigismember(&mask, number) == ::sigismember(&before.mask, number), after_what, " signal ",
            number, " is blocked otherwise than before");
    }
    check_equal(locale, before.locale, after_what, " the locale");
    check(float_mode == before.float_mode, after_what, " the floating-point mode is ", float_mode,
          ", it was ", before.float_mode, " (rounding << 16 | MXCSR; -ffast-math at link time does that)");
    check_equal(folder, before.folder, after_what, " the working directory");
    check(variables == before.variables, after_what, " the environment's variables are others");
    check_equal(file_mask, before.file_mask, after_what, " the umask");
  }
};

void leaves_the_process_alone(Kit& kit) {
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
    check(now <= before, after_what, " there are ", now - before,
          " threads more than before; none may start before device_open");
  };
  kit.library();
  look("after dlopen");
  const Plugin& plugin = kit.plugin();
  look("after the entry");
  const std::uint32_t count = plugin.device_count();
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    yoke_device_info info = sized<yoke_device_info>();
    expect_ok(plugin.call<&yoke_backend_api::device_describe>(plugin.get(), ordinal, &info));
  }
  look("after device_describe");
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
    unsupported("standard output is no file here, so nobody can look at what was printed");
  }
  const off_t before = printed_bytes();
  const auto look = [&](const char* until) {
    check(printed_bytes() == before, "the plugin printed something ", until, "; it logs through the host");
  };
  kit.library();
  look("in a constructor");
  kit.plugin();
  look("in its entry");
  if (kit.plugin().device_count() != 0) {
    use_everything(kit.device());
    look("while a device was used");
    yoke_device_info info = sized<yoke_device_info>();
    kit.plugin().call<&yoke_backend_api::device_describe>(kit.plugin().get(), UINT32_MAX, &info);
    look("when it refused a call");
  }
  kit.finish();
  look("while it was destroyed");
}

void success_builds_no_text(Kit& kit) {
  const std::uint64_t texts = use_everything(kit.device());
  check(texts == 0, texts, " calls answered OK and yet filled the status object");
}

}  // namespace

std::vector<Test> load_process_tests() {
  return {
      {"leaves-the-process-alone",
       "signals, locale, floating-point mode, folder, environment and umask stay as they were",
       {22},
       leaves_the_process_alone},
      {"no-early-threads", "no thread is started before device_open", {22}, no_early_threads},
      {"prints-nothing", "nothing is written to standard output or error", {22}, prints_nothing},
      {"success-builds-no-text",
       "a call that answers OK leaves the status object alone",
       {10},
       success_builds_no_text},
  };
}

}  // namespace yoke::conformance
