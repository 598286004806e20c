/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/ext/fault.h: "yoke.fault/1", a device fails on purpose, so that tests can see that
 * every error arrives. */
#ifndef YOKE_EXT_FAULT_H_
#define YOKE_EXT_FAULT_H_

#include <yoke/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_FAULT_TABLE "yoke.fault/1"

/* Kinds of faults. */
#define YOKE_FAULT_ALLOCATION 1 /* a buffer_create answers YOKE_OUT_OF_DEVICE_MEMORY */
#define YOKE_FAULT_COPY 2   /* a from_host, to_host, device_to_device or fill fails with YOKE_UNAVAILABLE */
#define YOKE_FAULT_LAUNCH 3 /* a routine_launch fails with YOKE_UNAVAILABLE */
#define YOKE_FAULT_EVENT_LATE 4 /* an event is done `delay_ns` after the work before it */
#define YOKE_FAULT_DEVICE_LOST \
  5 /* a copy or launch loses the device: YOKE_DEVICE_LOST, from then on for every call */

typedef struct yoke_fault_api {
  uint64_t struct_size;

  /* Arms one fault: the `nth` (from 1) call of its kind on this handle, counted from now, fails; the calls
   * before and after it do not. On a stream the failure happens where the work runs, behind what was queued
   * before, and poisons the stream; with a NULL stream it is the call's own answer. Arming a kind again
   * replaces what was armed. Bounded. Threads: [any-thread] Errors: YOKE_INVALID_ARGUMENT nth is 0;
   * YOKE_UNIMPLEMENTED a kind that this backend cannot bring about. */
  int32_t (*fault_arm)(yoke_device* device, int32_t kind, uint64_t nth, uint64_t delay_ns, yoke_error* error);

  /* Disarms every fault that did not happen yet. A lost device stays lost. Bounded. Threads: [any-thread] */
  int32_t (*fault_clear)(yoke_device* device, yoke_error* error);
} yoke_fault_api;

/* The list of functions, as in backend.h. */
#define YOKE_FAULT_API_FUNCTIONS(X) \
  X(yoke_fault_api, fault_arm, R)   \
  X(yoke_fault_api, fault_clear, R)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* YOKE_EXT_FAULT_H_ */
