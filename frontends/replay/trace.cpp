// SPDX-License-Identifier: Apache-2.0
// frontends/replay/trace.cpp: reads records from bytes that may be truncated or damaged.
#include "replay/trace.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace yoke::replay {

// Thrown by Decoder; Reader turns it into an Error.
struct Garbled : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads fields from the front of a payload.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> from) : from_(from) {}

  std::uint8_t byte() { return static_cast<std::uint8_t>(take(1).front()); }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint64_t part = byte();
      value |= (part & 0x7fU) << shift;
      if ((part & 0x80U) == 0) {
        return value;
      }
    }
    throw Garbled("a number is longer than 64 bits");
  }
  std::span<const std::byte> bytes() { return take(number()); }
  std::string_view text() {
    const auto value = bytes();
    return {reinterpret_cast<const char*>(value.data()), value.size()};
  }
  std::uint64_t fixed() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 8) {
      value |= static_cast<std::uint64_t>(byte()) << shift;
    }
    return value;
  }
  Hash hash() {
    const std::uint64_t high = fixed();
    return {high, fixed()};
  }

 private:
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > from_.size()) {
      throw Garbled("a record is shorter than its fields");
    }
    const auto value = from_.first(count);
    from_ = from_.subspan(count);
    return value;
  }
  std::span<const std::byte> from_;
};

namespace {

constexpr std::size_t kMostFunctions = 4096;
constexpr std::size_t kMostArguments = 32;

void read_options(Decoder& from, Value& value) {
  const std::uint64_t count = from.number();
  for (std::uint64_t i = 0; i < count; ++i) {
    Option option;
    option.name = from.text();
    const std::uint64_t type = from.number();
    const auto integer = static_cast<std::int64_t>(from.number());
    const auto number = std::bit_cast<double>(from.fixed());
    const std::string_view text = from.text();
    if (type == YOKE_OPTION_FLAG) {
      option.value = integer != 0;
    } else if (type == YOKE_OPTION_INTEGER) {
      option.value = integer;
    } else if (type == YOKE_OPTION_NUMBER) {
      option.value = number;
    } else {
      option.value = std::string(text);
    }
    value.options.push_back(std::move(option));
  }
}

void read_value(Decoder& from, Kind kind, Value& value) {
  switch (kind) {
    case Kind::kPlugin:
    case Kind::kStatus:
      return;
    case Kind::kOutNumber: {
      const std::uint8_t flags = from.byte();
      value.was_requested = (flags & 1U) != 0;
      value.was_written = (flags & 2U) != 0;
      value.number = from.number();
      return;
    }
    case Kind::kOutRows:
    case Kind::kOutInfo:
      value.bytes = from.bytes();
      return;
    case Kind::kText:
    case Kind::kOutText:
      value.text = from.text();
      return;
    case Kind::kOptions:
      return read_options(from, value);
    case Kind::kBindings:
    case Kind::kWorkspace:
    case Kind::kSymbols:
    case Kind::kCollectives: {
      const std::size_t words = kind == Kind::kSymbols       ? 1
                                : kind == Kind::kCollectives ? kCollectiveWords
                                                             : kBindingWords;
      value.number = from.number();
      for (std::uint64_t i = 0; i < value.number; ++i) {
        for (std::size_t k = 0; k < words; ++k) {
          value.list.push_back(from.number());
        }
      }
      return;
    }
    case Kind::kProgramText:
      value.hash = from.hash();
      return;
    case Kind::kSource:
    case Kind::kTarget:
      value.memory = static_cast<Memory>(from.byte());
      value.byte_count = value.memory == Memory::kNone ? 0 : from.number();
      if (value.memory == Memory::kHere) {
        value.hash = from.hash();
      }
      return;
    default:
      value.number = from.number();
      return;
  }
}

void read_function(Decoder& from, std::map<std::uint64_t, RecordedFunction>& functions) {
  const std::uint64_t id = from.number();
  RecordedFunction function;
  function.table = from.text();
  function.name = from.text();
  const std::uint64_t count = from.number();
  if (count > kMostArguments || functions.size() >= kMostFunctions) {
    throw Garbled("it describes too many functions or arguments");
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    RecordedFunction::Argument argument;
    argument.kind = static_cast<Kind>(from.byte());
    argument.makes = static_cast<Kind>(from.byte());
    argument.name = from.text();
    function.arguments.push_back(std::move(argument));
  }
  functions.try_emplace(id, std::move(function));
}

void read_call(Decoder& from, const std::map<std::uint64_t, RecordedFunction>& functions, Record& out) {
  out.type = Record::Type::kCall;
  out.plugin = from.number();
  const auto function = functions.find(from.number());
  if (function == functions.end()) {
    throw Garbled("it calls a function that it does not describe");
  }
  out.function = &function->second;
  out.thread = from.number();
  out.begin_ns = from.number();
  out.duration_ns = from.number();
  out.code = static_cast<std::int32_t>(static_cast<std::uint32_t>(from.number()));
  from.number();  // the vendor's code
  out.text = from.text();
  out.values.assign(out.function->arguments.size(), {});
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    read_value(from, out.function->arguments[i].kind, out.values[i]);
  }
}

}  // namespace

