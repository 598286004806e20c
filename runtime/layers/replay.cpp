// SPDX-License-Identifier: Apache-2.0
// runtime/layers/replay.cpp: a trace once more, call by call.
#include "layers/replay.h"

#include <yoke/program/text.h>
#include <yoke/runtime/device.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "device/call.h"
#include "layers/trace_format.h"

namespace yoke::layers {
namespace {

using F = Function;

constexpr std::size_t kMostListed = 100;
constexpr std::uint64_t kMostKept = std::uint64_t{64} << 20U;  // bytes of sources before streams are awaited

bool is_wait_or_query(F function) {
  return function == F::stream_wait || function == F::event_wait || function == F::stream_query ||
         function == F::event_query;
}

std::uint64_t end_after(std::chrono::nanoseconds time) {
  const std::uint64_t now = now_ns();
  return now + std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)), ~now);
}

const char* code_text(std::int32_t code) {
  return code_name(static_cast<ErrorCode>(code));
}

}  // namespace

Replayer::Replayer(const detail::BackendState& backend, std::vector<OptionSpec> specs,
                   std::span<const std::byte> file, const ReplayOptions& options)
    : backend_(backend),
      specs_(std::move(specs)),
      options_(options),
      reader_(file),
      memory_limit_(options.memory_limit != 0 ? options.memory_limit : usual_memory_limit()),
      end_ns_(end_after(options.time_limit)) {
#define YOKE_LAYERS_SLOT(table_type, member, need)     \
  slots_[static_cast<std::size_t>(Function::member)] = \
      reinterpret_cast<Slot>(backend.table<table_type>().member);
  YOKE_BACKEND_API_FUNCTIONS(YOKE_LAYERS_SLOT)
  YOKE_STREAM_API_FUNCTIONS(YOKE_LAYERS_SLOT)
  YOKE_PROGRAM_API_FUNCTIONS(YOKE_LAYERS_SLOT)
  YOKE_PEER_API_FUNCTIONS(YOKE_LAYERS_SLOT)
#undef YOKE_LAYERS_SLOT
  const auto* const fault =
      static_cast<const yoke_fault_api*>(backend.plugin->get_table(backend.plugin, YOKE_FAULT_TABLE));
  if (fault != nullptr && fault->struct_size >= sizeof(*fault)) {
    slots_[static_cast<std::size_t>(F::fault_arm)] = reinterpret_cast<Slot>(fault->fault_arm);
    slots_[static_cast<std::size_t>(F::fault_clear)] = reinterpret_cast<Slot>(fault->fault_clear);
  }
}

Replayer::~Replayer() {
  end_all();
}

std::int32_t Replayer::issue(Function function, const std::uint64_t* words) const {
  static const auto all = issuers();
  return all[static_cast<std::size_t>(function)](slots_[static_cast<std::size_t>(function)], words);
}

// The row of a recorded function, where it is the same function as ours.
const Row* Replayer::row_for(const TraceRecord& record) const {
  const TraceFunction& function = *record.function;
  for (const Row& row : rows()) {
    if (function.name != row.name || function.table != row.table) {
      continue;
    }
    bool same = true;
    for (std::size_t i = 0; i < function.arguments.size(); ++i) {
      same = same && i < row.argument_count &&
             static_cast<Kind>(function.arguments[i].kind) == row.arguments[i].kind;
    }
    const bool has_status = row.arguments[row.argument_count - 1].kind == Kind::kStatus;
    return same && function.arguments.size() + (has_status ? 1U : 0U) == row.argument_count ? &row : nullptr;
  }
  return nullptr;
}

// Which bytes of which buffer are elements of what: known from all links of the trace, as copies come before.
void Replayer::scan_call(const TraceRecord& record, std::map<TraceHash, Program>& texts,
                         std::map<Key, Program>& codes) {
  const Row* const row = row_for(record);
  if (row == nullptr || record.code != YOKE_OK) {
    return;
  }
  if (row->function == F::code_compile) {
    std::span<const std::byte> text;
    if (!reader_.blob(record.values[1].hash, text)) {
      return;
    }
    // Once for each text: a trace may compile one a million times.
    const auto [known, is_new] = texts.try_emplace(record.values[1].hash);
    if (is_new) {
      const std::uint64_t more = program_bytes(text.size());
      check_memory(record, more);
      host_bytes_ += more;
      try {
        known->second = std::make_shared<program::Module>(
            program::parse_and_verify({reinterpret_cast<const char*>(text.data()), text.size()}));
      } catch (const program::ProgramError&) {  // of a format that we do not read
      }
    }
    if (known->second != nullptr) {
      codes[{record.plugin, record.values[2].number}] = known->second;
    }
  } else if (row->function == F::routine_link) {
    const auto code = codes.find({record.plugin, record.values[0].number});
    const std::uint64_t entry = record.values[1].number;
    const auto& list = record.values[2].list;
    auto& bound = bound_[{record.plugin, record.values[6].number}];
    bound.clear();
    if (code == codes.end() || entry >= code->second->programs.size()) {
      for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
        bound.push_back({{record.plugin, list[i]}, 0, ~std::uint64_t{0}});
      }
      return;
    }
    const auto& program = code->second->programs[entry];
    const auto arguments = program.arguments();
    for (std::size_t i = 0; i < arguments.size() && 2 * i + 1 < list.size(); ++i) {
      const auto& tensor = program.tensors[arguments[i]];
      bound.push_back({{record.plugin, list[2 * i]}, list[2 * i + 1], tensor.byte_count(), tensor.role});
      types_[{record.plugin, list[2 * i]}].add(list[2 * i + 1], tensor.byte_count(), tensor.type);
    }
  }
}

