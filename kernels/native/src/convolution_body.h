/* One instruction set's version of convolution.c. */

#include "vectors.h"

#include "column_sums.h"

#include "tile.h"
#include "transpose_tile.h"

/* Whether a walk is computed in tiles of 2×2 results, which narrow vectors leave to others. */
#undef IN_TILES
#if LANES > 4 || BASE_IN_TILES
#define IN_TILES(g) ((g)->tiled)
#else
#define IN_TILES(g) 0
#endif

/* G w of three values at a distance. */
INLINE void F(three_to_four)(F(vec) * w, int step) {
  F(vec) ends = w[0] + w[2 * step], middle = w[step];
  w[3 * step] = w[2 * step], w[step] = (ends + middle) * 0.5f, w[2 * step] = (ends - middle) * 0.5f;
}

/* Computations applied to a result before it is stored. */
typedef struct {
  const float *bias, *relu_mask;
  int clamp;
  float lo, hi;
} F(epilogue);

/* Stores the results of m pixels and n vectors of units. */
INLINE void F(store_results)(F(tile) sums, float *y, const int64_t *out, const int64_t *unit,
                             const F(epilogue) * given, int m, int n) {
  F(epilogue) e = *given; /* which is not y's memory */
  if (e.bias)
    UNROLL(j, n, F(vec) bias = F(load)(e.bias + unit[j]); UNROLL(i, m, sums[i][j] += bias));
  if (e.clamp) UNROLL(i, m, UNROLL(j, n, sums[i][j] = F(clamp)(sums[i][j], e.lo, e.hi)));
  if (e.relu_mask)
    UNROLL(i, m, const float *mask = e.relu_mask + out[i]; UNROLL(
               j, n, sums[i][j] = F(relu_masked)(sums[i][j], F(load)(mask + unit[j]), e.lo, e.hi)));
  UNROLL(i, m, float *to = y + out[i]; UNROLL(j, n, F(store)(to + unit[j], sums[i][j])));
}

/* Stores fewer results than lanes. */
static __attribute__((noinline)) void F(store_narrow)(float *y, int64_t at, F(vec) v, int lanes,
                                                      const F(epilogue) * e) {
  float result[LANES], bias[LANES] = {0}, mask[LANES] = {0};
  size_t size = sizeof(float) * (size_t)lanes;
  F(epilogue) padded = *e;
  F(tile) sums;
  const int64_t none = 0;
  sums[0][0] = v;
  if (e->bias) memcpy(bias, e->bias, size), padded.bias = bias;
  if (e->relu_mask) memcpy(mask, e->relu_mask + at, size), padded.relu_mask = mask;
  F(store_results)(sums, result, &none, &none, &padded, 1, 1);
  memcpy(y + at, result, size);
}

/* The number of vectors in the next group of `left`. The last vector, which may overlap the one
   before it, is alone in a group only if it is the only one. */
INLINE int64_t F(vector_group)(int64_t left) {
  return left <= NR ? left : left == NR + 1 ? (NR + 1) / 2 : NR;
}

/* Computes the results of m pixels and n vectors of units. */
INLINE void F(correlate_tile)(const tap_loops *t, const float *const *in, const float *w,
                              int64_t w_step, const int64_t *at, int m, int n, float *y,
                              const int64_t *out, const int64_t *unit, int lanes,
                              const F(epilogue) * e) {
  F(tile) sums;
  F(tile_clear)(sums, m, n);
  for (int64_t a = 0; a < t->rows; a++)
    for (int64_t b = 0; b < t->cols; b++) {
      const float *x[MAX_MR];
      UNROLL(i, m, x[i] = in[i] + (a * t->x_row + b * t->x_col));
      F(tile_add_products)(sums, x, t->depth, w + a * t->w_row + b * t->w_col, w_step, at, m, n);
    }
  if (n == 1 && lanes < LANES) { /* fewer units than lanes */
    F(vec) result[MAX_MR];
    UNROLL(i, m, result[i] = sums[i][0]);
    for (int i = 0; i < m; i++) F(store_narrow)(y, out[i], result[i], lanes, e);
    return;
  }
  F(store_results)(sums, y, out, unit, e, m, n);
}

