/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/backend.h: devices, buffers, copies, streams, events, code, routines. */
/*
 * Three tables, each a rung of the ladder in plugin_api/README.md:
 *   "yoke.backend/1"  tier 0: devices, buffers, copies                        required
 *   "yoke.stream/1"   tier 1: streams and events of the backend's own         optional: else the host
 * supplies worker threads "yoke.program/1"  tier 2: programs compiled and launched by the backend   optional:
 * else the host falls back to another backend A NULL stream means: the work is done when the call returns. A
 * backend without "yoke.stream/1" only ever gets NULL. Calls with a NULL stream may come from several threads
 * at once, as long as they touch different routines and no conflicting ranges of one buffer.
 */
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

/* Element types. A device lists those it computes with as bits: 1 << YOKE_F32. */
#define YOKE_F64 1
#define YOKE_F32 2
#define YOKE_F16 3
#define YOKE_BF16 4
#define YOKE_I64 5
#define YOKE_I32 6
#define YOKE_U32 7
#define YOKE_U8 8
#define YOKE_BOOL 9

#define YOKE_MAX_RANK 8
#define YOKE_NAME_CAPACITY 128   /* bytes, the closing zero included */
#define YOKE_REASON_CAPACITY 512 /* bytes, the closing zero included */

/* Kinds of memory. */
#define YOKE_MEMORY_DEVICE 1  /* fastest for the device */
#define YOKE_MEMORY_UNIFIED 2 /* host and device address it */

/* Kinds of device. */
#define YOKE_DEVICE_CPU 1
#define YOKE_DEVICE_GPU 2
#define YOKE_DEVICE_OTHER 3

/* What may happen to the source of a from_host after the call. */
#define YOKE_SOURCE_COPIED 1      /* free to change at once */
#define YOKE_SOURCE_UNTIL_EVENT 2 /* keep it until an event recorded behind the copy is done */

/* Options. */
#define YOKE_OPTION_INTEGER 1
#define YOKE_OPTION_NUMBER 2
#define YOKE_OPTION_TEXT 3
#define YOKE_OPTION_FLAG 4 /* 0 or 1, in `integer` */

/* One option as the user gave it; the host has checked it against the schema. */
typedef struct yoke_option {
  uint64_t struct_size;
  const char* name;
  int32_t type;
  int32_t reserved;
  int64_t integer;
  double number;
  const char* text;
} yoke_option;

/* One row of a schema. */
typedef struct yoke_option_spec {
  uint64_t struct_size;
  const char* name; /* borrowed from the plugin, as the other strings */
  const char* help; /* one sentence */
  int32_t type;
  int32_t reserved;
  int64_t integer_min; /* integer options: both ends included */
  int64_t integer_max;
  int64_t integer_default;
  double number_min; /* number options */
  double number_max;
  double number_default;
  const char* text_default; /* text options */
  const char* text_choices; /* "a|b|c", or NULL: any text */
} yoke_option_spec;

typedef struct yoke_device_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY];      /* for people: "AMD EPYC 9654" */
  char unique_id[YOKE_NAME_CAPACITY]; /* the same for the same hardware in every process */
  uint64_t memory_bytes;              /* total; 0: unknown */
  uint64_t type_mask;                 /* bits 1 << YOKE_F32 ... */
  int32_t kind;                       /* YOKE_DEVICE_* */
  uint32_t compute_unit_count;        /* cores or multiprocessors; at least 1 */
  uint32_t suggested_stream_count;    /* at least 1 */
  int32_t host_visible;               /* 1: buffers of YOKE_MEMORY_DEVICE have a host address */
  int32_t numa_node;                  /* -1: unknown or all */
  uint32_t reserved;
} yoke_device_info;

typedef struct yoke_memory_info {
  uint64_t struct_size;
  uint64_t used_bytes; /* by live buffers of this device */
  uint64_t peak_bytes;
  uint64_t limit_bytes; /* 0: none but the machine's */
} yoke_memory_info;

typedef struct yoke_buffer_info {
  uint64_t struct_size;
  uint64_t byte_count;
  uint64_t host_address; /* 0: the host cannot address it */
  int32_t kind;          /* YOKE_MEMORY_* */
  int32_t reserved;
} yoke_buffer_info;

/* Live objects of the whole plugin. */
typedef struct yoke_live_counts {
  uint64_t struct_size;
  uint64_t devices;
  uint64_t buffers;
  uint64_t streams;
  uint64_t events;
  uint64_t codes;
  uint64_t routines;
} yoke_live_counts;