void Replayer::scan() {
  std::map<TraceHash, Program> texts;
  std::map<Key, Program> codes;
  TraceRecord record;
  while (reader_.next(record)) {
    if (record.type == TraceRecord::Type::kCall) {
      ++report_.calls;
      at_ = record.number;
      check_time();
      scan_call(record, texts, codes);
    }
  }
  report_.cut = reader_.cut();
  for (const TraceUnfinished& one : reader_.unfinished()) {
    if (report_.unfinished.size() < kMostListed) {
      report_.unfinished.emplace_back(one.name());
    }
  }
  reader_.rewind();
  host_bytes_ = 0;
}

const Types& Replayer::types_of(const Key& buffer) const {
  static const Types kNone;
  const auto found = types_.find(buffer);
  return found == types_.end() ? kNone : found->second;
}

void Replayer::differ(const TraceRecord& record, std::string text) {
  ++report_.differences;
  if (report_.first.size() < kMostListed) {
    report_.first.push_back(
        {record.number, record.function == nullptr ? "" : record.function->name, std::move(text)});
  }
}

ReplayReport Replayer::run() {
  scan();
  if (!reader_.has_data()) {
    report_.why_unknown =
        "the trace holds no contents, so made-up input was used; record it with YOKE_TRACE_DATA=1 to compare "
        "them";
  } else if (!options_.compare_contents) {
    report_.why_unknown = "it was asked not to compare them";
  }
  TraceRecord record;
  std::uint64_t done = 0;
  while (reader_.next(record)) {
    if (record.type == TraceRecord::Type::kContent) {
      content(record);
    } else if (record.type == TraceRecord::Type::kCall) {
      replay_call(record);
      ++done;
      constexpr std::uint64_t kEvery = 256;
      if (options_.progress && (done % kEvery == 0 || done == report_.calls)) {
        options_.progress(done, report_.calls);
      }
    }
  }
  sync_all();
  list_functions_and_notes();
  return report_;
}

void Replayer::list_functions_and_notes() {
  for (const auto& [name, function] : functions_) {
    report_.functions.push_back(function);
    report_.recorded_seconds += function.recorded_seconds;
    report_.replayed_seconds += function.replayed_seconds;
  }
  std::stable_sort(report_.functions.begin(), report_.functions.end(),
                   [](const auto& a, const auto& b) { return a.replayed_seconds > b.replayed_seconds; });
  for (const auto& [about, calls] : notes_) {
    report_.notes.push_back({about.first, about.second, calls});
  }
  std::stable_sort(report_.notes.begin(), report_.notes.end(),
                   [](const auto& a, const auto& b) { return a.calls > b.calls; });
}

void Replayer::count_time(const TraceRecord& record, std::uint64_t ns) {
  ReplayFunction& function = functions_[record.function->name];
  function.name = record.function->name;
  ++function.calls;
  const double seconds = static_cast<double>(ns) / 1e9;
  function.recorded_seconds += static_cast<double>(record.duration_ns) / 1e9;
  function.replayed_seconds += seconds;
  function.slowest_seconds = std::max(function.slowest_seconds, seconds);
}

