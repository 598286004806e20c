/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/ext/fault.h: "yoke.fault/1", a device that fails on purpose, so that tests can
 * check that every error is reported. */
#ifndef YOKE_EXT_FAULT_H_
#define YOKE_EXT_FAULT_H_

#include <yoke/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_FAULT_TABLE "yoke.fault/1"

/* Kinds of faults. */
#define YOKE_FAULT_ALLOCATION 1  /* a buffer_create returns YOKE_STATUS_OUT_OF_DEVICE_MEMORY */
#define YOKE_FAULT_COPY 2        /* a from_host, to_host, device_to_device or fill: YOKE_STATUS_UNAVAILABLE */
#define YOKE_FAULT_LAUNCH 3      /* a routine_launch: YOKE_STATUS_UNAVAILABLE */
#define YOKE_FAULT_EVENT_LATE 4  /* an event is done `delay_ns` after the work before it */
#define YOKE_FAULT_DEVICE_LOST 5 /* a copy or launch loses the device: YOKE_STATUS_DEVICE_LOST from then on */

typedef struct yoke_fault_api {
  uint64_t struct_size;

  /* Arms one fault: the `nth` call of its kind on this handle fails, counting from 1 and from now. On a
   * stream the work fails in its turn and poisons the stream; with a NULL stream the call returns the error.
   * Arming a kind again replaces the fault of that kind.
   * Threads: [any-thread]. Bounded.
   * Errors: YOKE_STATUS_INVALID_ARGUMENT  nth is 0.
   *         YOKE_STATUS_UNIMPLEMENTED     the backend cannot produce this kind of fault. */
  int32_t (*fault_arm)(yoke_device* device, int32_t kind, uint64_t nth, uint64_t delay_ns, yoke_error* error);

  /* Disarms every fault that has not happened yet. A lost device stays lost.
   * Threads: [any-thread]. Bounded. */
  int32_t (*fault_clear)(yoke_device* device, yoke_error* error);
} yoke_fault_api;

/* The functions of the table, as in backend.h. */
#define YOKE_FAULT_API_FUNCTIONS(X) \
  X(yoke_fault_api, fault_arm, R)   \
  X(yoke_fault_api, fault_clear, R)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* YOKE_EXT_FAULT_H_ */
