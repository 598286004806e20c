// SPDX-License-Identifier: Apache-2.0
// frontends/cli/replay_command.cpp: yoke replay: what the layer trace recorded, run once more, listed, or
// drawn.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/runtime/trace.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

#include "command_line.h"
#include "global_options.h"
#include "json.h"
#include "text.h"

namespace yoke::cli {
namespace {

constexpr std::size_t kShown = 10;  // rows of the table, differences

// A file, mapped: traces with data are large.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe answers, too
    struct stat about = {};
    if (file < 0 || ::fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
      const std::string why = file < 0 ? std::generic_category().message(errno) : "it is no regular file";
      if (file >= 0) {
        ::close(file);
      }
      throw Error(ErrorCode::kNotFound, path + ": " + why);
    }
    size_ = static_cast<std::size_t>(about.st_size);
    if (size_ != 0) {
      void* const memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      memory_ = memory == MAP_FAILED ? nullptr : memory;
    }
    ::close(file);
    if (size_ != 0 && memory_ == nullptr) {
      throw Error(ErrorCode::kResourceExhausted, path + ": it cannot be mapped into memory");
    }
  }
  ~MappedFile() {
    if (memory_ != nullptr) {
      ::munmap(memory_, size_);
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(memory_), size_}; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

void write_picture(std::span<const std::byte> trace, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  write_chrome_trace(trace, out);
  if (!out.flush()) {
    throw Error(ErrorCode::kResourceExhausted, path + ": it cannot be written");
  }
  std::cerr << "yoke: wrote " << path << "; open it in chrome://tracing or ui.perfetto.dev\n";
}

void print_json(const ReplayReport& report, const std::string& backend) {
  JsonWriter json;
  json.begin_object()
      .field("backend", backend)
      .field("calls", report.calls)
      .field("replayed", report.replayed)
      .field("emulated", report.emulated)
      .field("skipped", report.skipped)
      .field("differences", report.differences)
      .field("contents_equal", report.contents_equal)
      .field("contents_close", report.contents_close)
      .field("contents_not_compared", report.contents_unknown)
      .field("why_not_compared", report.why_unknown)
      .field("recorded_seconds", report.recorded_seconds)
      .field("replayed_seconds", report.replayed_seconds)
      .field("cut", report.cut);
  json.key("never_returned").begin_array();
  for (const std::string& name : report.unfinished) {
    json.value(name);
  }
  json.end_array().key("functions").begin_array();
  for (const ReplayFunction& function : report.functions) {
    json.begin_object()
        .field("name", function.name)
        .field("calls", function.calls)
        .field("recorded_seconds", function.recorded_seconds)
        .field("replayed_seconds", function.replayed_seconds)
        .field("slowest_seconds", function.slowest_seconds)
        .end_object();
  }
  json.end_array().key("notes").begin_array();
  for (const ReplayNote& note : report.notes) {
    json.begin_object()
        .field("function", note.function)
        .field("text", note.text)
        .field("calls", note.calls)
        .end_object();
  }
  json.end_array().key("first_differences").begin_array();
  for (const ReplayDifference& difference : report.first) {
    json.begin_object()
        .field("call", difference.call)
        .field("function", difference.function)
        .field("text", difference.text)
        .end_object();
  }
  std::cout << json.end_array().end_object().text() << '\n';
}

std::string padded(const std::string& text, std::size_t width, bool right = true) {
  const std::string space(text.size() < width ? width - text.size() : 0, ' ');
  return right ? space + text : text + space;
}

// One line for each reason.
void print_notes(const std::vector<ReplayNote>& notes) {
  std::vector<std::pair<std::string, std::vector<const ReplayNote*>>> reasons;
  for (const ReplayNote& note : notes) {
    const auto same =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& one) { return one.first == note.text; });
    (same == reasons.end() ? reasons.emplace_back(note.text, std::vector<const ReplayNote*>{}) : *same)
        .second.push_back(&note);
  }
  for (std::size_t i = 0; i < reasons.size() && i < kShown; ++i) {
    const char* separator = "  ";
    for (const ReplayNote* note : reasons[i].second) {
      std::cout << separator << grouped(note->calls) << " " << note->function;
      separator = ", ";
    }
    std::cout << " " << reasons[i].first << '\n';
  }
}

