/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YOKE_EXT_FAULT_H_
#define YOKE_EXT_FAULT_H_
#include <yoke/backend.h>
#ifdef __cplusplus
extern "C" {
#endif
#define YOKE_FAULT_TABLE "yoke.fault/1"
#define YOKE_FAULT_ALLOCATION 1
#define YOKE_FAULT_COPY 2
#define YOKE_FAULT_LAUNCH 3
#define YOKE_FAULT_EVENT_LATE 4
#define YOKE_FAULT_DEVICE_LOST 5
typedef struct yoke_fault_api {
  uint64_t struct_size;
  int32_t (*fault_arm)(yoke_device* device, int32_t kind, uint64_t nth, uint64_t delay_ns, yoke_error* error);
  int32_t (*fault_clear)(yoke_device* device, yoke_error* error);
} yoke_fault_api;
#define YOKE_FAULT_API_FUNCTIONS(X) \
  X(yoke_fault_api, fault_arm, R)   \
  X(yoke_fault_api, fault_clear, R)
#ifdef __cplusplus
}
#endif
#endif
