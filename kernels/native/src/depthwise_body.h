/* One instruction set's version of depthwise.c. */

#include "vectors.h"

#include "column_sums.h"

#include "tile.h"

/* Adds the products of a grid's taps for the GROUP pixels from p on. */
INLINE void F(depthwise_pixels)(const depthwise_job *c, const tap_grid *t, int p, int64_t at,
                                F(vec) bias, int cols) {
  const float *x[GROUP], *w = c->w + t->w_first + at;
  int64_t out[GROUP];
  F(vec) v[GROUP];
  UNROLL(i, GROUP, x[i] = t->in[p + i] + t->x_first + at; out[i] = t->out[p + i] + at; v[i] = bias);
  if (!t->begins) UNROLL(i, GROUP, v[i] = F(load)(c->y + out[i]));
  for (int64_t a = 0; a < t->rows; a++, w += t->w_row) {
    const float *tap = w;
    UNROLL(b, cols, F(vec) weight = F(load)(tap); tap += t->w_col;
           UNROLL(i, GROUP, v[i] += weight * F(load)(x[i]); x[i] += t->x_col;
                  if (USES_BLOCKS) HIDE(x[i])));
    UNROLL(i, GROUP, x[i] += t->x_row - cols * t->x_col);
  }
  if (t->ends && c->clamp) UNROLL(i, GROUP, v[i] = F(clamp)(v[i], c->lo, c->hi));
  /* Masks are loaded before the stores, whose addresses may be equal modulo 4096. */
  if (t->ends && c->relu_mask)
    UNROLL(i, GROUP, v[i] = F(relu_masked)(v[i], F(load)(c->relu_mask + out[i]), c->lo, c->hi));
  UNROLL(i, GROUP, F(store)(c->y + out[i], v[i]));
}

/* Computes a grid for the vectors from `begin` to `end`. The last pixel is repeated. */
INLINE void F(depthwise_grid)(const depthwise_job *job, const tap_grid *grid, int64_t begin,
                              int64_t end, int cols) {
  depthwise_job c = *job;
  tap_grid t = *grid;
  for (int64_t j = begin; j < end; j++) {
    int64_t at = F(vector_start)(j, c.g->depth);
    F(vec) bias = {0};
    if (c.bias) bias = F(load)(c.bias + at);
    for (int p = 0; p < t.pixels; p += GROUP) F(depthwise_pixels)(&c, &t, p, at, bias, cols);
  }
}

/* Adds a tile's gradients of a row of taps to the sums `to`, for a vector of channels whose values
   begin at x_first in the first tap, and at `at` in dy. Each tap has GROUP sums. */
INLINE void F(depthwise_filter_taps)(const depthwise_job *c, const tap_grid *t, int64_t x_first,
                                     int64_t at, float *to, int cols) {
  int64_t x_col = t->x_col, w_col = t->w_col;
  const float *const *in = t->in, *dy = c->dy + at;
  const int64_t *out = t->out;
  int whole = t->pixels & -GROUP, rest = t->pixels - whole;
  F(tile) sums;
  if (USES_BLOCKS) HIDE(whole);
  UNROLL(b, cols, UNROLL(i, GROUP, sums[i][b] = (F(vec)){0}));
  FOUR_BLOCKS(i, whole, in += GROUP; out += GROUP, F(vec) d = F(load)(dy + out[i]);
              const float *x = in[i] + x_first;
              UNROLL(b, cols, sums[i][b] += d * F(load)(x + b * x_col)));
  for (; rest; rest--, in++, out++) {
    F(vec) d = F(load)(dy + *out);
    const float *x = *in + x_first;
    UNROLL(b, cols, sums[0][b] += d * F(load)(x + b * x_col));
  }
  UNROLL(b, cols, F(vec) sum = sums[0][b] + sums[1][b] + (sums[2][b] + sums[3][b]);
         F(store)(to + b * w_col, F(load)(to + b * w_col) + sum));
}

