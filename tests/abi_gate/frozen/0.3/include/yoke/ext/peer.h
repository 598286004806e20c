/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YOKE_EXT_PEER_H_
#define YOKE_EXT_PEER_H_
#include <yoke/backend.h>
#ifdef __cplusplus
extern "C" {
#endif
#define YOKE_PEER_TABLE "yoke.peer/1"
typedef struct yoke_peer_api {
  uint64_t struct_size;
  int32_t (*peer_access)(yoke_device* device, yoke_device* other, int32_t* out_allowed, yoke_error* error);
} yoke_peer_api;
#define YOKE_PEER_API_FUNCTIONS(X) X(yoke_peer_api, peer_access, R)
#ifdef __cplusplus
}
#endif
#endif
