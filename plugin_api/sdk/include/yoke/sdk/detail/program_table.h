// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/program_table.h: implements
// "yoke.program/1" with the classes of plugin.h.
#pragma once

#include <yoke/sdk/detail/guarded.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke::sdk::detail {

inline std::int32_t formats(yoke_plugin* plugin, std::uint32_t capacity, std::uint64_t stride,
                            yoke_format* rows, std::uint32_t* out_count, yoke_error* error) noexcept {
  if (plugin == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(state_of(plugin), error, [&] {
    write_rows(capacity, stride, rows, out_count, 1, [](std::size_t) {
      return yoke_format{YOKE_PROGRAM_FORMAT, YOKE_PROGRAM_VERSION, 0};
    });
  });
}

inline std::string_view text_of(const yoke_compile_args* args, const char* function) {
  const yoke_compile_args given = read_args(args, 0, function);
  const std::string_view format = given.format == nullptr ? "" : given.format;
  if (format != YOKE_PROGRAM_FORMAT || given.version != YOKE_PROGRAM_VERSION) {
    throw Failure(YOKE_STATUS_UNIMPLEMENTED, "the backend does not read the format '" + std::string(format) +
                                                 "' " + std::to_string(given.version) + "; it reads '" +
                                                 YOKE_PROGRAM_FORMAT + "' " +
                                                 std::to_string(YOKE_PROGRAM_VERSION));
  }
  if (given.text == nullptr && given.byte_count != 0) {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "text is NULL");
  }
  return {given.text, static_cast<std::size_t>(given.byte_count)};
}

inline std::int32_t can_compile(yoke_device* device, const yoke_compile_args* args, std::uint32_t capacity,
                                std::uint64_t stride, yoke_verdict* verdicts, std::uint32_t* out_count,
                                yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] {
    const std::vector<Verdict> found = device->object->can_compile(text_of(args, "can_compile"));
    write_rows(capacity, stride, verdicts, out_count, found.size(), [&](std::size_t i) {
      yoke_verdict to{};
      to.program = found[i].program;
      to.statement = found[i].statement;
      to.verdict = found[i].verdict;
      set_text(to.reason, found[i].reason);
      return to;
    });
  });
}

inline std::int32_t code_compile(yoke_device* device, const yoke_compile_args* args, yoke_code** out_code,
                                 yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(*device, error, [&] {
    present(out_code, "out_code");
    *out_code = new yoke_code(*device, text_of(args, "code_compile"));
  });
}

inline void code_destroy(yoke_code* code) noexcept {
  destroy(code);
}