void print_report(const ReplayReport& report, const std::string& backend) {
  constexpr std::size_t kName = 20;
  constexpr std::size_t kColumn = 14;
  std::cout << padded("function", kName, false) << padded("calls", kColumn) << padded("recorded ms", kColumn)
            << padded("replayed ms", kColumn) << padded("slowest ms", kColumn) << '\n';
  for (std::size_t i = 0; i < report.functions.size() && i < kShown; ++i) {
    const ReplayFunction& function = report.functions[i];
    std::cout << padded(function.name, kName, false) << padded(grouped(function.calls), kColumn)
              << padded(fixed(function.recorded_seconds * 1e3, 3), kColumn)
              << padded(fixed(function.replayed_seconds * 1e3, 3), kColumn)
              << padded(fixed(function.slowest_seconds * 1e3, 3), kColumn) << '\n';
  }
  std::cout << "replayed " << grouped(report.replayed) << " of " << grouped(report.calls) << " calls on "
            << backend << " in " << fixed(report.replayed_seconds * 1e3, 1)
            << " ms (recorded: " << fixed(report.recorded_seconds * 1e3, 1) << " ms); "
            << grouped(report.emulated) << " done by other calls, " << grouped(report.skipped)
            << " skipped\n";
  print_notes(report.notes);
  std::cout << "contents: " << grouped(report.contents_equal) << " equal, " << grouped(report.contents_close)
            << " within the tolerance, " << grouped(report.contents_unknown) << " not compared"
            << (report.contents_unknown != 0 && !report.why_unknown.empty() ? ": " + report.why_unknown : "")
            << '\n';
  if (!report.cut.empty()) {
    std::cout << "the trace is cut: " << report.cut << '\n';
  }
  for (std::size_t i = 0; i < report.unfinished.size() && i < kShown; ++i) {
    std::cout << "never returned when recorded: " << report.unfinished[i] << '\n';
  }
  for (std::size_t i = 0; i < report.first.size() && i < kShown; ++i) {
    const ReplayDifference& difference = report.first[i];
    std::cout << "call #" << difference.call << (difference.function.empty() ? "" : " " + difference.function)
              << ": " << difference.text << '\n';
  }
  std::cout << grouped(report.differences) << (report.differences == 1 ? " difference\n" : " differences\n");
}

void show_progress(std::uint64_t done, std::uint64_t all) {
  std::cerr << "\rcall " << grouped(done) << " of " << grouped(all) << "\x1b[K" << (done == all ? "\n" : "");
}

// On a terminal; an error then has a line of its own.
ReplayReport replay_with_progress(Runtime& runtime, std::span<const std::byte> file, ReplayOptions options) {
  bool is_shown = false;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    show_progress(done, all);
    is_shown = done != all;
  };
  try {
    return replay(runtime, file, options);
  } catch (...) {
    if (is_shown) {
      std::cerr << "\r\x1b[K";
    }
    throw;
  }
}

// What a trace may ask for.
struct Limits {
  std::int64_t memory = 0;
  std::int64_t seconds = 3600;

  void declare(CommandLine& line) {
    line.integer("memory-limit", &memory,
                 "bytes of the host's memory that the trace may want at once, default three quarters of the "
                 "machine's, or of the container's (cgroup v2)");
    line.integer("time-limit", &seconds, "after so many seconds the replay ends, default 3600");
  }
  void put_into(ReplayOptions& options) const {
    constexpr std::int64_t kMostSeconds = std::int64_t{1} << 32U;
    if (memory < 0 || seconds < 1 || seconds > kMostSeconds) {
      throw UsageError(
          "yoke replay takes a --memory-limit of 0 or more and a --time-limit of 1 to 4294967296");
    }
    options.memory_limit = static_cast<std::uint64_t>(memory);
    options.time_limit = std::chrono::seconds(seconds);
  }
};

}  // namespace

int replay_command(Arguments arguments) {
  std::string path;
  std::string picture;
  bool as_json = false;
  bool as_text = false;
  bool no_compare = false;
  Limits limits;
  ReplayOptions options;
  CommandLine line("yoke replay FILE [OPTION...]",
                   "Runs the calls of a trace against a backend, in recorded order and on one thread, and "
                   "compares result codes and, where\n"
                   "the trace has data, contents. yoke --layers trace [--data] COMMAND records one, in "
                   "YOKE_TRACE_FILE or\n"
                   "else in yoke-trace-PID.yoketrace. One of --backend, --print and --chrome must be given. "
                   "Exit code 1: something differs.");
  line.positional("FILE", &path, "the trace");
  line.text("backend", &options.backend, "where to run it: a backend's name", "NAME");
  line.number(
      "tolerance", &options.tolerance,
      "for floats, relative to the larger of 1 and the value, default 1e-5; what is no float must be equal");
  limits.declare(line);
  line.flag("no-compare", &no_compare, "do not compare contents");
  line.flag("json", &as_json, "print one JSON object");
  line.flag("print", &as_text, "list the calls, and run nothing");
  line.text("chrome", &picture, "write the trace for chrome://tracing to this file, and run nothing", "FILE");
  if (!line.parse(arguments)) {
    return kDone;
  }
  if (options.backend.empty() && !as_text && picture.empty()) {
    throw UsageError("yoke replay takes one of --backend NAME, --print and --chrome FILE");
  }
  limits.put_into(options);
  const MappedFile file(path);
  try {
    static_cast<void>(TraceReader(file.bytes()));  // reads the head
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + error.what());
  }
  if (as_text || !picture.empty()) {
    if (as_text) {
      print_trace(file.bytes(), std::cout);
    }
    if (!picture.empty()) {
      write_picture(file.bytes(), picture);
    }
    return kDone;
  }
  options.compare_contents = !no_compare;
  Runtime runtime(runtime_options());
  const ReplayReport report = ::isatty(STDERR_FILENO) == 1
                                  ? replay_with_progress(runtime, file.bytes(), options)
                                  : replay(runtime, file.bytes(), options);
  if (as_json) {
    print_json(report, options.backend);
  } else {
    print_report(report, options.backend);
  }
  return report.differences == 0 ? kDone : kFailed;
}

}  // namespace yoke::cli
