// SPDX-License-Identifier: Apache-2.0
// frontends/cli/replay_command.cpp: yoke replay: runs a trace again, prints it, or converts it for viewers.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/output_file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

#include "command_line.h"
#include "global_options.h"
#include "json.h"
#include "replay/replay.h"
#include "text.h"

namespace yoke::cli {
namespace {

constexpr std::size_t kShown = 10;  // rows of the table, differences

// A file, mapped: traces with data are large.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a pipe
    struct stat about = {};
    if (file < 0 || ::fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
      const std::string why = file < 0 ? std::generic_category().message(errno) : "not a regular file";
      if (file >= 0) {
        ::close(file);
      }
      throw Error(ErrorCode::kNotFound,
                  "cannot read " + path + ": " + why + "; give a file that the layer trace wrote");
    }
    size_ = static_cast<std::size_t>(about.st_size);
    if (size_ != 0) {
      void* const memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      memory_ = memory == MAP_FAILED ? nullptr : memory;
    }
    ::close(file);
    if (size_ != 0 && memory_ == nullptr) {
      throw Error(ErrorCode::kResourceExhausted, path + ": cannot map it into memory");
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

void write_events(std::span<const std::byte> trace, const std::string& path) {
  OutputFile out(path);
  replay::write_chrome(trace, out.stream());
  out.commit();
  std::cerr << "yoke: wrote " << path << "; open it in chrome://tracing or ui.perfetto.dev\n";
}

void print_json(const replay::Report& report, const std::string& backend) {
  Json functions = Json::array();
  for (const replay::Timing& function : report.functions) {
    functions.push_back({{"name", function.name},
                         {"calls", function.calls},
                         {"recorded_seconds", function.recorded_seconds},
                         {"replayed_seconds", function.replayed_seconds},
                         {"slowest_seconds", function.slowest_seconds}});
  }
  Json skips = Json::array();
  for (const replay::Skip& skip : report.skips) {
    skips.push_back({{"function", skip.function}, {"reason", skip.reason}, {"calls", skip.calls}});
  }
  Json first_differences = Json::array();
  for (const replay::Difference& difference : report.first) {
    first_differences.push_back(
        {{"call", difference.call}, {"function", difference.function}, {"text", difference.text}});
  }
  std::cout << json_text({{"backend", backend},
                          {"calls", report.calls},
                          {"replayed", report.replayed},
                          {"skipped", report.skipped},
                          {"differences", report.differences},
                          {"contents_equal", report.contents_equal},
                          {"contents_close", report.contents_close},
                          {"contents_not_compared", report.contents_ignored},
                          {"why_not_compared", report.why_ignored},
                          {"recorded_seconds", report.recorded_seconds},
                          {"replayed_seconds", report.replayed_seconds},
                          {"cut", report.cut},
                          {"notes", report.notes},
                          {"never_returned", report.unfinished},
                          {"functions", functions},
                          {"skips", skips},
                          {"first_differences", first_differences}})
            << '\n';
}

std::string padded(const std::string& text, std::size_t width, bool right = true) {
  const std::string space(text.size() < width ? width - text.size() : 0, ' ');
  return right ? space + text : text + space;
}

// Prints one line per reason.
void print_skips(const std::vector<replay::Skip>& skips) {
  std::vector<std::pair<std::string, std::string>> lines;  // reason, functions
  for (const replay::Skip& skip : skips) {
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == skip.reason; });
    std::string& functions = (same == lines.end() ? lines.emplace_back(skip.reason, "") : *same).second;
    functions += (functions.empty() ? "" : ", ") + grouped(skip.calls) + " " + skip.function;
  }
  for (std::size_t i = 0; i < lines.size() && i < kShown; ++i) {
    std::cout << "  skipped " << lines[i].second << ": " << lines[i].first << '\n';
  }
}

void print_report(const replay::Report& report, const std::string& backend) {
  constexpr std::size_t kName = 20;
  constexpr std::size_t kColumn = 14;
  std::cout << padded("function", kName, false) << padded("calls", kColumn) << padded("recorded ms", kColumn)
            << padded("replayed ms", kColumn) << padded("slowest ms", kColumn) << '\n';
  for (std::size_t i = 0; i < report.functions.size() && i < kShown; ++i) {
    const replay::Timing& function = report.functions[i];
    std::cout << padded(function.name, kName, false) << padded(grouped(function.calls), kColumn)
              << padded(fixed(function.recorded_seconds * 1e3, 3), kColumn)
              << padded(fixed(function.replayed_seconds * 1e3, 3), kColumn)
              << padded(fixed(function.slowest_seconds * 1e3, 3), kColumn) << '\n';
  }
  std::cout << "replayed " << grouped(report.replayed) << " of " << counted(report.calls, "call") << " on "
            << backend << " in " << fixed(report.replayed_seconds * 1e3, 1)
            << " ms (recorded: " << fixed(report.recorded_seconds * 1e3, 1) << " ms); "
            << grouped(report.skipped) << " skipped\n";
  print_skips(report.skips);
  std::cout << "contents: " << grouped(report.contents_equal) << " equal, " << grouped(report.contents_close)
            << " within the tolerance, " << grouped(report.contents_ignored) << " not compared"
            << (report.contents_ignored != 0 ? ": " + report.why_ignored : "") << '\n';
  if (!report.cut.empty()) {
    std::cout << "the trace is incomplete: " << report.cut << '\n';
  }
  for (std::size_t i = 0; i < report.unfinished.size() && i < kShown; ++i) {
    std::cout << "never returned when recorded: " << report.unfinished[i] << '\n';
  }
  for (std::size_t i = 0; i < report.first.size() && i < kShown; ++i) {
    const replay::Difference& difference = report.first[i];
    std::cout << "call #" << difference.call << (difference.function.empty() ? "" : " " + difference.function)
              << ": " << difference.text << '\n';
  }
  for (const std::string& note : report.notes) {
    std::cout << "note: " << note << '\n';
  }
  std::cout << counted(report.differences, "difference") << '\n';
}

void show_progress(std::uint64_t done, std::uint64_t all) {
  std::cerr << "\rcall " << grouped(done) << " of " << grouped(all) << "\x1b[K" << (done == all ? "\n" : "");
}

// Shows progress on a terminal, and clears it before an error is reported.
replay::Report run_with_progress(Runtime& runtime, std::span<const std::byte> file, replay::Options options) {
  bool is_shown = false;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    show_progress(done, all);
    is_shown = done != all;
  };
  try {
    return replay::run(runtime, file, options);
  } catch (...) {
    if (is_shown) {
      std::cerr << "\r\x1b[K";
    }
    throw;
  }
}

