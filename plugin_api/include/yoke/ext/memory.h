/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/ext/memory.h: "yoke.memory/1", pinned host memory, device addresses, foreign memory
 * as buffers, and the driver's own handles. */
#ifndef YOKE_EXT_MEMORY_H_
#define YOKE_EXT_MEMORY_H_

#include <yoke/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_MEMORY_TABLE "yoke.memory/1"

typedef struct yoke_pinned_args {
  uint64_t struct_size;
  uint64_t flags; /* 0 */
  uint64_t byte_count;
} yoke_pinned_args;

/* Memory that another library allocated. */
typedef struct yoke_import_args {
  uint64_t struct_size;
  uint64_t flags;   /* 0 */
  uint64_t address; /* in the device's address space; for YOKE_MEMORY_HOST in the host's */
  uint64_t byte_count;
  int32_t kind; /* YOKE_MEMORY_* */
  int32_t reserved;
  /* Releases the memory. Called once, by buffer_destroy, on its thread. May be NULL.
   * Threads: [callback]. May block. */
  void (*release)(void* user);
  void* user;
} yoke_import_args;

/* A handle of the driver under the backend, for libraries that share the device with yoke. Borrowed
 * from the device or stream: the caller must not destroy it. */
typedef struct yoke_native_info {
  uint64_t struct_size;
  char api[YOKE_NAME_CAPACITY]; /* the library: "cuda", "hip", "opencl", "host" */
  uint64_t handle;  /* CUdevice, hipDevice_t, cl_device_id; CUstream, hipStream_t, cl_command_queue */
  uint64_t context; /* CUcontext, cl_context; 0: none */
} yoke_native_info;

typedef struct yoke_memory_api {
  uint64_t struct_size;

  /* Allocates host memory that the device copies from and to at full speed and asynchronously, aligned to
   * YOKE_BUFFER_ALIGNMENT, with undefined contents.
   * Threads: [any-thread]. May block.
   * Ownership: *out_memory is owned: pinned_free. It keeps the device open.
   * Errors: YOKE_STATUS_RESOURCE_EXHAUSTED  the machine has no memory left to pin. */
  int32_t (*pinned_allocate)(yoke_device* device, const yoke_pinned_args* args, void** out_memory,
                             yoke_error* error);

  /* Frees memory that pinned_allocate of the same handle returned; NULL is accepted.
   * Threads: [any-thread]. May block.
   * Precondition: no pending work uses the memory. */
  void (*pinned_free)(yoke_device* device, void* memory);

  /* Writes the buffer's address in the address space of its device to *out_address.
   * [optional]
   * Threads: [any-thread]. Bounded. */
  int32_t (*buffer_device_address)(yoke_buffer* buffer, uint64_t* out_address, yoke_error* error);

  /* Makes a buffer of memory that another library allocated, with any alignment; routine_link checks the
   * address against the argument's alignment. The memory does not count against the device's limit.
   * [optional]
   * Threads: [any-thread]. May block.
   * Ownership: *out_buffer is owned: buffer_destroy, which calls args->release. The memory must stay valid until
   *            then. On failure the caller keeps the memory and `release` is not called.
   * Errors: YOKE_STATUS_UNIMPLEMENTED     memory of that kind cannot be imported.
   *         YOKE_STATUS_INVALID_ARGUMENT  the address is 0 and byte_count is not. */
  int32_t (*buffer_import)(yoke_device* device, const yoke_import_args* args, yoke_buffer** out_buffer,
                           yoke_error* error);

  /* Describes the driver's handle of a device. The caller sets info->struct_size.
   * [optional]
   * Threads: [any-thread]. Bounded. */
  int32_t (*device_native)(yoke_device* device, yoke_native_info* info, yoke_error* error);

  /* Describes the driver's handle of a stream. The caller sets info->struct_size.
   * [optional]
   * Threads: [any-thread]. Bounded. */
  int32_t (*stream_native)(yoke_stream* stream, yoke_native_info* info, yoke_error* error);
} yoke_memory_api;

/* The functions of the table, as in backend.h. */
#define YOKE_MEMORY_API_FUNCTIONS(X)           \
  X(yoke_memory_api, pinned_allocate, R)       \
  X(yoke_memory_api, pinned_free, R)           \
  X(yoke_memory_api, buffer_device_address, O) \
  X(yoke_memory_api, buffer_import, O)         \
  X(yoke_memory_api, device_native, O)         \
  X(yoke_memory_api, stream_native, O)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* YOKE_EXT_MEMORY_H_ */
