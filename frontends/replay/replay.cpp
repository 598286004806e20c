// SPDX-License-Identifier: Apache-2.0
// frontends/replay/replay.cpp: repeats a trace call by call.
#include "replay/replay.h"

#include <yoke/program/text.h>
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <set>

#include "replay/arguments.h"

namespace yoke::replay {
namespace {

using abi::Row;

constexpr std::size_t kMostListed = 100;

// The row of a recorded function. Null if this version of yoke lacks it or it has other arguments here.
const Row* find_row(const RecordedFunction& function) {
  for (const Row& row : abi::rows()) {
    if (function.name == row.name && function.table == row.table) {
      const bool is_same =
          std::equal(function.arguments.begin(), function.arguments.end(), row.arguments.begin(),
                     row.arguments.begin() + row.argument_count - (row.has_status() ? 1 : 0),
                     [](const auto& recorded, const auto& ours) { return recorded.kind == ours.kind; });
      return is_same ? &row : nullptr;
    }
  }
  return nullptr;
}

// What a first pass over the trace finds besides the types of buffers.
struct Facts {
  std::uint64_t call_count = 0;
  std::set<std::uint64_t> own;                             // plugins with the name of the replay's backend
  std::map<std::uint64_t, std::string> names;              // of plugins
  std::map<std::uint64_t, std::uint64_t> highest_ordinal;  // of the devices that a plugin opened
};

// Returns the element types of buffers, from all programs linked in the trace.
std::map<Key, Types> types_in(Reader& reader, const std::string& backend, Facts& facts) {
  std::map<Key, Types> types;
  std::map<Key, program::Module> codes;
  for (Record record; reader.next(record);) {
    facts.call_count += record.type == Record::Type::kCall ? 1U : 0U;
    if (record.type == Record::Type::kPlugin) {
      facts.names[record.plugin] = record.text;
      if (record.text == backend) {
        facts.own.insert(record.plugin);
      }
    }
    const Row* const row = record.type == Record::Type::kCall ? find_row(*record.function) : nullptr;
    std::span<const std::byte> text;
    if (row == nullptr || record.code != YOKE_STATUS_OK) {
      continue;
    }
    if (row->function == Function::device_open) {
      std::uint64_t& highest = facts.highest_ordinal[record.plugin];
      highest = std::max(highest, record.values[row->find("ordinal")].number);
    } else if (row->function == Function::code_compile &&
               reader.blob(record.values[row->find("text")].hash, text)) {
      try {
        codes[{record.plugin, record.values[row->find("out_code")].number}] =
            program::parse_and_verify({reinterpret_cast<const char*>(text.data()), text.size()});
      } catch (const program::ProgramError&) {  // of another format
      }
    } else if (row->function == Function::routine_link) {
      const auto code = codes.find({record.plugin, record.values[0].number});
      const std::uint64_t entry = record.values[row->find("entry")].number;
      if (code == codes.end() || entry >= code->second.programs.size()) {
        continue;
      }
      const auto& program = code->second.programs[entry];
      const auto arguments = program.arguments();
      const auto& list = record.values[row->find("bindings")].list;
      for (std::size_t i = 0; i < arguments.size() && (i + 1) * kBindingWords <= list.size(); ++i) {
        const auto& tensor = program.tensors[arguments[i]];
        const std::uint64_t* const binding = &list[i * kBindingWords];
        types[{record.plugin, binding[0]}].add(binding[1], tensor.byte_count(), tensor.type);
      }
    }
  }
  return types;
}

// Collects the report.
class Reporter {
 public:
  explicit Reporter(Report& report) : report_(report) {}
  ~Reporter() {
    for (const auto& [about, calls] : skips_) {
      report_.skips.push_back({about.first, about.second, calls});
    }
    for (const auto& [name, timing] : timings_) {
      report_.functions.push_back(timing);
      report_.recorded_seconds += timing.recorded_seconds;
      report_.replayed_seconds += timing.replayed_seconds;
    }
    std::stable_sort(report_.skips.begin(), report_.skips.end(),
                     [](const auto& a, const auto& b) { return a.calls > b.calls; });
    std::stable_sort(report_.functions.begin(), report_.functions.end(),
                     [](const auto& a, const auto& b) { return a.replayed_seconds > b.replayed_seconds; });
  }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void differ(std::uint64_t call, const std::string& function, std::string text) {
    ++report_.differences;
    if (report_.first.size() < kMostListed) {
      report_.first.push_back({call, function, std::move(text)});
    }
  }
  void skip(const Record& record, const std::string& reason) {
    ++report_.skipped;
    ++skips_[{record.function->name, reason}];
  }
  void time(const Record& record, double seconds) {
    ++report_.replayed;
    Timing& timing = timings_[record.function->name];
    timing.name = record.function->name;
    ++timing.calls;
    timing.recorded_seconds += static_cast<double>(record.duration_ns) / 1e9;
    timing.replayed_seconds += seconds;
    timing.slowest_seconds = std::max(timing.slowest_seconds, seconds);
  }