/* The same from a list of a window's values, which saves loops for small depths. */
#define LISTED_TILE(n)                                                                          \
  static __attribute__((noinline)) void F(correlate_listed##n)(                                 \
      const value_list *t, const float *const *in, const float *w, const int64_t *at, float *y, \
      const int64_t *out, const int64_t *unit, const F(epilogue) * e) {                         \
    F(tile) sums;                                                                               \
    const float *x[MAX_MR];                                                                     \
    UNROLL(i, ROWS_OF(n), x[i] = in[i]);                                                        \
    F(tile_clear)(sums, ROWS_OF(n), n);                                                         \
    for (const value_offsets *v = t->values, *end = v + t->count; v < end; v++) {               \
      const float *from = w + v->w;                                                             \
      int64_t read = v->x;                                                                      \
      TILE_ADD_PRODUCT(sums, ROWS_OF(n), n, x[i][read], from, at);                              \
    }                                                                                           \
    F(store_results)(sums, y, out, unit, e, ROWS_OF(n), n);                                     \
  }

#define CORRELATE_TILE(n, name, m)                                                     \
  static __attribute__((noinline)) void F(correlate_##name##n)(                        \
      const tap_loops *t, const float *const *in, const float *w, int64_t w_step,      \
      const int64_t *at, float *y, const int64_t *out, const int64_t *unit, int lanes, \
      const F(epilogue) * e) {                                                         \
    F(correlate_tile)(t, in, w, w_step, at, m, n, y, out, unit, lanes, e);             \
  }
#undef ROWS_OF
/* Rows of a tile of n vectors: enough accumulators to hide the latency of a multiply-add. */
#define ROWS_OF(n) (MR >= 8 ? MR : (n) == 1 ? 2 * MR : MR * NR / (n))
CORRELATE_TILE(1, tile, ROWS_OF(1))
CORRELATE_TILE(2, tile, ROWS_OF(2))
#if NR == 3
CORRELATE_TILE(3, tile, ROWS_OF(3))
#endif
/* A tile of fewer rows for the last pixels, where a full tile has more than LOW rows. */
#undef LOW
#undef LOW2
#undef LOW3
#define LOW 4
#if MR >= 8 || NR == 3
CORRELATE_TILE(2, low, LOW)
#define LOW2 F(correlate_low2)
#else
#define LOW2 F(correlate_tile2)
#endif
#if MR >= 8 && NR == 3
CORRELATE_TILE(3, low, LOW)
#define LOW3 F(correlate_low3)
#else
#define LOW3 F(correlate_tile3)
#endif
#undef CORRELATE_TILE
/* Forms that only save time. The base of x86-64, which old processors alone run, has none. */
#undef FASTER_FORMS
#if LANES > 4 || !defined(__x86_64__)
#define FASTER_FORMS 1
#else
#define FASTER_FORMS 0
#endif
#if FASTER_FORMS
LISTED_TILE(1)
LISTED_TILE(2)
#endif
#undef LISTED_TILE

/* The same for any number of pixels; MAX_MR more are listed. */
static void F(correlate_pixels)(const tap_loops *t, const float *const *in, const float *w,
                                int64_t w_step, const int64_t *at, int64_t n, float *y,
                                const int64_t *out, const int64_t *unit, int lanes,
                                const F(epilogue) * e, int pixels) {
  for (int p = 0, low, rows = ROWS_OF(n); p < pixels; p += low ? LOW : rows) {
    int left = pixels - p;
    low = n > 1 && rows > LOW && (left <= LOW || (left > rows && left <= 2 * LOW));
#define RUN(name) name(t, in + p, w, w_step, at, y, out + p, unit, lanes, e)
    if (n == 1) RUN(F(correlate_tile1));
    else if (n == 2) low ? RUN(LOW2) : RUN(F(correlate_tile2));
#if NR == 3
    else low ? RUN(LOW3) : RUN(F(correlate_tile3));
#endif
#undef RUN
  }
}

