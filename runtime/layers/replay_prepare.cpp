// SPDX-License-Identifier: Apache-2.0
// runtime/layers/replay_prepare.cpp: recorded values become the arguments of a call.
#include <algorithm>
#include <cstring>

#include "layers/replay.h"
#include "layers/trace_format.h"

namespace yoke::layers {
namespace {

constexpr std::uint64_t kMostRowBytes = std::uint64_t{16} << 20U;
constexpr std::uint64_t kMostTextBytes = std::uint64_t{1} << 20U;
constexpr std::size_t kInfoBytes = 1024;  // larger than every info struct
constexpr std::uint64_t kMostPattern = 8;

std::uint64_t word_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

bool is_array(Kind kind) {
  return kind == Kind::kOptions || kind == Kind::kBindings || kind == Kind::kSymbols;
}

}  // namespace

bool Replayer::prepare_handle(const TraceRecord& record, Kind kind, std::uint64_t number, std::uint64_t& word,
                              Prepared& call) const {
  word = 0;
  if (number == 0) {
    return true;
  }
  const auto found = live_.find({record.plugin, number});
  if (found == live_.end() || found->second.kind != kind) {
    call.why = "what it works on was not made here";
    return false;
  }
  word = found->second.word;
  return true;
}

bool Replayer::prepare_rows(const Row& row, const TraceRecord& record, std::size_t i, Prepared& call) {
  const auto& argument = row.arguments[i];
  const std::uint64_t capacity = record.values[static_cast<std::size_t>(argument.partner)].number;
  if (capacity == 0) {
    return true;
  }
  std::uint64_t stride = argument.kind == Kind::kOutText ? 1 : record.values[i].number;
  const bool is_text = argument.kind == Kind::kOutText;
  if ((!is_text && stride < sizeof(stride)) || stride > kMostRowBytes || capacity > kMostRowBytes / stride) {
    return false;
  }
  auto& area = call.areas.emplace_back(capacity * stride);
  for (std::uint64_t at = 0; !is_text && at < area.size(); at += stride) {
    std::memcpy(area.data() + at, &stride, sizeof(stride));
  }
  call.words[i] = word_of(area.data());
  return true;
}

void Replayer::prepare_options(const TraceRecord& record, const TraceValue& value, std::size_t i,
                               Prepared& call) {
  call.options = known_options(record, value.options);
  auto& area = call.areas.emplace_back(call.options.size() * sizeof(yoke_option));
  for (std::size_t k = 0; k < call.options.size(); ++k) {
    const Option& given = call.options[k];
    yoke_option option{};
    option.struct_size = sizeof(option);
    option.name = given.name.c_str();
    if (const auto* flag = std::get_if<bool>(&given.value)) {
      option.type = YOKE_OPTION_FLAG;
      option.integer = *flag ? 1 : 0;
    } else if (const auto* integer = std::get_if<std::int64_t>(&given.value)) {
      option.type = YOKE_OPTION_INTEGER;
      option.integer = *integer;
    } else if (const auto* number = std::get_if<double>(&given.value)) {
      option.type = YOKE_OPTION_NUMBER;
      option.number = *number;
    } else {
      option.type = YOKE_OPTION_TEXT;
      option.text = std::get<std::string>(given.value).c_str();
    }
    std::memcpy(area.data() + k * sizeof(option), &option, sizeof(option));
  }
  call.words[i] = call.options.empty() ? 0 : word_of(area.data());
  call.words[i + 1] = call.options.size();
}

bool Replayer::prepare_bindings(const TraceRecord& record, const TraceValue& value, std::size_t i,
                                Prepared& call) {
  const std::size_t count = value.list.size() / 2;
  auto& area = call.areas.emplace_back(count * sizeof(yoke_binding));
  for (std::size_t k = 0; k < count; ++k) {
    std::uint64_t word = 0;
    if (!prepare_handle(record, Kind::kBuffer, value.list[2 * k], word, call) || word == 0) {
      return false;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the backend's own pointer
    const yoke_binding binding{reinterpret_cast<yoke_buffer*>(word), value.list[2 * k + 1]};
    std::memcpy(area.data() + k * sizeof(binding), &binding, sizeof(binding));
    call.bound.push_back(word);
  }
  call.words[i] = count == 0 ? 0 : word_of(area.data());
  call.words[i + 1] = count;
  return true;
}

bool Replayer::prepare_text(const TraceValue& value, std::size_t i, Prepared& call) {
  std::span<const std::byte> bytes;
  if (!reader_.blob(value.hash, bytes) || bytes.size() != value.byte_count) {
    return false;
  }
  auto& format = call.areas.emplace_back(value.text.size() + 1);
  std::memcpy(format.data(), value.text.data(), value.text.size());
  auto& area = call.areas.emplace_back(sizeof(yoke_program_text));
  yoke_program_text text{};
  text.struct_size = sizeof(text);
  text.format = reinterpret_cast<const char*>(format.data());
  text.version = static_cast<std::uint32_t>(value.number);
  text.bytes = reinterpret_cast<const char*>(bytes.data());
  text.byte_count = bytes.size();
  std::memcpy(area.data(), &text, sizeof(text));
  call.words[i] = word_of(area.data());
  return true;
}

// Host memory of a copy, or the pattern of a fill.
bool Replayer::prepare_memory(const Row& row, const TraceRecord& record, std::size_t i, Prepared& call) {
  const TraceValue& value = record.values[i];
  const std::uint64_t byte_count = record.values[static_cast<std::size_t>(row.arguments[i].partner)].number;
  if (value.memory == static_cast<int>(Memory::kNone) && row.arguments[i].kind == Kind::kSource) {
    return byte_count == 0;
  }
  const Key buffer{record.plugin, record.values[1].number};
  const std::uint64_t offset = record.values[2].number;
  if (row.function == Function::fill) {
    std::span<const std::byte> pattern;
    if (byte_count > kMostPattern || !reader_.blob(value.hash, pattern) || pattern.size() != byte_count) {
      return false;
    }
    call.words[i] = word_of(call.areas.emplace_back(pattern.begin(), pattern.end()).data());
    return true;
  }
  const auto known = live_.find(buffer);
  if (known == live_.end() || byte_count > known->second.byte_count) {
    return false;  // a copy of more than the buffer has: nothing is laid out for it
  }
  if (row.arguments[i].kind == Kind::kTarget) {
    if (!may_take(record, byte_count, call)) {
      return false;
    }
    call.target.resize(byte_count);
    call.words[i] = word_of(call.target.data());
    return true;
  }
  std::span<const std::byte> contents;
  if (reader_.blob(value.hash, contents) && contents.size() == byte_count) {
    call.words[i] = word_of(contents.data());
    return true;
  }
  if (!may_take(record, byte_count, call)) {
    return false;
  }
  auto& area = call.areas.emplace_back(byte_count);
  make_up(area, offset, types_of(buffer), value.hash.low);
  call.is_made_up = true;
  call.words[i] = word_of(area.data());
  return true;
}

bool Replayer::prepare_value(const Row& row, const TraceRecord& record, std::size_t i, Prepared& call) {
  const TraceValue& value = record.values[i];
  switch (row.arguments[i].kind) {
    case Kind::kPlugin:
      call.words[i] = word_of(backend_.plugin);
      return true;
    case Kind::kStatus:
      return true;
    case Kind::kNumber:
      if (i == 0 || !is_array(row.arguments[i - 1].kind)) {  // those have set their count
        call.words[i] = value.number;
      }
      return true;
    case Kind::kOutNumber:
      call.words[i] = value.was_asked ? word_of(&call.outs[i]) : 0;
      return true;
    case Kind::kOutHandle:
      call.words[i] = word_of(&call.outs[i]);
      return true;
    case Kind::kOutInfo: {
      auto& area = call.areas.emplace_back(kInfoBytes);
      const std::uint64_t size = value.bytes.empty() ? kInfoBytes : std::min(value.bytes.size(), kInfoBytes);
      if (size < sizeof(size)) {
        return false;  // no struct that says its size
      }
      std::memcpy(area.data(), &size, sizeof(size));
      call.words[i] = word_of(area.data());
      return true;
    }
    case Kind::kOutRows:
    case Kind::kOutText:
      return record.values[static_cast<std::size_t>(row.arguments[i].partner)].number <= kMostTextBytes &&
             prepare_rows(row, record, i, call);
    case Kind::kOptions:
      prepare_options(record, value, i, call);
      return true;
    case Kind::kBindings:
      return prepare_bindings(record, value, i, call);
    case Kind::kSymbols: {
      auto& area = call.areas.emplace_back(value.list.size() * sizeof(std::uint64_t));
      call.words[i] = 0;
      if (!area.empty()) {
        std::memcpy(area.data(), value.list.data(), area.size());
        call.words[i] = word_of(area.data());
      }
      call.words[i + 1] = value.list.size();
      return true;
    }
    case Kind::kProgramText:
      return prepare_text(value, i, call);
    case Kind::kSource:
    case Kind::kTarget:
      return prepare_memory(row, record, i, call);
    default:
      return prepare_handle(record, row.arguments[i].kind, value.number, call.words[i], call);
  }
}

bool Replayer::prepare(const Row& row, const TraceRecord& record, Prepared& call) {
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    if (!prepare_value(row, record, i, call)) {
      return false;
    }
  }
  if (row.function == Function::device_open || row.function == Function::device_describe) {
    std::uint32_t count = 0;
    detail::Status status;
    const std::uint64_t words[] = {word_of(backend_.plugin), word_of(&count), word_of(status.get())};
    if (issue(Function::device_count, words) == YOKE_OK && count != 0) {
      call.words[1] %= count;  // it may have had more of them
    }
  }
  if (row.function == Function::stream_wait || row.function == Function::event_wait) {
    call.words[1] = record.code == YOKE_OK ? most_wait() : std::min(call.words[1], most_wait());
  }
  if (row.function == Function::routine_link && call.words[4] != 0) {
    call.bound.push_back(call.words[4]);  // the workspace
  }
  if (row.arguments[0].kind == Kind::kStream) {
    call.has_stream = call.words[0] != 0;
    call.stream = call.words[0];
  }
  return true;
}

}  // namespace yoke::layers
