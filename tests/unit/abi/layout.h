/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/abi/layout.h: where every member of every struct of the ABI lies; read as C11 and as C++20. */
/* A line that stops compiling is an ABI break: before 1.0 change it on purpose, from 1.0 on add members at
 * the end only. */
#include <assert.h>
#include <stddef.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/peer.h>

#define YOKE_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type " changed its size")
#define YOKE_AT(type, member, offset) \
  static_assert(offsetof(type, member) == (offset), #type "." #member " moved")

YOKE_SIZE(yoke_host_api, 64);
YOKE_AT(yoke_host_api, struct_size, 0);
YOKE_AT(yoke_host_api, host, 8);
YOKE_AT(yoke_host_api, log, 16);
YOKE_AT(yoke_host_api, error_set, 24);
YOKE_AT(yoke_host_api, trace_begin, 32);
YOKE_AT(yoke_host_api, trace_end, 40);
YOKE_AT(yoke_host_api, allocate, 48);
YOKE_AT(yoke_host_api, deallocate, 56);

YOKE_SIZE(yoke_plugin, 72);
YOKE_AT(yoke_plugin, magic, 0);
YOKE_AT(yoke_plugin, prefix_size, 4);
YOKE_AT(yoke_plugin, abi_major, 8);
YOKE_AT(yoke_plugin, abi_minor, 12);
YOKE_AT(yoke_plugin, flags, 16);
YOKE_AT(yoke_plugin, sanitizer, 24);
YOKE_AT(yoke_plugin, reserved, 28);
YOKE_AT(yoke_plugin, backend_name, 32);
YOKE_AT(yoke_plugin, plugin_version, 40);
YOKE_AT(yoke_plugin, vendor, 48);
YOKE_AT(yoke_plugin, destroy, 56);
YOKE_AT(yoke_plugin, get_table, 64);

YOKE_SIZE(yoke_entry_args, 32);
YOKE_AT(yoke_entry_args, struct_size, 0);
YOKE_AT(yoke_entry_args, min_major, 8);
YOKE_AT(yoke_entry_args, min_minor, 12);
YOKE_AT(yoke_entry_args, max_major, 16);
YOKE_AT(yoke_entry_args, max_minor, 20);
YOKE_AT(yoke_entry_args, host, 24);

YOKE_SIZE(yoke_option, 48);
YOKE_AT(yoke_option, struct_size, 0);
YOKE_AT(yoke_option, name, 8);
YOKE_AT(yoke_option, type, 16);
YOKE_AT(yoke_option, reserved, 20);
YOKE_AT(yoke_option, integer, 24);
YOKE_AT(yoke_option, number, 32);
YOKE_AT(yoke_option, text, 40);

YOKE_SIZE(yoke_option_spec, 96);
YOKE_AT(yoke_option_spec, struct_size, 0);
YOKE_AT(yoke_option_spec, name, 8);
YOKE_AT(yoke_option_spec, help, 16);
YOKE_AT(yoke_option_spec, type, 24);
YOKE_AT(yoke_option_spec, reserved, 28);
YOKE_AT(yoke_option_spec, integer_min, 32);
YOKE_AT(yoke_option_spec, integer_max, 40);
YOKE_AT(yoke_option_spec, integer_default, 48);
YOKE_AT(yoke_option_spec, number_min, 56);
YOKE_AT(yoke_option_spec, number_max, 64);
YOKE_AT(yoke_option_spec, number_default, 72);
YOKE_AT(yoke_option_spec, text_default, 80);
YOKE_AT(yoke_option_spec, text_choices, 88);

YOKE_SIZE(yoke_device_info, 304);
YOKE_AT(yoke_device_info, struct_size, 0);
YOKE_AT(yoke_device_info, name, 8);
YOKE_AT(yoke_device_info, unique_id, 136);
YOKE_AT(yoke_device_info, memory_bytes, 264);
YOKE_AT(yoke_device_info, type_mask, 272);
YOKE_AT(yoke_device_info, kind, 280);
YOKE_AT(yoke_device_info, compute_unit_count, 284);
YOKE_AT(yoke_device_info, suggested_stream_count, 288);
YOKE_AT(yoke_device_info, host_visible, 292);
YOKE_AT(yoke_device_info, numa_node, 296);
YOKE_AT(yoke_device_info, reserved, 300);

YOKE_SIZE(yoke_memory_info, 32);
YOKE_AT(yoke_memory_info, struct_size, 0);
YOKE_AT(yoke_memory_info, used_bytes, 8);
YOKE_AT(yoke_memory_info, peak_bytes, 16);
YOKE_AT(yoke_memory_info, limit_bytes, 24);

YOKE_SIZE(yoke_buffer_info, 32);
YOKE_AT(yoke_buffer_info, struct_size, 0);
YOKE_AT(yoke_buffer_info, byte_count, 8);
YOKE_AT(yoke_buffer_info, host_address, 16);
YOKE_AT(yoke_buffer_info, kind, 24);
YOKE_AT(yoke_buffer_info, reserved, 28);

YOKE_SIZE(yoke_live_counts, 56);
YOKE_AT(yoke_live_counts, struct_size, 0);
YOKE_AT(yoke_live_counts, devices, 8);
YOKE_AT(yoke_live_counts, buffers, 16);
YOKE_AT(yoke_live_counts, streams, 24);
YOKE_AT(yoke_live_counts, events, 32);
YOKE_AT(yoke_live_counts, codes, 40);
YOKE_AT(yoke_live_counts, routines, 48);

YOKE_SIZE(yoke_backend_api, 120);
YOKE_AT(yoke_backend_api, struct_size, 0);
YOKE_AT(yoke_backend_api, device_count, 8);
YOKE_AT(yoke_backend_api, device_describe, 16);
YOKE_AT(yoke_backend_api, device_open, 24);
YOKE_AT(yoke_backend_api, device_close, 32);
YOKE_AT(yoke_backend_api, device_memory, 40);
YOKE_AT(yoke_backend_api, buffer_create, 48);
YOKE_AT(yoke_backend_api, buffer_destroy, 56);
YOKE_AT(yoke_backend_api, buffer_describe, 64);
YOKE_AT(yoke_backend_api, from_host, 72);
YOKE_AT(yoke_backend_api, to_host, 80);
YOKE_AT(yoke_backend_api, device_to_device, 88);
YOKE_AT(yoke_backend_api, fill, 96);
YOKE_AT(yoke_backend_api, live_counts, 104);
YOKE_AT(yoke_backend_api, option_specs, 112);

YOKE_SIZE(yoke_stream_api, 104);
YOKE_AT(yoke_stream_api, struct_size, 0);
YOKE_AT(yoke_stream_api, stream_create, 8);
YOKE_AT(yoke_stream_api, stream_destroy, 16);
YOKE_AT(yoke_stream_api, stream_query, 24);
YOKE_AT(yoke_stream_api, stream_wait, 32);
YOKE_AT(yoke_stream_api, event_record, 40);
YOKE_AT(yoke_stream_api, event_destroy, 48);
YOKE_AT(yoke_stream_api, event_query, 56);
YOKE_AT(yoke_stream_api, event_wait, 64);
YOKE_AT(yoke_stream_api, stream_wait_event, 72);
YOKE_AT(yoke_stream_api, event_elapsed, 80);
YOKE_AT(yoke_stream_api, device_abort, 88);
YOKE_AT(yoke_stream_api, stream_debug_text, 96);

YOKE_SIZE(yoke_program_text, 40);
YOKE_AT(yoke_program_text, struct_size, 0);
YOKE_AT(yoke_program_text, format, 8);
YOKE_AT(yoke_program_text, version, 16);
YOKE_AT(yoke_program_text, reserved, 20);
YOKE_AT(yoke_program_text, bytes, 24);
YOKE_AT(yoke_program_text, byte_count, 32);

YOKE_SIZE(yoke_format, 24);
YOKE_AT(yoke_format, struct_size, 0);
YOKE_AT(yoke_format, format, 8);
YOKE_AT(yoke_format, version, 16);
YOKE_AT(yoke_format, reserved, 20);

YOKE_SIZE(yoke_verdict, 536);
YOKE_AT(yoke_verdict, struct_size, 0);
YOKE_AT(yoke_verdict, program, 8);
YOKE_AT(yoke_verdict, statement, 12);
YOKE_AT(yoke_verdict, verdict, 16);
YOKE_AT(yoke_verdict, reserved, 20);
YOKE_AT(yoke_verdict, reason, 24);

YOKE_SIZE(yoke_entry_info, 288);
YOKE_AT(yoke_entry_info, struct_size, 0);
YOKE_AT(yoke_entry_info, name, 8);
YOKE_AT(yoke_entry_info, argument_count, 136);
YOKE_AT(yoke_entry_info, symbol_count, 140);
YOKE_AT(yoke_entry_info, workspace_byte_count, 144);
YOKE_AT(yoke_entry_info, deterministic, 152);
YOKE_AT(yoke_entry_info, reserved, 156);
YOKE_AT(yoke_entry_info, fingerprint, 160);

YOKE_SIZE(yoke_argument_info, 224);
YOKE_AT(yoke_argument_info, struct_size, 0);
YOKE_AT(yoke_argument_info, name, 8);
YOKE_AT(yoke_argument_info, type, 136);
YOKE_AT(yoke_argument_info, access, 140);
YOKE_AT(yoke_argument_info, rank, 144);
YOKE_AT(yoke_argument_info, reserved, 148);
YOKE_AT(yoke_argument_info, dims, 152);
YOKE_AT(yoke_argument_info, byte_count, 216);

YOKE_SIZE(yoke_binding, 16);
YOKE_AT(yoke_binding, buffer, 0);
YOKE_AT(yoke_binding, offset, 8);

YOKE_SIZE(yoke_program_api, 88);
YOKE_AT(yoke_program_api, struct_size, 0);
YOKE_AT(yoke_program_api, formats, 8);
YOKE_AT(yoke_program_api, can_compile, 16);
YOKE_AT(yoke_program_api, code_compile, 24);
YOKE_AT(yoke_program_api, code_destroy, 32);
YOKE_AT(yoke_program_api, code_entry_count, 40);
YOKE_AT(yoke_program_api, code_describe, 48);
YOKE_AT(yoke_program_api, code_argument, 56);
YOKE_AT(yoke_program_api, routine_link, 64);
YOKE_AT(yoke_program_api, routine_destroy, 72);
YOKE_AT(yoke_program_api, routine_launch, 80);

YOKE_SIZE(yoke_peer_api, 16);
YOKE_AT(yoke_peer_api, struct_size, 0);
YOKE_AT(yoke_peer_api, peer_access, 8);

YOKE_SIZE(yoke_fault_api, 24);
YOKE_AT(yoke_fault_api, struct_size, 0);
YOKE_AT(yoke_fault_api, fault_arm, 8);
YOKE_AT(yoke_fault_api, fault_clear, 16);

/* The lists of functions name every slot, in order: the n-th is at 8 + 8 * n, and nothing follows the last.
 */
#define YOKE_NUMBER(table, member, need) kNumber_##table##_##member,
#define YOKE_LISTED(table, member, need)                                               \
  static_assert(offsetof(table, member) == 8 + 8 * (size_t)kNumber_##table##_##member, \
                #table "." #member " is listed in another place than it lies");
#define YOKE_HOLD(table, LIST)               \
  enum { LIST(YOKE_NUMBER) kCount_##table }; \
  LIST(YOKE_LISTED)                          \
  static_assert(sizeof(table) == 8 + 8 * (size_t)kCount_##table, #table " has a slot that is not listed")

YOKE_HOLD(yoke_backend_api, YOKE_BACKEND_API_FUNCTIONS);
YOKE_HOLD(yoke_stream_api, YOKE_STREAM_API_FUNCTIONS);
YOKE_HOLD(yoke_program_api, YOKE_PROGRAM_API_FUNCTIONS);
YOKE_HOLD(yoke_peer_api, YOKE_PEER_API_FUNCTIONS);
YOKE_HOLD(yoke_fault_api, YOKE_FAULT_API_FUNCTIONS);