/* Computes the results of four pixels by dot products along the depth, for at most three units. */
static void F(correlate_dots)(const tap_loops *t, const float *const *in, const float *w,
                              int64_t unit_step, int units, float *y, const int64_t *out,
                              const F(epilogue) * e) {
  F(tile) sums;
  F(bits) lane;
  int64_t unit[MAX_MR];
  for (int l = 0; l < LANES; l++) lane[l] = l;
  for (int j = 0; j < 3; j++) unit[j] = (j < units ? j : units - 1) * unit_step;
  F(tile_clear)(sums, 4, 3);
  for (int64_t a = 0; a < t->rows; a++)
    for (int64_t b = 0; b < t->cols; b++) {
      int64_t offset = a * t->x_row + b * t->x_col;
      const float *from = w + a * t->w_row + b * t->w_col;
      for (int64_t k = 0; k < t->depth; k += LANES) {
        int64_t at = F(vector_start)(k / LANES, t->depth);
        F(vec) v[MAX_MR];
        UNROLL(j, 3, v[j] = F(load)(from + unit[j] + at));
        if (at < k) {
          UNROLL(j, 3, v[j] = F(masked)(lane >= (int32_t)(k - at), v[j]));
        }
        UNROLL(i, 4, F(vec) x = F(load)(in[i] + offset + at);
               UNROLL(j, 3, sums[i][j] += x * v[j]; KEEP(sums[i][j])));
      }
    }
  UNROLL(i, 4, float result[MAX_LANES] = {0}; UNROLL(j, 3, result[j] = F(reduce_add)(sums[i][j]));
         F(store_narrow)(y, out[i], F(load)(result), units, e));
}

/* Whether units are so few that vectors are better filled along the depth of the weights, which lie
   in the order of the taps: those of a transposed convolution are in reverse. */
static int F(uses_dots)(const window_walk *g) {
  return pitch(g->col_weights, g->taps_w) >= 0 && pitch(g->row_weights, g->taps_h) >= 0 &&
         g->units <= 3 && g->depth_stride == 1 && g->depth >= LANES &&
         g->taps_w * g->depth >= 4 * LANES && g->unit_stride == g->taps_h * g->taps_w * g->depth;
}

typedef struct {
  const float *x, *w;
  float *y, *panel;
  const window_walk *g;
  F(epilogue) epilogue;
  int64_t points; /* packed weights of a unit, by the depth */
} F(correlate_job);

/* Replaces nine weights of a vector of units by G w Gᵀ, for each of the depth: see winograd.h. */
static inline void F(weight_points)(float *panel, int64_t depth) {
  int64_t step = depth * LANES;
  for (float *end = panel + step; panel < end; panel += LANES) {
    F(vec) u[POINTS];
    for (int i = 0; i < 9; i++) u[i / 3 * 4 + i % 3] = F(load)(panel + i * step);
    for (int i = 0; i < 3; i++) F(three_to_four)(u + i, 4);
    for (int i = 0; i < 4; i++) F(three_to_four)(u + 4 * i, 1);
    for (int i = 0; i < POINTS; i++) F(store)(panel + i * step, u[i]);
  }
}

/* Packs a part of the weights as (vector, tap, depth, LANES): units of a vector side by side. */
static void F(pack_part)(void *job, int part, int parts) {
  const F(correlate_job) *c = job;
  const window_walk *g = c->g;
  int64_t vectors = (g->units + LANES - 1) / LANES, lanes = g->units < LANES ? g->units : LANES;
  int64_t begin = chunk_begin(vectors, part, parts), end = chunk_begin(vectors, part + 1, parts);
  float *unit = c->panel + begin * c->points * g->depth * LANES;
  for (int64_t j = begin; j < end; j++, unit += c->points * g->depth * LANES) {
    float *panel = unit;
    int64_t first = lanes < LANES ? 0 : F(vector_start)(j, g->units);
    for (int64_t a = 0; a < g->taps_h; a++)
      for (int64_t b = 0; b < g->taps_w; b++, panel += g->depth * LANES) {
        const float *from = c->w + g->row_weights[a] + g->col_weights[b] + first * g->unit_stride;
        if (g->depth_stride == 1 && lanes == LANES && g->depth >= LANES) {
          F(pack_rows)(from, g->unit_stride, g->depth, panel, LANES);
          continue;
        }
        for (int64_t k = 0; k < g->depth; k++, from += g->depth_stride)
          if (g->unit_stride == 1 && lanes == LANES) F(store)(panel + k * LANES, F(load)(from));
          else
            for (int64_t l = 0; l < LANES; l++)
              panel[k * LANES + l] = l < lanes ? from[l * g->unit_stride] : 0;
      }
    if (IN_TILES(g)) F(weight_points)(unit, g->depth);
  }
}

/* Whether parts are ranges of the results; else they are ranges of the vectors of units. */
INLINE int F(by_results)(const window_walk *g, int parts) {
  return MANY_RESULTS(g, parts) ||
         ((g->units + LANES - 1) / LANES < 2 * parts && result_count(g) >= 4 * MR * parts);
}

