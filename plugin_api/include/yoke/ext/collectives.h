/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/ext/collectives.h: "yoke.collectives/1", the backend's own collectives between its
 * devices, such as NCCL, RCCL or MPI. Needs "yoke.stream/1". */
/*
 * A group is a fixed number of members, in one process or several. One member makes the group's id; the
 * application carries its bytes to the other members. Each member then creates a communicator with the id,
 * its rank and the size of the group, and waits until all have joined.
 *
 * Order. All members of a group queue the same collectives, with the same kind, type, reduction, root and
 * count, in the same order; each member on its own stream. Where groups share devices, the host queues
 * their work in the same order on each of these devices.
 *
 * Work. A collective is work of its stream like a launch: it starts after the work queued before it, and its
 * result is in the target when an event recorded after it is done. It may wait for the other members. Until
 * then it reads its source and writes its target. The two overlap only in place: they are the same range, or
 * the part is part `rank` of the N parts.
 *
 * Bits. All members receive the same bits. yoke_collectives_info.sum_order says more about sums. Whether the
 * maximum or minimum of a NaN and a number is the NaN is unspecified.
 *
 * Failure. A communicator that has failed stays failed. A member that cannot do its part, because its stream
 * has failed or was aborted, makes its communicator fail. The others may not notice: their work may then
 * stay pending until their communicators are aborted. When one member fails, abort all of them. Waits for
 * streams and events with aborted work return YOKE_STATUS_ABORTED, or the first error, once the work is
 * quiescent.
 */
#ifndef YOKE_EXT_COLLECTIVES_H_
#define YOKE_EXT_COLLECTIVES_H_

#include <yoke/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_COLLECTIVES_TABLE "yoke.collectives/1"

/* One member of a group. Belongs to a device and keeps it open. */
typedef struct yoke_communicator yoke_communicator;

/* Kinds. `part` is `count` elements; a group of N members has ranks 0 to N - 1. */
#define YOKE_COLLECTIVE_ALL_REDUCE 1     /* source, target: a part. Target: the reduction of all sources */
#define YOKE_COLLECTIVE_REDUCE_SCATTER 2 /* source: N parts, target: a part: part `rank` of the reduction */
#define YOKE_COLLECTIVE_ALL_GATHER 3     /* source: a part, target: N parts: the sources in order of ranks */
#define YOKE_COLLECTIVE_BROADCAST 4      /* source, target: a part. Target: the source of member `root` */

/* Reductions. Integer sums wrap. A mean is a sum that the caller divides. */
#define YOKE_REDUCTION_SUM 1
#define YOKE_REDUCTION_MAX 2
#define YOKE_REDUCTION_MIN 3

/* What a sum of floating-point elements depends on. */
#define YOKE_SUM_ORDER_ANY 1   /* repeating a collective may give different bits */
#define YOKE_SUM_ORDER_FIXED 2 /* the same size, count, type and sources give the same bits in every run */
#define YOKE_SUM_ORDER_RANKS 3 /* ((rank 0 + rank 1) + rank 2) + ..., each sum rounded to the type */

/* What a device offers: bits of yoke_collectives_info.features. */
#define YOKE_COLLECTIVES_PROCESSES 1 /* members of a group may be in several processes and machines */

/* The number of bytes of a group's id. */
#define YOKE_GROUP_ID_BYTES 256

typedef struct yoke_collectives_info {
  uint64_t struct_size;
  uint64_t features;     /* YOKE_COLLECTIVES_* */
  uint64_t sum_types;    /* bits 1 << YOKE_TYPE_* of YOKE_REDUCTION_SUM */
  uint64_t order_types;  /* of YOKE_REDUCTION_MAX and YOKE_REDUCTION_MIN */
  int32_t sum_order;     /* YOKE_SUM_ORDER_* */
  uint32_t member_limit; /* of the members of a group that are in one process; 0: none */
} yoke_collectives_info;

typedef struct yoke_group_id {
  uint64_t struct_size;
  uint8_t bytes[YOKE_GROUP_ID_BYTES]; /* only the backend understands them */
} yoke_group_id;

typedef struct yoke_communicator_args {
  uint64_t struct_size;
  uint64_t flags;    /* 0 */
  const uint8_t* id; /* YOKE_GROUP_ID_BYTES bytes from group_id_create, possibly in another process */
  uint32_t rank;
  uint32_t size; /* of the group */
} yoke_communicator_args;

/* The part of one member in a collective. A row of an array. */
typedef struct yoke_collective {
  yoke_communicator* communicator;
  yoke_stream* stream; /* of the communicator's device; not NULL */
  yoke_buffer* source; /* of that device; NULL for a broadcast of another member */
  uint64_t source_offset;
  yoke_buffer* target; /* of that device */
  uint64_t target_offset;
  uint64_t count;    /* elements of a part; 0 is allowed */
  int32_t kind;      /* YOKE_COLLECTIVE_* */
  int32_t type;      /* YOKE_TYPE_* of the elements */
  int32_t reduction; /* YOKE_REDUCTION_*; ignored without a reduction */
  uint32_t root;     /* ignored unless it is a broadcast */
  uint64_t flags;    /* 0 */
} yoke_collective;

