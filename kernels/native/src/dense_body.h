/* One instruction set's version of dense.c. */

#include "vectors.h"

#include "tile.h"

/* Adds products of m rows and n units over a vector of the depth; `mask` selects its values in x.
   The addresses of row i and unit j are expressions of i and of j. */
#undef ADD_DOTS
#define ADD_DOTS(xs, ws, mask)                                                \
  do {                                                                        \
    F(vec) a[MAX_MR];                                                         \
    UNROLL(i, m, a[i] = mask(F(load)(xs)));                                   \
    UNROLL(j, n, F(vec) v = F(load)(ws);                                      \
           UNROLL(i, m, sums[i * n + j] += a[i] * v; KEEP(sums[i * n + j]))); \
  } while (0)

/* Adds the halves of vectors: those of sums[q] in the lanes of sums[q] whose number lacks bit h,
   and those of sums[q + h] in its other lanes. After all h, lane l of sums[q] is the sum of what
   sums[q + l] was. */
#undef ADD_HALVES
#define OWN_LANE(l, h) ((l) & (h) ? (l) + LANES : (l))
#define CROSS_LANE(l, h) (((l) ^ (h)) + ((l) & (h) ? LANES : 0))
#define ADD_HALVES(h)                                                                            \
  UNROLL(                                                                                        \
      q, m *n, if (!(q & (h))) {                                                                 \
        F(vec) other = sums[q + (h) < m * n ? q + (h) : q];                                      \
        sums[q] = SHUFFLE(sums[q], other, OWN_LANE, h) + SHUFFLE(sums[q], other, CROSS_LANE, h); \
      })

/* y[r][u] = x[r] · w[u] for m rows and n units, with vectors along the depth, so that w is not
   packed; `bias` has a value for each result. */
INLINE void F(dense_tile)(const float *x, const float *w, const float *bias, float *y,
                          int64_t depth, int64_t units, int m, int n, int64_t clamp, float lo,
                          float hi) {
  F(vec) sums[MAX_MR];
  float results[MAX_MR];
  int64_t rest = (depth - 1) % LANES + 1;
  F(bits) lane;
  for (int l = 0; l < LANES; l++) lane[l] = l;
  lane = lane < (int32_t)rest;
  UNROLL(q, m * n, sums[q] = (F(vec)){0});
#define REST(v) F(masked)(lane, v)
  ADD_DOTS(x + i * depth, w + j * depth, REST);
#undef REST
  if (USES_BLOCKS) {
    const float *row[MAX_MR], *unit[MAX_MR];
    UNROLL(i, m, row[i] = x + i * depth + rest);
    UNROLL(j, n, unit[j] = w + j * depth + rest);
    FOUR_BLOCKS(u, (depth - rest) / LANES, UNROLL(i, m, ADVANCE(row[i], 4 * LANES));
                UNROLL(j, n, ADVANCE(unit[j], 4 * LANES)),
                ADD_DOTS(row[i] + u * LANES, unit[j] + u * LANES, ));
    rest = depth;
  }
  for (int64_t k = rest; k < depth; k += LANES) ADD_DOTS(x + i * depth + k, w + j * depth + k, );
#if LANES >= 16
  ADD_HALVES(8);
#endif
#if LANES >= 8
  ADD_HALVES(4);
#endif
  ADD_HALVES(2);
  ADD_HALVES(1);
  UNROLL(
      q, m * n, if (q % LANES == 0) {
        F(vec) v = sums[q] + F(load)(bias + q);
        F(store)(results + q, clamp ? F(clamp)(v, lo, hi) : v);
      });
  for (int i = 0; i < m; i++) memcpy(y + i * units, results + i * n, sizeof(float) * (size_t)n);
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

/* One part: a range of the units. */
static void F(dense_part)(void *job, int part, int parts) {
  const F(dense_job) *c = job;
  int64_t depth = c->depth, units = c->units, groups = units / UNITS;
  int64_t u = chunk_begin(groups, part, parts) * UNITS;
  int64_t end = part + 1 < parts ? chunk_begin(groups, part + 1, parts) * UNITS : units;
  while (u < end) {
    int wide = end - u >= UNITS;
    float bias[MAX_MR];
    for (int q = 0; q < MAX_MR; q++) bias[q] = c->bias ? c->bias[u + (wide ? q % UNITS : 0)] : 0;
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
#ifdef NARROWER
  if (depth < LANES) {
    NARROWER(dense)(x, w, bias, y, rows, depth, units, clamp, lo, hi);
    return;
  }
#else
  if (depth < LANES) {
    for (int64_t r = 0; r < rows; r++)
      for (int64_t u = 0; u < units; u++) {
        float s = bias ? bias[u] : 0;
        for (int64_t k = 0; k < depth; k++) s += x[r * depth + k] * w[u * depth + k];
        y[r * units + u] = !clamp ? s : s < lo ? lo : s > hi ? hi : s;
      }
    return;
  }
#endif
  F(dense_job) c = {x, w, bias, y, rows, depth, units, clamp, lo, hi};
  parallel_for(F(dense_part), &c,
               parallel_parts((rows * PRODUCT / LANES + WEIGHT) * depth * units));
}
