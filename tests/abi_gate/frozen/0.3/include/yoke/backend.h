/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YOKE_BACKEND_H_
#define YOKE_BACKEND_H_
#include <yoke/plugin.h>
#ifdef __cplusplus
extern "C" {
#endif
#define YOKE_BACKEND_TABLE "yoke.backend/1"
#define YOKE_STREAM_TABLE "yoke.stream/1"
#define YOKE_PROGRAM_TABLE "yoke.program/1"
typedef struct yoke_device yoke_device;
typedef struct yoke_buffer yoke_buffer;
typedef struct yoke_stream yoke_stream;
typedef struct yoke_event yoke_event;
typedef struct yoke_code yoke_code;
typedef struct yoke_routine yoke_routine;
#define YOKE_TYPE_F64 1
#define YOKE_TYPE_F32 2
#define YOKE_TYPE_F16 3
#define YOKE_TYPE_BF16 4
#define YOKE_TYPE_I64 5
#define YOKE_TYPE_I32 6
#define YOKE_TYPE_U32 7
#define YOKE_TYPE_U8 8
#define YOKE_TYPE_BOOL 9
#define YOKE_MAX_RANK 8
#define YOKE_BUFFER_ALIGNMENT 256
#define YOKE_MEMORY_DEVICE 1
#define YOKE_MEMORY_UNIFIED 2
#define YOKE_MEMORY_HOST 3
#define YOKE_DEVICE_CPU 1
#define YOKE_DEVICE_GPU 2
#define YOKE_DEVICE_OTHER 3
#define YOKE_SOURCE_COPIED 1
#define YOKE_SOURCE_UNTIL_EVENT 2
#define YOKE_STATE_PENDING 0
#define YOKE_STATE_DONE 1
#define YOKE_STATE_FAILED 2
#define YOKE_OPTION_SCOPE_DEVICE 0
#define YOKE_OPTION_SCOPE_PLUGIN 1
typedef struct yoke_option_spec {
  const char* name;
  const char* help;
  int32_t type;
  int32_t scope;
  int64_t integer_min;
  int64_t integer_max;
  int64_t integer_default;
  double number_min;
  double number_max;
  double number_default;
  const char* text_default;
  const char* text_choices;
} yoke_option_spec;
typedef struct yoke_device_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY];
  char unique_id[YOKE_NAME_CAPACITY];
  uint64_t memory_bytes;
  uint64_t type_mask;
  int32_t kind;
  uint32_t compute_unit_count;
  uint32_t suggested_stream_count;
  int32_t host_visible;
  int32_t numa_node;
  uint32_t reserved;
} yoke_device_info;
typedef struct yoke_memory_info {
  uint64_t struct_size;
  uint64_t used_bytes;
  uint64_t peak_bytes;
  uint64_t limit_bytes;
} yoke_memory_info;
typedef struct yoke_buffer_info {
  uint64_t struct_size;
  uint64_t byte_count;
  uint64_t host_address;
  int32_t kind;
  int32_t reserved;
} yoke_buffer_info;
typedef struct yoke_live_counts {
  uint64_t struct_size;
  uint64_t devices;
  uint64_t buffers;
  uint64_t streams;
  uint64_t events;
  uint64_t codes;
  uint64_t routines;
} yoke_live_counts;
typedef struct yoke_device_args {
  uint64_t struct_size;
  uint64_t flags;
  const yoke_option* options;
  uint32_t option_count;
  uint32_t option_stride;
  uint32_t ordinal;
  uint32_t reserved;
} yoke_device_args;
typedef struct yoke_buffer_args {
  uint64_t struct_size;
  uint64_t flags;
  uint64_t byte_count;
  int32_t kind;
  int32_t reserved;
} yoke_buffer_args;
typedef struct yoke_backend_api {
  uint64_t struct_size;
  int32_t (*device_count)(yoke_plugin* plugin, uint32_t* out_count, char* out_reason,
                          uint64_t reason_capacity, yoke_error* error);
  int32_t (*device_describe)(yoke_plugin* plugin, uint32_t ordinal, yoke_device_info* info,
                             yoke_error* error);
  int32_t (*device_open)(yoke_plugin* plugin, const yoke_device_args* args, yoke_device** out_device,
                         yoke_error* error);
  int32_t (*device_close)(yoke_device* device, yoke_error* error);
  int32_t (*device_memory)(yoke_device* device, yoke_memory_info* info, yoke_error* error);
  int32_t (*buffer_create)(yoke_device* device, const yoke_buffer_args* args, yoke_buffer** out_buffer,
                           yoke_error* error);
  void (*buffer_destroy)(yoke_buffer* buffer);
  int32_t (*buffer_describe)(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error);
  int32_t (*from_host)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, const void* src,
                       uint64_t byte_count, int32_t* out_source, yoke_error* error);
  int32_t (*to_host)(yoke_stream* stream, yoke_buffer* src, uint64_t src_offset, void* dst,
                     uint64_t byte_count, yoke_error* error);
  int32_t (*device_to_device)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, yoke_buffer* src,
                              uint64_t src_offset, uint64_t byte_count, yoke_error* error);
  int32_t (*fill)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, uint64_t byte_count,
                  const void* pattern, uint32_t pattern_byte_count, yoke_error* error);
  int32_t (*live_counts)(yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error);
  int32_t (*option_specs)(yoke_plugin* plugin, uint32_t capacity, uint64_t stride, yoke_option_spec* specs,
                          uint32_t* out_count, yoke_error* error);
} yoke_backend_api;
typedef struct yoke_stream_args {
  uint64_t struct_size;
  uint64_t flags;
  int32_t priority;
  int32_t reserved;
} yoke_stream_args;
#define YOKE_EVENT_TIMING 1u
typedef struct yoke_event_args {
  uint64_t struct_size;
  uint64_t flags;
} yoke_event_args;
typedef void (*yoke_host_callback_fn)(void* user, int32_t status);
typedef struct yoke_stream_api {
  uint64_t struct_size;
  int32_t (*stream_create)(yoke_device* device, const yoke_stream_args* args, yoke_stream** out_stream,
                           yoke_error* error);
  void (*stream_destroy)(yoke_stream* stream);
  int32_t (*stream_query)(yoke_stream* stream, int32_t* out_state, yoke_error* error);
  int32_t (*stream_wait)(yoke_stream* stream, uint64_t timeout_ns, yoke_error* error);
  int32_t (*event_record)(yoke_stream* stream, const yoke_event_args* args, yoke_event** out_event,
                          yoke_error* error);
  void (*event_destroy)(yoke_event* event);
  int32_t (*event_query)(yoke_event* event, int32_t* out_state, yoke_error* error);
  int32_t (*event_wait)(yoke_event* event, uint64_t timeout_ns, yoke_error* error);
  int32_t (*stream_wait_event)(yoke_stream* stream, yoke_event* event, yoke_error* error);
  int32_t (*event_elapsed)(yoke_event* start, yoke_event* stop, uint64_t* out_ns, yoke_error* error);
  int32_t (*stream_abort)(yoke_stream* stream, yoke_error* error);
  int32_t (*device_abort)(yoke_device* device, yoke_error* error);
  int32_t (*stream_host_callback)(yoke_stream* stream, yoke_host_callback_fn callback, void* user,
                                  yoke_error* error);
  int32_t (*stream_debug_text)(yoke_stream* stream, char* text, uint64_t capacity, yoke_error* error);
} yoke_stream_api;
#define YOKE_PROGRAM_FORMAT "yoke.program"
#define YOKE_PROGRAM_VERSION 1
typedef struct yoke_compile_args {
  uint64_t struct_size;
  uint64_t flags;
  const char* format;
  const char* text;
  uint64_t byte_count;
  uint32_t version;
  uint32_t reserved;
} yoke_compile_args;
typedef struct yoke_format {
  const char* format;
  uint32_t version;
  uint32_t reserved;
} yoke_format;
#define YOKE_VERDICT_NATIVE 1
#define YOKE_VERDICT_DECOMPOSED 2
#define YOKE_VERDICT_UNSUPPORTED 3
typedef struct yoke_verdict {
  uint32_t program;
  uint32_t statement;
  int32_t verdict;
  int32_t reserved;
  char reason[YOKE_REASON_CAPACITY];
} yoke_verdict;
typedef struct yoke_entry_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY];
  uint32_t argument_count;
  uint32_t symbol_count;
  uint64_t workspace_byte_count;
  int32_t deterministic;
  int32_t reserved;
  char fingerprint[YOKE_NAME_CAPACITY];
} yoke_entry_info;
#define YOKE_ACCESS_IN 1
#define YOKE_ACCESS_OUT 2
#define YOKE_ACCESS_INOUT 3
typedef struct yoke_argument_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY];
  int32_t type;
  int32_t access;
  uint32_t rank;
  uint32_t alignment;
  uint64_t dims[YOKE_MAX_RANK];
  uint64_t byte_count;
} yoke_argument_info;
typedef struct yoke_binding {
  yoke_buffer* buffer;
  uint64_t offset;
  uint64_t byte_count;
  uint64_t flags;
} yoke_binding;
typedef struct yoke_link_args {
  uint64_t struct_size;
  uint64_t flags;
  const yoke_binding* bindings;
  uint32_t binding_count;
  uint32_t binding_stride;
  const yoke_binding* workspace;
  uint32_t entry;
  uint32_t reserved;
} yoke_link_args;
typedef struct yoke_program_api {
  uint64_t struct_size;
  int32_t (*formats)(yoke_plugin* plugin, uint32_t capacity, uint64_t stride, yoke_format* formats,
                     uint32_t* out_count, yoke_error* error);
  int32_t (*can_compile)(yoke_device* device, const yoke_compile_args* args, uint32_t capacity,
                         uint64_t stride, yoke_verdict* verdicts, uint32_t* out_count, yoke_error* error);
  int32_t (*code_compile)(yoke_device* device, const yoke_compile_args* args, yoke_code** out_code,
                          yoke_error* error);
  void (*code_destroy)(yoke_code* code);
  int32_t (*code_entry_count)(yoke_code* code, uint32_t* out_count, yoke_error* error);
  int32_t (*code_describe)(yoke_code* code, uint32_t entry, yoke_entry_info* info, yoke_error* error);
  int32_t (*code_argument)(yoke_code* code, uint32_t entry, uint32_t argument, yoke_argument_info* info,
                           yoke_error* error);
  int32_t (*routine_link)(yoke_code* code, const yoke_link_args* args, yoke_routine** out_routine,
                          yoke_error* error);
  void (*routine_destroy)(yoke_routine* routine);
  int32_t (*routine_launch)(yoke_stream* stream, yoke_routine* routine, const int64_t* symbol_values,
                            uint32_t symbol_count, yoke_error* error);
} yoke_program_api;
#define YOKE_BACKEND_API_FUNCTIONS(X)      \
  X(yoke_backend_api, device_count, R)     \
  X(yoke_backend_api, device_describe, R)  \
  X(yoke_backend_api, device_open, R)      \
  X(yoke_backend_api, device_close, R)     \
  X(yoke_backend_api, device_memory, R)    \
  X(yoke_backend_api, buffer_create, R)    \
  X(yoke_backend_api, buffer_destroy, R)   \
  X(yoke_backend_api, buffer_describe, R)  \
  X(yoke_backend_api, from_host, R)        \
  X(yoke_backend_api, to_host, R)          \
  X(yoke_backend_api, device_to_device, O) \
  X(yoke_backend_api, fill, O)             \
  X(yoke_backend_api, live_counts, R)      \
  X(yoke_backend_api, option_specs, O)
