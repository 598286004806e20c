// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_reader.cpp: records out of bytes that may be anything.
#include <yoke/runtime/trace.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "layers/functions.h"
#include "layers/trace_format.h"

namespace yoke {
namespace {

using layers::Decoder;
using layers::Kind;
using layers::RecordType;

constexpr std::size_t kMostFunctions = 4096;
constexpr std::size_t kMostArgumentCount = 32;

TraceHash to_public(const layers::Hash& hash) {
  return {hash.high, hash.low};
}

void read_options(Decoder& from, TraceValue& value) {
  const std::uint64_t count = from.number();
  for (std::uint64_t i = 0; i < count && from.is_good(); ++i) {
    Option option;
    option.name = from.text();
    const std::uint64_t type = from.number();
    const auto integer = static_cast<std::int64_t>(from.number());
    const auto number = std::bit_cast<double>(from.fixed());
    const std::string text(from.text());
    if (type == YOKE_OPTION_FLAG) {
      option.value = integer != 0;
    } else if (type == YOKE_OPTION_INTEGER) {
      option.value = integer;
    } else if (type == YOKE_OPTION_NUMBER) {
      option.value = number;
    } else {
      option.value = text;
    }
    if (from.is_good()) {
      value.options.push_back(std::move(option));
    }
  }
}

void read_list(Decoder& from, TraceValue& value, std::uint64_t words) {
  const std::uint64_t count = from.number();
  value.number = count;
  for (std::uint64_t i = 0; i < count && from.is_good(); ++i) {
    for (std::uint64_t k = 0; k < words; ++k) {
      const std::uint64_t word = from.number();
      if (from.is_good()) {
        value.list.push_back(word);
      }
    }
  }
}

void read_memory(Decoder& from, TraceValue& value) {
  value.memory = from.byte();
  if (value.memory != 0) {
    value.byte_count = from.number();
  }
  if (value.memory == static_cast<int>(layers::Memory::kHere)) {
    value.hash = to_public(from.hash());
  }
}

void read_value(Decoder& from, Kind kind, TraceValue& value) {
  switch (kind) {
    case Kind::kPlugin:
    case Kind::kStatus:
      return;
    case Kind::kOutNumber: {
      const std::uint8_t flags = from.byte();
      value.was_asked = (flags & 1U) != 0;
      value.was_written = (flags & 2U) != 0;
      value.number = from.number();
      return;
    }
    case Kind::kOutRows:
      value.number = from.number();
      [[fallthrough]];
    case Kind::kOutInfo:
      value.bytes = from.bytes();
      return;
    case Kind::kOutText:
      value.text = from.text();
      return;
    case Kind::kOptions:
      return read_options(from, value);
    case Kind::kBindings:
      return read_list(from, value, 2);
    case Kind::kSymbols:
      return read_list(from, value, 1);
    case Kind::kProgramText:
      value.text = from.text();
      value.number = from.number();
      value.byte_count = from.number();
      value.hash = to_public(from.hash());
      return;
    case Kind::kSource:
    case Kind::kTarget:
      return read_memory(from, value);
    default:
      value.number = from.number();
      return;
  }
}

void clear(TraceValue& value) {
  auto list = std::move(value.list);
  auto options = std::move(value.options);
  list.clear();
  options.clear();
  value = {};
  value.list = std::move(list);
  value.options = std::move(options);
}

}  // namespace

TraceReader::TraceReader(std::span<const std::byte> file) : file_(file) {
  layers::TraceHeader header{};
  if (file.size() < sizeof(header) ||
      std::memcmp(file.data(), layers::kTraceMagic, sizeof(header.magic)) != 0) {
    throw Error(ErrorCode::kDataLoss, "this is no trace of yoke's: it does not begin with 'yoketrac'");
  }
  std::memcpy(&header, file.data(), sizeof(header));
  if (header.version != layers::kTraceVersion) {
    throw Error(ErrorCode::kUnimplemented,
                "the trace has version " + std::to_string(header.version) + ", and this yoke reads version " +
                    std::to_string(layers::kTraceVersion) + "; use the yoke that wrote it");
  }
  has_data_ = (header.flags & layers::kTraceHasData) != 0;
  unix_ns_ = header.unix_ns;
  process_ = header.process;
  rewind();
}

void TraceReader::rewind() {
  at_ = sizeof(layers::TraceHeader);
  calls_ = 0;
  ended_ = false;
  cut_.clear();
  begun_.clear();
}

bool TraceReader::stop(std::string why) {
  cut_ = "byte " + std::to_string(at_) + " of " + std::to_string(file_.size()) + ": " + std::move(why);
  at_ = file_.size();
  return false;
}

bool TraceReader::next_payload(std::span<const std::byte>& out) {
  const std::size_t left = file_.size() - at_;
  if (left == 0) {
    if (!ended_ && cut_.empty()) {
      return stop("the file ends without its last record: its writer did not close it");
    }
    return false;
  }
  std::uint32_t size = 0;
  std::uint32_t check = 0;
  if (left < layers::kRecordHead) {
    return stop("the file ends in a record's head");
  }
  std::memcpy(&size, file_.data() + at_, sizeof(size));
  std::memcpy(&check, file_.data() + at_ + sizeof(size), sizeof(check));
  if (size == 0 || size > left - layers::kRecordHead) {
    return stop("the file ends in a record of " + std::to_string(size) + " bytes");
  }
  out = file_.subspan(at_ + layers::kRecordHead, size);
  if (static_cast<std::uint32_t>(layers::hash_of(out.data(), out.size())) != check) {
    return stop("a record does not agree with its check");
  }
  at_ += layers::kRecordHead + size;
  return true;
}

bool TraceReader::next(TraceRecord& out) {
  std::span<const std::byte> payload;
  while (next_payload(payload)) {
    bool is_for_caller = false;
    if (!read(payload, out, is_for_caller)) {
      return stop("a record holds less than its fields, or a call of an unknown function");
    }
    if (is_for_caller) {
      return true;
    }
  }
  return false;
}

namespace {

bool read_function(Decoder& from, std::map<std::uint64_t, TraceFunction>& functions) {
  const std::uint64_t id = from.number();
  TraceFunction function;
  function.table = from.text();
  function.name = from.text();
  const std::uint64_t count = from.number();
  if (count > kMostArgumentCount || functions.size() >= kMostFunctions) {
    return false;
  }
  for (std::uint64_t i = 0; i < count && from.is_good(); ++i) {
    TraceFunction::Argument argument;
    argument.kind = from.byte();
    argument.makes = from.byte();
    argument.name = from.text();
    function.arguments.push_back(std::move(argument));
  }
  if (from.is_good()) {
    functions.try_emplace(id, std::move(function));
  }
  return from.is_good();
}

bool read_call(Decoder& from, const std::map<std::uint64_t, TraceFunction>& functions, TraceRecord& out) {
  out.type = TraceRecord::Type::kCall;
  out.plugin = from.number();
  const auto function = functions.find(from.number());
  out.thread = from.number();
  out.begin_ns = from.number();
  out.duration_ns = from.number();
  out.code = static_cast<std::int32_t>(static_cast<std::uint32_t>(from.number()));
  out.vendor_code = static_cast<std::int64_t>(from.number());
  out.text = from.text();
  if (function == functions.end()) {
    return false;
  }
  out.function = &function->second;
  out.values.resize(out.function->arguments.size());
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    clear(out.values[i]);
    read_value(from, static_cast<Kind>(out.function->arguments[i].kind), out.values[i]);
  }
  return from.is_good();
}

}  // namespace

