/* Convolution as sums of products over windows.

   correlate: y = Σ window(x) w, for the windows and weights that the window_walk describes, with
   bias, clamp or ReLU mask as an epilogue in registers: forward pass and input gradient.
   filter_sums: dw = Σ dy window(x) and db = Σ dy: filter and bias gradient. */

#include <string.h>

#include "loops.h"
#define WALKS_VOLUMES HAS_VOLUMES
#include "window_blocks.h"

#define TAPS_D(g) OF_VOLUME((g)->taps_d, 1)

#define WIDE_BAND 1024 /* results of a band: borders of many rows together fill tiles */

/* The inputs of a tile of 2×2 results in winograd.h, and the offsets of the results: the first one
   is last, and stands for those beyond an edge, too. */
#define POINTS 16
typedef struct {
  const float *from[POINTS];
  int64_t out[4];
} result_tile;

static inline int64_t tile_count(const window_walk *g) {
  return image_count(g) * ((g->rows + 1) / 2) * ((g->cols + 1) / 2);
}

/* Lists tiles of results, and their inputs in the planes of a tap: zeros if these are outside. */
static void list_tiles(const window_walk *g, const float *x, const float *zeros, int64_t tap,
                       int64_t first, int64_t count, result_tile *t) {
  int64_t wide = (g->cols + 1) / 2, tall = (g->rows + 1) / 2;
  for (int64_t k = first; k < first + count; k++, t++) {
    int64_t image = k / wide / tall, row = k / wide % tall * 2, col = k % wide * 2;
    int64_t down = row + 1 < g->rows ? g->out_row : 0, right = col + 1 < g->cols ? g->out_col : 0,
            at = image_offset(g, image) + row * g->out_row + col * g->out_col;
    int64_t plane = plane_read(g, image, tap);
    int reads = OF_VOLUME(plane >= 0 && plane < g->planes, !plane);
    const float *from = x + plane_offset(g, image, tap);
    t->out[3] = at, t->out[2] = at + right, t->out[1] = at + down;
    t->out[0] = right && down ? at + down + right : at;
    for (int p = 0; p < POINTS; p++) {
      int64_t h = g->start_h + row + p / 4, w = g->start_w + col + p % 4;
      int inside = reads && h >= 0 && h < g->height && w >= 0 && w < g->width;
      t->from[p] = inside ? from + h * g->row_stride + w * g->col_stride : zeros;
    }
  }
}

/* Whether a tile of rows shares few sets of a core's cache, since they are multiples of 512 bytes
   apart: layers of 128, 256, 384, … channels. */
static int collide(const float *const *rows, int count) {
  return count > 1 && (rows[1] - rows[0]) % 128 == 0;
}

#if USES_BLOCKS
/* Pixels in even steps in x and in y. */
typedef struct {
  int64_t x_step, y_step;
  int first, count;
} pixel_run;

/* Lists runs of pixels, and a last one of none. */
static void list_runs(const float *const *in, const int64_t *out, int pixels, pixel_run *runs) {
  for (int p = 0; p < pixels;) {
    pixel_run run = {0, 0, p++, 1};
    if (p < pixels) run.x_step = in[p] - in[p - 1], run.y_step = out[p] - out[p - 1];
    for (; p < pixels && in[p] - in[p - 1] == run.x_step && out[p] - out[p - 1] == run.y_step; p++)
      run.count++;
    *runs++ = run;
  }
  runs->count = 0;
}
#endif

/* Rows of a tile side by side. */
typedef struct {
  float values[PIXELS * MAX_NR * MAX_LANES];
  const float *rows[PIXELS];
} near_rows;

/* Copies fewer than MAX_LANES floats in less time than a call of memcpy takes. */
static inline void copy_few(float *to, const float *from, int count) {
#define COPY(n) \
  if (MAX_LANES > (n) && count & (n)) memcpy(to, from, sizeof(float) * (n)), to += (n), from += (n)
  COPY(8);
  COPY(4);
  COPY(2);
  COPY(1);
#undef COPY
}

#define BODY "convolution_body.h"
#include "each_isa.h"
