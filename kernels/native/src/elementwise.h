/* How maps walk arrays that are stretched to one shape; the strides of what is stretched are 0. */

#ifndef MAPS_H
#define MAPS_H

#include <stdint.h>

#define RANK 6    /* axes, at most */
#define INPUTS 3  /* inputs, at most */
#define CHUNK 256 /* elements that are computed aside at once */

/* In elements; the last axis of each array has stride 1 or 0. Where y's is 0, results add up. */
typedef struct {
  int64_t rank, sizes[RANK], y[RANK], inputs[INPUTS][RANK];
} elementwise_shape;

/* Before a loop whose elements do not depend on each other. */
#ifdef __clang__
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

#endif
