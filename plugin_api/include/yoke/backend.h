/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/backend.h: devices, buffers, copies, streams, events, programs. */
/*
 * A backend offers up to three tables. Each further table takes over work that the host would do more slowly:
 *
 *   "yoke.backend/1"  tier 0: devices, buffers, copies     required
 *   "yoke.stream/1"   tier 1: streams and events           without it the host calls from worker threads
 *   "yoke.program/1"  tier 2: compile and launch programs  without it another backend runs the programs
 *
 * The general rules and the thread tags are at the top of plugin.h. Two more hold here:
 *
 * NULL stream. The work is done when the call returns, and the call returns the work's error. A backend
 * without "yoke.stream/1" gets no other streams. Calls with a NULL stream may come from several threads at
 * the same time, provided they use different routines and no conflicting ranges of a buffer.
 *
 * Quiescence. A wait for a stream or an event that returns any code but YOKE_STATUS_DEADLINE_EXCEEDED
 * promises that no work before that point still reads or writes memory of the caller or of a buffer.
 * This includes work that failed, was skipped or was aborted, and work on a lost device. The same holds for a
 * query that answers YOKE_STATE_DONE or YOKE_STATE_FAILED. Until then the caller keeps all memory of that
 * work alive.
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

typedef struct yoke_device yoke_device; /* one accelerator, or the CPU, opened by the host */
typedef struct yoke_buffer yoke_buffer; /* memory of one device */
typedef struct yoke_stream yoke_stream; /* a queue of one device; work runs in order */
typedef struct yoke_event yoke_event;   /* a point in a stream */
/* Programs compiled for one device. Other runtimes call this an executable. */
typedef struct yoke_code yoke_code;
/* One program of a code, bound to buffers. Other runtimes call this a bound executable. */
typedef struct yoke_routine yoke_routine;

/* Element types. A device lists the types it computes with as bits: 1 << YOKE_TYPE_F32. */
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

/* Every buffer starts at a multiple of this many bytes, in the device's address space and in the host's. */
#define YOKE_BUFFER_ALIGNMENT 256

/* Kinds of memory. */
#define YOKE_MEMORY_DEVICE 1  /* fastest for the device */
#define YOKE_MEMORY_UNIFIED 2 /* addressed by the host and the device */
#define YOKE_MEMORY_HOST 3    /* host memory that the device addresses; only from buffer_import */

/* Kinds of device. */
#define YOKE_DEVICE_CPU 1
#define YOKE_DEVICE_GPU 2
#define YOKE_DEVICE_OTHER 3

/* When the source of a from_host may be changed or freed. */
#define YOKE_SOURCE_COPIED 1      /* as soon as the call returns */
#define YOKE_SOURCE_UNTIL_EVENT 2 /* when an event recorded after the copy is done or failed */

/* The state of the work before a point of a stream. */
#define YOKE_STATE_PENDING 0 /* some work has not finished */
#define YOKE_STATE_DONE 1    /* all work has finished without an error */
#define YOKE_STATE_FAILED 2  /* all work has finished or was skipped, and a wait returns the first error */

/* Where an option is given. */
#define YOKE_OPTION_SCOPE_DEVICE 0 /* to device_open */
#define YOKE_OPTION_SCOPE_PLUGIN 1 /* to the entry function */

/* One option that a backend understands. A row of an array; the strings are borrowed from the plugin. */
typedef struct yoke_option_spec {
  const char* name;
  const char* help;    /* one sentence */
  int32_t type;        /* YOKE_OPTION_* */
  int32_t scope;       /* YOKE_OPTION_SCOPE_* */
  int64_t integer_min; /* options of type integer and flag; both ends included */
  int64_t integer_max;
  int64_t integer_default;
  double number_min; /* options of type number */
  double number_max;
  double number_default;
  const char* text_default; /* options of type text */
  const char* text_choices; /* "a|b|c"; NULL: any text */
} yoke_option_spec;

typedef struct yoke_device_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY];      /* for display, not empty, such as "AMD EPYC 9654" */
  char unique_id[YOKE_NAME_CAPACITY]; /* not empty; the same for the same hardware in every process */
  uint64_t memory_bytes;              /* total; 0: unknown */
  uint64_t type_mask;                 /* bits 1 << YOKE_TYPE_* */
  int32_t kind;                       /* YOKE_DEVICE_* */
  uint32_t compute_unit_count;        /* cores or multiprocessors; at least 1 */
  uint32_t suggested_stream_count;    /* at least 1 */
  int32_t host_visible;               /* 1: buffers of YOKE_MEMORY_DEVICE have a host address */
  int32_t numa_node;                  /* -1: unknown, or all nodes */
  uint32_t reserved;
} yoke_device_info;