#define FILTER_TAPS(cols)                                                                  \
  static __attribute__((noinline)) void F(filter_taps##cols)(                              \
      const depthwise_job *c, const tap_grid *t, int64_t x_first, int64_t at, float *to) { \
    F(depthwise_filter_taps)(c, t, x_first, at, to, cols);                                 \
  }
FILTER_TAPS(1)
FILTER_TAPS(2)
FILTER_TAPS(3)
#undef FILTER_TAPS

/* The same for all rows of a grid, for the vectors from `begin` to `end`. */
static LEAF void F(depthwise_filter_grid)(const depthwise_job *c, const tap_grid *t, int64_t begin,
                                          int64_t end, int64_t cols) {
  for (int64_t j = begin; j < end; j++)
    for (int64_t a = 0; a < t->rows; a++) {
      int64_t at = F(vector_start)(j, c->g->depth), x_first = t->x_first + a * t->x_row + at;
      float *to = c->sums + t->w_first + a * t->w_row + j * LANES;
      if (cols == 3) F(filter_taps3)(c, t, x_first, at, to);
      else if (cols == 2) F(filter_taps2)(c, t, x_first, at, to);
      else F(filter_taps1)(c, t, x_first, at, to);
    }
}

/* depthwise_grid for any number of columns, which is a constant where they are unrolled. */
static __attribute__((noinline)) void F(depthwise_grid_any_cols)(const depthwise_job *c,
                                                                 const tap_grid *t, int64_t begin,
                                                                 int64_t end, int64_t cols) {
  if (cols == 3) F(depthwise_grid)(c, t, begin, end, 3);
  else if (cols == 2) F(depthwise_grid)(c, t, begin, end, 2);
  else F(depthwise_grid)(c, t, begin, end, 1); /* or 0, if no tap is inside the image */
}

/* Where the channels do not fill a vector, each row of results is computed as one row of values. A
   vector of them begins with a result, so that lane l is of channel l % depth. */
typedef struct {
  int64_t first, done; /* the value of lane 0; the values computed, this vector's included */
  F(bits) fresh;       /* lanes of whole results that no earlier vector has computed */
} F(row_vector);

/* Advances to the next vector, if a row of `size` values has more results for vectors. The last
   vector may overlap the one before. */
INLINE int F(next_row_vector)(F(row_vector) * v, int64_t size, int64_t depth) {
  int64_t last = (size - LANES) / depth * depth, first = v->done < last ? v->done : last;
  int64_t whole = LANES / depth * depth;
  if (size < LANES || first + whole <= v->done) return 0;
  F(bits) lane;
  for (int l = 0; l < LANES; l++) lane[l] = l;
  v->fresh = (lane >= (int32_t)(v->done - first)) & (lane < (int32_t)whole);
  v->first = first, v->done = first + whole;
  return 1;
}

/* Computes a grid of at most 3 × 3 taps for rows of values. */
static LEAF void F(depthwise_rows)(const depthwise_job *job, const tap_grid *grid, int rows,
                                   int cols) {
  depthwise_job c = *job;
  tap_grid t = *grid;
  int64_t depth = c.g->depth;
  F(vec) w[3][3], bias = {0};
  for (int l = 0; l < LANES; l++) bias[l] = c.bias ? c.bias[l % depth] : 0;
  for (int a = 0; a < rows; a++)
    for (int b = 0; b < cols; b++)
      for (int l = 0; l < LANES; l++)
        w[a][b][l] = c.w[t.w_first + a * t.w_row + b * t.w_col + l % depth];
  for (int p = 0, next; p < t.pixels; p = next) {
    next = row_end(&t, p, depth);
    int64_t size = (next - p) * depth;
    F(row_vector) lanes = {0};
    while (F(next_row_vector)(&lanes, size, depth)) {
      const float *x = t.in[p] + t.x_first + lanes.first;
      int64_t out = t.out[p] + lanes.first;
      F(vec) before = F(load)(c.y + out), v = t.begins ? bias : before;
      for (int a = 0; a < rows; a++)
        for (int b = 0; b < cols; b++) v += w[a][b] * F(load)(x + a * t.x_row + b * t.x_col);
      if (t.ends && c.clamp) v = F(clamp)(v, c.lo, c.hi);
      if (t.ends && c.relu_mask) v = F(relu_masked)(v, F(load)(c.relu_mask + out), c.lo, c.hi);
      F(store)(c.y + out, F(selected)(lanes.fresh, v, before));
    }
    depthwise_values(&c, &t, p, lanes.done, size, rows, cols);
  }
}