/* Tier 0. Every function is required but those marked [optional]. */
typedef struct yoke_backend_api {
  uint64_t struct_size;

  /* How many devices there are now; 0 is an answer, and `error`'s text then gives the reason.
   * Bounded. Threads: [any-thread] */
  int32_t (*device_count)(yoke_plugin* plugin, uint32_t* out_count, yoke_error* error);

  /* Describes a device without opening it. The caller set info->struct_size.
   * Bounded. Threads: [any-thread]. Errors: YOKE_OUT_OF_RANGE no such ordinal. */
  int32_t (*device_describe)(yoke_plugin* plugin, uint32_t ordinal, yoke_device_info* info,
                             yoke_error* error);

  /* Opens a device. Opening one twice gives two handles onto the same hardware.
   * May block. Threads: [any-thread]. Ownership: *out_device is owned by the host: device_close.
   * Errors: YOKE_OUT_OF_RANGE no such ordinal; YOKE_INVALID_ARGUMENT an option's value. */
  int32_t (*device_open)(yoke_plugin* plugin, uint32_t ordinal, const yoke_option* options,
                         uint32_t option_count, yoke_device** out_device, yoke_error* error);

  /* Closes a device; NULL is accepted.
   * May block. Threads: [device-serial]
   * Errors: YOKE_FAILED_PRECONDITION objects of the device are alive; the text counts them; it stays open. */
  int32_t (*device_close)(yoke_device* device, yoke_error* error);

  /* Bounded. Threads: [any-thread] */
  int32_t (*device_memory)(yoke_device* device, yoke_memory_info* info, yoke_error* error);

  /* Allocates `byte_count` bytes (0 allowed), aligned to at least 64 bytes; contents undefined.
   * May block. Threads: [any-thread]. Ownership: *out_buffer is owned: buffer_destroy; it pins the device.
   * Errors: YOKE_OUT_OF_DEVICE_MEMORY; YOKE_UNIMPLEMENTED a kind that the device does not have. */
  int32_t (*buffer_create)(yoke_device* device, uint64_t byte_count, int32_t kind, yoke_buffer** out_buffer,
                           yoke_error* error);

  /* Frees a buffer that no queued work uses; NULL is accepted.
   * May block. Threads: [any-thread] */
  void (*buffer_destroy)(yoke_buffer* buffer);

  /* Bounded. Threads: [any-thread] */
  int32_t (*buffer_describe)(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error);

  /* Copies `byte_count` bytes of host memory into `dst` from byte `dst_offset`. *out_source (may be NULL)
   * says what may happen to `src` afterwards: YOKE_SOURCE_*; with a NULL stream always YOKE_SOURCE_COPIED.
   * Asynchronous on a stream. Threads: [stream-serial]
   * Errors: YOKE_OUT_OF_RANGE the range does not fit in `dst`; nothing was queued. */
  int32_t (*from_host)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, const void* src,
                       uint64_t byte_count, int32_t* out_source, yoke_error* error);

  /* Copies into host memory; on a stream `dst` must stay alive until an event recorded behind it is done.
   * Asynchronous on a stream. Threads: [stream-serial]. Errors: as from_host. */
  int32_t (*to_host)(yoke_stream* stream, yoke_buffer* src, uint64_t src_offset, void* dst,
                     uint64_t byte_count, yoke_error* error);

  /* Copies between two buffers of this backend, also across its devices. Ranges in one buffer must not
   * overlap. Asynchronous on a stream (of either device). Threads: [stream-serial]. Errors: as from_host.
   * [optional]: else the host stages through its own memory. */
  int32_t (*device_to_device)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, yoke_buffer* src,
                              uint64_t src_offset, uint64_t byte_count, yoke_error* error);

  /* Repeats a pattern of 1, 2, 4 or 8 bytes; the pattern is copied in the call, `byte_count` is a multiple of
   * its size. Asynchronous on a stream. Threads: [stream-serial]. Errors: as from_host; YOKE_INVALID_ARGUMENT
   * the pattern's size. [optional] */
  int32_t (*fill)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, uint64_t byte_count,
                  const void* pattern, uint32_t pattern_byte_count, yoke_error* error);

  /* Bounded. Threads: [any-thread] */
  int32_t (*live_counts)(yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error);

  /* The options that device_open takes. Writes at most `capacity` rows, and always the full number to
   * *out_count. Bounded. Threads: [any-thread]. [optional]: no options. */
  int32_t (*option_specs)(yoke_plugin* plugin, uint32_t capacity, yoke_option_spec* specs,
                          uint32_t* out_count, yoke_error* error);
} yoke_backend_api;

