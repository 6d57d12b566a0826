/* Max and average pooling, and their gradients, with vectors along the channels. */

#include <math.h>
#include <string.h>

#include "abi.h"
#include "target.h"
#include "team.h"

/* A window: the offsets of its first tap inside the image and of its result, its taps inside, the
   number of the first one, and the first row and column of them that no window before reads. */
typedef struct {
  int64_t in, out, rows, cols, tap, new_row, new_col;
} pool_window;

/* Taps of a window along an axis: the first one inside, their number, and the first of them that no
   window before reads. */
typedef struct {
  int64_t first, count, fresh;
} inside_taps;

static inline inside_taps taps_of(int64_t k, int64_t start, int64_t stride, int64_t taps,
                                  int64_t size) {
  int64_t at = start + k * stride, first = at < 0 ? -at : 0;
  int64_t end = taps < size - at ? taps : size - at, fresh = k ? taps - stride - first : 0;
  return (inside_taps){first, end > first ? end - first : 0, fresh > 0 ? fresh : 0};
}

/* A row of windows: the offsets of its first taps inside and of its results. */
typedef struct {
  inside_taps taps;
  int64_t in, out;
} window_row;

/* Returns row `index` of all images. */
static inline window_row row_at(const window_walk *g, int64_t index) {
  int64_t image = index / g->rows, row = index % g->rows;
  inside_taps h = taps_of(row, g->start_h, g->stride_h, g->taps_h, g->height);
  int64_t x_row = g->start_h + row * g->stride_h + h.first;
  return (window_row){
      .taps = h,
      .in = image * g->image_stride + x_row * g->row_stride,
      .out = image * g->out_image + row * g->out_row,
  };
}

static inline pool_window window_at(const window_walk *g, const window_row *row, int64_t col) {
  inside_taps v = taps_of(col, g->start_w, g->stride_w, g->taps_w, g->width);
  return (pool_window){
      .in = row->in + (g->start_w + col * g->stride_w + v.first) * g->col_stride,
      .out = row->out + col * g->out_col,
      .rows = row->taps.count,
      .cols = v.count,
      .tap = row->taps.first * g->taps_w + v.first,
      .new_row = row->taps.fresh,
      .new_col = v.fresh,
  };
}

/* Windows that overlap add to the same values of dx, in order: they are computed image by image. */
static int64_t windows_at_once(const window_walk *g) {
  return g->stride_h >= g->taps_h && g->stride_w >= g->taps_w ? 1 : g->rows * g->cols;
}

/* The first window of a part. */
static int64_t part_begin(const window_walk *g, int64_t at_once, int part, int parts) {
  return chunk_begin(g->images * g->rows * g->cols / at_once, part, parts) * at_once;
}

/* Clears the values that no window reads, and may clear others, before a gradient is computed. */
static void clear_gaps(float *dx, const window_walk *g) {
  int64_t end_h = g->start_h + (g->rows - 1) * g->stride_h + g->taps_h,
          end_w = g->start_w + (g->cols - 1) * g->stride_w + g->taps_w;
  if (g->stride_h > g->taps_h || g->stride_w > g->taps_w) end_h = 0;
  for (int64_t n = 0; n < g->images; n++, dx += g->image_stride) {
    for (int64_t row = 0; row < end_h && end_w < g->width; row++)
      memset(dx + row * g->row_stride + end_w * g->col_stride, 0,
             sizeof(float) * (size_t)((g->width - end_w) * g->col_stride));
    if (end_h < g->height)
      memset(dx + end_h * g->row_stride, 0,
             sizeof(float) * (size_t)((g->height - end_h) * g->row_stride));
  }
}

/* Windows of 2 × 2 and 3 × 3 are compiled apart, but not for processors without vectors, which have
   little memory for code. */
#if defined(__SSE__) || defined(__aarch64__) || defined(__ARM_NEON) || \
    defined(__wasm_simd128__) || HAS_NEON_BESIDE_BASE
#define APART 1
#else
#define APART 0
#endif

#define BODY "pool_body.h"
#include "each_isa.h"
