/* Depthwise convolution, with vectors along the channels, or, if these are few, along a row.

   depthwise: y = Σ window(x) w for each channel, with bias, clamp or ReLU mask as an epilogue in
   registers: forward pass and input gradient.
   depthwise_filter_sums: dw = Σ dy window(x) and db = Σ dy: filter and bias gradient.

   Taps are computed in grids of at most 3 columns, or, if results lie side by side as their windows
   do, in strips of results that share what they read. */

#include <string.h>

#include "loops.h"
#include "window_blocks.h"

/* Windows of a tile. A tile's sums are added to those of a filter gradient: so this number sets the
   order of sums, and is the same for all programs. */
#define SUMMED 128

#define GROUP 4 /* results that are computed at once, which hides some of a sum's latency */

/* A grid of taps for a tile of results: result p is at out[p], the first tap of its window that is
   inside the image at in[p]. Tap (a, b) of the grid is at in[p] + x_first + a·x_row + b·x_col, its
   weights at w_first + a·w_row + b·w_col. */
typedef struct {
  const float *const *in;
  const int64_t *out;
  int pixels;
  int64_t rows, x_first, x_row, x_col, w_first, w_row, w_col;
  int begins, ends; /* whether it is the first grid of the window, and the last */
} tap_grid;

/* Forward pass and input gradient compute y from x and w, in several walks. The filter gradient has
   `sums`: it computes y = dw and db from x and dy.

   Functions with stores copy their job and grid. The compiler knows that nothing else points to the
   copy, and does not load its fields again after every store. */
typedef struct {
  const float *x, *w, *bias, *relu_mask, *dy;
  float *y, *sums, *db;
  const window_walk *g;
  int64_t walks, clamp;
  float lo, hi;
} depthwise_job;

/* The end of the results from p on that lie side by side, as their windows do: a row. */
static int row_end(const tap_grid *t, int p, int64_t depth) {
  do p++;
  while (p < t->pixels && t->in[p] - t->in[p - 1] == depth && t->out[p] - t->out[p - 1] == depth);
  return p;
}

/* Computes the values from `begin` to `end` of the row that result p begins, one at a time. */
static void depthwise_values(const depthwise_job *job, const tap_grid *grid, int p, int64_t begin,
                             int64_t end, int rows, int cols) {
  depthwise_job c = *job;
  tap_grid t = *grid;
  for (int64_t i = begin; i < end; i++) {
    const float *x = t.in[p] + t.x_first + i;
    int64_t out = t.out[p] + i, channel = i % c.g->depth;
    const float *w = c.w + t.w_first + channel;
    float v = c.bias ? c.bias[channel] : 0;
    if (!t.begins) v = c.y[out];
    for (int a = 0; a < rows; a++)
      for (int b = 0; b < cols; b++)
        v += w[a * t.w_row + b * t.w_col] * x[a * t.x_row + b * t.x_col];
    if (t.ends && c.clamp) v = v < c.lo ? c.lo : v > c.hi ? c.hi : v;
    if (t.ends && c.relu_mask && !(c.relu_mask[out] > c.lo && c.relu_mask[out] < c.hi)) v = 0;
    c.y[out] = v;
  }
}

/* Adds the products of such values of dy to the sums of the taps. */
static void depthwise_filter_values(const depthwise_job *job, const tap_grid *grid, int p,
                                    int64_t begin, int64_t end, int rows, int cols) {
  depthwise_job c = *job;
  tap_grid t = *grid;
  for (int64_t i = begin; i < end; i++) {
    const float *x = t.in[p] + t.x_first + i;
    float *sums = c.sums + t.w_first + i % c.g->depth, dy = c.dy[t.out[p] + i];
    for (int a = 0; a < rows; a++)
      for (int b = 0; b < cols; b++)
        sums[a * t.w_row + b * t.w_col] += dy * x[a * t.x_row + b * t.x_col];
  }
}

/* How many of the taps left along an axis the next grid takes: at most three, and no single tap
   after three others. */
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

/* Rows of results of a band: where their first window begins, which may be beyond the border, the
   first result, and the rows of taps inside the image. */
typedef struct {
  int64_t x, out, tap, taps;
} strip_row;
typedef struct {
  strip_row rows[STRIP_ROWS];
  int64_t count, col; /* of the image, where the first window begins */
  int64_t x_row, w_row, w_col;
} strip_rows;

/* Whether at least four windows side by side, of 3 taps or of `most`, read the same values but one,
   and only half of their taps, to the left or to the right, may be outside. */
static int has_strips(const window_walk *g, int64_t lanes, int64_t most) {
  int64_t first = g->start_w + g->col_taps[0], half = g->taps_w / 2;
  return g->depth >= lanes && g->cols >= 4 && (g->taps_w == 3 || g->taps_w == most) &&
         g->stride_w == 1 && pitch(g->col_taps, 2) == 1 && first >= -half &&
         first + g->cols - 1 + half < g->width;
}

/* Lists rows of a band from number `first` on, as many as fit. Returns the number of the next one,
   or 0 after the last one. */
static int64_t list_rows(const window_walk *g, const walk_cursor *at, int64_t first,
                         strip_rows *s) {
  int64_t height = at->band_end - at->row.end, all = at->images * height, n = first;
  s->count = 0, s->col = g->start_w + g->col_taps[0] + at->first_col;
  s->x_row = pitch(g->row_taps, g->taps_h) * g->row_stride;
  s->w_row = pitch(g->row_weights, g->taps_h), s->w_col = pitch(g->col_weights, g->taps_w);
  for (; n < all && s->count < STRIP_ROWS; n++) {
    int64_t image = at->image + n / height, row = at->row.end + n % height;
    int64_t h = g->start_h + row * g->stride_h + g->row_taps[0];
    window_span span =
        span_from(row, row + 1, g->start_h, g->stride_h, g->row_taps, g->taps_h, g->height);
    s->rows[s->count++] = (strip_row){
        image * g->image_stride + h * g->row_stride + s->col * g->col_stride,
        g->out_start + image * g->out_image + row * g->out_row + at->first_col * g->out_col,
        span.tap, span.taps};
  }
  return n < all ? n : 0;
}

#define BODY "depthwise_body.h"
#include "each_isa.h"