void Replayer::replay_call(const TraceRecord& record) {
  at_ = record.number;
  check_time();
  const Row* const row = row_for(record);
  if (row == nullptr) {
    return skip(nullptr, record, "this yoke does not know it");
  }
  if (const char* const why = lacking(*row)) {
    stand_in(*row, record);
    return skip(row, record, why);
  }
  Prepared call;
  if (!prepare(*row, record, call)) {
    return skip(row, record, call.why);
  }
  // A handle for which the backend has nothing, where it cannot be NULL.
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    if (is_handle(row->arguments[i].kind) && !row->arguments[i].nullable && call.words[i] == 0) {
      return skip(row, record, "what it works on was not made here");
    }
  }
  if (!may_make(*row, record, call)) {
    return skip(row, record, call.why);
  }
  detail::Status status;
  if (row->arguments[row->argument_count - 1].kind == Kind::kStatus) {
    call.words[row->argument_count - 1U] = reinterpret_cast<std::uint64_t>(status.get());
  }
  if (row->function == F::stream_destroy) {
    sync(call.words[0]);
  } else if (row->function == F::buffer_destroy || row->function == F::routine_destroy ||
             row->function == F::code_destroy) {
    sync_all();
  }
  hold(*row, record, call);
  const std::uint64_t begin = now_ns();
  std::int32_t code = issue(row->function, call.words.data());
  if (code != YOKE_OK && row->function == F::to_host) {
    drop_target(record.number);
  }
  if (code == YOKE_DEADLINE_EXCEEDED && is_wait_or_query(row->function)) {
    check_time();  // it may have been cut short
  }
  if (code == YOKE_UNIMPLEMENTED && record.code != code && is_optional(row->function)) {
    if (record.code != YOKE_OK || !emulate(*row, call, status, code)) {
      return skip(row, record, status.text().empty() ? "it does not offer it" : std::string(status.text()));
    }
    ++report_.emulated;
    note(record, "done by other calls: it does not offer it");
  }
  count_time(record, now_ns() - begin);
  ++report_.replayed;
  finish(*row, record, call, code, status);
}

void Replayer::compare_result(const Row& row, const TraceRecord& record, const Prepared& call,
                              std::int32_t code, const detail::Status& status) {
  // Whether something is done yet is a matter of time.
  const bool is_timed = is_wait_or_query(row.function) &&
                        (record.code == YOKE_OK || record.code == YOKE_DEADLINE_EXCEEDED) &&
                        (code == YOKE_OK || (code == YOKE_DEADLINE_EXCEEDED && record.code == code));
  if (code == YOKE_OK && record.code == YOKE_UNIMPLEMENTED && is_optional(row.function)) {
    note(record, "done, and when recorded it was not offered");
  } else if (code != record.code && !is_timed) {
    differ(record, std::string("answered ") + code_text(code) +
                       (status.text().empty() ? "" : " (" + std::string(status.text()) + ")") + ", and " +
                       code_text(record.code) + " was recorded");
  }
  if (code == YOKE_OK && record.code == YOKE_OK && row.function == F::code_entry_count &&
      record.values[1].was_written && static_cast<std::uint32_t>(call.outs[1]) != record.values[1].number) {
    differ(record, "the code has " + std::to_string(static_cast<std::uint32_t>(call.outs[1])) +
                       " entries, and " + std::to_string(record.values[1].number) + " were recorded");
  }
}

void Replayer::finish(const Row& row, const TraceRecord& record, Prepared& call, std::int32_t code,
                      const detail::Status& status) {
  compare_result(row, record, call, code, status);
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    if (row.arguments[i].kind != Kind::kOutHandle || code != YOKE_OK) {
      continue;
    }
    Live made{row.arguments[i].makes, call.outs[i]};
    made.byte_count = row.function == F::buffer_create ? call.words[1] : 0;
    made.host_bytes = host_bytes(row, record, call);
    made.is_host_memory = made.kind == Kind::kDevice && is_host_memory(call);
    made.buffers = std::move(call.bound);
    put({record.plugin, record.values[i].number}, std::move(made));
  }
  if (row.arguments[0].ownership == Ownership::kEnded && code == YOKE_OK) {
    remove({record.plugin, record.values[0].number});
  }
  note_writes(row, record, code == YOKE_OK, call.is_made_up);
  const bool is_later =
      row.function == F::to_host && record.values[3].memory == static_cast<int>(Memory::kLater);
  if (row.function == F::to_host && code == YOKE_OK && (record.code != YOKE_OK || !is_later)) {
    take_target(record, record.code == YOKE_OK ? &record.values[3].hash : nullptr);
  }
  if (row.function == F::from_host && kept_bytes_ > kMostKept) {
    sync_all();
  }
}

}  // namespace yoke::layers

namespace yoke {

ReplayReport replay(Runtime& runtime, std::span<const std::byte> file, const ReplayOptions& options) {
  const auto backend = runtime.backend(options.backend);
  try {
    layers::Replayer replayer(backend->state(), backend->option_specs(), file, options);
    return replayer.run();
  } catch (const std::bad_alloc&) {
    throw Error(
        ErrorCode::kResourceExhausted,
        "the replay ends early: the trace wants more memory than there is; a smaller memory limit says "
        "which call it is");
  }
}

}  // namespace yoke
