// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_text.cpp: a trace as lines for people, and as the JSON that trace viewers take.
#include <yoke/runtime/trace.h>

#include <cinttypes>
#include <cstdio>

#include "layers/functions.h"

namespace yoke {
namespace {

using layers::Kind;

std::string hex(const TraceHash& hash) {
  char text[40];
  std::snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
  return text;
}

std::string option_text(const Option& option) {
  std::string text = option.name + "=";
  if (const auto* flag = std::get_if<bool>(&option.value)) {
    text += *flag ? "1" : "0";
  } else if (const auto* integer = std::get_if<std::int64_t>(&option.value)) {
    text += std::to_string(*integer);
  } else if (const auto* number = std::get_if<double>(&option.value)) {
    text += std::to_string(*number);
  } else {
    text += std::get<std::string>(option.value);
  }
  return text;
}

std::string memory_text(const TraceValue& value) {
  if (value.memory == 0) {
    return "NULL";
  }
  return "<" + std::to_string(value.byte_count) + " bytes" +
         (value.memory == 1 ? " " + hex(value.hash) : " later") + ">";
}

std::string list_text(const TraceValue& value, std::size_t words) {
  std::string text = "[";
  for (std::size_t i = 0; i + words <= value.list.size(); i += words) {
    text += i == 0 ? "" : ", ";
    text += words == 2 ? "buffer " + std::to_string(value.list[i]) + "+" + std::to_string(value.list[i + 1])
                       : std::to_string(static_cast<std::int64_t>(value.list[i]));
  }
  return text + "]";
}

std::string value_text(const TraceFunction::Argument& argument, const TraceValue& value) {
  const auto kind = static_cast<Kind>(argument.kind);
  switch (kind) {
    case Kind::kOutNumber:
      return value.was_written ? std::to_string(value.number) : "?";
    case Kind::kOutHandle:
      return value.number == 0 ? "?"
                               : std::string(layers::kind_name(static_cast<Kind>(argument.makes))) + " " +
                                     std::to_string(value.number);
    case Kind::kOutInfo:
    case Kind::kOutRows:
      return "<" + std::to_string(value.bytes.size()) + " bytes>";
    case Kind::kOutText:
      return "\"" + std::string(value.text) + "\"";
    case Kind::kOptions: {
      std::string text = "[";
      for (const Option& option : value.options) {
        text += (text.size() == 1 ? "" : ", ") + option_text(option);
      }
      return text + "]";
    }
    case Kind::kBindings:
      return list_text(value, 2);
    case Kind::kSymbols:
      return list_text(value, 1);
    case Kind::kProgramText:
      return "<" + std::string(value.text) + " " + std::to_string(value.number) + ", " +
             std::to_string(value.byte_count) + " bytes " + hex(value.hash) + ">";
    case Kind::kSource:
    case Kind::kTarget:
      return memory_text(value);
    case Kind::kNumber:
      return std::to_string(static_cast<std::int64_t>(value.number));
    default:
      return value.number == 0 ? "NULL"
                               : std::string(layers::kind_name(kind)) + " " + std::to_string(value.number);
  }
}

std::string code_text(std::int32_t code) {
  const char* const name = code_name(static_cast<ErrorCode>(code));
  return code >= 0 && code <= YOKE_OUT_OF_DEVICE_MEMORY ? name : std::to_string(code);
}

void print_call(const TraceRecord& record, std::ostream& out) {
  out << "#" << record.number << " " << record.function->name << "(";
  bool is_first = true;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const auto& argument = record.function->arguments[i];
    if (static_cast<Kind>(argument.kind) == Kind::kPlugin) {
      continue;
    }
    out << (is_first ? "" : ", ") << argument.name << "=" << value_text(argument, record.values[i]);
    is_first = false;
  }
  out << ") = " << code_text(record.code);
  if (!record.text.empty()) {
    out << " \"" << record.text << "\"";
  }
}

// JSON's string; what is no plain ASCII becomes '?': names are ASCII, and texts are for the eye.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else {
      result += c < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return result + "\"";
}

}  // namespace