Reader::Reader(std::span<const std::byte> file) : file_(file) {
  layers::TraceHeader header{};
  if (std::memcmp(file.data(), layers::kTraceMagic, std::min(file.size(), sizeof(header.magic))) != 0) {
    throw Error(ErrorCode::kDataLoss, "not a trace of yoke: it does not start with 'yoketrac'");
  }
  if (file.size() < sizeof(header)) {
    throw Error(ErrorCode::kDataLoss, "the file ends at byte " + std::to_string(file.size()) +
                                          ", inside the header of " + std::to_string(sizeof(header)) +
                                          " bytes");
  }
  std::memcpy(&header, file.data(), sizeof(header));
  if (header.version != layers::kTraceVersion) {
    throw Error(ErrorCode::kUnimplemented, "the trace has version " + std::to_string(header.version) +
                                               "; this yoke reads version " +
                                               std::to_string(layers::kTraceVersion));
  }
  has_data_ = (header.flags & layers::kTraceHasData) != 0;
  process_ = header.process;
  rewind();
}

void Reader::rewind() {
  at_ = sizeof(layers::TraceHeader);
  calls_ = 0;
  ended_ = false;
  cut_.clear();
  open_.clear();
}

bool Reader::next_payload(std::span<const std::byte>& out) {
  const std::size_t left = file_.size() - at_;
  std::uint32_t size = 0;
  std::uint32_t check = 0;
  if (left >= layers::kRecordHead) {
    std::memcpy(&size, file_.data() + at_, sizeof(size));
    std::memcpy(&check, file_.data() + at_ + sizeof(size), sizeof(check));
  }
  if (left < layers::kRecordHead || size > left - layers::kRecordHead) {
    if (left != 0 || !ended_) {
      cut_ = "the file ends at byte " + std::to_string(file_.size()) +
             (left == 0 ? " without an end record" : ", inside a record");
      at_ = file_.size();
      ended_ = true;
    }
    return false;
  }
  out = file_.subspan(at_ + layers::kRecordHead, size);
  if (size == 0 || layers::checksum_of(out.data(), out.size()) != check) {
    throw Garbled("a record does not match its checksum");
  }
  at_ += layers::kRecordHead + size;
  return true;
}

bool Reader::next(Record& out) {
  const std::size_t at = at_;
  try {
    for (std::span<const std::byte> payload; next_payload(payload);) {
      if (read(payload, out)) {
        return true;
      }
    }
  } catch (const Garbled& garbled) {
    throw Error(ErrorCode::kDataLoss, "the trace is damaged after byte " + std::to_string(at) + " of " +
                                          std::to_string(file_.size()) + ": " + garbled.what());
  }
  return false;
}