static void F(correlate_part)(void *job, int part, int parts) {
  const F(correlate_job) *c = job;
  const window_walk *g = c->g;
  const float *in[PIXELS + MAX_MR];
  int64_t out[PIXELS + MAX_MR], at[MAX_NR], unit[MAX_NR];
  int64_t vectors = (g->units + LANES - 1) / LANES, begin_at = 0, end_at = vectors;
  int lanes = g->units < LANES ? (int)g->units : LANES, packed = c->panel != 0,
      dots = !packed && F(uses_dots)(g);
  int many = F(by_results)(g, parts);
  if (!many) {
    begin_at = chunk_begin(vectors, part, parts), end_at = chunk_begin(vectors, part + 1, parts);
    if (packed) F(pack_part)(job, part, parts);
  }
  walk_cursor cursor =
      many ? walk_begin(g, WIDE_BAND, part, parts) : walk_begin(g, WIDE_BAND, 0, 1);
  for (int pixels; (pixels = next_tile(g, &cursor, c->x, MAX_MR, in, out));) {
    tap_loops taps = taps_inside(g, &cursor, packed ? LANES : dots ? 1 : 0);
    const float *w = (packed ? c->panel : c->w) + taps.w_first;
    int64_t w_step = packed ? LANES : g->depth_stride;
    for (int p = 0; dots && begin_at < end_at && p < pixels; p += 4)
      F(correlate_dots)(&taps, in + p, w, g->unit_stride, lanes, c->y, out + p, &c->epilogue);
    if (dots) continue;
#if FASTER_FORMS
    value_list list;
    int listed = packed && lanes == LANES && list_values(&taps, LANES, &list);
#endif
    for (int64_t j = begin_at, n; j < end_at; j += n) {
      n = F(vector_group)(end_at - j);
      for (int i = 0; i < n; i++) {
        unit[i] = lanes < LANES ? 0 : F(vector_start)(j + i, g->units);
        at[i] = packed ? (j + i) * g->taps_h * g->taps_w * g->depth * LANES : unit[i];
      }
#if FASTER_FORMS
      for (int p = 0; listed && n < 3 && p < pixels; p += ROWS_OF(n))
        (n == 1 ? F(correlate_listed1) : F(correlate_listed2))(&list, in + p, w, at, c->y, out + p,
                                                               unit, &c->epilogue);
      if (listed && n < 3) continue;
#endif
      F(correlate_pixels)(&taps, in, w, w_step, at, n, c->y, out, unit, lanes, &c->epilogue,
                          pixels);
    }
  }
}

/* sums[o][vector] += Σ over pixels of dy[out[p] + o] x[p][vector], for m values of o, n vectors. */
#define FILTER_TILE(name, m, n)                                                                   \
  static __attribute__((noinline)) void F(name##n)(                                               \
      int pixels, const float *const *in, const float *dy, const int64_t *out, const int64_t *at, \
      float *sums, int64_t step, const int64_t *to, int first) {                                  \
    F(tile) acc;                                                                                  \
    if (first) F(tile_clear)(acc, m, n);                                                          \
    else F(tile_load)(acc, sums, step, to, m, n);                                                 \
    F(tile_add_outer_products)(acc, dy, out, in, at, pixels, m, n);                               \
    F(tile_store)(acc, sums, step, to, m, n);                                                     \
  }
FILTER_TILE(filter_wide, 2 * MR, 1)
FILTER_TILE(filter_rows, MR, 1)
FILTER_TILE(filter_rows, MR, 2)
FILTER_TILE(filter_row, 1, 1)
FILTER_TILE(filter_row, 1, 2)
#undef WIDE2
#undef ROWS3
#undef ROW3
#if MR < 8 && NR == 3
FILTER_TILE(filter_wide, ROWS_OF(2), 2)
#define WIDE2 F(filter_wide2)
#else
#define WIDE2 F(filter_rows2)
#endif
#if NR == 3
FILTER_TILE(filter_rows, MR, 3)
FILTER_TILE(filter_row, 1, 3)
#define ROWS3 F(filter_rows3)
#define ROW3 F(filter_row3)
#else
#define ROWS3 F(filter_rows2)
#define ROW3 F(filter_row2)
#endif
#undef FILTER_TILE

