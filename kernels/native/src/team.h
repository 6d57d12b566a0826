/* Shares one call among the cores, where nothing else runs beside it. */

#ifndef TEAM_H
#define TEAM_H

#include "abi.h"

#define MAX_THREADS 16 /* threads, at most */

typedef void (*part_function)(void *job, int part, int parts);

/* Into how many parts a call with so much work (multiplications, or elements moved) is cut. */
int parallel_parts(int64_t work);

/* Runs f(job, part, parts) for every part, and waits for all. */
void parallel_for(part_function f, void *job, int parts);

/* Part number `part` of a range: its beginning; its end is the next one's beginning. */
static inline int64_t chunk_begin(int64_t size, int part, int parts) { return size * part / parts; }

#endif
