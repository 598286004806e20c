/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YOKE_EXT_MEMORY_H_
#define YOKE_EXT_MEMORY_H_
#include <yoke/backend.h>
#ifdef __cplusplus
extern "C" {
#endif
#define YOKE_MEMORY_TABLE "yoke.memory/1"
typedef struct yoke_pinned_args {
  uint64_t struct_size;
  uint64_t flags;
  uint64_t byte_count;
} yoke_pinned_args;
typedef struct yoke_import_args {
  uint64_t struct_size;
  uint64_t flags;
  uint64_t address;
  uint64_t byte_count;
  int32_t kind;
  int32_t reserved;
  void (*release)(void* user);
  void* user;
} yoke_import_args;
typedef struct yoke_native_info {
  uint64_t struct_size;
  char api[YOKE_NAME_CAPACITY];
  uint64_t handle;
  uint64_t context;
} yoke_native_info;
typedef struct yoke_memory_api {
  uint64_t struct_size;
  int32_t (*pinned_allocate)(yoke_device* device, const yoke_pinned_args* args, void** out_memory,
                             yoke_error* error);
  void (*pinned_free)(yoke_device* device, void* memory);
  int32_t (*buffer_device_address)(yoke_buffer* buffer, uint64_t* out_address, yoke_error* error);
  int32_t (*buffer_import)(yoke_device* device, const yoke_import_args* args, yoke_buffer** out_buffer,
                           yoke_error* error);
  int32_t (*device_native)(yoke_device* device, yoke_native_info* info, yoke_error* error);
  int32_t (*stream_native)(yoke_stream* stream, yoke_native_info* info, yoke_error* error);
} yoke_memory_api;
#define YOKE_MEMORY_API_FUNCTIONS(X)           \
  X(yoke_memory_api, pinned_allocate, R)       \
  X(yoke_memory_api, pinned_free, R)           \
  X(yoke_memory_api, buffer_device_address, O) \
  X(yoke_memory_api, buffer_import, O)         \
  X(yoke_memory_api, device_native, O)         \
  X(yoke_memory_api, stream_native, O)
#ifdef __cplusplus
}
#endif
#endif