/* Adds the products of a grid of at most 3 × 3 taps with rows of values of dy to the sums. */
static LEAF void F(depthwise_filter_rows)(const depthwise_job *job, const tap_grid *grid, int rows,
                                          int cols) {
  depthwise_job c = *job;
  tap_grid t = *grid;
  int64_t depth = c.g->depth;
  F(vec) sums[3][3] = {0};
  for (int p = 0, next; p < t.pixels; p = next) {
    next = row_end(&t, p, depth);
    int64_t size = (next - p) * depth;
    F(row_vector) lanes = {0};
    while (F(next_row_vector)(&lanes, size, depth)) {
      const float *x = t.in[p] + t.x_first + lanes.first;
      F(vec) dy = F(masked)(lanes.fresh, F(load)(c.dy + t.out[p] + lanes.first));
      for (int a = 0; a < rows; a++)
        for (int b = 0; b < cols; b++) sums[a][b] += dy * F(load)(x + a * t.x_row + b * t.x_col);
    }
    depthwise_filter_values(&c, &t, p, lanes.done, size, rows, cols);
  }
  for (int a = 0; a < rows; a++)
    for (int b = 0; b < cols; b++) {
      float *to = c.sums + t.w_first + a * t.w_row + b * t.w_col;
      F(store)(to, F(load)(to) + sums[a][b]);
    }
}

/* Computes all grids of a tile for the vectors from `begin` to `end`. A window without taps inside
   the image has one grid without taps, which writes the bias. */
static void F(depthwise_tile)(const depthwise_job *c, const tap_loops *taps, tap_grid *t,
                              int64_t begin, int64_t end) {
  int few_channels = c->g->depth < LANES;
  int64_t a = 0, b, cols;
  do {
    t->rows = few_channels ? grid_taps(taps->rows - a) : taps->rows;
    b = 0;
    do {
      cols = grid_taps(taps->cols - b);
      t->begins = !a && !b, t->ends = a + t->rows == taps->rows && b + cols == taps->cols;
      t->x_first = a * t->x_row + b * t->x_col;
      t->w_first = taps->w_first + a * t->w_row + b * t->w_col;
      if (few_channels && c->sums) F(depthwise_filter_rows)(c, t, (int)t->rows, (int)cols);
      else if (few_channels) F(depthwise_rows)(c, t, (int)t->rows, (int)cols);
      else if (c->sums) F(depthwise_filter_grid)(c, t, begin, end, cols);
      else F(depthwise_grid_any_cols)(c, t, begin, end, cols);
      b += cols;
    } while (b < taps->cols);
    a += t->rows;
  } while (a < taps->rows);
}

