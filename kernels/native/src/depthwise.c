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

#define CACHED (1 << 18) /* floats of images that stay in the cache of a core */

/* Reads the image rows of a band, a float of each line, if the images are too large for the cache.
   A vector of channels of each pixel is too far from the next one for processors to load it ahead
   of time; whole rows are not. */
static void load_band(const window_walk *g, const walk_cursor *at, const float *x) {
  int64_t first = at->row.end * g->stride_h, end = at->band_end * g->stride_h;
  if (end > g->height) end = g->height;
  int64_t count = (at->images - 1) * g->image_stride + (end - first) * g->row_stride;
  if (g->images * g->image_stride <= CACHED) count = 0;
  x += at->image * g->image_stride + first * g->row_stride;
  for (int64_t i = 0; i < count; i += MAX_LANES) (void)((const volatile float *)x)[i];
}

#define BODY "depthwise_body.h"
#include "each_isa.h"