/* Adds a tile of pixels to the sums of `size` values for every unit from begin_at to end_at. The
   last two vectors may overlap: they are of one group, loaded before either is stored. */
static __attribute__((noinline)) void F(add_filter_tiles)(int pixels, const float *const *in,
                                                          const float *dy, const int64_t *out,
                                                          int64_t offset, int64_t begin_at,
                                                          int64_t end_at, int64_t size, float *sums,
                                                          int64_t step, int first) {
  int64_t vectors = (size + LANES - 1) / LANES;
  near_rows near;
  const float *const *from = in;
  int copies =
      FASTER_FORMS && collide(in, pixels) && size % LANES == 0 && end_at - begin_at >= 8 * MR;
  for (int64_t j = 0, n; j < vectors; j += n) {
    int64_t at[MAX_NR], to[MAX_NR];
    n = F(vector_group)(vectors - j);
    for (int i = 0; i < n; i++) to[i] = F(vector_start)(j + i, size), at[i] = offset + to[i];
    if (copies) {
      from = copy_rows(&near, in, pixels, at[0], n * LANES);
      for (int i = 0; i < n; i++) at[i] = i * LANES;
    }
    for (int64_t o = begin_at; o < end_at;) {
      int64_t left = end_at - o, most = n == 1 ? 2 * MR : n == 2 ? ROWS_OF(2) : MR;
      int split = left / MR == 2 && left % MR < 2; /* two tiles of MR rows leave fewest rows */
      int64_t rows = left >= most && (most == 2 * MR || !split) ? most : left >= MR ? MR : 1;
#define RUN(name) name(pixels, from, dy + o, out, at, sums + o * step, step, to, first)
      if (rows == 1) n == 1 ? RUN(F(filter_row1)) : n == 2 ? RUN(F(filter_row2)) : RUN(ROW3);
      else if (rows == MR)
        n == 1 ? RUN(F(filter_rows1)) : n == 2 ? RUN(F(filter_rows2)) : RUN(ROWS3);
      else n == 1 ? RUN(F(filter_wide1)) : RUN(WIDE2);
#undef RUN
      o += rows;
    }
  }
}

typedef struct {
  const float *dy, *x;
  float *dw, *db, *scratch;
  const window_walk *g;
} F(filter_job);

/* Adds the bias gradient of a band, for the units of a part. */
static void F(add_bias_band)(const F(filter_job) * c, const walk_cursor *at, int part, int parts) {
  const window_walk *g = c->g;
  if (c->db)
    F(add_column_sums)(c->dy + band_start(g, at), band_count(g, at), g->units,
                       chunk_begin(g->units, part, parts), chunk_begin(g->units, part + 1, parts),
                       c->db);
}

/* Whether each tap has a walk of its own, over all results whose window has it inside, because the
   depth fills several vectors and the taps of a row need not be merged. */
static int F(walks_by_tap)(const window_walk *g) { return g->depth >= 2 * LANES && g->units >= MR; }

/* The values of a filter gradient are divided into groups: MR units of a row of taps, or of a tap
   with a walk of its own. */
static int64_t F(groups_of_units)(const window_walk *g) { return (g->units + MR - 1) / MR; }
static int64_t F(filter_groups)(const window_walk *g) {
  return g->taps_h * (F(walks_by_tap)(g) ? g->taps_w : 1) * F(groups_of_units)(g);
}

/* Adds the band's gradients of the taps of `g`, all or one, for a range of groups. */
static void F(add_filter_band)(const F(filter_job) * c, const window_walk *g, walk_cursor at,
                               int64_t begin, int64_t end, float *dw, int first) {
  const float *in[PIXELS];
  int64_t out[PIXELS], step = c->g->taps_h * c->g->taps_w * c->g->depth,
                       groups = F(groups_of_units)(g);
  if (end <= 0 || begin >= g->taps_h * groups) return;
  for (int pixels; (pixels = next_tile(g, &at, c->x, 0, in, out)); first = 0) {
    tap_loops t = taps_inside(g, &at, 1);
    for (int64_t a = 0; a < t.rows; a++) {
      int64_t before = (at.row.tap + a) * groups, from = begin > before ? (begin - before) * MR : 0,
              to = end < before + groups ? (end - before) * MR : g->units;
      for (int64_t b = 0; from < to && b < t.cols; b++)
        F(add_filter_tiles)(pixels, in, c->dy, out, a * t.x_row + b * t.x_col, from, to, t.depth,
                            dw + t.w_first + a * t.w_row + b * t.w_col, step, first);
    }
  }
}

