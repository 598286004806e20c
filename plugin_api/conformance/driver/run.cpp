// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/run.cpp: a poll loop over the pipes and processes of the running tests.
#include "run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace yoke::conformance {
namespace {

using Clock = std::chrono::steady_clock;

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number, const char* what) : number_(number) {
    if (number_ < 0) {
      throw std::system_error(errno, std::generic_category(), what);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return number_; }
  void close() {
    if (number_ >= 0) {
      ::close(std::exchange(number_, -1));
    }
  }

 private:
  int number_ = -1;
};

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "pipe");
    }
    read = Descriptor(ends[0], "pipe");
    write = Descriptor(ends[1], "pipe");
    ::fcntl(read.get(), F_SETFL, O_NONBLOCK);
  }
  Descriptor read;
  Descriptor write;
};

// An anonymous file, mapped by both processes.
Descriptor shared_file(const char* name, off_t byte_count) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC), "memfd_create");
  if (byte_count != 0 && ::ftruncate(file.get(), byte_count) != 0) {
    throw std::system_error(errno, std::generic_category(), "ftruncate");
  }
  return file;
}

class FileActions {
 public:
  FileActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  void give(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void open_null(int to) { ::posix_spawn_file_actions_addopen(&actions_, to, "/dev/null", O_RDONLY, 0); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Starts the program as the leader of a new process group.
pid_t spawn(const std::string& program, const std::vector<std::string>& words, const FileActions& actions) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  pid_t process = -1;
  const int failed =
      ::posix_spawn(&process, program.c_str(), actions.get(), &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    throw std::system_error(failed, std::generic_category(), "cannot start " + program);
  }
  return process;
}

std::string signal_text(int number) {
  const char* name = ::sigabbrev_np(number);
  const char* description = ::sigdescr_np(number);
  return name == nullptr
             ? "signal " + std::to_string(number)
             : std::string("SIG") + name + " (" + (description == nullptr ? "" : description) + ")";
}

// A running test.
class Running {
 public:
  Running(const std::string& self, const Options& options, const std::string& plugin, const NamedTest& test,
          std::size_t index);
  ~Running() { kill_group(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::size_t index() const { return index_; }
  const std::string& name() const { return name_; }
  const std::string& progress() const { return outcome_.progress; }
  int report_descriptor() const { return closed_ ? -1 : pipe_.read.get(); }
  int process_descriptor() const { return process_file_.get(); }
  Clock::time_point deadline() const { return deadline_; }

  void read_report();
  void pass_deadline();  // kills the process; end() is called once it is gone
  Outcome end();         // precondition: the process has ended

 private:
  void take(Message message);
  void judge_end(int status_code, int status);
  std::string where() const;
  std::string output() const;
  void kill_group() const {
    if (process_ > 0) {
      ::kill(-process_, SIGKILL);
      ::kill(process_, SIGKILL);  // the plugin may have left the process group
    }
  }

  std::size_t index_;
  std::string name_;
  double allowed_s_;
  Pipe pipe_;
  Descriptor output_file_;
  Descriptor function_file_;
  Descriptor process_file_;
  pid_t process_ = -1;
  Clock::time_point started_;
  Clock::time_point deadline_;
  bool too_late_ = false;
  bool closed_ = false;
  char last_kind_ = '\0';
  std::string received_;
  std::string announced_;  // a failure that was thrown; the stack may still be unwinding
  Outcome outcome_;
};

Running::Running(const std::string& self, const Options& options, const std::string& plugin,
                 const NamedTest& test, std::size_t index)
    : index_(index),
      name_(test.name),
      allowed_s_(options.settings.timeout_s * test.test.deadline_factor *
                 (options.settings.thorough ? 20 : 1)),
      output_file_(shared_file("output", 0)),
      function_file_(shared_file("function", sizeof(std::atomic<std::uint32_t>))),
      started_(Clock::now()),
      deadline_(started_ +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(allowed_s_))) {
  std::vector<std::string> words = {"yoke-conformance", "--run-one", test.name};
  const std::vector<std::string> more = child_words(options, plugin);
  words.insert(words.end(), more.begin(), more.end());
  FileActions actions;
  actions.open_null(STDIN_FILENO);
  actions.give(output_file_.get(), STDOUT_FILENO);
  actions.give(output_file_.get(), STDERR_FILENO);
  // Above the descriptors of the child, so that no dup2 overwrites a descriptor that is still needed.
  constexpr int kAbove = 16;
  const Descriptor report(::fcntl(pipe_.write.get(), F_DUPFD_CLOEXEC, kAbove), "dup");
  const Descriptor function(::fcntl(function_file_.get(), F_DUPFD_CLOEXEC, kAbove), "dup");
  actions.give(report.get(), kReportDescriptor);
  actions.give(function.get(), kFunctionDescriptor);
  process_ = spawn(self, words, actions);
  pipe_.write.close();
  process_file_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0)), "pidfd_open");
}

void Running::read_report() {
  std::array<char, 16384> buffer{};
  constexpr std::size_t kMost = std::size_t{64} << 20U;
  while (!closed_) {
    const ssize_t count = ::read(pipe_.read.get(), buffer.data(), buffer.size());
    if (count > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(count));
      take_messages(received_, [&](Message message) { take(std::move(message)); });
      closed_ = received_.size() > kMost;  // longer than any message of the kit
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else {
      closed_ = count == 0;
      return;
    }
  }
}

void Running::take(Message message) {
  if (message.kind == 'P') {
    outcome_.progress = std::move(message.text);
  } else if (message.kind == 'f') {
    announced_ = std::move(message.text);
  } else if (message.kind == 'N') {
    outcome_.note = std::move(message.text);
  } else {
    last_kind_ = message.kind;
    outcome_.text = std::move(message.text);
  }
}

