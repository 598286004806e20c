/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/plugin.h: how a plugin is entered, versioned, released, and reports errors. */
/*
 * General rules, thread tags and ownership words stand once, in plugin_api/README.md:
 * pointers are non-null and borrowed until return unless said otherwise; strings are UTF-8; sizes are
 * uint64_t; enumerations travel as int32_t; on failure out-parameters stay untouched; no exception and
 * no C++ type crosses.
 */
#ifndef YOKE_PLUGIN_H_
#define YOKE_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI that this header describes. 0.x may still change; from 1.0 on it only grows. */
#define YOKE_ABI_MAJOR 0
#define YOKE_ABI_MINOR 1

/* "yoke" in memory order on a little-endian machine. */
#define YOKE_PLUGIN_MAGIC 0x656b6f79u

/* The one symbol that a plugin exports. */
#define YOKE_PLUGIN_ENTRY_SYMBOL "yoke_plugin_entry"

/* Result codes: every fallible function returns one as int32_t. Never renumbered; treat an unknown one as
 * YOKE_UNKNOWN. */
#define YOKE_OK 0
#define YOKE_CANCELLED 1
#define YOKE_UNKNOWN 2
#define YOKE_INVALID_ARGUMENT 3
#define YOKE_DEADLINE_EXCEEDED 4
#define YOKE_NOT_FOUND 5
#define YOKE_ALREADY_EXISTS 6
#define YOKE_PERMISSION_DENIED 7
#define YOKE_RESOURCE_EXHAUSTED 8
#define YOKE_FAILED_PRECONDITION 9
#define YOKE_ABORTED 10
#define YOKE_OUT_OF_RANGE 11
#define YOKE_UNIMPLEMENTED 12
#define YOKE_INTERNAL 13
#define YOKE_UNAVAILABLE 14
#define YOKE_DATA_LOSS 15
#define YOKE_DEVICE_LOST 16
#define YOKE_OUT_OF_DEVICE_MEMORY 17

/* Log levels. */
#define YOKE_LOG_TRACE 0
#define YOKE_LOG_DEBUG 1
#define YOKE_LOG_INFO 2
#define YOKE_LOG_WARN 3
#define YOKE_LOG_ERROR 4

/* Sanitizer that a plugin was built with: a host built without it cannot load the plugin. */
#define YOKE_SANITIZER_NONE 0u
#define YOKE_SANITIZER_ADDRESS 1u
#define YOKE_SANITIZER_THREAD 2u
#define YOKE_SANITIZER_MEMORY 3u

/* The host's status object. A plugin only hands it to error_set; it may be NULL: then nobody wants text. */
typedef struct yoke_error yoke_error;

/* What the host offers to a plugin. Valid until `destroy` returns. */
typedef struct yoke_host_api {
  uint64_t struct_size; /* sizeof(yoke_host_api), as the host was built */
  void* host;           /* handed back in every call below */

  /* Writes one line to the host's log: `event key=value ...`, without a newline.
   * Threads: [any-thread] */
  void (*log)(void* host, int32_t level, const char* text, uint64_t length);

  /* Fills the status object; the text is copied. `error` may be NULL: nothing happens.
   * Threads: [any-thread], one thread per status object */
  void (*error_set)(yoke_error* error, int32_t code, int64_t vendor_code, const char* text, uint64_t length);

  /* Marks a span on the calling thread for the host's trace; cheap when nobody traces.
   * Threads: [any-thread] */
  void (*trace_begin)(void* host, const char* name);
  void (*trace_end)(void* host);
} yoke_host_api;

#define YOKE_HOST_API_INIT \
  { sizeof(yoke_host_api), 0, 0, 0, 0, 0 }

/* The prefix of a plugin: frozen across majors, so that a rejected plugin can still be named and released.
 * A plugin's own object starts with it. */
typedef struct yoke_plugin yoke_plugin;
struct yoke_plugin {
  uint32_t magic;       /* YOKE_PLUGIN_MAGIC */
  uint32_t prefix_size; /* sizeof(yoke_plugin) */
  uint32_t abi_major;   /* the version that the plugin answers with */
  uint32_t abi_minor;
  uint64_t flags;             /* 0; unknown bits are ignored */
  uint32_t sanitizer;         /* YOKE_SANITIZER_* */
  uint32_t reserved;          /* 0 */
  const char* backend_name;   /* borrowed from the plugin, as the two below: lower case, [a-z][a-z0-9_]* */
  const char* plugin_version; /* for people: "1.4.2" */
  const char* vendor;         /* for people */

  /* Frees the plugin. Every device is closed before. NULL is accepted.
   * Threads: [load-time] */
  void (*destroy)(yoke_plugin* plugin);

  /* The table called `id` ("yoke.backend/1", ...), or NULL where the plugin does not have it. The table
   * starts with its own uint64_t struct_size, is borrowed from the plugin and never changes. Threads:
   * [any-thread] */
  const void* (*get_table)(yoke_plugin* plugin, const char* id);
};

/* What the host passes to the entry. */
typedef struct yoke_entry_args {
  uint64_t struct_size;
  uint32_t min_major; /* the ABI versions that the host serves, both ends included */
  uint32_t min_minor;
  uint32_t max_major;
  uint32_t max_minor;
  const yoke_host_api* host; /* borrowed until `destroy` returns */
} yoke_entry_args;

#define YOKE_ENTRY_ARGS_INIT \
  { sizeof(yoke_entry_args), YOKE_ABI_MAJOR, 0, YOKE_ABI_MAJOR, YOKE_ABI_MINOR, 0 }

/* Enters the plugin: it picks one version inside the host's range, or answers YOKE_FAILED_PRECONDITION with a
 * text that says which versions it speaks. Starts no thread, opens no device, prints nothing. Threads:
 * [load-time] Ownership: *out_plugin is owned by the host, which calls its `destroy`. */
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
