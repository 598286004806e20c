// SPDX-License-Identifier: Apache-2.0
// runtime/loader/probe_run.cpp: starts yoke-probe, waits with a deadline, and makes a sentence of what it
// said and how it ended.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

constexpr std::size_t kMostWords = 1U << 16U;          // of all lines together
constexpr std::size_t kMostPrinted = 1U << 16U;        // room for what the plugin prints
constexpr std::chrono::milliseconds kDeathTime(2000);  // for a killed process to be gone

struct Child {
  pid_t process = -1;
  Descriptor words;    // the pipe's end to read from
  Descriptor printed;  // its standard output and error
  Descriptor ended;    // readable when it has ended; -1: this kernel has no such thing
};

// Out of the way of the numbers that the child gets.
Descriptor high(Descriptor low) {
  return Descriptor(low.get() < 0 ? -1 : ::fcntl(low.get(), F_DUPFD_CLOEXEC, 10));
}

// Room that cannot grow: a plugin that prints without end gets an error, and the offset says how much it did.
Descriptor printing_room() {
  Descriptor room = high(Descriptor(
      static_cast<int>(::syscall(SYS_memfd_create, "yoke-probe", 1U /* cloexec */ | 2U /* sealing */))));
  if (room.get() >= 0 && (::ftruncate(room.get(), kMostPrinted) != 0 ||
                          ::fcntl(room.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)) {
    return Descriptor();
  }
  return room;
}

std::string spawn(const ProbeRequest& request, int words, int printed, pid_t& process) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, words, kProbeDescriptor);
  ::posix_spawn_file_actions_adddup2(&files, printed, 1);
  ::posix_spawn_file_actions_adddup2(&files, printed, 2);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&files, kProbeDescriptor + 1);  // the application's own files
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const Stamp& stamp = request.stamp;
  std::vector<std::string> words_of_command = {
      request.program.string(),          request.file.string(),           request.name,
      std::to_string(stamp.device),      std::to_string(stamp.inode),     std::to_string(stamp.byte_count),
      std::to_string(stamp.modified_ns), std::to_string(stamp.changed_ns)};
  std::vector<char*> command;
  command.reserve(words_of_command.size() + 1);
  for (std::string& word : words_of_command) {
    command.push_back(word.data());
  }
  command.push_back(nullptr);
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
  child.words = Descriptor(ends[0]);
  const Descriptor words = high(Descriptor(ends[1]));
  child.printed = printing_room();
  if (words.get() < 0 || child.printed.get() < 0) {
    return std::string("memfd_create: ") + std::strerror(errno);
  }
  auto failed = spawn(request, words.get(), child.printed.get(), child.process);
  if (failed.empty()) {
    child.ended = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child.process, 0)));
  }
  return failed;
}

// Everything that is in the pipe now. False: its other end is closed, or more came than anybody wants.
bool drain(int pipe, std::string& words) {
  char bytes[4096];
  while (words.size() < kMostWords) {
    const ssize_t count = ::read(pipe, bytes, sizeof(bytes));
    if (count > 0) {
      words.append(bytes, std::min<std::size_t>(static_cast<std::size_t>(count), kMostWords - words.size()));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
  return false;
}

// Until the child has ended, or the deadline. True: it ended.
bool listen(const Child& child, Clock::time_point deadline, std::string& words) {
  ::fcntl(child.words.get(), F_SETFL, O_NONBLOCK);
  pollfd wanted[2] = {{child.words.get(), POLLIN, 0}, {child.ended.get(), POLLIN, 0}};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = left <= 0 ? 0 : ::poll(wanted, 2, static_cast<int>(std::min<long>(left, 1 << 30)));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return false;
    }
    const bool ended = wanted[1].revents != 0;  // first: what it said last is in the pipe by now
    const bool open = drain(child.words.get(), words);
    if (ended || (!open && child.ended.get() < 0)) {
      return true;
    }
    if (!open) {
      wanted[0].fd = -1;  // closed, by the plugin: its end is still to come
    }
  }
}