#define YOKE_STREAM_API_FUNCTIONS(X)          \
  X(yoke_stream_api, stream_create, R)        \
  X(yoke_stream_api, stream_destroy, R)       \
  X(yoke_stream_api, stream_query, R)         \
  X(yoke_stream_api, stream_wait, R)          \
  X(yoke_stream_api, event_record, R)         \
  X(yoke_stream_api, event_destroy, R)        \
  X(yoke_stream_api, event_query, R)          \
  X(yoke_stream_api, event_wait, R)           \
  X(yoke_stream_api, stream_wait_event, R)    \
  X(yoke_stream_api, event_elapsed, O)        \
  X(yoke_stream_api, stream_abort, O)         \
  X(yoke_stream_api, device_abort, O)         \
  X(yoke_stream_api, stream_host_callback, O) \
  X(yoke_stream_api, stream_debug_text, O)
#define YOKE_PROGRAM_API_FUNCTIONS(X)      \
  X(yoke_program_api, formats, R)          \
  X(yoke_program_api, can_compile, R)      \
  X(yoke_program_api, code_compile, R)     \
  X(yoke_program_api, code_destroy, R)     \
  X(yoke_program_api, code_entry_count, R) \
  X(yoke_program_api, code_describe, R)    \
  X(yoke_program_api, code_argument, R)    \
  X(yoke_program_api, routine_link, R)     \
  X(yoke_program_api, routine_destroy, R)  \
  X(yoke_program_api, routine_launch, R)
#ifdef __cplusplus
}
#endif
#endif