typedef struct yoke_memory_info {
  uint64_t struct_size;
  uint64_t used_bytes;  /* by live buffers of this handle; imported buffers do not count */
  uint64_t peak_bytes;  /* the most that used_bytes has been; a refused buffer does not count */
  uint64_t limit_bytes; /* 0: limited only by the hardware */
} yoke_memory_info;

typedef struct yoke_buffer_info {
  uint64_t struct_size;
  uint64_t byte_count;
  uint64_t host_address; /* 0: the host cannot address the buffer */
  int32_t kind;          /* YOKE_MEMORY_* */
  int32_t reserved;
} yoke_buffer_info;

/* The number of live objects of the whole plugin. */
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
  uint64_t flags;             /* 0 */
  const yoke_option* options; /* checked by the host against option_specs; NULL when there are none */
  uint32_t option_count;
  uint32_t option_stride; /* sizeof(yoke_option) in the host */
  uint32_t ordinal;       /* from 0 to the count of device_count */
  uint32_t reserved;
} yoke_device_args;

typedef struct yoke_buffer_args {
  uint64_t struct_size;
  uint64_t flags; /* 0 */
  uint64_t byte_count;
  int32_t kind; /* YOKE_MEMORY_DEVICE or YOKE_MEMORY_UNIFIED */
  int32_t reserved;
} yoke_buffer_args;

