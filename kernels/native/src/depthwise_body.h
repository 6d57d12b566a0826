/* One instruction set's version of depthwise.c. */

#include "vectors.h"

#include "column_sums.h"

#include "tile.h"

/* With sums, dy is read, and y = dw, sums and db are computed; else y, in several walks. */
typedef struct {
  const float *x, *w, *bias, *relu_mask, *dy;
  float *y, *sums, *db;
  const window_walk *g;
  int64_t walks, clamp;
  float lo, hi;
} F(depthwise_job);

/* Advances a pointer by a step. Compilers would keep all multiples of the step in registers, of
   which there are too few. */
#define NEXT(p, step)      \
  do {                     \
    (p) += (step);         \
    __asm__("" : "+r"(p)); \
  } while (0)

/* Adds the products of a grid's taps for n pixels. Two at a time hide some of a sum's latency, also
   where loads wait for stores to addresses that are equal modulo 4096. */
INLINE void F(depthwise_pixels)(const F(depthwise_job) * c, const tap_grid *t, int p, int64_t at,
                                F(tile) w, F(vec) bias, int n, int rows, int cols) {
  const float *x[MAX_MR];
  int64_t out[MAX_MR];
  F(vec) v[MAX_MR];
  UNROLL(i, n, x[i] = t->in[p + i] + t->x_first + at; out[i] = t->out[p + i] + at; v[i] = bias);
  if (!t->begins) UNROLL(i, n, v[i] = F(load)(c->y + out[i]));
  UNROLL(a, rows,
         UNROLL(b, cols, int64_t tap = a * t->x_row + b * t->x_col;
                UNROLL(i, n, v[i] += w[a][b] * F(load)(x[i] + tap))));
  if (t->ends && c->clamp) UNROLL(i, n, v[i] = F(clamp)(v[i], c->lo, c->hi));
  /* Masks are loaded before the stores, whose addresses may be equal modulo 4096. */
  if (t->ends && c->relu_mask)
    UNROLL(i, n, v[i] = F(relu_masked)(v[i], F(load)(c->relu_mask + out[i]), c->lo, c->hi));
  UNROLL(i, n, F(store)(c->y + out[i], v[i]));
}

/* The same for RUN results in a row, whose windows overlap: each value is loaded once, if there are
   registers for them. */
#define RUN 4
INLINE void F(depthwise_run)(const F(depthwise_job) * c, const tap_grid *t, int p, int64_t at,
                             F(tile) w, F(vec) bias, int rows, int cols) {
  const float *x = t->in[p] + t->x_first + at;
  int64_t out = t->out[p] + at;
  F(vec) v[MAX_MR];
  UNROLL(i, RUN, v[i] = bias);
  if (!t->begins) UNROLL(i, RUN, v[i] = F(load)(c->y + out + i * t->out_step));
  int64_t step = t->x_col, out_step = t->out_step;
  UNROLL(a, rows, const float *from = x + a * t->x_row; UNROLL(
             k, RUN + cols - 1, F(vec) read = F(load)(from); NEXT(from, step); UNROLL(
                 b, cols, int i = k - b; if (i >= 0 && i < RUN) v[i % MAX_MR] += w[a][b] * read)));
  if (t->ends && c->clamp) UNROLL(i, RUN, v[i] = F(clamp)(v[i], c->lo, c->hi));
  if (t->ends && c->relu_mask) {
    const float *mask = c->relu_mask + out;
    UNROLL(i, RUN, v[i] = F(relu_masked)(v[i], F(load)(mask), c->lo, c->hi); NEXT(mask, out_step));
  }
  float *to = c->y + out;
  UNROLL(i, RUN, F(store)(to, v[i]); NEXT(to, out_step));
}

/* Whether results p and p + 1 are side by side, and so are their windows. */
INLINE int F(are_adjacent)(const tap_grid *t, int p) {
  return t->in[p + 1] - t->in[p] == t->x_col && t->out[p + 1] - t->out[p] == t->out_step;
}

INLINE int F(is_run)(const tap_grid *t, int p, int end, int cols) {
  return MR == 8 && cols == 3 && p + RUN <= end && F(are_adjacent)(t, p) &&
         F(are_adjacent)(t, p + 1) && F(are_adjacent)(t, p + 2);
}

/* Computes a grid for the vectors from `begin` to `end`. The weights are loaded once for all
   pixels, or, if these are few, for each. */
