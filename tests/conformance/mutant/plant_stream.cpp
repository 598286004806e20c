// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/plant_stream.cpp: bugs of the tables of streams, programs and routines.
#include <yoke/sdk/detail/program_table.h>
#include <yoke/sdk/detail/stream_table.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bug.h"
#include "program.h"
#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

// A routine linked without a look at what it is given.
std::int32_t link_unchecked(yoke_code* code, std::uint32_t entry, const yoke_binding* bindings,
                            std::uint32_t binding_count, yoke_buffer* workspace,
                            std::uint64_t workspace_offset, yoke_routine** out_routine) {
  std::vector<sdk::Binding> memory;
  for (std::uint32_t i = 0; i < binding_count; ++i) {
    memory.push_back({bindings[i].buffer->object.get(), bindings[i].offset});
  }
  sdk::Binding scratch;
  if (workspace != nullptr) {
    scratch = {workspace->object.get(), workspace_offset};
  }
  *out_routine = new yoke_routine(*code, entry, memory, scratch);
  return YOKE_OK;
}

// Links as the SDK does, and once more without checks where that answers `kForgiven` for `kWhy`.
template <std::int32_t kForgiven, BugName kWhy>
std::int32_t link_forgiving(yoke_code* code, std::uint32_t entry, const yoke_binding* bindings,
                            std::uint32_t binding_count, yoke_buffer* workspace,
                            std::uint64_t workspace_offset, yoke_routine** out_routine, yoke_error* error) {
  std::string text;
  try {
    const auto entries = code->object->entries();
    const std::int32_t first = detail::routine_link(code, entry, bindings, binding_count, workspace,
                                                    workspace_offset, out_routine, nullptr);
    const bool could = entry < entries.size() && binding_count == entries[entry].arguments.size() &&
                       bindings != nullptr &&
                       std::all_of(bindings, bindings + binding_count,
                                   [](const yoke_binding& binding) { return binding.buffer != nullptr; });
    if (first != kForgiven || !could) {
      return first == YOKE_OK ? first
                              : detail::routine_link(code, entry, bindings, binding_count, workspace,
                                                     workspace_offset, out_routine, error);
    }
    return link_unchecked(code, entry, bindings, binding_count, workspace, workspace_offset, out_routine);
  } catch (...) {
    return detail::caught(code->plugin().host, error);
  }
}

}  // namespace

void plant_in_stream(yoke_stream_api& table) {
  if (on<"debug_text_overruns_capacity">()) {
    table.stream_debug_text = [](yoke_stream* stream, char* text, std::uint64_t capacity, yoke_error*) {
      const std::string full = stream->object->debug_text();
      if (capacity != 0) {
        std::memcpy(text, full.c_str(), std::min<std::size_t>(full.size(), capacity) + 1);
      }
      return std::int32_t{YOKE_OK};
    };
  }
  if (on<"events_are_leaked">()) {
    table.event_destroy = [](yoke_event*) {};
  }
  if (on<"record_answers_ok_with_null">()) {
    table.event_record = [](yoke_stream*, yoke_event** out_event, yoke_error*) {
      *out_event = nullptr;
      return std::int32_t{YOKE_OK};
    };
  }
  if (on<"event_query_writes_no_answer">()) {
    table.event_query = [](yoke_event* event, std::int32_t*, yoke_error* error) {
      std::int32_t done = 0;
      return detail::event_query(event, &done, error);
    };
  }
  if (on<"stream_destroy_crashes_on_null">()) {
    table.stream_destroy = [](yoke_stream* stream) {
      const volatile bool there = stream->object != nullptr;
      (void)there;
      detail::stream_destroy(stream);
    };
  }
}

void plant_in_program(yoke_program_api& table) {
  if (on<"arguments_are_in_wrong_order">()) {
    table.code_argument = [](yoke_code* code, std::uint32_t entry, std::uint32_t argument,
                             yoke_argument_info* info, yoke_error* error) {
      const auto entries = code->object->entries();
      const std::size_t count = entry < entries.size() ? entries[entry].arguments.size() : 0;
      const std::uint32_t other = count >= 2 && argument < 2 ? 1 - argument : argument;
      return detail::code_argument(code, entry, other, info, error);
    };
  }
  if (on<"argument_byte_count_counts_elements">()) {
    table.code_argument = [](yoke_code* code, std::uint32_t entry, std::uint32_t argument,
                             yoke_argument_info* info, yoke_error* error) {
      const std::int32_t code_of = detail::code_argument(code, entry, argument, info, error);
      if (code_of == YOKE_OK) {
        info->byte_count /= code->object->entries()[entry].arguments[argument].alignment;
      }
      return code_of;
    };
  }
  if (on<"workspace_is_not_told">()) {
    table.code_describe = [](yoke_code* code, std::uint32_t entry, yoke_entry_info* info, yoke_error* error) {
      const std::int32_t code_of = detail::code_describe(code, entry, info, error);
      if (code_of == YOKE_OK) {
        info->workspace_byte_count /= 2;
      }
      return code_of;
    };
  }
  if (on<"invalid_text_has_wrong_code">()) {
    table.code_compile = [](yoke_device* device, const yoke_program_text* text, yoke_code** out_code,
                            yoke_error* error) {
      const std::int32_t code = detail::code_compile(device, text, out_code, nullptr);
      return code == YOKE_INVALID_ARGUMENT
                 ? device->plugin.host.report(error, YOKE_INTERNAL, "the compiler failed")
                 : code;
    };
  }
  if (on<"code_takes_its_routines_along">()) {
    table.code_destroy = [](yoke_code* code) {
      if (code != nullptr) {
        static_cast<Code&>(*code->object).forget();
      }
      detail::code_destroy(code);
    };
  }
}

void plant_in_routine(yoke_program_api& table) {
  if (on<"link_takes_small_buffers">()) {
    table.routine_link = link_forgiving<YOKE_OUT_OF_RANGE, "link_takes_small_buffers">;
  }
  if (on<"link_takes_overlaps">()) {
    table.routine_link = link_forgiving<YOKE_INVALID_ARGUMENT, "link_takes_overlaps">;
  }
  if (on<"symbol_range_is_not_checked">()) {
    table.routine_launch = [](yoke_stream* stream, yoke_routine* routine, const std::int64_t* values,
                              std::uint32_t count, yoke_error* error) {
      std::vector<std::int64_t> kept(values, values + count);
      for (std::uint32_t i = 0; i < count && i < routine->symbols.size(); ++i) {
        // To read outside of the buffers would crash here.
        const sdk::SymbolRange& range = routine->symbols[i];
        const bool is_inside =
            kept[i] >= range.low && kept[i] < range.high && (kept[i] - range.low) % range.step == 0;
        kept[i] = is_inside ? kept[i] : range.low;
      }
      return detail::routine_launch(stream, routine, kept.data(), count, error);
    };
  }
  if (on<"routine_answers_ok_with_null">()) {
    table.routine_link = [](yoke_code*, std::uint32_t, const yoke_binding*, std::uint32_t, yoke_buffer*,
                            std::uint64_t, yoke_routine**, yoke_error*) { return std::int32_t{YOKE_OK}; };
  }
}

}  // namespace yoke::mutant