/* Tier 0. Every function is required except those marked [optional]. */
typedef struct yoke_backend_api {
  uint64_t struct_size;

  /* Counts the devices. The first call may start a driver and its threads. From the first call on, a forked
   * child may only exec; calls in it return YOKE_STATUS_FAILED_PRECONDITION.
   * `out_reason` receives at most `reason_capacity` bytes including the closing zero: one sentence that
   * explains why there are no devices and how to fix it, or an empty text when there are devices. It may be
   * NULL when `reason_capacity` is 0. Having no devices is not an error.
   * Threads: [any-thread]. May block. */
  int32_t (*device_count)(yoke_plugin* plugin, uint32_t* out_count, char* out_reason,
                          uint64_t reason_capacity, yoke_error* error);

  /* Describes a device without opening it. The caller sets info->struct_size.
   * Threads: [any-thread]. May block.
   * Errors: YOKE_STATUS_OUT_OF_RANGE  no such ordinal. */
  int32_t (*device_describe)(yoke_plugin* plugin, uint32_t ordinal, yoke_device_info* info,
                             yoke_error* error);

  /* Opens a device. Opening an ordinal again returns another handle with separate options, limits and counts.
   * Handles of one ordinal are the same device: streams, buffers, events and routines of one handle may be
   * used with those of the other. device_abort and YOKE_STATUS_DEVICE_LOST affect one handle.
   * Threads: [any-thread]. May block.
   * Ownership: *out_device is owned: device_close.
   * Errors: YOKE_STATUS_OUT_OF_RANGE       no such ordinal.
   *         YOKE_STATUS_INVALID_ARGUMENT   an option is unknown or given twice, or its value is invalid.
   *         YOKE_STATUS_PERMISSION_DENIED  the process may not use the device. */
  int32_t (*device_open)(yoke_plugin* plugin, const yoke_device_args* args, yoke_device** out_device,
                         yoke_error* error);

  /* Closes a device; NULL is accepted.
   * Threads: [device-serial]. May block.
   * Errors: YOKE_STATUS_FAILED_PRECONDITION  objects of the handle are alive. The text has their number; the
   *         device stays open. */
  int32_t (*device_close)(yoke_device* device, yoke_error* error);

  /* Reports the memory that live buffers of the handle use.
   * Threads: [any-thread]. Bounded. */
  int32_t (*device_memory)(yoke_device* device, yoke_memory_info* info, yoke_error* error);

  /* Creates a buffer, aligned to YOKE_BUFFER_ALIGNMENT, with undefined contents. byte_count may be 0.
   * Threads: [any-thread]. May block.
   * Ownership: *out_buffer is owned: buffer_destroy. It keeps the device open.
   * Errors: YOKE_STATUS_OUT_OF_DEVICE_MEMORY  the text has the bytes requested, used and available.
   *         YOKE_STATUS_UNIMPLEMENTED         the device has no memory of that kind. */
  int32_t (*buffer_create)(yoke_device* device, const yoke_buffer_args* args, yoke_buffer** out_buffer,
                           yoke_error* error);

  /* Destroys a buffer; NULL is accepted.
   * Threads: [any-thread]. May block.
   * Precondition: no pending work and no routine uses the buffer. */
  void (*buffer_destroy)(yoke_buffer* buffer);

  /* Describes a buffer. The caller sets info->struct_size.
   * Threads: [any-thread]. Bounded. */
  int32_t (*buffer_describe)(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error);

  /* Copies `byte_count` bytes from host memory at `src` to `dst`, starting at byte `dst_offset`. *out_source
   * receives YOKE_SOURCE_*, with a NULL stream always YOKE_SOURCE_COPIED; `out_source` may be NULL: then
   * `src` must stay valid as for YOKE_SOURCE_UNTIL_EVENT.
   * Threads: [stream-serial]. Asynchronous on a stream.
   * Errors: YOKE_STATUS_OUT_OF_RANGE  the range exceeds the buffer; nothing was queued. */
  int32_t (*from_host)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, const void* src,
                       uint64_t byte_count, int32_t* out_source, yoke_error* error);

  /* Copies `byte_count` bytes of `src`, starting at byte `src_offset`, to host memory at `dst`. On a stream
   * `dst` must stay valid until an event recorded after the copy is done or failed.
   * Threads: [stream-serial]. Asynchronous on a stream.
   * Errors: as from_host. */
  int32_t (*to_host)(yoke_stream* stream, yoke_buffer* src, uint64_t src_offset, void* dst,
                     uint64_t byte_count, yoke_error* error);

  /* Copies between two buffers of this backend, which may belong to different devices. `stream` is a stream
   * of either device. Both ranges may be in one buffer.
   * [optional]: without it the host copies through its own memory.
   * Threads: [stream-serial]. Asynchronous on a stream.
   * Precondition: the two ranges do not overlap.
   * Errors: as from_host. */
  int32_t (*device_to_device)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, yoke_buffer* src,
                              uint64_t src_offset, uint64_t byte_count, yoke_error* error);

  /* Fills a range with a repeated pattern of 1, 2, 4 or 8 bytes, which is copied in the call.
   * [optional]: without it the host copies the pattern from its own memory.
   * Threads: [stream-serial]. Asynchronous on a stream.
   * Precondition: `byte_count` is a multiple of `pattern_byte_count`.
   * Errors: as from_host; YOKE_STATUS_INVALID_ARGUMENT  the pattern has another size. */
  int32_t (*fill)(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, uint64_t byte_count,
                  const void* pattern, uint32_t pattern_byte_count, yoke_error* error);

  /* Counts the live objects of the plugin. The caller sets counts->struct_size.
   * Threads: [any-thread]. Bounded. */
  int32_t (*live_counts)(yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error);

  /* Lists the options of device_open and of the entry function. Writes at most `capacity` rows, `stride`
   * bytes apart, and always the full number to *out_count. `specs` may be NULL when `capacity` is 0.
   * [optional]: without it the backend has no options.
   * Threads: [any-thread]. Bounded. */
  int32_t (*option_specs)(yoke_plugin* plugin, uint32_t capacity, uint64_t stride, yoke_option_spec* specs,
                          uint32_t* out_count, yoke_error* error);
} yoke_backend_api;

typedef struct yoke_stream_args {
  uint64_t struct_size;
  uint64_t flags;   /* 0 */
  int32_t priority; /* 0: normal; negative: lower; positive: higher; a hint */
  int32_t reserved;
} yoke_stream_args;

#define YOKE_EVENT_TIMING 1u /* event_elapsed may be called with the event */

typedef struct yoke_event_args {
  uint64_t struct_size;
  uint64_t flags; /* YOKE_EVENT_* */
} yoke_event_args;

/* The function that stream_host_callback calls. `status` is YOKE_STATUS_OK, or the first error of the work
 * before it. The function must return soon, because later work of the stream waits for it.
 * Threads: [callback]. Bounded. */