int replay_file(const std::string& path, const replay::Options& options, bool as_json) {
  const MappedFile file(path);
  Runtime runtime = make_runtime(runtime_options());
  const replay::Report report = can_redraw() ? run_with_progress(runtime, file.bytes(), options)
                                             : replay::run(runtime, file.bytes(), options);
  if (as_json) {
    print_json(report, options.backend);
  } else {
    print_report(report, options.backend);
  }
  if (report.replayed == 0) {
    throw Error(ErrorCode::kFailedPrecondition, path + ": no call was replayed, so nothing was compared");
  }
  return report.differences == 0 ? kDone : kFailed;
}

struct Words {
  std::string path;
  std::string events;
  std::string backend;
  double tolerance;  // -1: not given
  bool as_json;
  bool as_text;
  bool no_compare;
};

// Refuses options that have no effect together.
void check_words(const Words& words) {
  const bool runs = !words.as_text && words.events.empty();
  if (runs && words.backend.empty()) {
    throw UsageError("yoke replay requires --backend NAME, --print or --chrome FILE");
  }
  if (!runs && (words.as_json || words.no_compare || words.tolerance >= 0 || !words.backend.empty())) {
    throw UsageError(std::string(words.as_json          ? "--json"
                                 : words.no_compare     ? "--no-compare"
                                 : words.tolerance >= 0 ? "--tolerance"
                                                        : "--backend") +
                     " has no effect with " + (words.as_text ? "--print" : "--chrome") +
                     ", which runs nothing");
  }
  if (words.no_compare && words.tolerance >= 0) {
    throw UsageError("--tolerance has no effect with --no-compare; leave one of them out");
  }
  std::error_code ignored;
  if (!words.events.empty() && std::filesystem::equivalent(words.path, words.events, ignored)) {
    throw UsageError("--chrome " + words.events + " would replace the trace; give another file");
  }
}

}  // namespace

int replay_command(Arguments arguments) {
  std::string path;
  std::string events;
  bool as_json = false;
  bool as_text = false;
  bool no_compare = false;
  replay::Options options;
  CommandLine line(
      "yoke replay FILE [OPTION...]",
      "Runs the calls of a trace on a backend, in recorded order and on one thread. Compares the results "
      "and, where the\n"
      "trace has data, the contents. To record a trace: yoke --layers trace [--data] COMMAND. It is written "
      "to\n"
      "YOKE_TRACE_FILE, by default yoke-trace-PID.yoketrace. --backend, --print or --chrome is required. "
      "Exit code 1 if\n"
      "something differs, no call was replayed, or an error occurred.");
  line.positional("FILE", &path, "the trace");
  line.text("backend", &options.backend, "the backend to run it on", "NAME");
  double tolerance = -1;
  line.number(
      "tolerance", &tolerance, Numbers{},
      "largest difference of floats, relative to the larger of 1 and the recorded magnitude, default 1e-5; "
      "other contents must be equal");
  line.flag("no-compare", &no_compare, "do not compare contents");
  line.flag("json", &as_json, "print one JSON object");
  line.flag("print", &as_text, "list the calls, and run nothing");
  line.text("chrome", &events, "write the trace for chrome://tracing to this file, and run nothing", "FILE");
  if (!line.parse(arguments)) {
    return kDone;
  }
  check_backend_name(options.backend);
  check_words({path, events, options.backend, tolerance, as_json, as_text, no_compare});
  options.tolerance = tolerance >= 0 ? tolerance : options.tolerance;
  options.compare_contents = !no_compare;
  try {
    if (!as_text && events.empty()) {
      return replay_file(path, options, as_json);
    }
    const MappedFile file(path);
    if (as_text) {
      replay::print(file.bytes(), std::cout);
    }
    if (!events.empty()) {
      write_events(file.bytes(), events);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnimplemented) {  // of the trace
      throw Error(error.code(), path + ": " + error.what());
    }
    throw;
  }
  return kDone;
}

}  // namespace yoke::cli
