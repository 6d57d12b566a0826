/* Depthwise convolution, with vectors along the channels, or, if these are few, along a row.

   depthwise: y = Σ window(x) w for each channel, with bias, clamp or ReLU mask as an epilogue in
   registers: forward pass and input gradient.
   depthwise_filter_sums: dw = Σ dy window(x) and db = Σ dy: filter and bias gradient.

   Taps are computed in grids of at most 3 × 3, whose weights or sums are in registers. */

#include "loops.h"
#include "window_blocks.h"

#define FEW 4 /* results of a tile that are not worth loading the weights of a grid for each */

/* A grid of taps for a tile of results. */
typedef struct {
  const float *const *in;
  const int64_t *out;
  int pixels;
  int64_t x_first, x_row, x_col, w_first, w_row, w_col, out_step;
  int begins, ends; /* whether it is the first grid of the window, and the last */
} tap_grid;

/* The number of the next taps of `left`, in a grid. */
static inline int64_t grid_taps(int64_t left) { return left < 3 ? left : left == 4 ? 2 : 3; }

#define BODY "depthwise_body.h"
#include "each_isa.h"