// Returns false if the reader has consumed the record.
bool Reader::read(std::span<const std::byte> payload, Record& out) {
  using layers::RecordType;
  Decoder from(payload);
  const auto type = static_cast<RecordType>(from.byte());
  switch (type) {
    case RecordType::kFunction:
      read_function(from, functions_);
      return false;
    case RecordType::kPlugin:
      out.type = Record::Type::kPlugin;
      out.plugin = from.number();
      out.text = from.text();
      return true;
    case RecordType::kBegin:
      read_begin(from);
      return false;
    case RecordType::kSpanEnd:
      return end_span(from, out);
    case RecordType::kCall:
      read_call(from, functions_, out);
      out.number = calls_++;
      end_call(out);
      return true;
    case RecordType::kContent:
      out.type = Record::Type::kContent;
      out.number = from.number();
      from.number();  // the argument
      out.hash = from.hash();
      return true;
    case RecordType::kBlob: {
      const Hash hash = from.hash();
      blobs_.try_emplace(hash, from.bytes());
      return false;
    }
    case RecordType::kLog:
      out.type = Record::Type::kLog;
      out.plugin = from.number();
      out.thread = from.number();
      out.begin_ns = from.number();
      out.level = static_cast<std::int32_t>(static_cast<std::uint32_t>(from.number()));
      out.text = from.text();
      return true;
    case RecordType::kWork:
      out.type = Record::Type::kWork;
      out.plugin = from.number();
      out.number = from.number();
      out.thread = kStreamLanes + out.number;
      out.begin_ns = from.number();
      out.duration_ns = from.number();
      from.number();  // the kind
      out.text = from.text();
      return true;
    case RecordType::kEnd:
      from.number();
      lost_ = from.number();
      ended_ = true;
      return false;
  }
  return false;  // written by a later version of yoke
}

void Reader::read_begin(Decoder& from) {
  Unfinished begun;
  begun.plugin = from.number();
  begun.thread = from.number();
  begun.begin_ns = from.number();
  const std::uint64_t what = from.number();
  begun.text = from.text();
  begun.is_host_span = what == layers::kHostSpan;
  if (what >= layers::kFirstFunction) {
    const auto function = functions_.find(what - layers::kFirstFunction);
    if (function == functions_.end()) {
      throw Garbled("it begins a function that it does not describe");
    }
    begun.function = &function->second;
  }
  open_[{begun.plugin, begun.thread}].push_back(begun);
}

// The end of a span of the host also ends the plugin's spans in it.
bool Reader::end_span(Decoder& from, Record& out) {
  out.type = Record::Type::kSpan;
  out.plugin = from.number();
  out.thread = from.number();
  const std::uint64_t end_ns = from.number();
  const bool is_host_span = from.number() == layers::kHostSpan;
  auto& open = open_[{out.plugin, out.thread}];
  const auto last = std::find_if(open.rbegin(), open.rend(), [&](const Unfinished& one) {
    return one.function == nullptr && (one.is_host_span || !is_host_span);
  });
  if (last == open.rend() || last->is_host_span != is_host_span) {
    return false;  // the plugin ended a span that it did not begin
  }
  out.begin_ns = last->begin_ns;
  out.duration_ns = end_ns - std::min(end_ns, last->begin_ns);
  out.text = last->text;
  open.erase(std::next(last).base(), is_host_span ? open.end() : last.base());
  return true;
}

void Reader::end_call(const Record& call) {
  auto& open = open_[{call.plugin, call.thread}];
  const auto last = std::find_if(open.rbegin(), open.rend(), [&](const Unfinished& one) {
    return one.function == call.function && one.begin_ns == call.begin_ns;
  });
  if (last != open.rend()) {
    open.erase(std::next(last).base());
  }
}

std::vector<Unfinished> Reader::unfinished() const {
  std::vector<Unfinished> all;
  for (const auto& [thread, open] : open_) {
    all.insert(all.end(), open.begin(), open.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return all;
}

bool Reader::blob(const Hash& hash, std::span<const std::byte>& out) const {
  const auto found = blobs_.find(hash);
  if (found == blobs_.end()) {
    return false;
  }
  out = found->second;
  return true;
}

}  // namespace yoke::replay