INLINE void F(depthwise_grid)(const F(depthwise_job) * job, const tap_grid *grid, int64_t begin,
                              int64_t end, int rows, int cols) {
  F(depthwise_job) only = *job, *c = &only; /* which is not y's memory */
  tap_grid t = *grid;
  F(tile) w;
  F(vec) none = {0};
  for (int first = 0, next; first < t.pixels; first = next) {
    next = t.pixels < FEW ? first + 1 : t.pixels;
    for (int64_t j = begin; j < end; j++) {
      int64_t at = F(vector_start)(j, c->g->depth);
      const float *from = c->w + t.w_first + at;
      F(vec) bias = c->bias ? F(load)(c->bias + at) : none;
      UNROLL(a, rows, UNROLL(b, cols, w[a][b] = F(load)(from + a * t.w_row + b * t.w_col)));
      for (int p = first, n; p < next; p += n) {
        if (F(is_run)(&t, p, next, cols)) {
          F(depthwise_run)(c, &t, p, at, w, bias, rows, cols);
          n = RUN;
        } else if (p + 2 <= next) {
          F(depthwise_pixels)(c, &t, p, at, w, bias, 2, rows, cols);
          n = 2;
        } else {
          F(depthwise_pixels)(c, &t, p, at, w, bias, 1, rows, cols);
          n = 1;
        }
      }
    }
  }
}

/* Adds a tile's gradients of a grid's taps to the sums, for the vectors from `begin` to `end`. */
INLINE void F(depthwise_filter_grid)(const F(depthwise_job) * c, const tap_grid *grid,
                                     int64_t begin, int64_t end, int rows, int cols) {
  tap_grid t = *grid;
  for (int64_t j = begin; j < end; j++) {
    int64_t at = F(vector_start)(j, c->g->depth);
    float *to = c->sums + t.w_first + j * LANES;
    F(tile) sums;
    UNROLL(a, rows, UNROLL(b, cols, sums[a][b] = F(load)(to + a * t.w_row + b * t.w_col)));
    for (int p = 0; p < t.pixels; p++) {
      const float *x = t.in[p] + t.x_first + at, *dy = c->dy + t.out[p] + at;
      if (F(is_run)(&t, p, t.pixels, cols)) {
        F(vec) d[MAX_MR], read[MAX_MR];
        UNROLL(i, RUN, d[i] = F(load)(dy); NEXT(dy, t.out_step));
        UNROLL(a, rows, const float *from = x + a * t.x_row;
               UNROLL(k, RUN + cols - 1, read[k] = F(load)(from); NEXT(from, t.x_col));
               UNROLL(i, RUN, UNROLL(b, cols, sums[a][b] += d[i] * read[(i + b) % MAX_MR])));
        p += RUN - 1;
        continue;
      }
      F(vec) d = F(load)(dy);
      UNROLL(a, rows, UNROLL(b, cols, sums[a][b] += d * F(load)(x + a * t.x_row + b * t.x_col)));
    }
    UNROLL(a, rows, UNROLL(b, cols, F(store)(to + a * t.w_row + b * t.w_col, sums[a][b])));
  }
}

#define GRID(name, rows, cols)             \
  case rows * 4 + cols:                    \
    F(name)(c, t, begin, end, rows, cols); \
    break;
#define GRIDS(name)                                                                               \
  static __attribute__((noinline)) void F(name##s)(const F(depthwise_job) * c, const tap_grid *t, \
                                                   int64_t begin, int64_t end, int which) {       \
    switch (which) {                                                                              \
      GRID(name, 0, 0)                                                                            \
      GRID(name, 1, 1)                                                                            \
      GRID(name, 1, 2)                                                                            \
      GRID(name, 1, 3)                                                                            \
      GRID(name, 2, 1)                                                                            \
      GRID(name, 2, 2) GRID(name, 2, 3) GRID(name, 3, 1) GRID(name, 3, 2) GRID(name, 3, 3)        \
    }                                                                                             \
  }
GRIDS(depthwise_grid)
GRIDS(depthwise_filter_grid)
#undef GRIDS
#undef GRID

/* The values from `begin` to `end` of the results from result p on, one at a time. */
static void F(depthwise_values)(const F(depthwise_job) * job, const tap_grid *grid, int p,
                                int64_t begin, int64_t end, int rows, int cols) {
  F(depthwise_job) c = *job;
  tap_grid t = *grid;
  for (int64_t i = begin; i < end; i++) {
    const float *x = t.in[p] + t.x_first + i;
    int64_t out = t.out[p] + i, k = i % c.g->depth;
    float v = c.sums ? c.dy[out] : !t.begins ? c.y[out] : c.bias ? c.bias[k] : 0;
    for (int a = 0; a < rows; a++)
      for (int b = 0; b < cols; b++) {
        int64_t tap = t.w_first + a * t.w_row + b * t.w_col + k;
        if (c.sums) c.sums[tap] += v * x[a * t.x_row + b * t.x_col];
        else v += c.w[tap] * x[a * t.x_row + b * t.x_col];
      }
    if (c.sums) continue;
    if (t.ends && c.clamp) v = v < c.lo ? c.lo : v > c.hi ? c.hi : v;
    if (t.ends && c.relu_mask && !(c.relu_mask[out] > c.lo && c.relu_mask[out] < c.hi)) v = 0;
    c.y[out] = v;
  }
}