/* Tier 1. A deadline is in nanoseconds from the call; 0 asks and returns. */
typedef struct yoke_stream_api {
  uint64_t struct_size;

  /* `priority`: 0 normal, negative lower, positive higher; a hint.
   * May block. Threads: [any-thread]. Ownership: *out_stream is owned: stream_destroy; it pins the device. */
  int32_t (*stream_create)(yoke_device* device, int32_t priority, yoke_stream** out_stream,
                           yoke_error* error);
  /* Destroys an idle stream; NULL is accepted. May block. Threads: [stream-serial] */
  void (*stream_destroy)(yoke_stream* stream);
  /* *out_done: 1 when all queued work is done, else 0. An error of that work is returned.
   * Bounded. Threads: [any-thread] */
  int32_t (*stream_query)(yoke_stream* stream, int32_t* out_done, yoke_error* error);
  /* Waits for all work queued before the call. May block, at most `timeout_ns`. Threads: [any-thread]
   * Errors: YOKE_DEADLINE_EXCEEDED; the first error of the stream, also when already complete. */
  int32_t (*stream_wait)(yoke_stream* stream, uint64_t timeout_ns, yoke_error* error);
  /* An event behind all work queued so far. Asynchronous. Threads: [stream-serial]
   * Ownership: *out_event is owned: event_destroy. An event is recorded once. */
  int32_t (*event_record)(yoke_stream* stream, yoke_event** out_event, yoke_error* error);
  /* NULL is accepted; also before it is done. Bounded. Threads: [any-thread] */
  void (*event_destroy)(yoke_event* event);
  /* As stream_query and stream_wait, for one point. Threads: [any-thread] */
  int32_t (*event_query)(yoke_event* event, int32_t* out_done, yoke_error* error);
  int32_t (*event_wait)(yoke_event* event, uint64_t timeout_ns, yoke_error* error);
  /* Work queued on `stream` from now on waits for `event`, and inherits its error. Asynchronous. Threads:
   * [stream-serial] */
  int32_t (*stream_wait_event)(yoke_stream* stream, yoke_event* event, yoke_error* error);
  /* Nanoseconds between two events that are done. Bounded. Threads: [any-thread]. [optional] */
  int32_t (*event_elapsed)(yoke_event* start, yoke_event* stop, uint64_t* out_ns, yoke_error* error);
  /* Gives up all queued work of the device: every wait ends with YOKE_ABORTED. Bounded. Threads:
   * [any-thread]. [optional] */
  int32_t (*device_abort)(yoke_device* device, yoke_error* error);
  /* Text about the state of a stream for a person. Writes at most `capacity` bytes with the closing zero.
   * Bounded. Threads: [any-thread]. [optional] */
  int32_t (*stream_debug_text)(yoke_stream* stream, char* text, uint64_t capacity, yoke_error* error);
} yoke_stream_api;

/* A program as it crosses. */
typedef struct yoke_program_text {
  uint64_t struct_size;
  const char* format; /* "yoke.program" */
  uint32_t version;   /* 1 */
  uint32_t reserved;
  const char* bytes; /* not closed by a zero */
  uint64_t byte_count;
} yoke_program_text;

#define YOKE_PROGRAM_FORMAT "yoke.program"
#define YOKE_PROGRAM_VERSION 1

typedef struct yoke_format {
  uint64_t struct_size;
  const char* format; /* borrowed from the plugin */
  uint32_t version;
  uint32_t reserved;
} yoke_format;

/* Verdicts of can_compile, per statement. */
#define YOKE_VERDICT_NATIVE 1      /* one kernel or library call, or part of one */
#define YOKE_VERDICT_DECOMPOSED 2  /* runs, in several pieces or interpreted */
#define YOKE_VERDICT_UNSUPPORTED 3 /* does not run; `reason` says why */

typedef struct yoke_verdict {
  uint64_t struct_size;
  uint32_t program;   /* which program of the text, from 0 */
  uint32_t statement; /* which statement of it, from 0 */
  int32_t verdict;
  int32_t reserved;
  char reason[YOKE_REASON_CAPACITY];
} yoke_verdict;

typedef struct yoke_entry_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY]; /* the program's */
  uint32_t argument_count;
  uint32_t symbol_count;
  uint64_t workspace_byte_count; /* memory that routine_link wants, 64-byte aligned; 0: none */
  int32_t deterministic;         /* 1: same input, same bits */
  int32_t reserved;
  char fingerprint[YOKE_NAME_CAPACITY]; /* changes when the code would */
} yoke_entry_info;

#define YOKE_ACCESS_IN 1
#define YOKE_ACCESS_OUT 2
#define YOKE_ACCESS_INOUT 3

typedef struct yoke_argument_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY];
  int32_t type;   /* YOKE_F32 ... */
  int32_t access; /* YOKE_ACCESS_* */
  uint32_t rank;
  uint32_t reserved;
  uint64_t dims[YOKE_MAX_RANK];
  uint64_t byte_count;
} yoke_argument_info;