 private:
  Report& report_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> skips_;
  std::map<std::string, Timing> timings_;
};

// Host memory that copies read and write.
class HostMemory {
 public:
  struct Target {
    std::vector<std::byte> bytes;
    std::uint64_t stream = 0;
    Key buffer;
    std::uint64_t offset = 0;
  };

  // Keeps generated sources alive until their streams are idle.
  void keep(std::deque<std::vector<std::byte>>&& sources) {
    for (auto& source : sources) {
      kept_bytes_ += source.size();
      kept_.push_back(std::move(source));
    }
  }
  bool is_full() const { return kept_bytes_ > (std::uint64_t{64} << 20U); }
  void clear_sources() {
    kept_.clear();
    kept_bytes_ = 0;
  }
  std::map<std::uint64_t, Target> targets;  // by call

 private:
  std::deque<std::vector<std::byte>> kept_;
  std::uint64_t kept_bytes_ = 0;
};

class Replayer {
 public:
  Replayer(const Backend& backend, std::span<const std::byte> file, const Options& options, Report& report)
      : options_(options),
        report_(report),
        reader_(file),
        types_(types_in(reader_, options.backend, facts_)),
        reporter_(report),
        functions_(backend),
        handles_(functions_, options.timeout),
        builder_(reader_, functions_, handles_, types_, options) {
    note_backend(backend);
    report_.calls = facts_.call_count;
    report_.cut = reader_.cut();
    for (const Unfinished& one : reader_.unfinished()) {
      if (report_.unfinished.size() < kMostListed) {
        report_.unfinished.emplace_back(one.name());
      }
    }
    if (!reader_.has_data()) {
      ignore_contents("the trace has no contents; record it with YOKE_TRACE_DATA=1 to compare them");
    } else if (!options.compare_contents) {
      ignore_contents("comparing contents is disabled");
    }
  }

  void run();

 private:
  // Whether calls of a recorded plugin run.
  bool runs(std::uint64_t plugin) const { return facts_.own.empty() || facts_.own.contains(plugin); }
  void note_backend(const Backend& backend);
  void replay(const Record& record);
  void issue(const Row& row, const Record& record, Arguments& arguments);
  void compare_result(const Row& row, const Record& record, const Arguments& arguments, std::int32_t code,
                      const std::string& error);
  void note_handles(const Row& row, const Record& record, const Arguments& arguments);
  void compare_target(std::uint64_t call, const std::string& function, const Hash& hash);
  void skip(const Record& record, const std::string& reason);
  void ignore_contents(const std::string& why) {
    compares_ = false;
    report_.why_ignored = report_.why_ignored.empty() ? why : report_.why_ignored;
  }

