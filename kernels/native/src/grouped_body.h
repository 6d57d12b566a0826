/* One instruction set's version of grouped.c. */

#include "vectors.h"

#include "column_sums.h"

#include "tile.h"
#include "epilogue.h"

/* Accumulators of a tile, which leave registers for weights and a vector of x. */
#undef ACCUMULATORS
#undef MAX_COLS
#define ACCUMULATORS (LANES == 16 || MR == 8 ? 16 : 8)
#define MAX_COLS (ACCUMULATORS == 16 ? 3 : 2) /* of the taps whose sums a tile computes */

/* Lane l of a vector rotated by r lanes in each group. */
#undef BACK2
#undef BACK4
#undef BACK8
#undef AHEAD2
#undef AHEAD4
#undef AHEAD8
#define BACK2(l, r) (((l) & ~1) | (((l) - (r)) & 1))
#define BACK4(l, r) (((l) & ~3) | (((l) - (r)) & 3))
#define BACK8(l, r) (((l) & ~7) | (((l) - (r)) & 7))
#define AHEAD2(l, r) (((l) & ~1) | (((l) + (r)) & 1))
#define AHEAD4(l, r) (((l) & ~3) | (((l) + (r)) & 3))
#define AHEAD8(l, r) (((l) & ~7) | (((l) + (r)) & 7))

