/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/plugin.h: how a plugin is entered, versioned and released, and how it reports errors. */
/*
 * Rules that hold for every function, unless its comment says otherwise:
 *
 *   - Pointers are non-null and borrowed until the call returns. Strings are UTF-8 and end in a zero byte.
 *   - Sizes are uint64_t. Enumerations travel as int32_t, are never renumbered, and unknown values are tolerated.
 *   - A function that can fail returns a YOKE_STATUS_* code. On failure it leaves its out parameters untouched.
 *   - No exception and no C++ type crosses the boundary. No call ends the process.
 *   - A struct of arguments or information starts with `struct_size`, which its owner sets to its sizeof. The
 *     other side reads or writes min(struct_size, its own sizeof) bytes; fields that it does not receive
 *     are zero.
 *   - `flags` is 0 or an OR of the bits named for that struct. For a bit that it does not know, a plugin returns
 *     YOKE_STATUS_UNIMPLEMENTED.
 *   - An array of structs is passed with its stride, the caller's sizeof of one row. Rows have no struct_size.
 *
 * Every function states who may call it, how long it may take, and who owns what it returns:
 *
 *   [any-thread]     any thread, at the same time as any other call
 *   [device-serial]  any thread, one call at a time for each device
 *   [stream-serial]  any thread, one call at a time for each stream; for a NULL stream see backend.h
 *   [load-time]      the thread that loads or unloads the plugin, while no other call into it is active
 *   [callback]       called by the plugin, on any thread; must not call back into the plugin
 *   Bounded          returns within microseconds and takes no lock that is held during long work
 *   May block        may take as long as the work that it describes
 *   Asynchronous     queues work and returns
 */
#ifndef YOKE_PLUGIN_H_
#define YOKE_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the ABI in this header. Until 1.0 a minor version may break the ABI: YOKE_ABI_MIN_MINOR is
 * the oldest one that is still compatible. CHANGELOG.md, beside the guide, lists the changes. */
#define YOKE_ABI_MAJOR 0
#define YOKE_ABI_MINOR 4
#define YOKE_ABI_MIN_MINOR 3

/* "yoke" in memory order on a little-endian machine. */
#define YOKE_PLUGIN_MAGIC 0x656b6f79u

/* The one symbol that a plugin exports. Its type is yoke_plugin_entry_fn. */
#define YOKE_PLUGIN_ENTRY_SYMBOL "yoke_plugin_entry"

/* Kinds of plugin. The host refuses a plugin whose kind it does not know. */
#define YOKE_PLUGIN_KIND_BACKEND 1 /* offers "yoke.backend/1" (backend.h) */

/* Capacity of names and reasons in the ABI's structs, in bytes, including the closing zero. */
#define YOKE_NAME_CAPACITY 128
#define YOKE_REASON_CAPACITY 512

/* Status codes. Never renumbered; treat an unknown code as YOKE_STATUS_UNKNOWN. */
#define YOKE_STATUS_OK 0
#define YOKE_STATUS_CANCELLED 1
#define YOKE_STATUS_UNKNOWN 2
#define YOKE_STATUS_INVALID_ARGUMENT 3
#define YOKE_STATUS_DEADLINE_EXCEEDED 4
#define YOKE_STATUS_NOT_FOUND 5
#define YOKE_STATUS_ALREADY_EXISTS 6
#define YOKE_STATUS_PERMISSION_DENIED 7
#define YOKE_STATUS_RESOURCE_EXHAUSTED 8 /* host memory, threads, handles */
#define YOKE_STATUS_FAILED_PRECONDITION 9
#define YOKE_STATUS_ABORTED 10 /* stream_abort or device_abort canceled the work */
#define YOKE_STATUS_OUT_OF_RANGE 11
#define YOKE_STATUS_UNIMPLEMENTED 12
#define YOKE_STATUS_INTERNAL 13
#define YOKE_STATUS_UNAVAILABLE 14
#define YOKE_STATUS_DATA_LOSS 15
#define YOKE_STATUS_DEVICE_LOST 16 /* the device stopped working; every later call for it returns this code */
#define YOKE_STATUS_OUT_OF_DEVICE_MEMORY 17

/* Log levels. */
#define YOKE_LOG_TRACE 0
#define YOKE_LOG_DEBUG 1
#define YOKE_LOG_INFO 2
#define YOKE_LOG_WARN 3
#define YOKE_LOG_ERROR 4

/* The sanitizer that a plugin was built with. A host built without that sanitizer cannot load the plugin. */
#define YOKE_SANITIZER_NONE 0u
#define YOKE_SANITIZER_ADDRESS 1u
#define YOKE_SANITIZER_THREAD 2u
#define YOKE_SANITIZER_MEMORY 3u

/* Types of options. */
#define YOKE_OPTION_INTEGER 1
#define YOKE_OPTION_NUMBER 2
#define YOKE_OPTION_TEXT 3
#define YOKE_OPTION_FLAG 4 /* 0 or 1, in `integer` */

/* One option and its value. A row of an array. */
typedef struct yoke_option {
  const char* name;
  int32_t type; /* YOKE_OPTION_*: which of the three fields below holds the value */
  int32_t reserved;
  int64_t integer;
  double number;
  const char* text;
} yoke_option;

/* The host's status object, which a plugin passes to yoke_host_api.error_set. NULL if the host does not need a text. */
typedef struct yoke_error yoke_error;

