/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YOKE_PLUGIN_H_
#define YOKE_PLUGIN_H_
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define YOKE_ABI_MAJOR 0
#define YOKE_ABI_MINOR 3
#define YOKE_ABI_MIN_MINOR 3
#define YOKE_PLUGIN_MAGIC 0x656b6f79u
#define YOKE_PLUGIN_ENTRY_SYMBOL "yoke_plugin_entry"
#define YOKE_PLUGIN_KIND_BACKEND 1
#define YOKE_NAME_CAPACITY 128
#define YOKE_REASON_CAPACITY 512
#define YOKE_STATUS_OK 0
#define YOKE_STATUS_CANCELLED 1
#define YOKE_STATUS_UNKNOWN 2
#define YOKE_STATUS_INVALID_ARGUMENT 3
#define YOKE_STATUS_DEADLINE_EXCEEDED 4
#define YOKE_STATUS_NOT_FOUND 5
#define YOKE_STATUS_ALREADY_EXISTS 6
#define YOKE_STATUS_PERMISSION_DENIED 7
#define YOKE_STATUS_RESOURCE_EXHAUSTED 8
#define YOKE_STATUS_FAILED_PRECONDITION 9
#define YOKE_STATUS_ABORTED 10
#define YOKE_STATUS_OUT_OF_RANGE 11
#define YOKE_STATUS_UNIMPLEMENTED 12
#define YOKE_STATUS_INTERNAL 13
#define YOKE_STATUS_UNAVAILABLE 14
#define YOKE_STATUS_DATA_LOSS 15
#define YOKE_STATUS_DEVICE_LOST 16
#define YOKE_STATUS_OUT_OF_DEVICE_MEMORY 17
#define YOKE_LOG_TRACE 0
#define YOKE_LOG_DEBUG 1
#define YOKE_LOG_INFO 2
#define YOKE_LOG_WARN 3
#define YOKE_LOG_ERROR 4
#define YOKE_SANITIZER_NONE 0u
#define YOKE_SANITIZER_ADDRESS 1u
#define YOKE_SANITIZER_THREAD 2u
#define YOKE_SANITIZER_MEMORY 3u
#define YOKE_OPTION_INTEGER 1
#define YOKE_OPTION_NUMBER 2
#define YOKE_OPTION_TEXT 3
#define YOKE_OPTION_FLAG 4
typedef struct yoke_option {
  const char* name;
  int32_t type;
  int32_t reserved;
  int64_t integer;
  double number;
  const char* text;
} yoke_option;
typedef struct yoke_error yoke_error;
typedef struct yoke_host_api {
  uint64_t struct_size;
  void* host;
  void (*log)(void* host, int32_t level, const char* text, uint64_t length);
  void (*error_set)(yoke_error* error, int32_t code, int64_t vendor_code, const char* text, uint64_t length);
  void (*trace_begin)(void* host, const char* name);
  void (*trace_end)(void* host);
  void* (*allocate)(void* host, uint64_t byte_count, uint64_t alignment);
  void (*deallocate)(void* host, void* memory);
  const void* (*get_table)(void* host, const char* id);
} yoke_host_api;
#define YOKE_HOST_API_INIT \
  { sizeof(yoke_host_api), 0, 0, 0, 0, 0, 0, 0, 0 }
typedef struct yoke_plugin yoke_plugin;
struct yoke_plugin {
  uint32_t magic;
  uint32_t prefix_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint64_t flags;
  uint32_t sanitizer;
  uint32_t kind;
  const char* name;
  const char* plugin_version;
  const char* vendor;
  void (*destroy)(yoke_plugin* plugin);
  const void* (*get_table)(yoke_plugin* plugin, const char* id);
};
typedef struct yoke_entry_args {
  uint64_t struct_size;
  uint32_t min_major;
  uint32_t min_minor;
  uint32_t max_major;
  uint32_t max_minor;
  const yoke_host_api* host;
  const yoke_option* options;
  uint32_t option_count;
  uint32_t option_stride;
} yoke_entry_args;
#define YOKE_ENTRY_ARGS_INIT \
  { sizeof(yoke_entry_args), YOKE_ABI_MAJOR, YOKE_ABI_MIN_MINOR, YOKE_ABI_MAJOR, YOKE_ABI_MINOR, 0, 0, 0, 0 }
typedef int32_t (*yoke_plugin_entry_fn)(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                        yoke_error* error);
#if defined(__GNUC__)
#define YOKE_EXPORT __attribute__((visibility("default")))
#else
#define YOKE_EXPORT
#endif
#ifdef __cplusplus
}
#endif
#endif