/* The results of one vector of units, from packed weights (tap, rotation, LANES). */
#define GROUP_TILE(group, m)                                                                       \
  static __attribute__((noinline)) void F(correlate_group##group)(                                 \
      const tap_loops *taps, const float *const *in, const float *w, float *y, const int64_t *out, \
      int64_t unit, const F(epilogue) * e, int pixels) {                                           \
    tap_loops t = *taps; /* a copy, which stores to y cannot change */                             \
    for (int p = 0; p < pixels; p += (m)) {                                                        \
      F(vec) acc[MAX_MR];                                                                          \
      F(tile) sums;                                                                                \
      UNROLL(i, (m) * (group), acc[i] = (F(vec)){0});                                              \
      for (int64_t a = 0; a < t.rows; a++)                                                         \
        for (int64_t b = 0; b < t.cols; b++) {                                                     \
          const float *from = w + a * t.w_row + b * t.w_col;                                       \
          int64_t at = unit + a * t.x_row + b * t.x_col;                                           \
          F(vec) weights[group];                                                                   \
          UNROLL(r, group, weights[r] = F(load)(from + r * LANES));                                \
          UNROLL(i, m, F(vec) v = F(load)(in[p + i] + at);                                         \
                 UNROLL(r, group, acc[i * (group) + r] += v * weights[r]));                        \
        }                                                                                          \
      UNROLL(i, m, sums[i][0] = acc[i * (group)];                                                  \
             UNROLL(r, group,                                                                      \
                    if (r) sums[i][0] +=                                                           \
                    SHUFFLE(acc[i * (group) + r], acc[i * (group) + r], BACK##group, r)));         \
      F(store_results)(sums, y, out + p, &unit, e, m, 1);                                          \
    }                                                                                              \
  }

/* sums[tap][rotation] += Σ over pixels of x[in[p] + at] times dy[out[p]] rotated, for some taps
   side by side. */
#define GROUP_SUMS(group, n)                                                               \
  static __attribute__((noinline)) void F(sum_group##group##_##n)(                         \
      int pixels, const float *const *in, const float *dy, const int64_t *out, int64_t at, \
      int64_t step, float *sums) {                                                         \
    F(vec) acc[MAX_MR];                                                                    \
    UNROLL(i, (n) * (group), acc[i] = F(load)(sums + i * LANES));                          \
    for (int p = 0; p < pixels; p++) {                                                     \
      const float *x = in[p] + at;                                                         \
      F(vec) d = F(load)(dy + out[p]), rotated[group];                                     \
      UNROLL(r, group, rotated[r] = SHUFFLE(d, d, AHEAD##group, r));                       \
      UNROLL(b, n, F(vec) v = F(load)(x + b * step);                                       \
             UNROLL(r, group, acc[b * (group) + r] += v * rotated[r]));                    \
    }                                                                                      \
    UNROLL(i, (n) * (group), F(store)(sums + i * LANES, acc[i]));                          \
  }
#define GROUP_KERNELS(group) \
  GROUP_TILE(group, ACCUMULATORS / (group)) GROUP_SUMS(group, 1) GROUP_SUMS(group, 2)
GROUP_KERNELS(2)
GROUP_KERNELS(4)
#if LANES >= 8
GROUP_KERNELS(8)
#endif
GROUP_SUMS(2, 3)
GROUP_SUMS(4, 3)
#undef GROUP_KERNELS
#undef GROUP_TILE
#undef GROUP_SUMS

typedef struct {
  const float *x, *w;
  float *y, *panel;
  const window_walk *g;
  F(epilogue) epilogue;
} F(grouped_job);

/* Lists where the values of a vector, (rotation, LANES), are in weights or their gradient: lane i
   of rotation r multiplies channel i for the unit r further in its group. The weights of a group,
   of `group` values, follow those of the one before. */
static void F(list_rotated)(int64_t depth, int64_t group, int64_t unit_stride, int64_t depth_stride,
                            int64_t *at) {
  for (int64_t r = 0; r < depth; r++)
    for (int64_t i = 0; i < LANES; i++)
      *at++ = i / depth * group + (i + r) % depth * unit_stride + i % depth * depth_stride;
}

/* Packs a part of the weights as (vector, tap, rotation, LANES). */
static void F(pack_groups_part)(void *job, int part, int parts) {
  const F(grouped_job) *c = job;
  const window_walk *g = c->g;
  int64_t vectors = g->units / LANES, taps = g->taps_h * g->taps_w, size = g->depth * LANES;
  int64_t group = g->depth * g->unit_stride * g->depth_stride; /* one of the strides is 1 */
  int64_t begin = chunk_begin(vectors, part, parts), end = chunk_begin(vectors, part + 1, parts);
  int64_t at[8 * LANES];
  float *panel = c->panel + begin * taps * size;
  F(list_rotated)(g->depth, group, g->unit_stride, g->depth_stride, at);
  for (int64_t j = begin; j < end; j++)
    for (int64_t tap = 0; tap < taps; tap++, panel += size) {
      const float *w = c->w + g->row_weights[tap / g->taps_w] + g->col_weights[tap % g->taps_w] +
                       j * LANES / g->depth * group;
      for (int64_t i = 0; i < size; i++) panel[i] = w[at[i]];
    }
}

/* One part: a range of the results. */
static void F(grouped_part)(void *job, int part, int parts) {
  const F(grouped_job) *c = job;
  const window_walk *g = c->g;
  const float *in[PIXELS + MAX_MR];
  int64_t out[PIXELS + MAX_MR], step = g->taps_h * g->taps_w * g->depth * LANES;
  walk_cursor cursor = walk_begin(g, WIDE_BAND, part, parts);
  for (int pixels; (pixels = next_tile(g, &cursor, c->x, PIXELS, MAX_MR, in, out));) {
    tap_loops taps = taps_inside(g, &cursor, LANES);
    for (int64_t j = 0; j < g->units / LANES; j++) {
      const float *w = c->panel + j * step + taps.w_first;
#define RUN(group) \
  F(correlate_group##group)(&taps, in, w, c->y, out, j * LANES, &c->epilogue, pixels)
      if (g->depth == 2) RUN(2);
      else if (g->depth == 4) RUN(4);
#if LANES >= 8
      else RUN(8);
#endif
#undef RUN
    }
  }
}

void F(grouped_correlate)(const float *x, const float *w, const float *bias, const float *relu_mask,
                          float *y, float *panel, const window_walk *g, int64_t clamp, float lo,
                          float hi, int64_t packing) {
  F(grouped_job) c = {x, w, y, panel, g, {bias, relu_mask, clamp, lo, hi}};
  int64_t weights = g->units * g->taps_h * g->taps_w * g->depth;
  if (packing != PACKED) parallel_for(F(pack_groups_part), &c, parallel_parts(weights * WEIGHT));
  if (packing == PACKS) return;
  parallel_for(F(grouped_part), &c, parallel_parts(result_count(g) * PRODUCT / LANES * weights));
}

typedef struct {
  const float *dy, *x;
  float *dw, *db, *scratch;
  const window_walk *g;
  int adds; /* to dw */
} F(grouped_filter_job);

/* One part: a range of the vectors of units. Sums are in scratch, as (vector, tap, rotation,
   LANES). */
static void F(grouped_sums_part)(void *job, int part, int parts) {
  const F(grouped_filter_job) *c = job;
  const window_walk *g = c->g;
  const float *in[PIXELS];
  int64_t out[PIXELS], size = g->taps_h * g->taps_w * g->depth, vectors = g->units / LANES;
  int64_t begin = chunk_begin(vectors, part, parts), end = chunk_begin(vectors, part + 1, parts);
  memset(c->scratch + begin * size * LANES, 0, sizeof(float) * (end - begin) * size * LANES);
  for (walk_cursor band = walk_begin(g, WIDE_BAND, 0, 1); next_band(g, &band);) {
    if (c->db)
      F(add_column_sums)(c->dy + band_start(g, &band), band_count(g, &band), g->units,
                         begin * LANES, end * LANES, c->db);
    walk_cursor at = band_blocks(&band);
    for (int pixels; (pixels = next_tile(g, &at, c->x, PIXELS, 0, in, out));) {
      tap_loops t = taps_inside(g, &at, LANES);
      for (int64_t j = begin; j < end; j++)
        for (int64_t a = 0; a < t.rows; a++)
          for (int64_t b = 0, n; b < t.cols; b += n) {
            float *sums = c->scratch + j * size * LANES + t.w_first + a * t.w_row + b * t.w_col;
            const float *dy = c->dy + j * LANES;
            int64_t from = j * LANES + a * t.x_row + b * t.x_col, left = t.cols - b;
            n = left >= MAX_COLS && g->depth < 8 ? MAX_COLS : left > 1 ? 2 : 1;
#define RUN(group, cols) F(sum_group##group##_##cols)(pixels, in, dy, out, from, t.x_col, sums)
#define RUN_ALL(group) (n == 1 ? RUN(group, 1) : n == 2 ? RUN(group, 2) : RUN(group, 3))
            if (g->depth == 2) RUN_ALL(2);
            else if (g->depth == 4) RUN_ALL(4);
#if LANES >= 8
            else n == 1 ? RUN(8, 1) : RUN(8, 2);
#endif
#undef RUN_ALL
#undef RUN
          }
    }
  }
  int64_t depth = g->depth, each = depth * LANES, at[8 * LANES];
  F(list_rotated)(depth, depth * size, size, 1, at);
  for (int64_t j = begin; j < end; j++)
    for (int64_t tap = 0; tap < size / depth; tap++) {
      const float *sums = c->scratch + j * size * LANES + tap * each;
      float *dw = c->dw + j * LANES * size + tap * depth;
      for (int64_t i = 0; i < each; i++) dw[at[i]] = c->adds ? dw[at[i]] + sums[i] : sums[i];
    }
}

void F(grouped_filter_sums)(const float *dy, const float *x, float *dw, float *db, float *scratch,
                            const window_walk *g, const int64_t *adds) {
  F(grouped_filter_job) c = {dy, x, dw, db, scratch, g, adds && *adds};
  int64_t weights = g->units * g->taps_h * g->taps_w * g->depth;
  int parts = parallel_parts(result_count(g) * PRODUCT / LANES * weights);
  if (db) memset(db, 0, sizeof(float) * g->units);
  if (parts > g->units / LANES) parts = (int)(g->units / LANES);
  parallel_for(F(grouped_sums_part), &c, parts);
}
