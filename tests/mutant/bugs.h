// SPDX-License-Identifier: Apache-2.0
// tests/mutant/bugs.h: every bug that can be planted, and the kit's test that must find it.
#pragma once

#include <string_view>

namespace yoke::mutant {

struct Bug {
  std::string_view name;      // the value of YOKE_MUTANT_BUG
  std::string_view found_by;  // the test that must fail: "copy.random-ranges"
  std::string_view says;      // a regular expression that its message must match, ignoring case
  double timeout_s = 120;     // of the test
};

inline constexpr Bug kBugs[] = {
    // Loading.
    {"second_symbol_is_exported", "load.exports-one-symbol", "yoke_mutant_second"},
    {"entry_starts_a_thread", "load.no-early-threads", "thread"},
    {"entry_changes_rounding", "load.process-state", "round|floating"},
    {"entry_changes_locale", "load.process-state", "locale"},
    {"entry_changes_folder", "load.process-state", "working directory"},
    {"entry_changes_environment", "load.process-state", "environment"},
    {"entry_installs_a_signal_handler", "load.process-state", "SIGFPE|signal"},
    {"entry_prints", "load.prints-nothing", "printed something in its entry"},
    {"atexit_handler_exits", "load.enters", "exit code 3"},
    {"entry_takes_any_version", "load.unsupported-hosts", "chose ABI .* outside"},
    {"entry_fails_without_text", "load.unsupported-hosts", "without a text"},
    {"entry_ignores_the_hosts_size", "load.shorter-host", "SIGSEGV"},
    {"unknown_table_is_returned", "load.unknown-tables", "unknown id"},
    {"required_function_is_missing", "load.required-functions", "device_memory"},
    {"backend_has_a_wrong_name", "load.prefix", "name of yoke_plugin"},
    {"plugin_has_another_kind", "load.prefix", "kind of yoke_plugin is 2"},
    {"entry_ignores_unknown_options", "load.options-unknown", "'no_such_option.* returned OK"},
    {"entry_ignores_invalid_values", "load.options-values", "'devices' = '.* returned OK"},
    {"open_accepts_plugin_options", "load.options-scope", "with the plugin option 'devices'"},
    {"no_devices_without_reason", "load.no-devices", "reason for no devices is empty"},
    {"reason_ignores_capacity", "load.no-devices", "past the capacity 20 of the reason"},
    {"host_table_is_read_past_its_size", "load.host-tables", "SIGSEGV .*, in the entry"},
    {"success_sets_error", "load.success-sets-no-error", "filled the error object"},

    // Crashes, hangs and exits.
    {"constructor_crashes", "load.enters", "SIGSEGV .*, in dlopen"},
    {"from_host_crashes", "copy.round-trip", "killed by SIGSEGV .*, in from_host"},
    {"from_host_exits", "copy.round-trip", "must not call exit"},
    {"from_host_hangs", "copy.round-trip", "exceeded its deadline of 8 s, in from_host", 8},
    {"from_host_starts_processes", "copy.round-trip", "exceeded its deadline of 8 s, in from_host", 8},
    {"to_host_throws", "copy.round-trip", "bad_alloc"},

    // Arguments.
    {"unknown_flags_are_ignored", "args.unknown-flags", "event_record .*returned OK; expected UNIMPLEMENTED"},
    {"flags_of_bindings_are_ignored", "args.unknown-flags", "binding .*returned OK; expected UNIMPLEMENTED"},
    {"longer_structs_are_refused", "args.longer-structs", "stream_create with a longer argument struct"},
    {"option_stride_is_ignored", "args.longer-options", "SIGSEGV|returned"},
    {"binding_stride_is_ignored", "args.longer-bindings", "SIGSEGV|returned"},
    {"verdict_stride_is_ignored", "args.lists", "can_compile with rows of"},

    // Devices.
    {"device_count_is_one_too_many", "device.every-device-opens", "opening device 2"},
    {"device_id_changes", "device.unique-ids", "unique_id"},
    {"describe_ignores_struct_size", "device.description-sizes", "struct_size"},
    {"open_takes_any_ordinal", "device.invalid-ordinals", "opening device 2 of 2"},
    {"unknown_option_is_accepted", "device.options-unknown", "unknown option"},
    {"option_range_is_off_by_one", "device.options-limits", "priority_levels"},
    {"option_specs_ignores_capacity", "args.lists", "wrote past"},

    // Handles of one device.
    {"stream_refuses_buffers_of_other_handles", "device.handles-share",
     "from_host returned INVALID_ARGUMENT"},
    {"link_refuses_buffers_of_other_handles", "device.handles-routine",
     "routine_link returned INVALID_ARGUMENT"},
    {"used_bytes_count_all_handles", "device.handles-count", "used_bytes of a new handle"},
    {"handles_share_options", "device.handles-options", "limit_bytes after another handle"},
    {"abort_affects_every_handle", "device.handles-fail", "after device_abort on another handle"},
    {"loss_affects_every_handle", "device.handles-fail", "a copy after DEVICE_LOST on another handle"},

    // Buffers.
    {"create_returns_ok_with_null", "buffer.sizes",
     "buffer_create returned OK but left its out-parameter NULL"},
    {"create_changes_out_on_failure", "buffer.huge-sizes",
     "buffer_create failed but wrote its out-parameter"},
    {"create_refuses_empty_buffers", "buffer.sizes", "0-byte buffer"},
    {"create_takes_any_kind", "buffer.kinds", "kind"},
    {"buffer_is_misaligned", "buffer.host-addresses", "not a multiple of 256"},
    {"buffer_size_wraps", "buffer.huge-sizes", "returned OK"},
    {"buffer_size_is_rounded_up", "buffer.sizes", "byte_count"},
    {"buffer_destroy_crashes_on_null", "lifetime.destroy-null", "SIGSEGV.*buffer_destroy"},
    {"buffers_are_leaked", "buffer.sizes", "13 buffers alive"},
    {"used_bytes_never_falls", "buffer.memory-accounting", "used_bytes"},

    // Copies.
    {"from_host_forgets_offset", "copy.edges", "from_host to range \\[1, 2\\)"},
    {"to_host_forgets_offset", "copy.edges", "to_host from range \\[1, 2\\) returned other bytes"},
    {"device_to_device_forgets_source_offset", "copy.random-ranges", "has the wrong value"},
    {"device_to_device_forgets_target_offset", "copy.random-ranges", "has the wrong value"},
    {"device_to_device_swaps", "copy.random-ranges", "returned other bytes|has the wrong value"},
    {"copy_loses_last_byte", "copy.round-trip", "returned other bytes"},
    {"to_host_writes_one_byte_more", "copy.edges", "wrote past the end of its host memory"},
    {"copy_between_devices_is_skipped", "copy.across-handles", "after a copy to device"},
    {"fill_has_wrong_phase", "copy.fill-patterns", "2-byte pattern"},
    {"fill_takes_four_bytes_at_most", "copy.fill-patterns", "8-byte pattern"},
    {"fill_takes_any_pattern", "copy.fill-pattern-sizes", "byte pattern: fill returned OK"},
    {"range_check_overflows", "copy.host-out-of-range", "from_host .* returned OK; expected OUT_OF_RANGE"},
    {"range_end_is_off_by_one", "copy.host-out-of-range", "to_host .* returned OK; expected OUT_OF_RANGE"},
    {"range_is_cut_silently", "copy.fill-out-of-range", "fill .* returned OK; expected OUT_OF_RANGE"},
    {"copy_fails_without_text", "copy.host-out-of-range", "without a text"},
    {"null_stream_returns_early", "copy.edges", "returned other bytes|has the wrong value"},
    {"source_word_is_unknown", "copy.source-reuse", "out_source"},

    // yoke.memory/1.
    {"pinned_memory_is_misaligned", "memory.pinned", "pinned memory is not a multiple of 256"},
    {"pinned_size_is_truncated", "memory.pinned-refusals", "pinned_allocate returned OK"},
    {"pinned_memory_is_not_counted", "memory.pinned", "live pinned memory"},
    {"device_address_is_the_handle", "memory.device-addresses", "device address"},
    {"import_is_copied", "memory.import-in-place", "does not have the contents"},
    {"import_counts_as_used", "memory.import-in-place", "used_bytes with a buffer imported"},
    {"import_releases_at_once", "memory.import-release", "before buffer_destroy"},
    {"release_is_called_twice", "memory.import-release", "calls of `release` by buffer_destroy is 2"},
    {"release_comes_before_the_last_use", "memory.import-release", "written after `release`"},
    {"failed_import_releases", "memory.import-refusals", "`release` after failed imports"},
    {"link_ignores_imported_addresses", "memory.import-routine", "not aligned to .* returned OK"},
    {"native_handle_has_no_name", "memory.native-handles", "`api` is empty"},

    // Streams.
    {"source_is_read_after_copied", "stream.source-lifetime", "returned YOKE_SOURCE_COPIED, but"},
    {"stream_ignores_wait_event", "stream.wait-event-orders", "ran before the event was done"},
    {"stream_runs_out_of_order", "stream.in-order", "bytes of another round"},
    {"stream_query_lies", "stream.query-completes", "whose query reported that it is done"},
    {"stream_wait_misses_last_command", "stream.fills-in-order", "expected 499"},
    {"wait_ignores_deadline", "stream.deadline-during-work", "ignores its deadline"},
    {"wait_gives_up_early", "stream.in-order", "DEADLINE_EXCEEDED"},
    {"wait_returns_ok_at_deadline", "stream.deadline-during-work", "returned OK at its deadline"},
    {"fill_keeps_the_pattern_pointer", "stream.pattern-reuse", "result of queued fill"},
    {"debug_text_overruns_capacity", "stream.debug-text", "past its capacity"},
    {"stream_abort_does_nothing", "stream.abort-one", "expected ABORTED"},
    {"stream_abort_ends_the_device", "stream.abort-one", "was busy while another stream was aborted"},
    {"stream_abort_fails_earlier_events", "stream.abort-one", "done before its stream was aborted"},
    {"aborted_stream_works_again", "stream.abort-one", "is 1, expected 2|expected ABORTED"},
    {"query_ends_before_aborted_work", "stream.quiescent-after-stream-abort",
     "DEADLINE_EXCEEDED|still wrote"},
    {"wait_ends_before_aborted_work", "stream.quiescent-after-device-abort", "still wrote"},
    {"query_ends_before_lost_work", "stream.quiescent-after-loss", "DEADLINE_EXCEEDED|still wrote"},
    {"callback_runs_before_earlier_work", "stream.host-callback",
     "before the work that was queued before it"},
    {"callback_does_not_hold_its_stream", "stream.host-callback", "before the callback has returned"},
    {"callback_is_called_twice", "stream.host-callback", "number of calls"},
    {"callback_is_skipped_on_aborted_streams", "stream.host-callback-after-abort", "was not called", 6},
    {"callback_gets_ok_on_aborted_streams", "stream.host-callback-after-abort",
     "status that a host callback"},
    {"callback_gets_ok_on_poisoned_streams", "stream.host-callback-after-failure",
     "status that a host callback"},
    {"abort_does_nothing", "stream.abort", "expected ABORTED|during device_abort"},
    {"stream_leaves_its_thread", "lifetime.threads-end", "leaves threads running"},

    // Events.
    {"event_is_done_at_once", "event.completion", "is done, but"},
    {"event_ignores_last_command", "event.completion", "is done, but"},
    {"event_elapsed_in_microseconds", "event.elapsed-unit", "event_elapsed returned"},
    {"events_without_timing_have_times", "event.timing", "without YOKE_EVENT_TIMING"},
    {"events_of_other_devices_are_ignored", "event.other-devices",
     "expected DEADLINE_EXCEEDED|done before the event"},
    {"errors_of_other_devices_are_ignored", "event.other-devices", "returned OK; expected ABORTED"},
    {"event_query_writes_no_result", "event.completion", "unknown state -1"},

    // Faults.
    {"copy_fault_is_swallowed", "fault.each-copy", "the bytes are wrong"},
    {"stream_swallows_error", "fault.stream-error", "stream_wait returned OK; expected UNAVAILABLE"},
    {"stream_forgets_error", "fault.stream-error", "returned OK; expected UNAVAILABLE"},
    {"event_drops_error", "fault.stream-error", "event_wait returned OK; expected UNAVAILABLE"},
    {"stream_does_not_inherit_error", "fault.stream-error",
     "waits for an event recorded after a failed copy"},
    {"failed_launch_overruns_its_output", "routine.failed-launch", "has the wrong value"},
    {"poisoned_stream_runs_later_work", "routine.failed-launch", "has the wrong value|was not skipped"},
    {"fault_loses_text", "fault.each-copy", "without a text"},
    {"fault_changes_code", "fault.each-copy", "returned INTERNAL.*expected UNAVAILABLE"},
    {"fault_stays_armed", "fault.nth-copy", "when a fault was armed for copy 1"},
    {"failed_create_is_counted", "fault.nth-allocation", "live"},
    {"host_memory_is_leaked", "fault.host-allocations", "did not free"},
    {"host_allocation_is_not_checked", "fault.host-allocations", "SIGSEGV"},
    {"host_memory_is_freed_twice", "fault.host-allocations", "already freed"},
    {"device_lost_is_forgotten", "fault.device-lost", "after the device was lost"},

    // Programs.
    {"gather_is_off_by_one", "program.random-*", "the reference executor has"},
    {"gather_clamps_indices", "program.random-*", "the reference executor has"},
    {"index_division_floors", "program.random-*", "the reference executor has"},
    {"guard_covers_single_reads", "program.random-*", "the reference executor has"},
    {"else_value_is_always_zero", "program.random-*", "the reference executor has"},
    {"scatter_clamps_indices", "program.random-*", "the reference executor has"},
    {"scatter_drops_duplicates", "program.random-*", "the reference executor has"},
    {"sum_accumulates_in_f16", "program.random-*", "the reference executor has"},
    {"sum_of_i64_accumulates_in_i32", "program.random-*", "i64 is .* the reference executor has"},
    {"max_starts_at_zero", "program.random-*", "is 0, the reference executor has -"},
    {"reduction_misses_the_last", "program.random-*", "the reference executor has"},
    {"argmax_takes_the_last", "program.random-*", "the reference executor has"},
    {"integer_division_floors", "program.random-*", "the reference executor has .*, 1 apart"},
    {"shift_does_not_count_modulo", "program.random-*", "the reference executor has"},
    {"cast_wraps_instead_of_saturating", "program.random-*", "the reference executor has"},
    {"cast_to_bool_looks_at_one_bit", "program.random-*", "is false, the reference executor has true"},
    {"round_goes_away_from_zero", "program.random-*", "the reference executor has"},
    {"random_bits_takes_another_word", "program.random-*", "the reference executor has"},
    {"max_loses_nan", "program.random-*", "the reference executor has nan"},
    {"max_and_min_ignore_the_sign_of_zero", "program.random-*", "the reference executor has"},
    {"exp_has_bf16_precision", "program.random-*", "the reference executor has"},
    {"f64_is_computed_in_f32", "program.random-*", "the reference executor has"},
    {"inout_is_cleared", "program.random-*", "the reference executor has"},
    {"last_element_is_not_written", "program.random-*", "the reference executor has"},
    {"one_element_too_many_is_written", "program.random-*", "guard byte was written"},
    {"workspace_is_overrun", "program.random-*", "guard byte .* the workspace"},
    {"sum_order_changes", "program.deterministic", "deterministic entry has other results"},
    {"can_compile_forgets_a_statement", "program.verdicts", "number of verdicts"},
    {"can_compile_reports_unsupported", "program.unsupported-statements",
     "reports as unsupported: code_compile returned OK"},
    {"can_compile_keeps_a_code", "program.can-compile-creates-nothing", "live_counts reports 1 code"},
    {"long_names_are_cut", "program.longest-names", "the name of a program"},
    {"invalid_text_has_wrong_code", "program.invalid-texts", ""},

    // Routines.
    {"arguments_are_in_wrong_order", "routine.describe", "the name of argument"},
    {"argument_byte_count_counts_elements", "routine.describe", "the byte_count of argument"},
    {"fingerprint_is_constant", "program.fingerprints", "same fingerprint"},
    {"workspace_size_is_halved", "routine.workspaces", "needs"},
    {"routine_forgets_binding_offset", "routine.adjacent-ranges", "expected"},
    {"link_takes_small_buffers", "routine.invalid-bindings", "too small: routine_link returned OK"},
    {"stated_alignment_is_not_checked", "routine.alignments", "whose alignment is 64"},
    {"workspace_may_be_misaligned", "routine.workspaces", "workspace at offset 128"},
    {"workspace_is_prepared_when_queued", "thread.shared-workspace", "share a workspace"},
    {"link_takes_overlaps", "routine.overlaps", "routine_link returned OK"},
    {"symbol_range_is_not_checked", "routine.symbol-values", "routine_launch returned OK"},
    {"symbols_of_previous_launch_are_used", "routine.repeated-launch", "expected"},
    {"symbols_are_read_later", "routine.streams", "symbol|expected"},
    {"code_destroy_breaks_routines", "routine.outlives-code", "expected"},

    // Trainings.
    {"copies_between_devices_bring_zeros", "train.one-step", "the weight is"},
    {"every_second_launch_is_lost", "train.two-steps", "expected"},

    // Threads.
    {"streams_share_staging", "thread.small-copies", "copied wrong bytes"},
    {"routines_share_scratch", "thread.temporaries", "temporaries of another"},
    {"live_count_is_not_atomic", "thread.create-and-destroy", "live buffers after all threads ended"},
    {"error_is_set_on_another_thread", "buffer.huge-sizes", "another thread"},

    // Lifetimes.
    {"buffers_are_counted_twice", "lifetime.memory-orders", "live objects"},
    {"events_are_not_counted", "lifetime.stream-orders", "live objects"},
    {"close_ignores_live_objects", "lifetime.memory-orders",
     "device_close returned OK; expected FAILED_PRECONDITION"},
    {"destroy_crashes_on_null", "lifetime.destroy-null", "SIGSEGV"},
    {"host_is_called_after_destroy", "lifetime.host-after-destroy", "after destroy had returned"},
    {"fork_guard_is_off", "lifetime.forked-child", "forked"},
};

}  // namespace yoke::mutant