// Kills what is left of the child and of all that it started, and gives back how it ended; nothing where
// somebody else reaped it or it does not die.
std::optional<int> finish(const Child& child) {
  // Before it is reaped: until then its number cannot belong to another group.
  ::kill(-child.process, SIGKILL);
  ::kill(child.process, SIGKILL);
  if (child.ended.get() >= 0) {
    pollfd wanted{child.ended.get(), POLLIN, 0};
    while (::poll(&wanted, 1, static_cast<int>(kDeathTime.count())) < 0 && errno == EINTR) {
    }
    if (wanted.revents == 0) {
      return std::nullopt;  // it hangs in the kernel: waiting for it would hang too
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

// What the lines say, as far as they are well formed.
struct Said {
  bool greeted = false;
  bool done = false;
  std::string stage;
  std::string reached = "checked";  // of `refusal`
  Refusal refusal;
  std::string thrown;
  std::string broke;
  std::string broke_stage;
};

Said understand(const std::string& words) {
  Said said;
  auto lines = split(words, '\n');
  lines.pop_back();  // what is behind the last end of line
  for (const std::string_view line : lines) {
    const auto parts = split(line, '\t');
    if (!said.greeted) {
      said.greeted = line == kProbeGreeting;
    } else if (parts[0] == kProbeStage && parts.size() == 2) {
      for (const char* known : {kStageConstructor, kStageEntry, kStageTables, kStageDestroy}) {
        if (parts[1] == known) {
          said.stage = known;
        }
      }
    } else if (parts[0] == kProbeRefused && parts.size() == 4 && !parts[2].empty()) {
      for (const char* known : {"found", "checked", "opened", "entered"}) {
        said.reached = parts[1] == known ? known : said.reached;
      }
      said.refusal = {printable(parts[2], 2000), printable(parts[3], 500)};
    } else if (parts[0] == kProbeThrew && parts.size() == 2) {
      said.thrown = printable(parts[1], 500);
    } else if (parts[0] == kProbeBroke && parts.size() == 3) {
      said.broke.append(said.broke.empty() ? "" : " and ").append(printable(parts[2], 500));
      said.broke_stage = said.broke_stage.empty() ? std::string(parts[1]) : said.broke_stage;
    } else if (line == kProbeDone) {
      said.done = true;
    }
  }
  return said;
}

// "one of its constructors", "its entry", ...
std::string who(const std::string& stage) {
  return stage == kStageConstructor ? "one of its constructors" : "its " + printable(stage, 20);
}

// The ladder of BackendCandidate::stage.
std::string reached(const std::string& stage) {
  return stage == kStageConstructor ? "checked" : "entered";
}

std::string how_it_ended(const std::optional<int>& status) {
  if (!status) {
    return "ended the process in a way that cannot be told";
  }
  if (WIFSIGNALED(*status)) {
    return "crashed: signal " + std::to_string(WTERMSIG(*status)) + " (" + ::strsignal(WTERMSIG(*status)) +
           ")";
  }
  return "ended the process with exit code " + std::to_string(WEXITSTATUS(*status));
}

std::string printed_text(int room) {
  const off_t byte_count = ::lseek(room, 0, SEEK_CUR);
  if (byte_count <= 0) {
    return {};
  }
  std::string text(static_cast<std::size_t>(std::min<off_t>(byte_count, 80)), '\0');
  if (!read_at(room, 0, text.data(), text.size())) {
    text.clear();
  }
  return std::to_string(byte_count) + " bytes ('" + printable(text, 80) + "')";
}

ProbeVerdict judge(const Said& said, bool in_time, const std::optional<int>& status,
                   const ProbeRequest& request, int printed) {
  const std::string mend = "report it to the plugin's author; only the probe was harmed by it";
  const auto bad = [&](const std::string& stage, const std::string& what) {
    return ProbeVerdict{{who(stage) + " " + what, mend}, reached(stage), true};
  };
  if (!said.thrown.empty()) {
    return bad(said.stage, "threw an exception: " + said.thrown);
  }
  if (!in_time && !said.done) {
    auto verdict =
        bad(said.stage, "did not return within " + std::to_string(request.timeout.count()) + " ms");
    verdict.lasting = false;  // perhaps the machine was busy
    return verdict;
  }
  if (!said.done) {
    return bad(said.stage, how_it_ended(status));
  }
  if (said.refusal) {
    return {said.refusal, said.reached, false};
  }
  if (!said.broke.empty()) {
    return bad(said.broke_stage, "changed " + said.broke);
  }
  if (const auto text = printed_text(printed); !text.empty()) {
    return {{"it printed " + text, "report it to the plugin's author: a plugin logs through the host"},
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
  std::string words;
  const bool in_time = listen(child, deadline, words);
  const auto status = finish(child);
  const Said said = understand(words + '\n');
  if (!said.greeted || (said.stage.empty() && !said.done)) {
    why_not = !in_time ? "yoke-probe did not answer within " + std::to_string(request.timeout.count()) + " ms"
                       : request.program.string() + " " + how_it_ended(status) +
                             " before it answered, or is of another version";
    return std::nullopt;
  }
  return judge(said, in_time, status, request, child.printed.get());
}

}  // namespace yoke::loader