/* The functions that the host offers to a plugin, valid until yoke_plugin.destroy returns. A function that the
 * host does not offer is NULL. */
typedef struct yoke_host_api {
  uint64_t struct_size; /* sizeof(yoke_host_api) in the host */
  void* host;           /* the first argument of every function below but error_set */

  /* Writes one line, `event key=value ...` without a newline, to the host's log. `level` is YOKE_LOG_*.
   * Threads: [any-thread]. May block. */
  void (*log)(void* host, int32_t level, const char* text, uint64_t length);

  /* Sets the code and text of a status object; the text is copied. Does nothing if `error` is NULL.
   * `vendor_code` is the driver's own error number, or 0.
   * Threads: [any-thread], one thread for each status object. Bounded. */
  void (*error_set)(yoke_error* error, int32_t code, int64_t vendor_code, const char* text, uint64_t length);

  /* Begins a span on the calling thread in the host's trace. Costs a few nanoseconds when tracing is off.
   * Threads: [any-thread]. Bounded. */
  void (*trace_begin)(void* host, const char* name);

  /* Ends the latest span that the calling thread began.
   * Threads: [any-thread]. Bounded. */
  void (*trace_end)(void* host);

  /* Allocates host memory for the plugin's host-side buffers, so that the application can count and limit it
   * in one place. `alignment` is a power of two; 0 bytes are allowed; the contents are undefined. Returns
   * NULL when the memory is not available.
   * Threads: [any-thread]. May block.
   * Ownership: owned: `deallocate`, before yoke_plugin.destroy returns. */
  void* (*allocate)(void* host, uint64_t byte_count, uint64_t alignment);

  /* Frees memory that `allocate` returned; NULL is accepted.
   * Threads: [any-thread]. May block. */
  void (*deallocate)(void* host, void* memory);

  /* Returns the host's table `id`, or NULL when the host does not have it. A table starts with its own
   * struct_size. Applications use this to offer their own tables to plugins.
   * Threads: [any-thread]. Bounded.
   * Ownership: borrowed from the host until yoke_plugin.destroy returns. */
  const void* (*get_table)(void* host, const char* id);
} yoke_host_api;

#define YOKE_HOST_API_INIT \
  { sizeof(yoke_host_api), 0, 0, 0, 0, 0, 0, 0, 0 }

/* The start of a plugin's own object. Its layout never changes, so that the host can name and release a
 * plugin that it refuses. The strings are borrowed from the plugin. */
typedef struct yoke_plugin yoke_plugin;
struct yoke_plugin {
  uint32_t magic;       /* YOKE_PLUGIN_MAGIC */
  uint32_t prefix_size; /* sizeof(yoke_plugin) */
  uint32_t abi_major;   /* the version that the plugin chose from the host's range */
  uint32_t abi_minor;
  uint64_t flags;             /* 0; the host ignores unknown bits */
  uint32_t sanitizer;         /* YOKE_SANITIZER_* */
  uint32_t kind;              /* YOKE_PLUGIN_KIND_* */
  const char* name;           /* [a-z][a-z0-9_]*; the file of a backend is libyoke_backend_<name>.so */
  const char* plugin_version; /* for display, such as "1.4.2" */
  const char* vendor;         /* for display */

  /* Releases the plugin; NULL is accepted. Its code stays mapped.
   * Threads: [load-time]. May block.
   * Precondition: every device is closed. */
  void (*destroy)(yoke_plugin* plugin);

  /* Returns the table `id` ("yoke.backend/1", ...), or NULL when the plugin does not have it. A table starts
   * with its own uint64_t struct_size and never changes. The number after the slash is the table's version.
   * Threads: [any-thread]. Bounded.
   * Ownership: borrowed from the plugin until `destroy` returns. */
  const void* (*get_table)(yoke_plugin* plugin, const char* id);
};

/* The arguments of the entry function. */
typedef struct yoke_entry_args {
  uint64_t struct_size;
  uint32_t min_major; /* the range of ABI versions that the host supports, both ends included */
  uint32_t min_minor;
  uint32_t max_major;
  uint32_t max_minor;
  const yoke_host_api* host;  /* borrowed until yoke_plugin.destroy returns */
  const yoke_option* options; /* of the whole plugin, all of type YOKE_OPTION_TEXT as the user wrote them */
  uint32_t option_count;
  uint32_t option_stride; /* sizeof(yoke_option) in the host */
} yoke_entry_args;

#define YOKE_ENTRY_ARGS_INIT \
  { sizeof(yoke_entry_args), YOKE_ABI_MAJOR, YOKE_ABI_MIN_MINOR, YOKE_ABI_MAJOR, YOKE_ABI_MINOR, 0, 0, 0, 0 }

/* Enters the plugin. The plugin chooses one version from the host's range and fills its prefix. It starts no
 * thread, opens no device, loads no driver, and prints nothing.
 * Threads: [load-time]. May block.
 * Ownership: *out_plugin is owned: `destroy`.
 * Errors: YOKE_STATUS_FAILED_PRECONDITION  the plugin supports no version in the range; the text names both
 *         ranges.
 *         YOKE_STATUS_INVALID_ARGUMENT     an option is unknown or given twice, or its value is invalid. */
typedef int32_t (*yoke_plugin_entry_fn)(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                        yoke_error* error);

#if defined(__GNUC__)
#define YOKE_EXPORT __attribute__((visibility("default")))
#else
#define YOKE_EXPORT
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* YOKE_PLUGIN_H_ */