/* Where one argument lives: `offset` is a multiple of the element's size. */
typedef struct yoke_binding {
  yoke_buffer* buffer;
  uint64_t offset;
} yoke_binding;

/* Tier 2. */
typedef struct yoke_program_api {
  uint64_t struct_size;

  /* The formats that the backend reads; as option_specs. Bounded. Threads: [any-thread] */
  int32_t (*formats)(yoke_plugin* plugin, uint32_t capacity, yoke_format* formats, uint32_t* out_count,
                     yoke_error* error);

  /* One verdict per statement, in order; as option_specs. May block. Threads: [any-thread]
   * Errors: YOKE_INVALID_ARGUMENT the text is no valid program; the text gives line and reason. */
  int32_t (*can_compile)(yoke_device* device, const yoke_program_text* text, uint32_t capacity,
                         yoke_verdict* verdicts, uint32_t* out_count, yoke_error* error);

  /* Compiles every program of the text; each becomes an entry, in order.
   * May block. Threads: [any-thread]. Ownership: *out_code is owned: code_destroy; it pins the device.
   * Errors: YOKE_INVALID_ARGUMENT as can_compile; YOKE_UNIMPLEMENTED a statement that is unsupported. */
  int32_t (*code_compile)(yoke_device* device, const yoke_program_text* text, yoke_code** out_code,
                          yoke_error* error);

  /* NULL is accepted; routines linked from it stay good. Bounded. Threads: [any-thread] */
  void (*code_destroy)(yoke_code* code);

  /* Bounded. Threads: [any-thread] */
  int32_t (*code_entry_count)(yoke_code* code, uint32_t* out_count, yoke_error* error);

  /* Bounded. Threads: [any-thread]. Errors: YOKE_OUT_OF_RANGE no such entry. */
  int32_t (*code_describe)(yoke_code* code, uint32_t entry, yoke_entry_info* info, yoke_error* error);

  /* Arguments in the order of the program's declaration. Bounded. Threads: [any-thread] */
  int32_t (*code_argument)(yoke_code* code, uint32_t entry, uint32_t argument, yoke_argument_info* info,
                           yoke_error* error);

  /* Binds code to memory. Buffers may belong to another device of the backend where "yoke.peer/1" says so.
   * Ranges of arguments that are written must not overlap any other argument's. `workspace` may be NULL when
   * none is wanted. May block. Threads: [any-thread]. Ownership: *out_routine is owned: routine_destroy;
   * buffers are borrowed until then. Errors: YOKE_OUT_OF_RANGE a buffer is too small; YOKE_INVALID_ARGUMENT
   * wrong count or alignment. */
  int32_t (*routine_link)(yoke_code* code, uint32_t entry, const yoke_binding* bindings,
                          uint32_t binding_count, yoke_buffer* workspace, uint64_t workspace_offset,
                          yoke_routine** out_routine, yoke_error* error);

  /* No launch of it is queued any more. NULL is accepted. Bounded. Threads: [any-thread] */
  void (*routine_destroy)(yoke_routine* routine);

  /* Launches a routine. `symbol_values` are in the order of the program's declaration, each inside its range
   * and on its step; copied in the call. A routine is never launched twice at the same time. Asynchronous on
   * a stream. Threads: [stream-serial] Errors: YOKE_OUT_OF_RANGE a symbol's value leaves its declared range;
   * nothing was queued. */
  int32_t (*routine_launch)(yoke_stream* stream, yoke_routine* routine, const int64_t* symbol_values,
                            uint32_t symbol_count, yoke_error* error);
} yoke_program_api;

/* The list of functions, once: X(table type, member, R required or O optional). Checks, stubs, traces and
 * tests are generated from it; a test holds it against the structs. */
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

#define YOKE_STREAM_API_FUNCTIONS(X)       \
  X(yoke_stream_api, stream_create, R)     \
  X(yoke_stream_api, stream_destroy, R)    \
  X(yoke_stream_api, stream_query, R)      \
  X(yoke_stream_api, stream_wait, R)       \
  X(yoke_stream_api, event_record, R)      \
  X(yoke_stream_api, event_destroy, R)     \
  X(yoke_stream_api, event_query, R)       \
  X(yoke_stream_api, event_wait, R)        \
  X(yoke_stream_api, stream_wait_event, R) \
  X(yoke_stream_api, event_elapsed, O)     \
  X(yoke_stream_api, device_abort, O)      \
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
} /* extern "C" */
#endif

#endif /* YOKE_BACKEND_H_ */
