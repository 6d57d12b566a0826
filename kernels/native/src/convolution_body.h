/* One instruction set's version of convolution.c. */

#include "vectors.h"

#include "tile.h"

/* Computations applied to a result before it is stored. */
typedef struct {
  const float *bias, *relu_mask;
  int clamp;
  float lo, hi;
} F(epilogue);

static __attribute__((noinline)) void F(epilogue_narrow)(float part[MAX_MR][LANES], int m, float *y,
                                                         const int64_t *out, int lanes,
                                                         const F(epilogue) * e) {
  for (int i = 0; i < m; i++)
    for (int l = 0; l < lanes; l++) {
      float s = part[i][l], mask = e->relu_mask ? e->relu_mask[out[i] + l] : 0;
      if (e->bias) s += e->bias[l];
      if (e->clamp) s = s < e->lo ? e->lo : s > e->hi ? e->hi : s;
      if (e->relu_mask && !(mask > e->lo && mask < e->hi)) s = 0;
      y[out[i] + l] = s;
    }
}

INLINE void F(store_result)(float *y, int64_t at, int64_t unit, F(vec) v, const F(epilogue) * e) {
  if (e->bias) v += F(load)(e->bias + unit);
  if (e->clamp) v = F(clamp)(v, e->lo, e->hi);
  if (e->relu_mask) v = F(relu_masked)(v, F(load)(e->relu_mask + at), e->lo, e->hi);
  F(store)(y + at, v);
}

/* Computes the results of m pixels and n vectors of units. */
INLINE void F(correlate_tile)(int taps, int64_t depth, const float *const *in,
                              const float *const *w, int64_t depth_stride, const int64_t *at, int m,
                              int n, float *y, const int64_t *out, const int64_t *unit, int lanes,
                              const F(epilogue) * e) {
  F(tile) sums;
  F(tile_clear)(sums, m, n);
  for (int t = 0; t < taps; t++) {
    const float *x[MAX_MR];
    UNROLL(i, m, x[i] = in[t * PIXELS + i]);
    F(tile_add_products)(sums, x, depth, w[t], depth_stride, at, m, n);
  }
  if (lanes < LANES) { /* fewer units than lanes */
    float part[MAX_MR][LANES];
    UNROLL(i, m, F(store)(part[i], sums[i][0]));
    F(epilogue_narrow)(part, m, y, out, lanes, e);
    return;
  }
  UNROLL(i, m, UNROLL(j, n, F(store_result)(y, out[i] + unit[j], unit[j], sums[i][j], e)));
}

#define CORRELATE_TILE(n, m)                                                                      \
  static __attribute__((noinline)) void F(correlate_tile##n)(                                     \
      int taps, int64_t depth, const float *const *in, const float *const *w,                     \
      int64_t depth_stride, const int64_t *at, float *y, const int64_t *out, const int64_t *unit, \
      int lanes, const F(epilogue) * e) {                                                         \
    F(correlate_tile)(taps, depth, in, w, depth_stride, at, m, n, y, out, unit, lanes, e);        \
  }
CORRELATE_TILE(1, 2 * MR)
CORRELATE_TILE(2, MR)
#if NR == 3
CORRELATE_TILE(3, MR)
#endif
#undef CORRELATE_TILE

/* Packs the weights as (vector, tap, depth, LANES): the units of a vector side by side. */
static void F(pack_panel)(const window_walk *g, const float *w, float *panel) {
  int64_t vectors = (g->units + LANES - 1) / LANES;
  for (int64_t j = 0; j < vectors; j++) {
    int64_t first = g->units < LANES ? 0 : F(vector_start)(j, g->units);
    int64_t lanes = g->units < LANES ? g->units : LANES;
    for (int64_t a = 0; a < g->taps_h; a++)
      for (int64_t b = 0; b < g->taps_w; b++) {
        const float *from = w + g->row_weights[a] + g->col_weights[b] + first * g->unit_stride;
        for (int64_t k = 0; k < g->depth; k++, panel += LANES) {
          for (int64_t l = 0; l < lanes; l++)
            panel[l] = from[l * g->unit_stride + k * g->depth_stride];
          for (int64_t l = lanes; l < LANES; l++) panel[l] = 0;
        }
      }
  }
}

typedef struct {
  const float *x, *w, *panel;
  float *y;
  const window_walk *g;
  F(epilogue) epilogue;
} F(correlate_job);