typedef void (*yoke_host_callback_fn)(void* user, int32_t status);

/*
 * Tier 1. Work on a stream runs in the order in which it was queued.
 *
 * Errors. The first piece of work that fails poisons its stream: work queued after it is skipped, and every
 * later wait for the stream returns that error. A launch or copy that fails leaves its outputs undefined;
 * other memory is intact. An event carries the first error of the work before it; a failure does
 * not affect events that were recorded before it.
 *
 * A timeout is in nanoseconds from the call; 0 never blocks.
 */
typedef struct yoke_stream_api {
  uint64_t struct_size;

  /* Creates a stream.
   * Threads: [any-thread]. May block.
   * Ownership: *out_stream is owned: stream_destroy. It keeps the device open. */
  int32_t (*stream_create)(yoke_device* device, const yoke_stream_args* args, yoke_stream** out_stream,
                           yoke_error* error);

  /* Destroys a stream; NULL is accepted. Its events stay valid.
   * Threads: [stream-serial]. May block.
   * Precondition: no work is pending on the stream. */
  void (*stream_destroy)(yoke_stream* stream);

  /* Writes YOKE_STATE_* of all work queued before the call to *out_state. A failure of that work is a state,
   * not an error of this function; stream_wait returns it.
   * Threads: [any-thread]. Bounded. */
  int32_t (*stream_query)(yoke_stream* stream, int32_t* out_state, yoke_error* error);

  /* Waits for all work queued before the call.
   * Threads: [any-thread]. May block, for at most `timeout_ns`.
   * Errors: YOKE_STATUS_DEADLINE_EXCEEDED  work is still pending.
   *         The first error of the stream, whenever it happened. */
  int32_t (*stream_wait)(yoke_stream* stream, uint64_t timeout_ns, yoke_error* error);

  /* Records an event after all work queued so far. An event is recorded once.
   * Threads: [stream-serial]. Asynchronous.
   * Ownership: *out_event is owned: event_destroy. It keeps the device open and may outlive the stream. */
  int32_t (*event_record)(yoke_stream* stream, const yoke_event_args* args, yoke_event** out_event,
                          yoke_error* error);

  /* Destroys an event, which may be pending; NULL is accepted. Streams that wait for it continue to wait.
   * Threads: [any-thread]. Bounded. */
  void (*event_destroy)(yoke_event* event);

  /* As stream_query, for the work before the event.
   * Threads: [any-thread]. Bounded. */
  int32_t (*event_query)(yoke_event* event, int32_t* out_state, yoke_error* error);

  /* As stream_wait, for the work before the event.
   * Threads: [any-thread]. May block, for at most `timeout_ns`.
   * Errors: YOKE_STATUS_DEADLINE_EXCEEDED  work is still pending.
   *         The first error of the work before the event. */
  int32_t (*event_wait)(yoke_event* event, uint64_t timeout_ns, yoke_error* error);

  /* Makes work queued on `stream` after the call wait for `event`, which may be of another stream and of
   * another device of this backend. The stream inherits the event's error.
   * Threads: [stream-serial]. Asynchronous. */
  int32_t (*stream_wait_event)(yoke_stream* stream, yoke_event* event, yoke_error* error);

  /* Writes the time between two events of one device, in nanoseconds, to *out_ns.
   * [optional]
   * Threads: [any-thread]. Bounded.
   * Errors: YOKE_STATUS_FAILED_PRECONDITION  an event is pending, has failed, or was recorded without
   *         YOKE_EVENT_TIMING. */
  int32_t (*event_elapsed)(yoke_event* start, yoke_event* stop, uint64_t* out_ns, yoke_error* error);

  /* Cancels the work of one stream: skips work that has not started, and stops running work where the device
   * can. Returns without waiting. Waits for unfinished work, and for the stream, return
   * YOKE_STATUS_ABORTED once that work is quiescent. The stream stays poisoned; other streams are unaffected
   * unless they wait for its events.
   * [optional]
   * Threads: [any-thread]. Bounded. */
  int32_t (*stream_abort)(yoke_stream* stream, yoke_error* error);

  /* As stream_abort, for every stream of the handle, including streams that are created later.
   * [optional]
   * Threads: [any-thread]. Bounded. */
  int32_t (*device_abort)(yoke_device* device, yoke_error* error);

  /* Calls `callback(user, status)` once, on any thread, after all work queued so far has finished, failed or
   * been skipped, also on poisoned and aborted streams. Work queued later waits until it returns; on other streams,
   * only copies may wait for it. [optional]: without it a thread of the host waits for an event and calls it.
   * Threads: [stream-serial]. Asynchronous.
   * Ownership: `user` must stay valid until `callback` returns. */
  int32_t (*stream_host_callback)(yoke_stream* stream, yoke_host_callback_fn callback, void* user,
                                  yoke_error* error);

  /* Writes a readable description of a stream's state: at most `capacity` bytes with the closing zero.
   * [optional]
   * Threads: [any-thread]. Bounded. */
  int32_t (*stream_debug_text)(yoke_stream* stream, char* text, uint64_t capacity, yoke_error* error);
} yoke_stream_api;