/* One part: a range of groups. */
static void F(filter_sums_part)(void *job, int part, int parts) {
  const F(filter_job) *c = job;
  const window_walk *g = c->g;
  int64_t groups = F(groups_of_units)(g), taps = g->taps_h * g->taps_w, step = taps * g->depth,
          begin = chunk_begin(F(filter_groups)(g), part, parts),
          end = chunk_begin(F(filter_groups)(g), part + 1, parts);
  int apart = F(walks_by_tap)(g), first = step == g->depth;
  int64_t length = apart ? g->depth : g->taps_w * g->depth;
  window_walk one = *g;
  if (apart) one.taps_h = one.taps_w = 1;
  for (int64_t o = 0; !first && o < g->units; o++) {
    int64_t rest = groups - 1 - o / MR, row = (begin + rest) / groups;
    memset(c->dw + o * step + row * length, 0,
           sizeof(float) * ((end + rest) / groups - row) * length);
  }
  for (walk_cursor at = walk_begin(g, apart ? PIXELS : WIDE_BAND, 0, 1); next_band(g, &at);) {
    F(add_bias_band)(c, &at, part, parts);
    for (int64_t tap = 0; tap < (apart ? taps : 1); tap++) {
      one.row_taps = g->row_taps + tap / g->taps_w, one.col_taps = g->col_taps + tap % g->taps_w;
      F(add_filter_band)(c, &one, band_blocks(&at), begin - tap * groups, end - tap * groups,
                         c->dw + tap * length, first);
    }
    first = 0;
  }
}

/* sums[to[i]][vector] += Σ over pixels of in[p][tap[i]] dy[out[p]][vector], for TAP_ROWS values of
   a window, n vectors of units. */
#undef TAP_ROWS
#define TAP_ROWS (MR == 8 ? 9 : MR) /* 9 divides the values of windows of 3×3 */
#define TAP_TILE(n)                                                                               \
  static __attribute__((noinline)) void F(tap_rows##n)(                                           \
      int pixels, const float *const *in, const float *dy, const int64_t *out, const int64_t *at, \
      const int64_t *tap, float *sums, const int64_t *to) {                                       \
    F(tile) acc;                                                                                  \
    UNROLL(i, TAP_ROWS, UNROLL(j, n, acc[i][j] = F(load)(sums + to[i] + j * LANES)));             \
    for (int p = 0; p < pixels; p++) {                                                            \
      const float *x = in[p], *from = dy + out[p];                                                \
      TILE_ADD_PRODUCT(acc, TAP_ROWS, n, x[tap[i]], from, at);                                    \
    }                                                                                             \
    UNROLL(i, TAP_ROWS, UNROLL(j, n, F(store)(sums + to[i] + j * LANES, acc[i][j])));             \
  }
TAP_TILE(1)
TAP_TILE(2)
#undef TAP_TILE

/* Adds a tile of pixels to `count` values of a window, for all units. If there are fewer than
   TAP_ROWS, the last one is computed several times. */
static void F(add_tap_rows)(int pixels, const float *const *in, const float *dy, const int64_t *out,
                            int64_t units, int64_t *tap, float *sums, int64_t *to, int count) {
  int64_t vectors = (units + LANES - 1) / LANES;
  for (int i = count; i < TAP_ROWS; i++) tap[i] = tap[count - 1], to[i] = to[count - 1];
  for (int64_t j = 0, n; j < vectors; j += n, sums += n * LANES) {
    int64_t at[MAX_NR];
    n = vectors - j > 1 ? 2 : 1;
    for (int i = 0; i < n; i++) at[i] = units < LANES ? 0 : F(vector_start)(j + i, units);
    if (n == 1) F(tap_rows1)(pixels, in, dy, out, at, tap, sums, to);
    else F(tap_rows2)(pixels, in, dy, out, at, tap, sums, to);
  }
}

/* One part if the depth does not fill a vector: a range of the window's values, with vectors along
   the units. The sums of a value are in whole vectors, in scratch. */
