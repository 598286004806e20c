// SPDX-License-Identifier: Apache-2.0
// runtime/loader/probe_run.cpp: starts yoke-probe, waits for it with a deadline, and turns its report and its
// exit status into a verdict.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "loader/memory_reader.h"
#include "loader/probe.h"
#include "loader/probe_protocol.h"

namespace yoke::loader {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxReportBytes = 1U << 16U;
constexpr std::size_t kMaxPrintedBytes = 1U << 16U;
constexpr std::chrono::milliseconds kKillTimeout(2000);

struct Child {
  pid_t process = -1;
  Descriptor report;   // the reading end of the pipe
  Descriptor printed;  // its standard output and error
  Descriptor ended;    // readable when it has ended; -1: the kernel has no pidfd
};

// Duplicates a descriptor to a number that the child does not use.
Descriptor high(Descriptor low) {
  return Descriptor(low.get() < 0 ? -1 : ::fcntl(low.get(), F_DUPFD_CLOEXEC, 10));
}

// A file in memory of fixed size, so that a plugin that prints
// endlessly fails. Its offset is the printed length.
Descriptor output_file() {
  Descriptor file = high(Descriptor(
      static_cast<int>(::syscall(SYS_memfd_create, "yoke-probe", 1U /* cloexec */ | 2U /* sealing */))));
  if (file.get() >= 0 && (::ftruncate(file.get(), kMaxPrintedBytes) != 0 ||
                          ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)) {
    return Descriptor();
  }
  return file;
}

std::string spawn(const ProbeRequest& request, int report, int printed, pid_t& process) {
  const Stamp& stamp = request.stamp;
  std::vector<std::string> words = {
      request.program.string(),          request.file.string(),           request.name,
      std::to_string(stamp.device),      std::to_string(stamp.inode),     std::to_string(stamp.byte_count),
      std::to_string(stamp.modified_ns), std::to_string(stamp.changed_ns)};
  const auto options = texts_of(request.options);
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> command;
  command.reserve(words.size() + 1);
  for (std::string& word : words) {
    command.push_back(word.data());
  }
  command.push_back(nullptr);
  // From here on, nothing throws before both are destroyed.
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, report, kProbeDescriptor);
  ::posix_spawn_file_actions_adddup2(&files, printed, 1);
  ::posix_spawn_file_actions_adddup2(&files, printed, 2);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&files, kProbeDescriptor + 1);  // files of the application
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int failed = ::posix_spawn(&process, command[0], &files, &attributes, command.data(), ::environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return failed == 0 ? std::string() : std::string(std::strerror(failed));
}

std::string start(const ProbeRequest& request, Child& child) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return std::string("pipe: ") + std::strerror(errno);
  }
  child.report = Descriptor(ends[0]);
  const Descriptor report = high(Descriptor(ends[1]));
  child.printed = output_file();
  if (report.get() < 0 || child.printed.get() < 0) {
    return std::string("memfd_create: ") + std::strerror(errno);
  }
  auto failed = spawn(request, report.get(), child.printed.get(), child.process);
  if (failed.empty()) {
    child.ended = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child.process, 0)));
  }
  return failed;
}

// Reads the data in the pipe without waiting. Returns false if its
// other end is closed or the report is too long.
bool drain(int pipe, std::string& report) {
  char bytes[4096];
  while (report.size() < kMaxReportBytes) {
    const ssize_t count = ::read(pipe, bytes, sizeof(bytes));
    if (count > 0) {
      report.append(bytes, std::min(static_cast<std::size_t>(count), kMaxReportBytes - report.size()));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
  return false;
}

// Reads the report until the child ends. Returns false at the deadline.
bool listen(const Child& child, Clock::time_point deadline, std::string& report) {
  ::fcntl(child.report.get(), F_SETFL, O_NONBLOCK);
  pollfd wanted[2] = {{child.report.get(), POLLIN, 0}, {child.ended.get(), POLLIN, 0}};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = left <= 0 ? 0 : ::poll(wanted, 2, static_cast<int>(std::min<long>(left, 1 << 30)));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return false;
    }
    const bool ended = wanted[1].revents != 0;  // read before the pipe, which then holds the whole report
    const bool open = drain(child.report.get(), report);
    if (ended || (!open && child.ended.get() < 0)) {
      return true;
    }
    if (!open) {
      wanted[0].fd = -1;  // the plugin closed the pipe; the child has not ended
    }
  }
}