bool TraceReader::read(std::span<const std::byte> payload, TraceRecord& out, bool& is_for_caller) {
  Decoder from(payload);
  is_for_caller = true;
  switch (static_cast<RecordType>(from.byte())) {
    case RecordType::kFunction:
      is_for_caller = false;
      return read_function(from, functions_);
    case RecordType::kPlugin:
      out.type = TraceRecord::Type::kPlugin;
      out.plugin = from.number();
      out.text = from.text();
      return from.is_good();
    case RecordType::kCall:
      out.number = calls_++;
      return read_call(from, functions_, out) && finish(out);
    case RecordType::kBegin:
      is_for_caller = false;
      return read_begin(from);
    case RecordType::kContent:
      out.type = TraceRecord::Type::kContent;
      out.number = from.number();
      out.argument = from.number();
      out.hash = to_public(from.hash());
      return from.is_good();
    case RecordType::kBlob: {
      is_for_caller = false;
      const TraceHash hash = to_public(from.hash());
      const auto bytes = from.bytes();
      if (from.is_good()) {
        blobs_.try_emplace(hash, bytes);
      }
      return from.is_good();
    }
    case RecordType::kSpan:
    case RecordType::kLog: {
      const bool is_span = payload[0] == static_cast<std::byte>(RecordType::kSpan);
      out.type = is_span ? TraceRecord::Type::kSpan : TraceRecord::Type::kLog;
      out.plugin = from.number();
      out.thread = from.number();
      out.begin_ns = from.number();
      out.duration_ns = is_span ? from.number() : 0;
      out.level = is_span ? 0 : static_cast<std::int32_t>(static_cast<std::uint32_t>(from.number()));
      out.text = from.text();
      return from.is_good() && (!is_span || finish(out));
    }
    case RecordType::kEnd:
      is_for_caller = false;
      from.number();
      lost_ = from.number();
      ended_ = true;
      return from.is_good();
  }
  is_for_caller = false;
  return true;  // a type of a later yoke: its length is known
}

bool TraceReader::read_begin(Decoder& from) {
  const std::uint64_t plugin = from.number();
  const std::uint64_t thread = from.number();
  const std::uint64_t begin_ns = from.number();
  const std::uint64_t function = from.number();  // 0: a span, else the function's number and 1
  const std::string_view text = function == 0 ? from.text() : std::string_view();
  const auto known = functions_.find(function - 1);
  if (!from.is_good() || (function != 0 && known == functions_.end())) {
    return false;
  }
  begun_.insert({begin_ns, thread, plugin, function == 0 ? nullptr : &known->second, text});
  return true;
}

bool TraceReader::finish(const TraceRecord& record) {
  const bool is_call = record.type == TraceRecord::Type::kCall;
  begun_.erase({record.begin_ns, record.thread, record.plugin, is_call ? record.function : nullptr,
                is_call ? std::string_view() : record.text});
  return true;
}

std::vector<TraceUnfinished> TraceReader::unfinished() const {
  std::vector<TraceUnfinished> all;
  for (const auto& [begin_ns, thread, plugin, function, text] : begun_) {
    all.push_back({plugin, thread, begin_ns, function, text});
  }
  return all;
}

bool TraceReader::blob(const TraceHash& hash, std::span<const std::byte>& out) const {
  const auto found = blobs_.find(hash);
  if (found == blobs_.end()) {
    return false;
  }
  out = found->second;
  return true;
}

}  // namespace yoke
