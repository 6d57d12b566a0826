/* Sizes of the layout of weights, and the job that integer kernels share. */

#ifndef INTEGER_H
#define INTEGER_H

#include "abi.h"

#define GROUP 16         /* units side by side */
#define QUAD 4           /* values of the depth side by side */
#define TILE_BYTES 32768 /* of gathered windows; windows are at most so long */

typedef struct {
  const uint8_t *x;
  const int8_t *w;
  const int32_t *start;
  const float *m;
  uint8_t *y;
  const window_walk *g;
  int64_t depth; /* of a window, in whole quads */
  int64_t border, flip, zero, lo, hi;
  int is_whole; /* whether the windows are the pixels of x in order */
} product_job;

/* Whether the processor multiplies bytes and adds four products to a sum (AVX-512 VNNI). */
int has_vnni(void);

#endif
