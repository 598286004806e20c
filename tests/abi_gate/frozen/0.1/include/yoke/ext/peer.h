/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/ext/peer.h: "yoke.peer/1", may a routine on one device use another device's buffers
 * in place. */
#ifndef YOKE_EXT_PEER_H_
#define YOKE_EXT_PEER_H_

#include <yoke/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_PEER_TABLE "yoke.peer/1"

typedef struct yoke_peer_api {
  uint64_t struct_size;

  /* *out_allowed: 1 when routines of `device` may be linked with buffers of `other`, else 0.
   * Bounded. Threads: [any-thread] */
  int32_t (*peer_access)(yoke_device* device, yoke_device* other, int32_t* out_allowed, yoke_error* error);
} yoke_peer_api;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* YOKE_EXT_PEER_H_ */