/* A grid where the channels do not fill a vector. Results that lie side by side, as their windows
   do, are computed as one row of values: lane l of a vector that begins with a result is of channel
   l % depth. Sums of a tap are in whole vectors. */
static void F(depthwise_few_channels)(const F(depthwise_job) * job, const tap_grid *grid, int rows,
                                      int cols) {
  F(depthwise_job) c = *job;
  tap_grid t = *grid;
  int64_t depth = c.g->depth, full = LANES / depth * depth;
  F(vec) w[3][3], bias = {0};
  F(bits) lane;
  for (int l = 0; l < LANES; l++) lane[l] = l, bias[l] = c.bias ? c.bias[l % depth] : 0;
  for (int a = 0; a < rows; a++)
    for (int b = 0; b < cols; b++)
      for (int l = 0; l < LANES; l++)
        w[a][b][l] = c.sums ? 0 : c.w[t.w_first + a * t.w_row + b * t.w_col + l % depth];
  for (int p = 0, next; p < t.pixels; p = next) {
    for (next = p + 1; next < t.pixels; next++)
      if (t.in[next] - t.in[next - 1] != depth || t.out[next] - t.out[next - 1] != depth) break;
    int64_t size = (next - p) * depth, done = 0;
    while (done < size && size >= LANES) {
      int64_t first = done + LANES <= size ? done : (size - LANES) / depth * depth;
      if (first + full <= done) break;
      F(bits) fresh = (lane >= (int32_t)(done - first)) & (lane < (int32_t)full);
      const float *x = t.in[p] + t.x_first + first;
      int64_t out = t.out[p] + first;
      F(vec) dy = c.sums ? F(masked)(fresh, F(load)(c.dy + out)) : bias;
      F(vec) before = c.sums ? bias : F(load)(c.y + out), v = t.begins ? bias : before;
      for (int a = 0; a < rows; a++)
        for (int b = 0; b < cols; b++) {
          F(vec) read = F(load)(x + a * t.x_row + b * t.x_col);
          if (c.sums) w[a][b] += dy * read;
          else v += w[a][b] * read;
        }
      done = first + full;
      if (c.sums) continue;
      if (t.ends && c.clamp) v = F(clamp)(v, c.lo, c.hi);
      if (t.ends && c.relu_mask) v = F(relu_masked)(v, F(load)(c.relu_mask + out), c.lo, c.hi);
      F(store)(c.y + out, F(selected)(fresh, v, before));
    }
    F(depthwise_values)(&c, &t, p, done, size, rows, cols);
  }
  for (int a = 0; c.sums && a < rows; a++)
    for (int b = 0; b < cols; b++) {
      float *to = c.sums + t.w_first + a * t.w_row + b * t.w_col;
      F(store)(to, F(load)(to) + w[a][b]);
    }
}

/* Computes all grids of a tile for the vectors from `begin` to `end`. */
static void F(depthwise_tile)(const F(depthwise_job) * c, const tap_loops *taps, tap_grid t,
                              int64_t begin, int64_t end) {
  for (int64_t a = 0, b, rows, cols; a < taps->rows || !a; a += rows ? rows : 1)
    for (b = 0, rows = grid_taps(taps->rows - a); b < taps->cols || !b; b += cols ? cols : 1) {
      cols = grid_taps(taps->cols - b);
      t.begins = !a && !b, t.ends = a + rows == taps->rows && b + cols == taps->cols;
      t.x_first = a * t.x_row + b * t.x_col;
      t.w_first = taps->w_first + a * t.w_row + b * t.w_col;
      if (c->g->depth < LANES) {
        F(depthwise_few_channels)(c, &t, (int)rows, (int)cols);
        continue;
      }
      int which = (int)(rows * 4 + cols);
      if (c->sums) F(depthwise_filter_grids)(c, &t, begin, end, which);
      else F(depthwise_grids)(c, &t, begin, end, which);
    }
}

