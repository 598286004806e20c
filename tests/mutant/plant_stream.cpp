// SPDX-License-Identifier: Apache-2.0
// tests/mutant/plant_stream.cpp: bugs in the tables of streams, programs and routines.
#include <yoke/sdk/detail/program_table.h>
#include <yoke/sdk/detail/stream_table.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "program.h"
#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

// Links as the SDK does. If the SDK fails with `kForgiven`, links without checks.
template <std::int32_t kForgiven>
std::int32_t link_forgiving(yoke_code* code, const yoke_link_args* args, yoke_routine** out_routine,
                            yoke_error* error) {
  const std::int32_t first = detail::routine_link(code, args, out_routine, error);
  const auto entries = code->object->entries();
  const bool could = args->entry < entries.size() &&
                     args->binding_count == entries[args->entry].arguments.size() &&
                     std::all_of(args->bindings, args->bindings + args->binding_count,
                                 [](const yoke_binding& binding) { return binding.buffer != nullptr; });
  if (first != kForgiven || !could) {
    return first;
  }
  std::vector<sdk::Binding> memory;
  for (std::uint32_t i = 0; i < args->binding_count; ++i) {
    memory.push_back({args->bindings[i].buffer->object.get(), args->bindings[i].offset});
  }
  const yoke_binding* workspace = args->workspace;
  const sdk::Binding scratch = workspace == nullptr || workspace->buffer == nullptr
                                   ? sdk::Binding()
                                   : sdk::Binding{workspace->buffer->object.get(), workspace->offset};
  *out_routine = new yoke_routine(*code, args->entry, memory, scratch);
  return YOKE_STATUS_OK;
}

}  // namespace

void plant_in_stream(yoke_stream_api& table) {
  plant<"debug_text_overruns_capacity">(
      table.stream_debug_text, [](auto* stream, auto* text, auto capacity, auto*) {
        const std::string full = stream->object->debug_text();
        if (capacity != 0) {
          std::memcpy(text, full.c_str(), std::min<std::size_t>(full.size(), capacity) + 1);
        }
        return std::int32_t{YOKE_STATUS_OK};
      });
  plant_before<"unknown_flags_are_ignored", detail::event_record>(
      table.event_record, [](auto& args) { args.flags &= YOKE_EVENT_TIMING; });
  plant<"longer_structs_are_refused">(
      table.stream_create, [](auto* device, auto* args, auto** out_stream, auto* error) {
        return args->struct_size == sizeof *args
                   ? detail::stream_create(device, args, out_stream, error)
                   : device->plugin.host.report(error, YOKE_STATUS_INVALID_ARGUMENT, "wrong struct_size");
      });
  plant<"events_without_timing_have_times">(
      table.event_elapsed, [](auto* start, auto* stop, auto* out_ns, auto* error) {
        return detail::guarded(stop->plugin(), error,
                               [&] { *out_ns = stop->object->elapsed_since(*start->object); });
      });
  plant<"event_query_writes_no_result">(table.event_query, [](auto* event, auto*, auto* error) {
    std::int32_t state = 0;
    return detail::event_query(event, &state, error);
  });
}

void plant_in_program(yoke_program_api& table) {
  plant<"arguments_are_in_wrong_order">(table.code_argument, [](auto* code, auto entry, auto argument,
                                                                auto... rest) {
    const auto entries = code->object->entries();
    const std::size_t count = entry < entries.size() ? entries[entry].arguments.size() : 0;
    return detail::code_argument(code, entry, count >= 2 && argument < 2 ? 1 - argument : argument, rest...);
  });
  plant_after<"argument_byte_count_counts_elements", detail::code_argument>(
      table.code_argument, [](auto* code, auto entry, auto argument, auto* info, auto*) {
        info->byte_count /= code->object->entries()[entry].arguments[argument].alignment;
      });
  plant_after<"stated_alignment_is_not_checked", detail::code_argument>(
      table.code_argument, [](auto*, auto, auto, auto* info, auto*) { info->alignment = 64; });
  plant_after<"long_names_are_cut", detail::code_describe>(
      table.code_describe, [](auto*, auto, auto* info, auto*) { info->name[YOKE_NAME_CAPACITY / 2] = '\0'; });
  plant<"verdict_stride_is_ignored">(
      table.can_compile, [](auto* device, auto* args, auto capacity, auto, auto... rest) {
        return detail::can_compile(device, args, capacity, sizeof(yoke_verdict), rest...);
      });
  plant_after<"workspace_size_is_halved", detail::code_describe>(
      table.code_describe, [](auto*, auto, auto* info, auto*) { info->workspace_byte_count /= 2; });
  plant<"invalid_text_has_wrong_code">(
      table.code_compile, [](auto* device, auto* text, auto** out_code, auto* error) {
        const std::int32_t code = detail::code_compile(device, text, out_code, nullptr);
        return code == YOKE_STATUS_INVALID_ARGUMENT
                   ? device->plugin.host.report(error, YOKE_STATUS_INTERNAL, "the compiler failed")
                   : code;
      });
  plant<"code_destroy_breaks_routines">(table.code_destroy, [](auto* code) {
    if (code != nullptr) {
      static_cast<Code&>(*code->object).forget();
    }
    detail::code_destroy(code);
  });
}

void plant_in_routine(yoke_program_api& table) {
  plant<"link_takes_small_buffers">(table.routine_link, link_forgiving<YOKE_STATUS_OUT_OF_RANGE>);
  plant<"link_takes_overlaps">(table.routine_link, link_forgiving<YOKE_STATUS_INVALID_ARGUMENT>);
  plant<"flags_of_bindings_are_ignored">(table.routine_link, [](auto* code, auto* args, auto... rest) {
    std::vector<yoke_binding> bindings;
    for (std::uint32_t i = 0; i < args->binding_count; ++i) {
      bindings.push_back(sdk::read_row(args->bindings, args->binding_stride, i));
      bindings.back().flags = 0;
    }
    yoke_link_args changed = *args;
    changed.bindings = bindings.data();
    changed.binding_stride = sizeof(yoke_binding);
    return detail::routine_link(code, &changed, rest...);
  });
  plant_before<"binding_stride_is_ignored", detail::routine_link>(
      table.routine_link, [](auto& args) { args.binding_stride = sizeof(yoke_binding); });
  plant<"workspace_may_be_misaligned">(table.routine_link, [](auto* code, auto* args, auto... rest) {
    yoke_link_args changed = *args;
    yoke_binding workspace = args->workspace == nullptr ? yoke_binding{} : *args->workspace;
    workspace.offset -= workspace.offset % YOKE_BUFFER_ALIGNMENT;
    changed.workspace = args->workspace == nullptr ? nullptr : &workspace;
    return detail::routine_link(code, &changed, rest...);
  });
  // Replaces an invalid value by a valid one, because reading out of range would crash.
  plant<"symbol_range_is_not_checked">(
      table.routine_launch, [](auto* stream, auto* routine, auto* values, auto count, auto* error) {
        std::vector<std::int64_t> valid(values, values + count);
        for (std::uint32_t i = 0; i < count && i < routine->symbols.size(); ++i) {
          const sdk::SymbolRange& range = routine->symbols[i];
          const bool is_valid =
              valid[i] >= range.low && valid[i] < range.high && (valid[i] - range.low) % range.step == 0;
          valid[i] = is_valid ? valid[i] : range.low;
        }
        return detail::routine_launch(stream, routine, valid.data(), count, error);
      });
}

}  // namespace yoke::mutant