static void F(correlate_part)(void *job, int part, int parts) {
  const F(correlate_job) *c = job;
  const window_walk *g = c->g;
  const float *in[MAX_TAPS * PIXELS], *taps[MAX_TAPS];
  int64_t out[PIXELS], at[MAX_NR], unit[MAX_NR];
  int64_t count = g->taps_h * g->taps_w, vectors = (g->units + LANES - 1) / LANES;
  int64_t begin_at = 0, end_at = vectors;
  int lanes = g->units < LANES ? (int)g->units : LANES, packed = c->panel != 0;
  int64_t depth_stride = packed ? LANES : g->depth_stride;
  walk_cursor cursor =
      walk_begin(g, MANY_TILES(g, parts) ? part : 0, MANY_TILES(g, parts) ? parts : 1);
  if (!MANY_TILES(g, parts))
    begin_at = chunk_begin(vectors, part, parts), end_at = chunk_begin(vectors, part + 1, parts);
  for (int64_t a = 0, t = 0; a < g->taps_h; a++)
    for (int64_t b = 0; b < g->taps_w; b++, t++)
      taps[t] =
          packed ? c->panel + t * g->depth * LANES : c->w + g->row_weights[a] + g->col_weights[b];
  for (int pixels; (pixels = next_tile(g, &cursor, c->x, zero_border, 2 * MR, in, out));) {
    for (int64_t j = begin_at, n; j < end_at; j += n) {
      int64_t left = end_at - j;
      n = left > NR + 1 || left == NR ? NR : left > 2 ? 2 : left;
      for (int i = 0; i < n; i++) {
        unit[i] = lanes < LANES ? 0 : F(vector_start)(j + i, g->units);
        at[i] = packed ? (j + i) * count * g->depth * LANES : unit[i];
      }
      for (int p = 0; p < pixels; p += n == 1 ? 2 * MR : MR) {
#define RUN(n)                                                                                    \
  F(correlate_tile##n)((int)count, g->depth, in + p, taps, depth_stride, at, c->y, out + p, unit, \
                       lanes, &c->epilogue)
        if (n == 1) RUN(1);
        else if (n == 2) RUN(2);
#if NR == 3
        else RUN(3);
#endif
#undef RUN
      }
    }
  }
}

void F(correlate)(const float *x, const float *w, const float *bias, const float *relu_mask,
                  float *y, float *panel, const window_walk *g, int64_t clamp, float lo, float hi) {
  int packed = g->unit_stride != 1 || g->units < LANES;
  F(correlate_job) c = {x, w, packed ? panel : 0, y, g, {bias, relu_mask, clamp, lo, hi}};
  if (packed) F(pack_panel)(g, w, panel);
  parallel_for(
      F(correlate_part), &c,
      parallel_parts(result_count(g) * g->taps_h * g->taps_w * g->depth * g->units / LANES));
}

/* sums[o][vector] += Σ over pixels of dy[p][o] x[p][vector], for m values of o and n vectors. */
INLINE void F(filter_tile)(int pixels, const float *const *in, const float *dy, int64_t units,
                           const int64_t *at, int m, int n, float *sums, int64_t unit_step,
                           const int64_t *to, int first) {
  F(tile) acc;
  if (first) F(tile_clear)(acc, m, n);
  else F(tile_load)(acc, sums, unit_step, to, m, n);
  F(tile_add_outer_products)(acc, dy, units, in, at, pixels, m, n);
  F(tile_store)(acc, sums, unit_step, to, m, n);
}

#define FILTER_TILE(name, m, n)                                                              \
  static __attribute__((noinline)) void F(name##n)(                                          \
      int pixels, const float *const *in, const float *dy, int64_t units, const int64_t *at, \
      float *sums, int64_t unit_step, const int64_t *to, int first) {                        \
    F(filter_tile)(pixels, in, dy, units, at, m, n, sums, unit_step, to, first);             \
  }
FILTER_TILE(filter_wide, 2 * MR, 1)
FILTER_TILE(filter_rows, MR, 1)
FILTER_TILE(filter_rows, MR, 2)
FILTER_TILE(filter_row, 1, 1)
FILTER_TILE(filter_row, 1, 2)
#if NR == 3
FILTER_TILE(filter_rows, MR, 3)
FILTER_TILE(filter_row, 1, 3)
#endif
#undef FILTER_TILE

/* Adds a tile of pixels to the sums of every unit from begin_at to end_at. */
static void F(add_filter_tiles)(int pixels, const float *const *in, const float *dy, int64_t units,
                                int64_t begin_at, int64_t end_at, int64_t size, float *sums,
                                int64_t unit_step, int padded, int first) {
  int64_t vectors = (size + LANES - 1) / LANES;
  for (int64_t j = 0, n; j < vectors; j += n) {
    int64_t left = vectors - j, at[MAX_NR], to[MAX_NR];
    n = left > NR + 1 || left == NR ? NR : left > 2 ? 2 : left;
    for (int i = 0; i < n; i++) {
      at[i] = F(vector_start)(j + i, size);
      to[i] = padded ? (j + i) * LANES : at[i];
    }
    for (int64_t o = begin_at; o < end_at;) {
      float *here = sums + o * unit_step;
      int full = end_at - o >= MR, wide = n == 1 && end_at - o >= 2 * MR;
#define RUN(name) F(name)(pixels, in, dy + o, units, at, here, unit_step, to, first)
      if (wide) RUN(filter_wide1);
      else if (n == 1) full ? RUN(filter_rows1) : RUN(filter_row1);
      else if (n == 2) full ? RUN(filter_rows2) : RUN(filter_row2);
#if NR == 3
      else full ? RUN(filter_rows3) : RUN(filter_row3);
#endif
#undef RUN
      o += wide ? 2 * MR : full ? MR : 1;
    }
  }
}