#define YOKE_PROGRAM_FORMAT "yoke.program"
#define YOKE_PROGRAM_VERSION 1

/* A text with one or more programs (program/FORMAT.md, beside the guide). */
typedef struct yoke_compile_args {
  uint64_t struct_size;
  uint64_t flags;     /* 0 */
  const char* format; /* YOKE_PROGRAM_FORMAT */
  const char* text;   /* need not end in a zero */
  uint64_t byte_count;
  uint32_t version; /* YOKE_PROGRAM_VERSION */
  uint32_t reserved;
} yoke_compile_args;

/* One format that a backend reads. A row of an array. */
typedef struct yoke_format {
  const char* format; /* borrowed from the plugin */
  uint32_t version;
  uint32_t reserved;
} yoke_format;

/* How a backend runs a statement. */
#define YOKE_VERDICT_NATIVE 1      /* in one kernel or library call, maybe together with other statements */
#define YOKE_VERDICT_DECOMPOSED 2  /* in several kernels or calls, or interpreted */
#define YOKE_VERDICT_UNSUPPORTED 3 /* cannot run it; `reason` explains why */

/* The verdict on one statement. A row of an array. */
typedef struct yoke_verdict {
  uint32_t program;   /* index in the text, from 0 */
  uint32_t statement; /* index in the program, from 0 */
  int32_t verdict;    /* YOKE_VERDICT_* */
  int32_t reserved;
  char reason[YOKE_REASON_CAPACITY];
} yoke_verdict;

/* One compiled program. */
typedef struct yoke_entry_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY];
  uint32_t argument_count;
  uint32_t symbol_count;
  uint64_t workspace_byte_count; /* memory that routine_link needs; 0: none */
  int32_t deterministic;         /* 1: the same inputs give the same bits */
  int32_t reserved;
  char fingerprint[YOKE_NAME_CAPACITY]; /* changes when the compiled code may differ */
} yoke_entry_info;

/* How a program uses an argument. */
#define YOKE_ACCESS_IN 1
#define YOKE_ACCESS_OUT 2
#define YOKE_ACCESS_INOUT 3

typedef struct yoke_argument_info {
  uint64_t struct_size;
  char name[YOKE_NAME_CAPACITY];
  int32_t type;   /* YOKE_TYPE_* */
  int32_t access; /* YOKE_ACCESS_* */
  uint32_t rank;
  uint32_t alignment; /* of the address to bind, in bytes: a power of two from the element's size to 256 */
  uint64_t dims[YOKE_MAX_RANK];
  uint64_t byte_count;
} yoke_argument_info;

/* A range of a buffer. A row of an array. */
typedef struct yoke_binding {
  yoke_buffer* buffer;
  uint64_t offset;     /* in bytes */
  uint64_t byte_count; /* at least the size of the argument */
  uint64_t flags;      /* 0 */
} yoke_binding;

typedef struct yoke_link_args {
  uint64_t struct_size;
  uint64_t flags;               /* 0 */
  const yoke_binding* bindings; /* one for each argument, in the order of the program's declaration */
  uint32_t binding_count;
  uint32_t binding_stride; /* sizeof(yoke_binding) in the host */
  /* At a multiple of YOKE_BUFFER_ALIGNMENT; binding_stride bytes long. NULL: none. */
  const yoke_binding* workspace;
  uint32_t entry; /* index of the program in the code, from 0 */
  uint32_t reserved;
} yoke_link_args;