inline std::int32_t code_entry_count(yoke_code* code, std::uint32_t* out_count, yoke_error* error) noexcept {
  if (code == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(code->plugin(), error, [&] {
    present(out_count, "out_count") = static_cast<std::uint32_t>(code->object->entries().size());
  });
}

inline const Entry& entry_at(const yoke_code& code, std::uint32_t entry) {
  const std::span<const Entry> entries = code.object->entries();
  if (entry >= entries.size()) {
    throw Failure(YOKE_STATUS_OUT_OF_RANGE, "the code has no entry " + std::to_string(entry) + ", only " +
                                                std::to_string(entries.size()));
  }
  return entries[entry];
}

inline std::int32_t code_describe(yoke_code* code, std::uint32_t entry, yoke_entry_info* info,
                                  yoke_error* error) noexcept {
  if (code == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(code->plugin(), error, [&] {
    present(info, "info");
    const Entry& from = entry_at(*code, entry);
    yoke_entry_info to{};
    set_text(to.name, from.name);
    to.argument_count = static_cast<std::uint32_t>(from.arguments.size());
    to.symbol_count = static_cast<std::uint32_t>(from.symbols.size());
    to.workspace_byte_count = from.workspace_byte_count;
    to.deterministic = from.deterministic ? 1 : 0;
    set_text(to.fingerprint, from.fingerprint);
    write_sized(to, info);
  });
}

inline std::int32_t code_argument(yoke_code* code, std::uint32_t entry, std::uint32_t argument,
                                  yoke_argument_info* info, yoke_error* error) noexcept {
  if (code == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(code->plugin(), error, [&] {
    present(info, "info");
    const Entry& of = entry_at(*code, entry);
    if (argument >= of.arguments.size()) {
      throw Failure(YOKE_STATUS_OUT_OF_RANGE, "program '" + of.name + "' has no argument " +
                                                  std::to_string(argument) + ", only " +
                                                  std::to_string(of.arguments.size()));
    }
    const Argument& from = of.arguments[argument];
    if (from.dims.size() > YOKE_MAX_RANK) {
      throw Failure(YOKE_STATUS_INTERNAL, "argument '" + from.name + "' has too many dimensions");
    }
    yoke_argument_info to{};
    set_text(to.name, from.name);
    to.type = from.type;
    to.access = from.access;
    to.rank = static_cast<std::uint32_t>(from.dims.size());
    to.alignment = from.alignment;
    std::copy(from.dims.begin(), from.dims.end(), to.dims);
    to.byte_count = from.byte_count;
    write_sized(to, info);
  });
}

// One range to bind, as checked by routine_link.
struct Bound {
  std::string name;  // "argument 'w'", "the workspace"
  yoke_buffer* buffer;
  std::uint64_t offset;
  std::uint64_t byte_count;
  std::uint32_t alignment;
  bool written;
};

inline void check_bound(const yoke_device& device, const Bound& bound) {
  if (bound.buffer == nullptr) {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT, bound.name + " has no buffer");
  }
  if ((bound.buffer->misalignment + bound.offset) % bound.alignment != 0) {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT,
                  bound.name + " is bound at byte " + std::to_string(bound.offset) +
                      ", which is not aligned to " + std::to_string(bound.alignment) + " bytes");
  }
  const yoke_device& home = bound.buffer->device();
  if (home.ordinal != device.ordinal && !device.object->peer_access(*home.object)) {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT, bound.name + " is memory of device " +
                                                    std::to_string(home.ordinal) + ", which device " +
                                                    std::to_string(device.ordinal) + " cannot access");
  }
}

inline void check_overlaps(std::span<const Bound> bounds) {
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    for (std::size_t j = i + 1; j < bounds.size(); ++j) {
      const Bound& a = bounds[i];
      const Bound& b = bounds[j];
      if ((a.written || b.written) && a.buffer == b.buffer && a.offset < b.offset + b.byte_count &&
          b.offset < a.offset + a.byte_count) {
        throw Failure(YOKE_STATUS_INVALID_ARGUMENT,
                      a.name + " and " + b.name + " overlap, and one of them is written");
      }
    }
  }
}

// Checks that the range of a binding is at least as large as the argument.
inline Bound bound_of(std::string name, const yoke_binding& binding, std::uint64_t byte_count,
                      std::uint32_t alignment, bool written) {
  check_flags(binding.flags, 0, "routine_link");
  if (binding.byte_count < byte_count) {
    throw Failure(YOKE_STATUS_OUT_OF_RANGE, name + " needs " + std::to_string(byte_count) +
                                                " bytes; its binding has " +
                                                std::to_string(binding.byte_count));
  }
  if (binding.buffer != nullptr) {
    check_range(name.c_str(), binding.offset, binding.byte_count, binding.buffer->byte_count);
  }
  return {std::move(name), binding.buffer, binding.offset, byte_count, alignment, written};
}