void print_trace(std::span<const std::byte> file, std::ostream& out) {
  TraceReader reader(file);
  TraceRecord record;
  out << "# process " << reader.process() << ", data " << (reader.has_data() ? "yes" : "no")
      << "; columns: thread, begin in us, duration in us\n";
  while (reader.next(record)) {
    char head[80];
    std::snprintf(head, sizeof(head), "t%-3" PRIu64 " %12.1f %10.1f  ", record.thread,
                  static_cast<double>(record.begin_ns) / 1e3, static_cast<double>(record.duration_ns) / 1e3);
    switch (record.type) {
      case TraceRecord::Type::kPlugin:
        out << "plugin " << record.plugin << " is '" << record.text << "'";
        break;
      case TraceRecord::Type::kContent:
        out << "    contents of call #" << record.number << ": " << hex(record.hash);
        break;
      case TraceRecord::Type::kSpan:
        out << head << "span " << record.text;
        break;
      case TraceRecord::Type::kLog:
        out << head << "log level=" << record.level << " " << record.text;
        break;
      case TraceRecord::Type::kCall:
        out << head;
        print_call(record, out);
        break;
    }
    out << '\n';
  }
  for (const TraceUnfinished& one : reader.unfinished()) {
    char head[80];
    std::snprintf(head, sizeof(head), "t%-3" PRIu64 " %12.1f %10s  ", one.thread,
                  static_cast<double>(one.begin_ns) / 1e3, "-");
    out << head << "never returned: " << one.name() << " of plugin " << one.plugin << '\n';
  }
  if (!reader.cut().empty()) {
    out << "# cut: " << reader.cut() << '\n';
  }
}

void write_chrome_trace(std::span<const std::byte> file, std::ostream& out) {
  TraceReader reader(file);
  TraceRecord record;
  out << "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
  bool is_first = true;
  while (reader.next(record)) {
    const bool is_call = record.type == TraceRecord::Type::kCall;
    const bool is_named = record.type == TraceRecord::Type::kPlugin;
    if (!is_call && !is_named && record.type != TraceRecord::Type::kSpan) {
      continue;
    }
    out << (is_first ? "\n" : ",\n");
    is_first = false;
    if (is_named) {
      out << R"({"ph": "M", "name": "process_name", "pid": )" << record.plugin << R"(, "args": {"name": )"
          << quoted(record.text) << "}}";
      continue;
    }
    char times[96];
    std::snprintf(times, sizeof(times), "\"ts\": %.3f, \"dur\": %.3f",
                  static_cast<double>(record.begin_ns) / 1e3, static_cast<double>(record.duration_ns) / 1e3);
    out << R"({"ph": "X", "pid": )" << record.plugin << ", \"tid\": " << record.thread << ", " << times
        << ", \"cat\": " << (is_call ? "\"call\"" : "\"plugin\"")
        << ", \"name\": " << quoted(is_call ? record.function->name : std::string(record.text));
    if (is_call) {
      out << ", \"args\": {\"call\": " << record.number << ", \"result\": " << quoted(code_text(record.code));
      for (std::size_t i = 0; i < record.values.size(); ++i) {
        out << ", " << quoted(record.function->arguments[i].name) << ": "
            << quoted(value_text(record.function->arguments[i], record.values[i]));
      }
      out << "}";
    }
    out << "}";
  }
  for (const TraceUnfinished& one : reader.unfinished()) {
    char time[48];
    std::snprintf(time, sizeof(time), "%.3f", static_cast<double>(one.begin_ns) / 1e3);
    out << (is_first ? "\n" : ",\n") << R"({"ph": "B", "pid": )" << one.plugin << ", \"tid\": " << one.thread
        << ", \"ts\": " << time << ", \"cat\": " << (one.function != nullptr ? "\"call\"" : "\"plugin\"")
        << ", \"name\": " << quoted(one.name()) << "}";
    is_first = false;
  }
  out << "\n]}\n";
}

}  // namespace yoke