static void F(add_bias_sums)(int pixels, const float *dy, int64_t units, int64_t begin_at,
                             int64_t end_at, float *db, int first) {
  for (int64_t o = begin_at; o < end_at;) {
    if (end_at - o >= LANES) {
      F(vec) acc = first ? (F(vec)){0} : F(load)(db + o);
      for (int p = 0; p < pixels; p++) acc += F(load)(dy + p * units + o);
      F(store)(db + o, acc);
      o += LANES;
    } else {
      float acc = first ? 0 : db[o];
      for (int p = 0; p < pixels; p++) acc += dy[p * units + o];
      db[o++] = acc;
    }
  }
}

typedef struct {
  const float *dy, *x;
  float *dw, *db, *scratch;
  const window_walk *g;
} F(filter_job);

/* One part: a range of units. Each part gathers windows into its own scratch. */
static void F(filter_sums_part)(void *job, int part, int parts) {
  const F(filter_job) *c = job;
  const window_walk *g = c->g;
  const float *in[MAX_TAPS * PIXELS], *row[PIXELS];
  int64_t out[PIXELS], begin_at = chunk_begin(g->units, part, parts),
                       end_at = chunk_begin(g->units, part + 1, parts);
  int64_t taps = g->taps_h * g->taps_w, size = g->depth, count = taps;
  int gather = g->depth < LANES; /* the gathered values of a window fill vectors */
  if (gather) size = (taps * g->depth + LANES - 1) / LANES * LANES, count = 1;
  int64_t padded = (size + LANES - 1) / LANES * LANES;
  int direct = !gather && padded == size;
  float *columns = c->scratch + part * PIXELS * size;
  float *sums = direct ? c->dw : gather ? c->scratch + parts * PIXELS * size : c->scratch;
  int64_t unit_step = direct ? g->unit_stride : count * padded;
  if (gather) {
    for (int p = 0; p < PIXELS; p++) {
      row[p] = columns + p * size;
      for (int64_t k = taps * g->depth; k < size; k++) columns[p * size + k] = 0;
    }
  }
  walk_cursor cursor = walk_begin(g, 0, 1);
  int first = 1;
  for (int pixels; (pixels = next_tile(g, &cursor, c->x, zero_border, 1, in, out)); first = 0) {
    const float *here = c->dy + out[0];
    if (c->db) F(add_bias_sums)(pixels, here, g->units, begin_at, end_at, c->db, first);
    if (gather) {
      for (int p = 0; p < pixels; p++)
        for (int64_t t = 0; t < taps; t++)
          for (int64_t k = 0; k < g->depth; k++)
            columns[p * size + t * g->depth + k] = in[t * PIXELS + p][k];
      F(add_filter_tiles)(pixels, row, here, g->units, begin_at, end_at, size, sums, unit_step, 1,
                          first);
      continue;
    }
    for (int64_t a = 0, t = 0; a < g->taps_h; a++)
      for (int64_t b = 0; b < g->taps_w; b++, t++) {
        int64_t to = direct ? g->row_weights[a] + g->col_weights[b] : t * padded;
        F(add_filter_tiles)(pixels, in + t * PIXELS, here, g->units, begin_at, end_at, size,
                            sums + to, unit_step, !direct, first);
      }
  }
  for (int64_t o = begin_at; o < end_at && !direct; o++)
    for (int64_t a = 0, t = 0; a < g->taps_h; a++)
      for (int64_t b = 0; b < g->taps_w; b++, t++) {
        float *to = c->dw + o * g->unit_stride + g->row_weights[a] + g->col_weights[b];
        const float *from = sums + o * unit_step + (gather ? t * g->depth : t * padded);
        for (int64_t j = 0; j < size && !gather; j += LANES) {
          int64_t at = F(vector_start)(j / LANES, size);
          F(store)(to + at, F(load)(from + j));
        }
        for (int64_t k = 0; k < g->depth && gather; k++) to[k] = from[k];
      }
}

void F(filter_sums)(const float *dy, const float *x, float *dw, float *db, float *scratch,
                    const window_walk *g) {
  F(filter_job) c = {dy, x, dw, db, scratch, g};
  int parts = parallel_parts(result_count(g) * g->taps_h * g->taps_w * g->depth * g->units / LANES);
  int max_parts = g->units < 2 * MR             ? 1
                  : g->units / MR < MAX_THREADS ? (int)(g->units / MR)
                                                : MAX_THREADS;
  if (g->depth < LANES && max_parts > GATHER_PARTS) max_parts = GATHER_PARTS;
  parallel_for(F(filter_sums_part), &c, parts < max_parts ? parts : max_parts);
}
