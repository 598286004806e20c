// SPDX-License-Identifier: Apache-2.0
// frontends/replay/arguments.cpp: rebuilds arguments, with one function per kind.
#include "replay/arguments.h"

#include <algorithm>
#include <cstring>

namespace yoke::replay {
namespace {

constexpr std::uint64_t kMostRowBytes = std::uint64_t{16} << 20U;
constexpr std::uint64_t kInfoBytes = 1024;  // larger than every info struct

std::uint64_t word_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

// Stores the elements until the call, and sets the words of the array, its count and its stride.
template <class T>
void set_array(const abi::Argument& argument, const std::vector<T>& elements, std::size_t i, Arguments& out) {
  const auto raw = std::as_bytes(std::span(elements));
  const auto& memory = out.memory.emplace_back(raw.begin(), raw.end());
  out.words[i] = elements.empty() ? 0 : word_of(memory.data());
  if (argument.count_argument >= 0) {
    out.words[static_cast<std::size_t>(argument.count_argument)] = elements.size();
  }
  if (argument.stride_argument >= 0) {
    out.words[static_cast<std::size_t>(argument.stride_argument)] = sizeof(T);
  }
}

yoke_option to_abi(const yoke::Option& given) {
  yoke_option option{};
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
  return option;
}

}  // namespace

// A stream that the replay did not create becomes NULL: the backend
// has no streams and finishes work in the call.
bool ArgumentBuilder::build_handle(const abi::Argument& argument, const Record& record, std::size_t i,
                                   Arguments& out) const {
  const std::uint64_t number = record.values[i].number;
  const auto found = handles_.find({record.plugin, number}, argument.kind);
  out.words[i] = found.value_or(0);
  return number == 0 || found || (argument.kind == Kind::kStream && argument.nullable);
}

bool ArgumentBuilder::build_info(const Value& value, std::size_t i, Arguments& out) const {
  const std::uint64_t size = value.bytes.empty() ? kInfoBytes : std::min(value.bytes.size(), kInfoBytes);
  auto& memory = out.memory.emplace_back(kInfoBytes);
  std::memcpy(memory.data(), &size, sizeof(size));
  out.words[i] = word_of(memory.data());
  return size >= sizeof(size);
}

bool ArgumentBuilder::build_rows(const abi::Argument& argument, const Record& record, std::size_t i,
                                 Arguments& out) const {
  const auto number = [&](std::int16_t of) {
    return of < 0 ? 1 : record.values[static_cast<std::size_t>(of)].number;
  };
  const std::uint64_t count = number(argument.count_argument);
  const std::uint64_t stride = number(argument.stride_argument);
  if (count == 0) {
    return true;
  }
  if (stride == 0 || count > kMostRowBytes / stride) {
    return false;
  }
  out.words[i] = word_of(out.memory.emplace_back(count * stride).data());
  return true;
}

void ArgumentBuilder::build_options(const abi::Argument& argument, const Value& value, std::size_t i,
                                    Arguments& out) const {
  out.options = keeps_options_ ? value.options : std::vector<yoke::Option>();
  std::vector<yoke_option> options(out.options.size());
  std::transform(out.options.begin(), out.options.end(), options.begin(), to_abi);
  set_array(argument, options, i, out);
}

bool ArgumentBuilder::build_bindings(const abi::Argument& argument, const Record& record, std::size_t i,
                                     Arguments& out) const {
  const auto& list = record.values[i].list;
  std::vector<yoke_binding> bindings;
  for (std::size_t k = 0; k + kBindingWords <= list.size(); k += kBindingWords) {
    const auto buffer = handles_.find({record.plugin, list[k]}, Kind::kBuffer);
    if (!buffer) {
      return false;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the backend's own pointer
    bindings.push_back({reinterpret_cast<yoke_buffer*>(*buffer), list[k + 1], list[k + 2], list[k + 3]});
  }
  set_array(argument, bindings, i, out);
  return true;
}

void ArgumentBuilder::build_text(const Value& value, std::size_t i, Arguments& out) const {
  auto& memory = out.memory.emplace_back(value.text.size() + 1);  // with a closing zero
  std::copy_n(reinterpret_cast<const std::byte*>(value.text.data()), value.text.size(), memory.begin());
  out.words[i] = word_of(memory.data());
}

// The source of a copy, or the pattern of a fill.
bool ArgumentBuilder::build_source(const abi::Row& row, const Record& record, std::size_t i,
                                   Arguments& out) const {
  const Value& value = record.values[i];
  std::span<const std::byte> contents;
  if (value.memory == Memory::kNone || reader_.blob(value.hash, contents)) {
    out.words[i] = word_of(contents.data());
    return contents.size() == value.byte_count;
  }
  if (row.function != Function::from_host) {
    return false;
  }
  const auto types = types_.find({record.plugin, record.values[1].number});
  auto& memory = out.memory.emplace_back(value.byte_count);
  make_up(memory, record.values[2].number, types == types_.end() ? Types() : types->second, value.hash.low);
  out.is_made_up = true;
  out.words[i] = word_of(memory.data());
  return true;
}

bool ArgumentBuilder::build_one(const abi::Row& row, const Record& record, std::size_t i,
                                Arguments& out) const {
  const Value& value = record.values[i];
  const abi::Argument& argument = row.arguments[i];
  std::span<const std::byte> contents;
  switch (argument.kind) {
    case Kind::kPlugin:
      out.words[i] = word_of(functions_.plugin());
      return true;
    case Kind::kNumber:
    case Kind::kStatus:
      return true;
    case Kind::kOpaque:
    case Kind::kCallback:
      return value.number == 0;
    case Kind::kOutNumber:
      out.words[i] = value.was_requested ? word_of(&out.outs[i]) : 0;
      return true;
    case Kind::kOutHandle:
      out.words[i] = word_of(&out.outs[i]);
      return true;
    case Kind::kOutInfo:
      return build_info(value, i, out);
    case Kind::kOutRows:
    case Kind::kOutText:
      return build_rows(argument, record, i, out);
    case Kind::kOptions:
      build_options(argument, value, i, out);
      return true;
    case Kind::kBindings:
    case Kind::kWorkspace:
      return build_bindings(argument, record, i, out);
    case Kind::kCollectives:
      return false;  // groups of the recorded process do not exist in another one
    case Kind::kSymbols:
      set_array(argument, value.list, i, out);
      return true;
    case Kind::kText:
      build_text(value, i, out);
      return true;
    case Kind::kProgramText:
      out.words[i] = reader_.blob(value.hash, contents) ? word_of(contents.data()) : 0;
      return out.words[i] != 0 && contents.size() == record.values[i + 1].number;
    case Kind::kSource:
      return build_source(row, record, i, out);
    case Kind::kTarget:
      out.target.resize(record.values[i + 1].number);
      out.words[i] = word_of(out.target.data());
      return true;
    default:
      return build_handle(argument, record, i, out);
  }
}

std::string ArgumentBuilder::build(const abi::Row& row, const Record& record, Arguments& out) const {
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    if (row.arguments[i].kind == Kind::kNumber) {  // before the arrays, which set their counts
      out.words[i] = record.values[i].number;
    }
  }
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const Kind kind = row.arguments[i].kind;
    if (!build_one(row, record, i, out)) {
      const bool is_object = abi::is_handle(kind) || kind == Kind::kBindings || kind == Kind::kWorkspace ||
                             kind == Kind::kCollectives;
      return is_object ? "an object that it uses was not created"
             : kind == Kind::kOpaque || kind == Kind::kCallback
                 ? "it refers to memory of the recorded process"
                 : "the trace lacks its " + std::string(row.arguments[i].name);
    }
  }
  if (row.function == Function::device_open || row.function == Function::device_describe) {
    std::uint32_t count = 0;
    const std::uint64_t words[] = {word_of(functions_.plugin()), word_of(&count), 0, 0};
    if (functions_.call(Function::device_count, words) == YOKE_STATUS_OK && count != 0) {
      out.words[row.find("ordinal")] %= count;  // the recorded machine may have had more devices
    }
  } else if (abi::is_wait(row.function)) {
    const auto most = static_cast<std::uint64_t>(options_.timeout.count());
    out.words[1] = record.code == YOKE_STATUS_OK ? most : std::min(out.words[1], most);
  }
  pack(row, out);
  return {};
}

void ArgumentBuilder::pack(const abi::Row& row, Arguments& out) {
  auto& args = out.memory.emplace_back(row.args_byte_count);
  const std::uint64_t size = args.size();
  std::copy_n(reinterpret_cast<const std::byte*>(&size), std::min(sizeof(size), args.size()), args.begin());
  for (std::size_t i = 0; i < row.argument_count; ++i) {
    const abi::Argument& argument = row.arguments[i];
    if (argument.field < 0) {
      out.parameters[argument.parameter] = out.words[i];
    } else {
      std::memcpy(args.data() + argument.field, &out.words[i], argument.byte_count);
      out.parameters[argument.parameter] = word_of(args.data());
    }
  }
}

}  // namespace yoke::replay