static void F(tap_sums_part)(void *job, int part, int parts) {
  const F(filter_job) *c = job;
  const window_walk *g = c->g;
  int64_t size = g->taps_h * g->taps_w * g->depth, begin = chunk_begin(size, part, parts),
          end = chunk_begin(size, part + 1, parts);
  int64_t vectors = (g->units + LANES - 1) / LANES, step = vectors * LANES, out[PIXELS];
  const float *in[PIXELS], *dy = c->dy;
  float narrow[PIXELS * LANES] = {0};
  memset(c->scratch + begin * step, 0, sizeof(float) * (end - begin) * step);
  for (walk_cursor band = walk_begin(g, WIDE_BAND, 0, 1); next_band(g, &band);) {
    F(add_bias_band)(c, &band, part, parts);
    walk_cursor at = band_blocks(&band);
    for (int pixels; (pixels = next_tile(g, &at, c->x, 0, in, out));) {
      tap_loops t = taps_inside(g, &at, 1);
      int64_t tap[TAP_ROWS], to[TAP_ROWS];
      int count = 0;
      for (int p = 0; p < pixels && g->units < LANES; p++, dy = narrow) {
        memcpy(narrow + p * LANES, c->dy + out[p], sizeof(float) * g->units);
        out[p] = p * LANES;
      }
      for (int64_t a = 0; a < t.rows; a++)
        for (int64_t k = 0; k < t.cols * t.depth; k++) {
          int64_t b = k / t.depth, row = t.w_first + a * t.w_row + b * t.w_col + k % t.depth;
          if (row < begin || row >= end) continue;
          tap[count] = a * t.x_row + b * t.x_col + k % t.depth, to[count++] = row * step;
          if (count < TAP_ROWS) continue;
          F(add_tap_rows)(pixels, in, dy, out, g->units, tap, c->scratch, to, count);
          count = 0;
        }
      if (count) F(add_tap_rows)(pixels, in, dy, out, g->units, tap, c->scratch, to, count);
    }
  }
  for (int64_t row = begin; row < end; row++)
    for (int64_t o = 0; o < g->units; o++) {
      int64_t j = o / LANES, first = g->units < LANES ? 0 : F(vector_start)(j, g->units);
      c->dw[o * size + row] = c->scratch[row * step + j * LANES + o - first];
    }
}

#include "winograd.h"

void F(correlate)(const float *x, const float *w, const float *bias, const float *relu_mask,
                  float *y, float *panel, const window_walk *g, int64_t clamp, float lo, float hi) {
  if (F(uses_dots)(g)) panel = 0;
  int64_t points = IN_TILES(g) ? POINTS : g->taps_h * g->taps_w,
          results = IN_TILES(g) ? tile_count(g) : result_count(g);
  F(correlate_job) c = {x, w, y, panel, g, {bias, relu_mask, clamp, lo, hi}, points};
  int64_t weights = g->units * points * g->depth;
  int parts = parallel_parts((results * PRODUCT / LANES + WEIGHT) * weights);
  if (IN_TILES(g) && parts > PANEL_PARTS) parts = PANEL_PARTS;
  /* Parts of the units pack their weights themselves, without waiting for each other. */
  if (panel && (IN_TILES(g) || F(by_results)(g, parts)))
    parallel_for(F(pack_part), &c, parallel_parts(weights * 2 * WEIGHT));
  parallel_for(IN_TILES(g) ? F(correlate_tiles_part) : F(correlate_part), &c, parts);
}

void F(filter_sums)(const float *dy, const float *x, float *dw, float *db, float *scratch,
                    const window_walk *g) {
  F(filter_job) c = {dy, x, dw, db, scratch, g};
  int64_t size = g->taps_h * g->taps_w * g->depth, by_taps = g->depth < LANES;
  int64_t most = by_taps ? size / TAP_ROWS : F(filter_groups)(g);
  int parts = parallel_parts((result_count(g) * PRODUCT / LANES + WEIGHT) * size * g->units);
  if (IN_TILES(g)) most = PANEL_PARTS;
  if (most < parts) parts = most > 1 ? (int)most : 1;
  if (db) memset(db, 0, sizeof(float) * g->units);
  if (IN_TILES(g)) {
    memset(scratch, 0, sizeof(float) * (g->depth + g->units));
    parallel_for(F(filter_points_part), &c, parts);
    parallel_for(F(filter_end_part), &c, parallel_parts(size * g->units * 2 * WEIGHT));
    return;
  }
  parallel_for(by_taps ? F(tap_sums_part) : F(filter_sums_part), &c, parts);
}
