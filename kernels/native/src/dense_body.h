/* One instruction set's version of dense.c. */

#include "vectors.h"

#include "tile.h"

/* y[r][u] = x[r] · w[u] for m rows and n units, with vectors along the depth, so that w is not
   packed. */
INLINE void F(dense_tile)(const float *x, const float *w, const float *bias, float *y,
                          int64_t depth, int64_t units, int m, int n, int64_t clamp, float lo,
                          float hi) {
  F(tile) sums;
  int64_t full_depth = depth / LANES * LANES;
  F(tile_clear)(sums, m, n);
  for (int64_t k = 0; k < full_depth; k += LANES) {
    F(vec) a[MAX_MR];
    UNROLL(i, m, a[i] = F(load)(x + i * depth + k));
    UNROLL(j, n, F(vec) v = F(load)(w + j * depth + k);
           UNROLL(i, m, sums[i][j] += a[i] * v; KEEP(sums[i][j])));
  }
  float dots[MAX_MR][MAX_MR];
  UNROLL(i, m, UNROLL(j, n, dots[i][j] = F(reduce_add)(sums[i][j])));
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float s = dots[i][j] + (bias ? bias[j] : 0);
      for (int64_t k = full_depth; k < depth; k++) s += x[i * depth + k] * w[j * depth + k];
      if (clamp) s = s < lo ? lo : s > hi ? hi : s;
      y[i * units + j] = s;
    }
}

#define DENSE_TILE(name, m, n)                                                                     \
  static __attribute__((noinline)) void F(name)(const float *x, const float *w, const float *bias, \
                                                float *y, int64_t depth, int64_t units,            \
                                                int64_t clamp, float lo, float hi) {               \
    F(dense_tile)(x, w, bias, y, depth, units, m, n, clamp, lo, hi);                               \
  }
DENSE_TILE(dense_tile_full, ROWS, UNITS)
DENSE_TILE(dense_tile_row, 1, UNITS)
DENSE_TILE(dense_tile_unit, ROWS, 1)
DENSE_TILE(dense_tile_single, 1, 1)
#undef DENSE_TILE

typedef struct {
  const float *x, *w, *bias;
  float *y;
  int64_t rows, depth, units, clamp;
  float lo, hi;
} F(dense_job);

static void F(dense_part)(void *job, int part, int parts) {
  const F(dense_job) *c = job;
  int64_t depth = c->depth, units = c->units, groups = units / UNITS;
  int64_t u = chunk_begin(groups, part, parts) * UNITS;
  int64_t end = part + 1 < parts ? chunk_begin(groups, part + 1, parts) * UNITS : units;
  while (u < end) {
    int wide = end - u >= UNITS;
    const float *bias = c->bias ? c->bias + u : 0;
    for (int64_t r = 0; r < c->rows;) {
      int tall = c->rows - r >= ROWS;
      const float *from = c->x + r * depth, *weights = c->w + u * depth;
      float *to = c->y + r * units + u;
#define RUN(name) F(name)(from, weights, bias, to, depth, units, c->clamp, c->lo, c->hi)
      if (tall) wide ? RUN(dense_tile_full) : RUN(dense_tile_unit);
      else wide ? RUN(dense_tile_row) : RUN(dense_tile_single);
#undef RUN
      r += tall ? ROWS : 1;
    }
    u += wide ? UNITS : 1;
  }
}

void F(dense)(const float *x, const float *w, const float *bias, float *y, int64_t rows,
              int64_t depth, int64_t units, int64_t clamp, float lo, float hi) {
  F(dense_job) c = {x, w, bias, y, rows, depth, units, clamp, lo, hi};
  parallel_for(F(dense_part), &c,
               parallel_parts((rows * PRODUCT / LANES + WEIGHT) * depth * units));
}