inline std::int32_t routine_link(yoke_code* code, const yoke_link_args* args, yoke_routine** out_routine,
                                 yoke_error* error) noexcept {
  if (code == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(code->device(), error, [&] {
    present(out_routine, "out_routine");
    const yoke_link_args given = read_args(args, 0, "routine_link");
    const Entry& of = entry_at(*code, given.entry);
    if (given.binding_count != of.arguments.size()) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT,
                    "program '" + of.name + "' has " + std::to_string(of.arguments.size()) +
                        " arguments; got " + std::to_string(given.binding_count) + " bindings");
    }
    std::vector<Bound> bounds;
    std::vector<Binding> memory;
    for (std::uint32_t i = 0; i < given.binding_count; ++i) {
      const Argument& argument = of.arguments[i];
      const yoke_binding binding = read_row(&present(given.bindings, "bindings"), given.binding_stride, i);
      bounds.push_back(bound_of("argument '" + argument.name + "' of program '" + of.name + "'", binding,
                                argument.byte_count, argument.alignment, argument.access != YOKE_ACCESS_IN));
      check_bound(code->device(), bounds.back());
      memory.push_back({binding.buffer->object.get(), binding.offset});
    }
    Binding workspace;
    if (of.workspace_byte_count != 0) {
      const yoke_binding binding = read_row(&present(given.workspace, "workspace"), given.binding_stride, 0);
      bounds.push_back(bound_of("the workspace of program '" + of.name + "'", binding,
                                of.workspace_byte_count, YOKE_BUFFER_ALIGNMENT, true));
      check_bound(code->device(), bounds.back());
      workspace = {binding.buffer->object.get(), binding.offset};
    }
    check_overlaps(bounds);
    *out_routine = new yoke_routine(*code, given.entry, memory, workspace);
  });
}

inline void routine_destroy(yoke_routine* routine) noexcept {
  destroy(routine);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void symbol_failure(const SymbolRange& symbol,
                                                                  std::int64_t value) {
  throw Failure(YOKE_STATUS_OUT_OF_RANGE, "symbol '" + symbol.name + "' is " + std::to_string(value) +
                                              "; its range is " + std::to_string(symbol.low) + ".." +
                                              std::to_string(symbol.high) + " step " +
                                              std::to_string(symbol.step));
}

inline void check_symbols(std::span<const SymbolRange> symbols, std::span<const std::int64_t> values) {
  if (values.size() != symbols.size()) [[unlikely]] {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT,
                  "the routine has " + std::to_string(symbols.size()) +
                      (symbols.size() == 1 ? " symbol; got " : " symbols; got ") +
                      std::to_string(values.size()) + (values.size() == 1 ? " value" : " values"));
  }
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const SymbolRange& symbol = symbols[i];
    // Unsigned, because the distance from low to high may not fit in an int64_t.
    const std::uint64_t distance =
        static_cast<std::uint64_t>(values[i]) - static_cast<std::uint64_t>(symbol.low);
    if (values[i] < symbol.low || values[i] >= symbol.high ||
        (symbol.step != 1 && distance % static_cast<std::uint64_t>(symbol.step) != 0)) [[unlikely]] {
      symbol_failure(symbol, values[i]);
    }
  }
}

inline std::int32_t routine_launch(yoke_stream* stream, yoke_routine* routine,
                                   const std::int64_t* symbol_values, std::uint32_t symbol_count,
                                   yoke_error* error) noexcept {
  if (routine == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(routine->device(), error, [&] {
    if (symbol_count != 0) {
      present(symbol_values, "symbol_values");
    }
    const std::span<const std::int64_t> values(symbol_values, symbol_count);
    check_symbols(routine->symbols, values);
    Stream* queue = stream_for(stream, routine->device());
    if (!fault_strikes(routine->device(), queue, YOKE_FAULT_LAUNCH)) [[likely]] {
      profiled(routine->device(), stream, queue, YOKE_WORK_LAUNCH, routine->name,
               [&] { routine->object->launch(queue, values); });
    }
  });
}

inline constexpr yoke_program_api kProgramTable = {
    .struct_size = sizeof(yoke_program_api),
    .formats = formats,
    .can_compile = can_compile,
    .code_compile = code_compile,
    .code_destroy = code_destroy,
    .code_entry_count = code_entry_count,
    .code_describe = code_describe,
    .code_argument = code_argument,
    .routine_link = routine_link,
    .routine_destroy = routine_destroy,
    .routine_launch = routine_launch,
};

}  // namespace yoke::sdk::detail
