/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_api/include/yoke/ext/profile.h: "yoke.profile/1", when the device ran each piece of work, for traces. */
#ifndef YOKE_EXT_PROFILE_H_
#define YOKE_EXT_PROFILE_H_

#include <yoke/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_PROFILE_TABLE "yoke.profile/1"

/* Kinds of work. */
#define YOKE_WORK_LAUNCH 1
#define YOKE_WORK_COPY 2 /* from_host, to_host, device_to_device */
#define YOKE_WORK_FILL 3
#define YOKE_WORK_COLLECTIVE 4

typedef struct yoke_profile_args {
  uint64_t struct_size;
  uint64_t flags;    /* 0 */
  uint64_t capacity; /* records that the device keeps until they are fetched; 0: the backend's choice */
} yoke_profile_args;

/* One copy, fill, launch or collective that has finished. A row of an array. The times are those of the
 * host's steady clock (CLOCK_MONOTONIC), exact to 100 microseconds; differences on one stream are as exact as
 * those of event_elapsed. */
typedef struct yoke_profile_record {
  yoke_stream* stream; /* only to tell streams apart: it may be destroyed. NULL: a NULL stream */
  uint64_t begin_ns;
  uint64_t end_ns; /* not less than begin_ns */
  int32_t kind;    /* YOKE_WORK_* */
  int32_t reserved;
  char name[YOKE_NAME_CAPACITY]; /* of the function, "to_host"; of the program for a launch */
} yoke_profile_record;

typedef struct yoke_profile_api {
  uint64_t struct_size;

  /* Records the work that is queued on this handle from now on. Starting again drops the records. Until the
   * first start, and after profile_stop, work costs nothing more.
   * Threads: [any-thread]. Bounded. */
  int32_t (*profile_start)(yoke_device* device, const yoke_profile_args* args, yoke_error* error);

  /* Stops recording work that is queued from now on. Records of earlier work can still be fetched.
   * Threads: [any-thread]. Bounded. */
  int32_t (*profile_stop)(yoke_device* device, yoke_error* error);

  /* Writes the records of finished work that were not fetched before, at most `capacity` rows, `stride` bytes
   * apart; those of one stream in order. *out_count receives the number of rows, *out_lost how many records
   * were dropped since the last call because the device had no room. Work that failed has no record.
   * Threads: [any-thread]. May block, but not for work.
   * Errors: YOKE_STATUS_UNIMPLEMENTED  the device has no such times. */
  int32_t (*profile_fetch)(yoke_device* device, uint32_t capacity, uint64_t stride,
                           yoke_profile_record* records, uint32_t* out_count, uint64_t* out_lost,
                           yoke_error* error);
} yoke_profile_api;

/* The functions of the table, as in backend.h. */
#define YOKE_PROFILE_API_FUNCTIONS(X)   \
  X(yoke_profile_api, profile_start, R) \
  X(yoke_profile_api, profile_stop, R)  \
  X(yoke_profile_api, profile_fetch, R)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* YOKE_EXT_PROFILE_H_ */