void Running::pass_deadline() {
  too_late_ = true;
  deadline_ = Clock::now() + std::chrono::hours(1);
  kill_group();
}

// ", in buffer_create, after 'program 3 of 10'"
std::string Running::where() const {
  std::string text;
  std::uint32_t function = kNoFunction;
  if (::pread(function_file_.get(), &function, sizeof function, 0) == sizeof function &&
      function != kNoFunction) {
    text += std::string(", in ") + function_name(function);
  }
  if (!outcome_.progress.empty()) {
    text += ", after '" + outcome_.progress + "'";
  }
  return text;
}

std::string Running::output() const {
  constexpr off_t kMost = 4000;
  const off_t size = ::lseek(output_file_.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - kMost);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t count = ::pread(output_file_.get(), text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

void Running::judge_end(int status_code, int status) {
  if (last_kind_ == 'F' || (!announced_.empty() && last_kind_ == '\0')) {
    outcome_.text = last_kind_ == 'F' ? outcome_.text : announced_;
    return;  // errors during unwinding came later
  }
  if (too_late_) {
    outcome_.text = "the test exceeded its deadline of " + std::to_string(std::lround(allowed_s_)) + " s" +
                    where() + "; its process was killed";
    return;
  }
  if (status_code == CLD_KILLED || status_code == CLD_DUMPED) {
    const std::string before =
        last_kind_ == '\0' ? "" : " after the test itself had ended (in a destructor or an atexit handler?)";
    outcome_.text = "the test's process was killed by " + signal_text(status) + before + where();
    return;
  }
  if (last_kind_ == 'O' && status == 0) {
    outcome_.verdict = Verdict::kPassed;
  } else if (last_kind_ == 'U' && status == 0) {
    outcome_.verdict = Verdict::kUnsupported;
  } else if (last_kind_ != 'F') {
    outcome_.text = "the test's process ended with exit code " + std::to_string(status) + where() +
                    (last_kind_ == '\0' ? " before the test had ended; a plugin must not call exit"
                                        : " after the test itself had ended");
  }
}

Outcome Running::end() {
  read_report();
  kill_group();  // kills processes that the plugin started; the group's number is not reused before waitid
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED);
  process_ = -1;
  judge_end(info.si_code, info.si_status);
  outcome_.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  outcome_.output = output();
  return std::move(outcome_);
}

// The tests that are running.
class Pool {
 public:
  Pool(std::vector<Outcome>& outcomes, const Expectations& expectations, Progress& progress)
      : outcomes_(outcomes), expectations_(expectations), progress_(progress) {}

  std::size_t size() const { return running_.size(); }
  void start(std::unique_ptr<Running> test) { running_.push_back(std::move(test)); }

  // Waits for a message, the end of a process or the next deadline, for at most one second.
  void wait() {
    std::vector<pollfd> files;
    Clock::time_point next = Clock::now() + std::chrono::seconds(1);
    for (const auto& test : running_) {
      files.push_back({test->report_descriptor(), POLLIN, 0});
      files.push_back({test->process_descriptor(), POLLIN, 0});
      next = std::min(next, test->deadline());
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    ::poll(files.data(), files.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    const auto now = Clock::now();
    for (std::size_t i = running_.size(); i-- > 0;) {
      Running& test = *running_[i];
      if (files[2 * i].revents != 0) {
        test.read_report();
        progress_.running = test.name() + " " + test.progress();
      }
      if (files[2 * i + 1].revents != 0) {
        take_end(i);
      } else if (now >= test.deadline()) {
        test.pass_deadline();
      }
    }
  }

 private:
  void take_end(std::size_t i) {
    Outcome outcome = running_[i]->end();
    const auto expected = expectations_.find(running_[i]->name());
    judge(outcome, expected == expectations_.end() ? nullptr : &expected->second);
    ++progress_.done;
    progress_.failed += is_failure(outcome.verdict) ? 1U : 0U;
    outcomes_[running_[i]->index()] = std::move(outcome);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::vector<Outcome>& outcomes_;
  const Expectations& expectations_;
  Progress& progress_;
  std::vector<std::unique_ptr<Running>> running_;
};

}  // namespace

std::vector<Outcome> run_tests(const std::string& self, const Options& options, const std::string& plugin,
                               const std::vector<NamedTest>& tests, const Expectations& expectations,
                               const std::function<bool(const Progress&)>& on_progress) {
  Outcome not_run;
  not_run.verdict = Verdict::kNotRun;
  not_run.text = "the run was interrupted";
  std::vector<Outcome> outcomes(tests.size(), not_run);
  Progress progress;
  progress.total = tests.size();
  Pool pool(outcomes, expectations, progress);
  std::size_t started = 0;
  while (progress.done < tests.size()) {
    const bool stops = options.fail_fast && progress.failed != 0;
    if (stops && pool.size() == 0) {
      break;
    }
    while (!stops && started < tests.size() && pool.size() < options.jobs) {
      progress.running = tests[started].name;
      pool.start(std::make_unique<Running>(self, options, plugin, tests[started], started));
      ++started;
    }
    if (!on_progress(progress)) {
      return outcomes;
    }
    pool.wait();
  }
  for (; started < tests.size(); ++started) {
    outcomes[started].text = "--fail-fast ended the run";
  }
  on_progress(progress);
  return outcomes;
}

Outcome try_step(const std::string& self, const Options& options, const std::string& plugin,
                 const char* step) {
  return run_tests(self, options, plugin, {{"load", step, {}}}, {}, [](const Progress&) { return true; })[0];
}

}  // namespace yoke::conformance