/* Computes a band of a walk for the vectors from `begin` to `end`. */
static LEAF void F(depthwise_band)(const depthwise_job *c, const window_walk *g, walk_cursor *block,
                                   int64_t begin, int64_t end) {
  const float *in[SUMMED + GROUP - 1];
  int64_t out[SUMMED + GROUP - 1];
  int64_t vectors = (g->depth + LANES - 1) / LANES, width = (end - begin) * LANES;
  for (int pixels; (pixels = next_tile(g, block, c->x, SUMMED, GROUP - 1, in, out));) {
    tap_loops taps = taps_inside(g, block, 0);
    if (!taps.rows || !taps.cols) taps.rows = taps.cols = 0;
    if (c->sums) { /* a tap of the sums has the vectors of this part, not all channels */
      taps.w_row = taps.w_row / g->depth * width, taps.w_col = taps.w_col / g->depth * width;
      taps.w_first = block->row.tap * taps.w_row + block->col.tap * taps.w_col;
    }
    tap_grid t = {.in = in, .out = out, .pixels = pixels, .x_row = taps.x_row};
    t.x_col = taps.x_col, t.w_row = taps.w_row, t.w_col = taps.w_col;
    /* The last vector may overlap the one before: all grids of one, then of the other. */
    int64_t step = taps.cols > 3 ? 1 : vectors;
    for (int64_t j = begin; j < end; j += step)
      F(depthwise_tile)(c, &taps, &t, j, j + step < end ? j + step : end);
  }
}

#include "depthwise_strips.h"

/* Writes sums of the vectors from `begin` to `end`, (taps, vectors, LANES), to dw. */
static LEAF void F(store_sums)(const depthwise_job *c, const float *sums, int64_t begin,
                               int64_t end) {
  int64_t depth = c->g->depth, taps = c->g->taps_h * c->g->taps_w;
  for (float *dw = c->y; dw < c->y + taps * depth; dw += depth) {
    if (depth < LANES) {
      memset(dw, 0, sizeof(float) * depth);
      for (int64_t l = 0; l < LANES; l++) dw[l % depth] += sums[l];
      sums += LANES;
    } else {
      for (int64_t j = begin; j < end; j++, sums += LANES)
        F(store)(dw + F(vector_start)(j, depth), F(load)(sums));
    }
  }
}

/* Computes the next band of a walk, also the band's share of db, for the vectors from `begin` to
   `end`. */
static void F(depthwise_next_band)(const depthwise_job *c, const window_walk *g,
                                   const walk_cursor *at, int64_t begin, int64_t end) {
  if (c->sums) load_band(g, at, c->x);
  if (c->db)
    F(add_column_sums)(c->dy + band_start(g, at), band_count(g, at), g->depth, begin * LANES,
                       end * LANES < g->depth ? end * LANES : g->depth, c->db);
  walk_cursor band = band_blocks(at);
  if (has_strips(g, LANES, MR == 8 ? 5 : 3))
    band.first_col = F(depthwise_strip_band)(c, g, &band, begin, end);
  if (band.first_col < band.end_col) F(depthwise_band)(c, g, &band, begin, end);
}

/* Computes one part: of the results, or of the channels. The bands of all walks take turns, because
   those of a strided convolution's gradient share rows of the result. The sums of a part lie side
   by side, as threads that write neighboring cache lines wait for each other. */
static void F(depthwise_part)(void *job, int part, int parts) {
  depthwise_job c = *(const depthwise_job *)job;
  const window_walk *g = c.g;
  int64_t vectors = (g->depth + LANES - 1) / LANES, full = g->depth / LANES;
  int by_results = !c.sums && MANY_RESULTS(g, parts);
  int64_t begin = by_results ? 0 : chunk_begin(full, part, parts);
  int64_t end = by_results || part + 1 == parts ? vectors : chunk_begin(full, part + 1, parts);
  int64_t taps = g->taps_h * g->taps_w;
  float *sums = c.sums ? c.sums + taps * begin * LANES : 0;
  if (sums) {
    memset(sums, 0, sizeof(float) * taps * (end - begin) * LANES);
    c.sums = sums - begin * LANES; /* where vector j of the first tap is at j * LANES */
  }
  walk_cursor at[MAX_WALKS];
  for (int64_t k = 0; k < c.walks; k++)
    at[k] = walk_begin(g + k, BAND, by_results ? part : 0, by_results ? parts : 1);
  int has_bands = 1;
  while (has_bands) {
    has_bands = 0;
    for (int64_t k = 0; k < c.walks; k++)
      if (next_band(g + k, &at[k])) {
        has_bands = 1;
        F(depthwise_next_band)(&c, g + k, &at[k], begin, end);
      }
  }
  if (sums) F(store_sums)(&c, sums, begin, end);
}

