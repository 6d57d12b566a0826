/* A thread pool that runs the parts of one call on several cores. */

#ifndef TEAM_H
#define TEAM_H

#include "abi.h"

#if defined(_WIN32) || defined(ODT_EMBEDDED)
#define MAX_THREADS 1
#define LOCAL static inline /* compilers leave out what other parts would need */
#else
#define MAX_THREADS 16
#define LOCAL
#endif

typedef void (*part_function)(void *job, int part, int parts);

/* The number of parts for a call of so much work: 30 are about a nanosecond. */
LOCAL int parallel_parts(int64_t work);
#define PRODUCT 4                    /* work of a multiply-add of vectors in registers */
#define LOADED_PRODUCT (3 * PRODUCT) /* of one that loads both operands for itself */
#define WEIGHT 2 /* work of a weight that is read or written once, beyond the caches of a core */

/* Runs f(job, part, parts) for every part, and waits for all. */
LOCAL void parallel_for(part_function f, void *job, int parts);

#if MAX_THREADS == 1
LOCAL int parallel_parts(int64_t work) { return (void)work, 1; }
LOCAL void parallel_for(part_function f, void *job, int parts) {
  for (int k = 0; k < parts; k++) f(job, k, parts);
}
#endif

/* Runs calls when all of several threads have come here, and returns when all of theirs have ended.
   After one of them has left, the others run no calls, because these may need its results.
   state: threads that have come, meetings so far, whether one has left. */
void meet_others(int64_t *state, int64_t all, const bound_call *calls, int64_t count);

/* Where part number `part` of a range begins; it ends where the next one begins. */
static inline int64_t chunk_begin(int64_t size, int part, int parts) { return size * part / parts; }

#endif