// Kills the child and its process group, and returns its exit status. Returns nothing if the application
// reaped the child, or if the child does not end.
std::optional<int> finish(const Child& child) {
  // Before the child is reaped, because its process group id may be reused afterwards.
  ::kill(-child.process, SIGKILL);
  ::kill(child.process, SIGKILL);
  if (child.ended.get() >= 0) {
    pollfd wanted{child.ended.get(), POLLIN, 0};
    while (::poll(&wanted, 1, static_cast<int>(kKillTimeout.count())) < 0 && errno == EINTR) {
    }
    if (wanted.revents == 0) {
      return std::nullopt;  // it hangs in the kernel, and so would waitpid
    }
  }
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = ::waitpid(child.process, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  return reaped == child.process ? std::optional(status) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

// The valid lines of a report.
struct Report {
  bool greeted = false;
  bool done = false;
  std::string stage;
  std::string reached = "checked";  // of `refusal`
  Refusal refusal;
  std::string thrown;
  std::string broke;
  std::string broke_stage;
};

Report parse(const std::string& text) {
  Report report;
  auto lines = split(text, '\n');
  lines.pop_back();  // after the last end of line
  for (const std::string_view line : lines) {
    const auto parts = split(line, '\t');
    if (!report.greeted) {
      report.greeted = line == kProbeGreeting;
    } else if (parts[0] == kProbeStage && parts.size() == 2) {
      for (const char* known : {kStageConstructor, kStageEntry, kStageTables, kStageDevices, kStageDestroy}) {
        if (parts[1] == known) {
          report.stage = known;
        }
      }
    } else if (parts[0] == kProbeRefused && parts.size() == 4 && !parts[2].empty()) {
      for (const char* known : {"found", "checked", "opened", "entered"}) {
        report.reached = parts[1] == known ? known : report.reached;
      }
      report.refusal = {printable(parts[2], 2000), printable(parts[3], 500)};
    } else if (parts[0] == kProbeThrew && parts.size() == 2) {
      report.thrown = printable(parts[1], 500);
    } else if (parts[0] == kProbeBroke && parts.size() == 3) {
      report.broke.append(report.broke.empty() ? "" : " and ").append(printable(parts[2], 500));
      report.broke_stage = report.broke_stage.empty() ? std::string(parts[1]) : report.broke_stage;
    } else if (line == kProbeDone) {
      report.done = true;
    }
  }
  return report;
}

// The subject of a sentence: "one of its constructors", "its entry", ...
std::string subject(const std::string& stage) {
  return stage == kStageConstructor ? "one of its constructors" : "its " + printable(stage, 20);
}

// As in BackendCandidate::stage.
std::string reached(const std::string& stage) {
  return stage == kStageConstructor ? "checked" : "entered";
}

std::string how_it_ended(const std::optional<int>& status) {
  if (!status) {
    return "ended the process with an unknown status";
  }
  if (WIFSIGNALED(*status)) {
    return "crashed: signal " + std::to_string(WTERMSIG(*status)) + " (" + ::strsignal(WTERMSIG(*status)) +
           ")";
  }
  return "ended the process with exit code " + std::to_string(WEXITSTATUS(*status));
}

std::string printed_text(int file) {
  const off_t byte_count = ::lseek(file, 0, SEEK_CUR);
  if (byte_count <= 0) {
    return {};
  }
  std::string text(static_cast<std::size_t>(std::min<off_t>(byte_count, 80)), '\0');
  if (!read_at(file, 0, text.data(), text.size())) {
    text.clear();
  }
  return detail::counted(byte_count, "byte") + " ('" + printable(text, 80) + "')";
}

ProbeVerdict judge(const Report& report, bool in_time, const std::optional<int>& status,
                   const ProbeRequest& request, int printed) {
  const std::string fix = "report it to the plugin's author; only the probe process was affected";
  const auto bad = [&](const std::string& stage, const std::string& what) {
    return ProbeVerdict{{subject(stage) + " " + what, fix}, reached(stage), true};
  };
  if (!report.thrown.empty()) {
    return bad(report.stage, "threw an exception: " + report.thrown);
  }
  if (!in_time && !report.done) {
    auto verdict =
        bad(report.stage, "did not return within " + std::to_string(request.timeout.count()) + " ms");
    verdict.lasting = false;  // the machine may have been busy
    return verdict;
  }
  if (!report.done) {
    return bad(report.stage, how_it_ended(status));
  }
  if (report.refusal) {
    return {report.refusal, report.reached, false};
  }
  if (!report.broke.empty()) {
    return bad(report.broke_stage, "changed " + report.broke);
  }
  if (const auto text = printed_text(printed); !text.empty()) {
    return {{"it printed " + text, "report it to the plugin's author: plugins must log through the host"},
            "entered",
            true};
  }
  return {{}, "loaded", true};
}

}  // namespace

std::optional<ProbeVerdict> run_probe(const ProbeRequest& request, std::string& why_not) {
  const auto deadline = Clock::now() + request.timeout;
  Child child;
  why_not = start(request, child);
  if (!why_not.empty()) {
    why_not = "yoke-probe could not be started: " + why_not;
    return std::nullopt;
  }
  std::string text;
  const bool in_time = listen(child, deadline, text);
  const auto status = finish(child);
  const Report report = parse(text + '\n');
  if (!report.greeted || (report.stage.empty() && !report.done)) {
    why_not = !in_time ? "yoke-probe did not report within " + std::to_string(request.timeout.count()) + " ms"
                       : request.program.string() + " " + how_it_ended(status) +
                             " without a report, or has another version";
    return std::nullopt;
  }
  return judge(report, in_time, status, request, child.printed.get());
}

}  // namespace yoke::loader