/* Whether narrower vectors are fuller: channels fill half of one, results do not lie side by side,
   or rows are short, so that much of them is borders, computed one value at a time. */
INLINE int F(is_narrow)(const window_walk *g, int64_t walks) {
  int narrow = 2 * g->depth >= LANES || g->cols * g->depth < 4 * LANES;
  for (int64_t k = 0; k < walks; k++)
    narrow |= g[k].stride_w * g[k].col_stride != g->depth || g[k].out_col != g->depth;
  return g->depth < LANES && narrow;
}

void F(depthwise)(const float *x, const float *w, const float *bias, const float *relu_mask,
                  float *y, const window_walk *g, int64_t walks, int64_t clamp, float lo,
                  float hi) {
#ifdef NARROWER
  if (F(is_narrow)(g, walks)) {
    NARROWER(depthwise)(x, w, bias, relu_mask, y, g, walks, clamp, lo, hi);
    return;
  }
#endif
  depthwise_job c = {.x = x, .w = w, .bias = bias, .relu_mask = relu_mask, .y = y, .g = g};
  c.walks = walks, c.clamp = clamp, c.lo = lo, c.hi = hi;
  int64_t results = 0;
  for (int64_t k = 0; k < walks; k++) results += result_count(g + k);
  parallel_for(F(depthwise_part), &c,
               parallel_parts(results * g->taps_h * g->taps_w * g->depth / LANES * LOADED_PRODUCT));
}

/* Computes dw, and db if it is not null; sums of whole vectors are in scratch. */
void F(depthwise_filter_sums)(const float *dy, const float *x, float *dw, float *db, float *scratch,
                              const window_walk *g) {
#ifdef NARROWER
  if (F(is_narrow)(g, 1)) {
    NARROWER(depthwise_filter_sums)(dy, x, dw, db, scratch, g);
    return;
  }
#endif
  depthwise_job c = {.x = x, .dy = dy, .y = dw, .sums = scratch, .db = db, .g = g, .walks = 1};
  int64_t products = result_count(g) * g->taps_h * g->taps_w * g->depth / LANES;
  int parts = parallel_parts(products * LOADED_PRODUCT);
  int most = g->depth < LANES ? 1 : (int)(g->depth / LANES);
  if (db) memset(db, 0, sizeof(float) * g->depth);
  parallel_for(F(depthwise_part), &c, parts < most ? parts : most);
}

#undef HALF_LANE
#undef SECOND_LANE
#define HALF_LANE(l, h) ((l) / 2 + (h))
#define SECOND_LANE(l, h) (2 * (l) + (h))

/* Repeats each of n values `times` times, side by side: a depth multiplier as channels. */
void F(repeat_channels)(const float *x, float *y, int64_t n, int64_t times) {
  int64_t i = 0;
  for (; times == 2 && i + LANES <= n; i += LANES) {
    F(vec) v = F(load)(x + i);
    F(store)(y + 2 * i, SHUFFLE(v, v, HALF_LANE, 0));
    F(store)(y + 2 * i + LANES, SHUFFLE(v, v, HALF_LANE, LANES / 2));
  }
  for (; i < n; i++)
    for (int64_t k = 0; k < times; k++) y[i * times + k] = x[i];
}

/* The gradient of repeat_channels. */
void F(sum_repeated)(const float *y, float *x, int64_t n, int64_t times) {
  int64_t i = 0;
  for (; times == 2 && i + LANES <= n; i += LANES) {
    F(vec) v = F(load)(y + 2 * i), next = F(load)(y + 2 * i + LANES);
    F(store)(x + i, SHUFFLE(v, next, SECOND_LANE, 0) + SHUFFLE(v, next, SECOND_LANE, 1));
  }
  for (; i < n; i++) {
    x[i] = y[i * times];
    for (int64_t k = 1; k < times; k++) x[i] += y[i * times + k];
  }
}