/* Tier 2. */
typedef struct yoke_program_api {
  uint64_t struct_size;

  /* Lists the formats that the backend reads. The arguments work as in option_specs.
   * Threads: [any-thread]. Bounded. */
  int32_t (*formats)(yoke_plugin* plugin, uint32_t capacity, uint64_t stride, yoke_format* formats,
                     uint32_t* out_count, yoke_error* error);

  /* Reports how the backend would run each statement, in order. The arguments work as in option_specs. Compiles
   * nothing. The host passes a capacity for every statement of the text.
   * Threads: [any-thread]. May block.
   * Errors: YOKE_STATUS_INVALID_ARGUMENT  the text is not a valid program; the error has line and reason.
   *         YOKE_STATUS_UNIMPLEMENTED     the backend does not read the format. */
  int32_t (*can_compile)(yoke_device* device, const yoke_compile_args* args, uint32_t capacity,
                         uint64_t stride, yoke_verdict* verdicts, uint32_t* out_count, yoke_error* error);

  /* Compiles every program of a text. Each becomes one entry of the code, in order.
   * Threads: [any-thread]. May block.
   * Ownership: *out_code is owned: code_destroy. It keeps the device open.
   * Errors: as can_compile; YOKE_STATUS_UNIMPLEMENTED  a statement is unsupported. */
  int32_t (*code_compile)(yoke_device* device, const yoke_compile_args* args, yoke_code** out_code,
                          yoke_error* error);

  /* Destroys a code; NULL is accepted. Routines linked from it stay valid.
   * Threads: [any-thread]. May block. */
  void (*code_destroy)(yoke_code* code);

  /* Counts the entries of a code.
   * Threads: [any-thread]. Bounded. */
  int32_t (*code_entry_count)(yoke_code* code, uint32_t* out_count, yoke_error* error);

  /* Describes an entry. The caller sets info->struct_size.
   * Threads: [any-thread]. Bounded.
   * Errors: YOKE_STATUS_OUT_OF_RANGE  no such entry. */
  int32_t (*code_describe)(yoke_code* code, uint32_t entry, yoke_entry_info* info, yoke_error* error);

  /* Describes an argument of an entry, in the order of the program's declaration. The caller sets
   * info->struct_size.
   * Threads: [any-thread]. Bounded.
   * Errors: YOKE_STATUS_OUT_OF_RANGE  no such entry or argument. */
  int32_t (*code_argument)(yoke_code* code, uint32_t entry, uint32_t argument, yoke_argument_info* info,
                           yoke_error* error);

  /* Binds an entry to memory. Buffers are of this device, or of another device that "yoke.peer/1" allows.
   * Several routines may share a workspace when their launches are ordered, by one stream or by events; its
   * contents are undefined before every launch.
   * Threads: [any-thread]. May block.
   * Ownership: *out_routine is owned: routine_destroy. It keeps the device open. The buffers must outlive it.
   * Errors: YOKE_STATUS_OUT_OF_RANGE      a binding exceeds its buffer or is smaller than its argument.
   *         YOKE_STATUS_INVALID_ARGUMENT  wrong number of bindings; an address is not aligned; the range of an
   *         argument that is written overlaps another argument's. */
  int32_t (*routine_link)(yoke_code* code, const yoke_link_args* args, yoke_routine** out_routine,
                          yoke_error* error);

  /* Destroys a routine; NULL is accepted.
   * Threads: [any-thread]. May block.
   * Precondition: no launch of the routine is pending. */
  void (*routine_destroy)(yoke_routine* routine);

  /* Launches a routine. `symbol_values` has one value for each symbol, in the order of the program's
   * declaration; it is copied in the call.
   * Threads: [stream-serial]. Asynchronous on a stream.
   * Precondition: no other launch of the routine runs at the same time.
   * Errors: YOKE_STATUS_OUT_OF_RANGE  a value is not in the symbol's range or not on its step; nothing was
   *         queued. */
  int32_t (*routine_launch)(yoke_stream* stream, yoke_routine* routine, const int64_t* symbol_values,
                            uint32_t symbol_count, yoke_error* error);
} yoke_program_api;

/* The functions of each table: X(table type, member, R required or O optional). Checks, stubs, traces and
 * tests are generated from these lists. */
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
} /* extern "C" */
#endif

#endif /* YOKE_BACKEND_H_ */
