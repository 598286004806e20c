/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/ext/peer.h: "yoke.peer/1", whether routines of one device may use buffers of
 * another in place. */
#ifndef YOKE_EXT_PEER_H_
#define YOKE_EXT_PEER_H_

#include <yoke/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_PEER_TABLE "yoke.peer/1"

typedef struct yoke_peer_api {
  uint64_t struct_size;

  /* Writes 1 to *out_allowed when routines of `device` may be linked with buffers of `other`, else 0. Without
   * the table only handles of one ordinal may share buffers.
   * Threads: [any-thread]. Bounded. */
  int32_t (*peer_access)(yoke_device* device, yoke_device* other, int32_t* out_allowed, yoke_error* error);
} yoke_peer_api;

/* The functions of the table, as in backend.h. */
#define YOKE_PEER_API_FUNCTIONS(X) X(yoke_peer_api, peer_access, R)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* YOKE_EXT_PEER_H_ */