typedef struct yoke_collectives_api {
  uint64_t struct_size;

  /* Describes the collectives of a device. UNIMPLEMENTED: a library is missing. The caller sets info->struct_size.
   * Threads: [any-thread]. May block. */
  int32_t (*collectives_describe)(yoke_device* device, yoke_collectives_info* info, yoke_error* error);

  /* Makes the id of a new group, which no other group has. Its members must not be in other processes unless
   * the device has YOKE_COLLECTIVES_PROCESSES. The caller sets id->struct_size.
   * Threads: [any-thread]. May block, but not for other members. */
  int32_t (*group_id_create)(yoke_device* device, yoke_group_id* id, yoke_error* error);

  /* Begins to join a group. Does not wait for other members: communicator_wait does.
   * Threads: [any-thread]. May block.
   * Ownership: *out_communicator is owned: communicator_destroy. It keeps the device open.
   * Errors: YOKE_STATUS_INVALID_ARGUMENT  the rank is not less than the size, or the id is not an id.
   *         YOKE_STATUS_UNIMPLEMENTED     the group is too large, or the device already has a member of it
   *                                       and can only have one; communicator_wait may return it instead. */
  int32_t (*communicator_create)(yoke_device* device, const yoke_communicator_args* args,
                                 yoke_communicator** out_communicator, yoke_error* error);

  /* Destroys a communicator; NULL is accepted. Does not wait for other members. A member that leaves before
   * all have joined aborts its communicator.
   * Threads: [any-thread]. May block.
   * Precondition: no pending work uses the communicator. */
  void (*communicator_destroy)(yoke_communicator* communicator);

  /* Writes to *out_state: YOKE_STATE_PENDING until all members have joined, then YOKE_STATE_DONE, or
   * YOKE_STATE_FAILED.
   * Threads: [any-thread]. Bounded. */
  int32_t (*communicator_query)(yoke_communicator* communicator, int32_t* out_state, yoke_error* error);

  /* Waits at most `timeout_ns` nanoseconds until all members have joined; 0 does not block.
   * Threads: [any-thread]. May block.
   * Errors: YOKE_STATUS_DEADLINE_EXCEEDED  members are missing; waiting again is allowed.
   *         the first error of the communicator, if it has failed. */
  int32_t (*communicator_wait)(yoke_communicator* communicator, uint64_t timeout_ns, yoke_error* error);

  /* Cancels all work of the communicator without waiting for it, which makes the streams of that work fail.
   * The communicator fails with YOKE_STATUS_ABORTED unless it has failed before. Aborting a stream or a
   * device aborts the communicators whose work is pending there.
   * Threads: [any-thread]. Bounded. */
  int32_t (*communicator_abort)(yoke_communicator* communicator, yoke_error* error);

  /* Queues collectives. `count` is at least 1; `stride` is the caller's sizeof(yoke_collective). The rows may
   * belong to several members of a group and to several groups, so that one thread can queue for several
   * members. Either all rows are queued or none; rows of one stream are queued in their order.
   * Threads: [stream-serial], for the stream and the communicator of each row. Asynchronous.
   * Precondition: communicator_wait has returned YOKE_STATUS_OK for each communicator.
   * Errors: YOKE_STATUS_OUT_OF_RANGE         a range exceeds its buffer, or `root` the group.
   *         YOKE_STATUS_INVALID_ARGUMENT     a handle is NULL or of another device; a kind, type or reduction
   *                                          is unknown; source and target overlap but are not in place.
   *         YOKE_STATUS_UNIMPLEMENTED        the device does not reduce this type; a flag is unknown.
   *         YOKE_STATUS_FAILED_PRECONDITION  members are missing.
   *         the first error of a communicator that has failed. */
  int32_t (*collectives_queue)(const yoke_collective* rows, uint32_t count, uint32_t stride,
                               yoke_error* error);
} yoke_collectives_api;

/* The functions of the table, as in backend.h. */
#define YOKE_COLLECTIVES_API_FUNCTIONS(X)          \
  X(yoke_collectives_api, collectives_describe, R) \
  X(yoke_collectives_api, group_id_create, R)      \
  X(yoke_collectives_api, communicator_create, R)  \
  X(yoke_collectives_api, communicator_destroy, R) \
  X(yoke_collectives_api, communicator_query, R)   \
  X(yoke_collectives_api, communicator_wait, R)    \
  X(yoke_collectives_api, communicator_abort, R)   \
  X(yoke_collectives_api, collectives_queue, R)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* YOKE_EXT_COLLECTIVES_H_ */