/* Computes a band of a walk for the vectors from `begin` to `end`. */
static void F(depthwise_band)(const F(depthwise_job) * c, const window_walk *g, walk_cursor block,
                              int64_t begin, int64_t end) {
  const float *in[PIXELS];
  int64_t out[PIXELS], vectors = (g->depth + LANES - 1) / LANES, width = (end - begin) * LANES;
  for (int pixels; (pixels = next_tile(g, &block, c->x, 0, in, out));) {
    tap_loops taps = taps_inside(g, &block, 0);
    if (!taps.rows || !taps.cols) taps.rows = taps.cols = 0;
    if (c->sums) {
      taps.w_row = taps.w_row / g->depth * width, taps.w_col = taps.w_col / g->depth * width;
      taps.w_first = block.row.tap * taps.w_row + block.col.tap * taps.w_col;
    }
    tap_grid t = {.in = in, .out = out, .pixels = pixels, .x_row = taps.x_row};
    t.x_col = taps.x_col, t.w_row = taps.w_row, t.w_col = taps.w_col, t.out_step = g->out_col;
    /* The last vector may overlap the one before: all grids of one, then of the other. */
    int64_t step = taps.rows > 3 || taps.cols > 3 ? 1 : vectors;
    for (int64_t j = begin; j < end; j += step)
      F(depthwise_tile)(c, &taps, t, j, j + step < end ? j + step : end);
  }
}

/* Sums of the vectors from `begin` to `end`, (taps, vectors), to dw. */
static void F(store_sums)(const F(depthwise_job) * c, const float *sums, int64_t begin,
                          int64_t end) {
  int64_t depth = c->g->depth, taps = c->g->taps_h * c->g->taps_w;
  for (int64_t t = 0; t < taps; t++) {
    float *to = c->y + t * depth;
    if (depth < LANES) memset(to, 0, sizeof(float) * depth);
    for (int64_t j = begin; j < end; j++, sums += LANES)
      if (depth >= LANES) F(store)(to + F(vector_start)(j, depth), F(load)(sums));
      else
        for (int64_t l = 0; l < LANES; l++) to[l % depth] += sums[l];
  }
}

/* One part: of the results, or of the channels. The bands of all walks take turns, because those of
   a strided convolution's gradient share rows of the result. The sums of a part lie side by side,
   as threads that write neighbouring cache lines wait for each other. */
static void F(depthwise_part)(void *job, int part, int parts) {
  F(depthwise_job) own = *(const F(depthwise_job) *)job, *c = &own;
  const window_walk *g = c->g;
  int64_t vectors = (g->depth + LANES - 1) / LANES, full = g->depth / LANES;
  int by_results = !c->sums && MANY_RESULTS(g, parts);
  int64_t begin = by_results ? 0 : chunk_begin(full, part, parts);
  int64_t end = by_results || part + 1 == parts ? vectors : chunk_begin(full, part + 1, parts);
  int64_t taps = g->taps_h * g->taps_w;
  float *sums = c->sums ? c->sums + taps * begin * LANES : 0;
  if (sums) {
    memset(sums, 0, sizeof(float) * taps * (end - begin) * LANES);
    c->sums = sums - begin * LANES;
  }
  walk_cursor at[MAX_WALKS];
  for (int64_t k = 0; k < c->walks; k++)
    at[k] = walk_begin(g + k, BAND, by_results ? part : 0, by_results ? parts : 1);
  for (int more = 1; more;) {
    more = 0;
    for (int64_t k = 0; k < c->walks; k++) {
      if (!next_band(g + k, &at[k])) continue;
      more = 1;
      if (c->sums) load_band(g, &at[k], c->x);
      if (c->db)
        F(add_column_sums)(c->dy + band_start(g, &at[k]), band_count(g, &at[k]), g->depth,
                           begin * LANES, end == vectors ? g->depth : end * LANES, c->db);
      F(depthwise_band)(c, g + k, band_blocks(&at[k]), begin, end);
    }
  }
  if (sums) F(store_sums)(c, sums, begin, end);
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
  F(depthwise_job) c = {x, w, bias, relu_mask, 0, y, 0, 0, g, walks, clamp, lo, hi};
  int64_t results = 0;
  for (int64_t k = 0; k < walks; k++) results += result_count(g + k);
  parallel_for(F(depthwise_part), &c,
               parallel_parts(results * g->taps_h * g->taps_w * g->depth / LANES * (3 * PRODUCT)));
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
  F(depthwise_job) c = {.x = x, .dy = dy, .y = dw, .sums = scratch, .db = db, .g = g, .walks = 1};
  int64_t depth = g->depth, full = depth / LANES;
  int parts =
      parallel_parts(result_count(g) * g->taps_h * g->taps_w * depth / LANES * (3 * PRODUCT));
  if (db) memset(db, 0, sizeof(float) * depth);
  parallel_for(F(depthwise_part), &c, parts < full ? parts : full ? (int)full : 1);
}

/* Each value `times` times, side by side: a depth multiplier as channels of their own. */
void F(repeat_channels)(const float *x, float *y, int64_t n, int64_t times) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < times; k++) y[i * times + k] = x[i];
}

/* The gradient of repeat_channels. */
void F(sum_repeated)(const float *y, float *x, int64_t n, int64_t times) {
  for (int64_t i = 0; i < n; i++) {
    x[i] = y[i * times];
    for (int64_t k = 1; k < times; k++) x[i] += y[i * times + k];
  }
}
