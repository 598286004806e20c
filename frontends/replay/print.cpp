// SPDX-License-Identifier: Apache-2.0
// frontends/replay/print.cpp: prints a trace as text, or as JSON for trace viewers.
#include <yoke/runtime/counted.h>

#include <cinttypes>
#include <cstdio>
#include <set>
#include <utility>

#include "replay/trace.h"

namespace yoke::replay {
namespace {

template <class... Numbers>
std::string format(const char* pattern, Numbers... numbers) {
  char text[128];
  std::snprintf(text, sizeof(text), pattern, numbers...);
  return text;
}

double microseconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

std::string hex(const Hash& hash) {
  return format("%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}

std::string handle_text(Kind kind, std::uint64_t number, const char* missing) {
  return number == 0 ? missing : std::string(abi::kind_name(kind)) + " " + std::to_string(number);
}

std::string option_text(const Option& option) {
  if (const auto* flag = std::get_if<bool>(&option.value)) {
    return option.name + (*flag ? "=1" : "=0");
  }
  if (const auto* integer = std::get_if<std::int64_t>(&option.value)) {
    return option.name + "=" + std::to_string(*integer);
  }
  if (const auto* number = std::get_if<double>(&option.value)) {
    return option.name + "=" + std::to_string(*number);
  }
  return option.name + "=" + std::get<std::string>(option.value);
}

std::string options_text(const std::vector<Option>& options) {
  std::string text = "[";
  for (const Option& option : options) {
    text += (text.size() == 1 ? "" : ", ") + option_text(option);
  }
  return text + "]";
}

std::string list_text(const Value& value, std::size_t words) {
  std::string text = "[";
  for (std::size_t i = 0; i + words <= value.list.size(); i += words) {
    text += i == 0 ? "" : ", ";
    text += words == 1 ? std::to_string(static_cast<std::int64_t>(value.list[i]))
                       : "buffer " + std::to_string(value.list[i]) + "+" + std::to_string(value.list[i + 1]) +
                             ":" + std::to_string(value.list[i + 2]);
  }
  return text + "]";
}

std::string memory_text(const Value& value) {
  if (value.memory == Memory::kNone) {
    return "NULL";
  }
  return "<" + detail::counted(value.byte_count, "byte") +
         (value.memory == Memory::kHere ? " " + hex(value.hash) : " later") + ">";
}

std::string value_text(const RecordedFunction::Argument& argument, const Value& value) {
  switch (argument.kind) {
    case Kind::kOutNumber:
      return value.was_written ? std::to_string(value.number) : "?";
    case Kind::kOutHandle:
      return handle_text(argument.makes, value.number, "?");
    case Kind::kOutInfo:
    case Kind::kOutRows:
      return "<" + detail::counted(value.bytes.size(), "byte") + ">";
    case Kind::kText:
    case Kind::kOutText:
      return "\"" + std::string(value.text) + "\"";
    case Kind::kOptions:
      return options_text(value.options);
    case Kind::kBindings:
    case Kind::kWorkspace:
      return list_text(value, kBindingWords);
    case Kind::kCollectives:
      return list_text(value, kCollectiveWords);
    case Kind::kSymbols:
      return list_text(value, 1);
    case Kind::kProgramText:
      return "<" + hex(value.hash) + ">";
    case Kind::kSource:
    case Kind::kTarget:
      return memory_text(value);
    case Kind::kNumber:
      return std::to_string(static_cast<std::int64_t>(value.number));
    case Kind::kOpaque:
    case Kind::kCallback:
      return value.number == 0 ? "NULL" : format("0x%" PRIx64, value.number);
    default:
      return handle_text(argument.kind, value.number, "NULL");
  }
}

std::string code_text(std::int32_t code) {
  return code >= 0 && code <= YOKE_STATUS_OUT_OF_DEVICE_MEMORY ? code_name(static_cast<ErrorCode>(code))
                                                               : std::to_string(code);
}

void print_call(const Record& record, std::ostream& out) {
  out << "#" << record.number << " " << record.function->name << "(";
  const char* separator = "";
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const auto& argument = record.function->arguments[i];
    if (argument.kind != Kind::kPlugin) {
      out << separator << argument.name << "=" << value_text(argument, record.values[i]);
      separator = ", ";
    }
  }
  out << ") = " << code_text(record.code);
  if (!record.text.empty()) {
    out << " \"" << record.text << "\"";
  }
}

// Quotes a JSON string. Control characters become '?'.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return result + "\"";
}

// Prints a call or span as an event for trace viewers, without the closing brace.
void begin_event(char phase, std::uint64_t plugin, std::uint64_t thread, std::uint64_t begin_ns, bool is_call,
                 std::string_view name, std::ostream& out) {
  out << R"({"ph": ")" << phase << R"(", "pid": )" << plugin << R"(, "tid": )" << thread << R"(, "ts": )"
      << format("%.3f", microseconds(begin_ns)) << R"(, "cat": )" << (is_call ? R"("call")" : R"("plugin")")
      << R"(, "name": )" << quoted(name);
}

void write_event(const Record& record, std::ostream& out) {
  if (record.type == Record::Type::kPlugin) {
    out << R"({"ph": "M", "name": "process_name", "pid": )" << record.plugin << R"(, "args": {"name": )"
        << quoted(record.text) << "}}";
    return;
  }
  const bool is_call = record.type == Record::Type::kCall;
  begin_event('X', record.plugin, record.thread, record.begin_ns, is_call,
              is_call ? std::string_view(record.function->name) : record.text, out);
  out << R"(, "dur": )" << format("%.3f", microseconds(record.duration_ns));
  if (is_call) {
    out << R"(, "args": {"call": )" << record.number << R"(, "result": )" << quoted(code_text(record.code));
    for (std::size_t i = 0; i < record.values.size(); ++i) {
      const auto& argument = record.function->arguments[i];
      out << ", " << quoted(argument.name) << ": " << quoted(value_text(argument, record.values[i]));
    }
    out << "}";
  }
  out << "}";
}

}  // namespace

void print(std::span<const std::byte> file, std::ostream& out) {
  Reader reader(file);
  Record record;
  out << "# process " << reader.process() << ", data " << (reader.has_data() ? "yes" : "no")
      << "; columns: thread, begin in us, duration in us\n";
  while (reader.next(record)) {
    const std::string head = format("t%-3" PRIu64 " %12.1f %10.1f  ", record.thread,
                                    microseconds(record.begin_ns), microseconds(record.duration_ns));
    switch (record.type) {
      case Record::Type::kPlugin:
        out << "plugin " << record.plugin << " is '" << record.text << "'";
        break;
      case Record::Type::kContent:
        out << "    contents of call #" << record.number << ": " << hex(record.hash);
        break;
      case Record::Type::kSpan:
        out << head << "span " << record.text;
        break;
      case Record::Type::kWork:
        out << format("s%-3" PRIu64 " %12.1f %10.1f  ", record.number, microseconds(record.begin_ns),
                      microseconds(record.duration_ns))
            << "device " << record.text;
        break;
      case Record::Type::kLog:
        out << head << "log level=" << record.level << " " << record.text;
        break;
      case Record::Type::kCall:
        out << head;
        print_call(record, out);
        break;
    }
    out << '\n';
  }
  for (const Unfinished& one : reader.unfinished()) {
    out << format("t%-3" PRIu64 " %12.1f %10s  ", one.thread, microseconds(one.begin_ns), "-")
        << "never returned: " << one.name() << " of plugin " << one.plugin << '\n';
  }
  if (reader.lost() != 0) {
    out << "# " << detail::counted(reader.lost(), "record") << " could not be written\n";
  }
  if (!reader.cut().empty()) {
    out << "# incomplete: " << reader.cut() << '\n';
  }
}

void write_chrome(std::span<const std::byte> file, std::ostream& out) {
  Reader reader(file);
  Record record;
  out << R"({"displayTimeUnit": "ns", "traceEvents": [)";
  const char* separator = "\n";
  std::set<std::pair<std::uint64_t, std::uint64_t>> lanes;  // of streams that have a name
  while (reader.next(record)) {
    if (record.type == Record::Type::kWork && lanes.insert({record.plugin, record.thread}).second) {
      out << std::exchange(separator, ",\n") << R"({"ph": "M", "name": "thread_name", "pid": )"
          << record.plugin << R"(, "tid": )" << record.thread << R"(, "args": {"name": "stream )"
          << record.number << R"("}})";
    }
    if (record.type != Record::Type::kContent && record.type != Record::Type::kLog) {
      out << std::exchange(separator, ",\n");
      write_event(record, out);
    }
  }
  for (const Unfinished& one : reader.unfinished()) {
    out << std::exchange(separator, ",\n");
    begin_event('B', one.plugin, one.thread, one.begin_ns, one.function != nullptr, one.name(), out);
    out << "}";
  }
  out << "\n]}\n";
}

}  // namespace yoke::replay