  const Options& options_;
  Report& report_;
  Reader reader_;
  Facts facts_;
  const std::map<Key, Types> types_;
  Reporter reporter_;
  HostMemory memory_;  // outlives the streams in handles_
  const Functions functions_;
  Handles handles_;
  ArgumentBuilder builder_;
  bool compares_ = true;  // all bytes so far equal the recorded ones
};

// Notes where the backend differs from the recorded ones.
void Replayer::note_backend(const Backend& backend) {
  const std::uint32_t count = backend.device_count();
  if (count == 0) {
    throw Error(ErrorCode::kFailedPrecondition,
                "the backend '" + backend.name() + "' has no devices: " + backend.no_device_reason());
  }
  for (const auto& [plugin, highest] : facts_.highest_ordinal) {
    const std::string& name = facts_.names[plugin];
    if (!runs(plugin)) {
      continue;
    }
    if (highest >= count) {
      report_.notes.push_back("the trace uses " + detail::counted(highest + 1, "device") + " of '" + name +
                              "'; '" + backend.name() + "' has only " + std::to_string(count) +
                              ", which they share");
    }
    if (name != backend.name()) {
      report_.notes.push_back("the trace was recorded on '" + name +
                              "'; another backend may round differently (--tolerance), and refuse its "
                              "options, sizes and programs");
    }
  }
}

void Replayer::run() {
  constexpr std::uint64_t kEvery = 256;
  reader_.rewind();
  std::uint64_t done = 0;
  for (Record record; reader_.next(record);) {
    if (record.type == Record::Type::kContent) {
      compare_target(record.number, "to_host", record.hash);
    } else if (record.type == Record::Type::kCall) {
      replay(record);
      ++done;
      if (options_.progress && (done % kEvery == 0 || done == report_.calls)) {
        options_.progress(done, report_.calls);
      }
    }
  }
  handles_.wait_for_all();
}

void Replayer::skip(const Record& record, const std::string& reason) {
  reporter_.skip(record, reason);
  const std::string& name = record.function->name;
  if (name == "from_host" || name == "fill" || name == "device_to_device" || name == "routine_launch") {
    ignore_contents("calls that write them were skipped");
  }
}

void Replayer::replay(const Record& record) {
  if (!runs(record.plugin)) {
    return reporter_.skip(record, "the call belongs to another backend in the trace");
  }
  builder_.keep_options(facts_.own.contains(record.plugin));
  const Row* const row = find_row(*record.function);
  if (row == nullptr) {
    return skip(record, "this yoke does not have the function");
  }
  if (!functions_.has(row->function)) {
    return skip(record, "the backend does not offer it");
  }
  Arguments arguments;
  if (const std::string why = builder_.build(*row, record, arguments); !why.empty()) {
    return skip(record, why);
  }
  if (row->function == Function::stream_destroy) {
    (void)handles_.wait(arguments.words[0]);
  } else if (memory_.is_full() || (row->ends_handle() && row->function != Function::event_destroy)) {
    handles_.wait_for_all();
    memory_.clear_sources();
  } else {
    handles_.wait_as_queried(row->function, record, arguments.words[0]);
  }
  issue(*row, record, arguments);
}

void Replayer::issue(const Row& row, const Record& record, Arguments& arguments) {
  std::string error;
  const bool is_copy_out = row.function == Function::to_host;
  if (is_copy_out) {  // the stream may write to it after an exception, too
    memory_.targets[record.number] = {std::move(arguments.target),
                                      arguments.words[0],
                                      {record.plugin, record.values[1].number},
                                      record.values[2].number};
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::int32_t code = functions_.call(row.function, arguments.parameters.data(), &error);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  if (row.function == Function::from_host && arguments.words[0] != 0) {
    memory_.keep(std::move(arguments.memory));
  }
  if (code == YOKE_STATUS_UNIMPLEMENTED && record.code == YOKE_STATUS_OK) {
    return skip(record, error.empty() ? "the backend does not offer it" : error);
  }
  reporter_.time(record, time.count());
  compare_result(row, record, arguments, code, error);
  if (code == YOKE_STATUS_OK) {
    note_handles(row, record, arguments);
  }
  if (arguments.is_made_up) {
    ignore_contents("the trace lacks some of the input");
  }
  if (is_copy_out && code == YOKE_STATUS_OK && record.code == YOKE_STATUS_OK &&
      record.values[3].memory == Memory::kHere) {
    compare_target(record.number, record.function->name, record.values[3].hash);
  }
}

void Replayer::compare_result(const Row& row, const Record& record, const Arguments& arguments,
                              std::int32_t code, const std::string& error) {
  // Work may already be done at a wait or query that came too early for it in the recording.
  const bool is_earlier = (abi::is_wait(row.function) || abi::is_query(row.function)) &&
                          code == YOKE_STATUS_OK && record.code == YOKE_STATUS_DEADLINE_EXCEEDED;
  const auto name = [](std::int32_t number) { return std::string(code_name(ErrorCode{number})); };
  if (code != record.code && !is_earlier) {
    reporter_.differ(record.number, record.function->name,
                     "returned " + name(code) + (error.empty() ? "" : " (" + error + ")") + " instead of " +
                         name(record.code));
  } else if (row.function == Function::code_entry_count && code == YOKE_STATUS_OK &&
             arguments.outs[1] != record.values[1].number) {
    reporter_.differ(record.number, record.function->name,
                     "the code has " + detail::counted(arguments.outs[1], "entry", "entries") +
                         " instead of " + std::to_string(record.values[1].number));
  }
}

void Replayer::note_handles(const Row& row, const Record& record, const Arguments& arguments) {
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    if (row.arguments[i].kind == Kind::kOutHandle) {
      handles_.add({record.plugin, record.values[i].number}, row.arguments[i].makes, arguments.outs[i],
                   arguments.words[0]);
    }
  }
  if (row.ends_handle()) {
    handles_.remove({record.plugin, record.values[static_cast<std::size_t>(row.ended)].number});
  }
}

// Waits for the copy of an earlier to_host and compares the bytes that it wrote.
void Replayer::compare_target(std::uint64_t call, const std::string& function, const Hash& hash) {
  const auto found = memory_.targets.find(call);
  if (found == memory_.targets.end()) {
    return;
  }
  const HostMemory::Target& target = found->second;
  if (!handles_.wait(target.stream)) {  // a recorded wait reports it
    ignore_contents("the work that writes them failed");
  }
  std::span<const std::byte> recorded;
  if (compares_ && !reader_.blob(hash, recorded)) {
    report_.why_ignored = "the trace lacks some of the output";
  }
  if (!compares_ || recorded.data() == nullptr) {
    ++report_.contents_ignored;
  } else {
    const auto types = types_.find(target.buffer);
    const Comparison result = compare(target.bytes, recorded, target.offset,
                                      types == types_.end() ? Types() : types->second, options_.tolerance);
    report_.contents_equal += result.is_equal ? 1U : 0U;
    report_.contents_close += result.is_close && !result.is_equal ? 1U : 0U;
    if (!result.is_close) {
      reporter_.differ(call, function, "the contents differ: " + result.text);
    }
  }
  memory_.targets.erase(found);
}

}  // namespace

Report run(Runtime& runtime, std::span<const std::byte> file, const Options& options) {
  const auto backend = runtime.backend(options.backend);
  Report report;
  Replayer(*backend, file, options, report).run();
  return report;
}

}  // namespace yoke::replay
