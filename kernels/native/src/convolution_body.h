/* One instruction set's version of convolution.c. */

#include "vectors.h"

#include "column_sums.h"

#include "tile.h"
#include "epilogue.h"
#include "transpose_tile.h"

/* Whether a walk is computed in tiles of 2×2 results, which narrow vectors leave to others. */
#undef IN_TILES
#if LANES > 4 || BASE_IN_TILES
#define IN_TILES(g) ((g)->tiled)
#else
#define IN_TILES(g) 0
#endif

/* Replaces three weights w, each a vector of units and `step` vectors from the next, by the four of
   G w: see winograd.h. */
INLINE void F(three_to_four)(F(vec) * w, int step) {
  F(vec) ends = w[0] + w[2 * step], middle = w[step];
  w[3 * step] = w[2 * step], w[step] = (ends + middle) * 0.5f, w[2 * step] = (ends - middle) * 0.5f;
}

/* Stores fewer results of m pixels than lanes. */
static __attribute__((noinline)) void F(store_narrow)(float *y, const int64_t *out,
                                                      const F(vec) * v, int m, int lanes,
                                                      const F(epilogue) * e) {
  float result[MAX_LANES], bias[MAX_LANES] = {0}, mask[MAX_LANES] = {0};
  F(epilogue) padded = *e;
  F(tile) sums;
  const int64_t none = 0;
  if (e->bias) copy_few(bias, e->bias, lanes), padded.bias = bias;
  for (int i = 0; i < m; i++) {
    if (e->relu_mask) copy_few(mask, e->relu_mask + out[i], lanes), padded.relu_mask = mask;
    sums[0][0] = v[i];
    F(store_results)(sums, result, &none, &none, &padded, 1, 1);
    copy_few(y + out[i], result, lanes);
  }
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
#if LANES == 16
  if (n == 1 && e->relu_mask) /* the results of a stride phase lie apart */
    UNROLL(i, m, __builtin_prefetch(y + out[i] + unit[0], 1);
           __builtin_prefetch(e->relu_mask + out[i] + unit[0]));
#endif
  F(tile_clear)(sums, m, n);
  for (int64_t p = 0; p < PLANES(t); p++)
    for (int64_t a = 0; a < t->rows; a++)
      for (int64_t b = 0; b < t->cols; b++) {
        const float *x[MAX_MR];
        UNROLL(i, m, x[i] = in[i] + x_offset(t, p, a, b));
        F(tile_add_products)(sums, x, t->depth, w + w_offset(t, p, a, b), w_step, at, m, n);
      }
  if (n == 1 && lanes < LANES) { /* fewer units than lanes */
    F(vec) result[MAX_MR];
    UNROLL(i, m, result[i] = sums[i][0]);
    F(store_narrow)(y, out, result, m, lanes, e);
    return;
  }
  F(store_results)(sums, y, out, unit, e, m, n);
}

/* The same from a list of a window's values, which saves loops for small depths. */
#define LISTED_TILE(n)                                                                          \
  static __attribute__((noinline)) void F(correlate_listed##n)(                                 \
      const value_list *t, const float *const *in, const float *w, const int64_t *at, float *y, \
      const int64_t *out, const int64_t *unit, const F(epilogue) * e, int pixels) {             \
    for (int p = 0; p < pixels; p += ROWS_OF(n)) {                                              \
      F(tile) sums;                                                                             \
      const float *x[MAX_MR];                                                                   \
      UNROLL(i, ROWS_OF(n), x[i] = in[p + i]);                                                  \
      F(tile_clear)(sums, ROWS_OF(n), n);                                                       \
      for (const value_offsets *v = t->values, *end = v + t->count; v < end; v++) {             \
        const float *from = w + v->w;                                                           \
        int64_t read = v->x;                                                                    \
        TILE_ADD_PRODUCT(sums, ROWS_OF(n), n, x[i][read], from + at[j]);                        \
      }                                                                                         \
      F(store_results)(sums, y, out + p, unit, e, ROWS_OF(n), n);                               \
    }                                                                                           \
  }

/* Tiles for a number of pixels, of m each; the last one may be beyond the end. */
#define CORRELATE_TILE(n, name, m)                                                     \
  static __attribute__((noinline)) void F(correlate_##name##n)(                        \
      const tap_loops *taps, const float *const *in, const float *w, int64_t w_step,   \
      const int64_t *at, float *y, const int64_t *out, const int64_t *unit, int lanes, \
      const F(epilogue) * e, int pixels) {                                             \
    tap_loops t = *taps; /* a copy, which stores to y cannot change */                 \
    for (int p = 0; p < pixels; p += m)                                                \
      F(correlate_tile)(&t, in + p, w, w_step, at, m, n, y, out + p, unit, lanes, e);  \
  }
#undef ROWS_OF
/* Rows of a tile of n vectors: enough accumulators to hide the latency of a multiply-add. */
#define ROWS_OF(n) (MR >= 8 ? MR : (n) == 1 ? WIDE_MR : MR * NR / (n))
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
/* Forms that only save time. The base of x86-64 in wheels has none of them, because only old
   processors run it. */
#undef FASTER_FORMS
#if LANES > 4 || !defined(__x86_64__) || defined(ODT_EMBEDDED)
#define FASTER_FORMS 1
#else
#define FASTER_FORMS 0
#endif
#if FASTER_FORMS
LISTED_TILE(1)
LISTED_TILE(2)
#endif
#undef LISTED_TILE

/* The same for n vectors, with tiles of LOW rows for the last pixels where these are fewer rows;
   `in` and `out` have MAX_MR more entries. */
static void F(correlate_pixels)(const tap_loops *t, const float *const *in, const float *w,
                                int64_t w_step, const int64_t *at, int64_t n, float *y,
                                const int64_t *out, const int64_t *unit, int lanes,
                                const F(epilogue) * e, int pixels) {
  int rows = ROWS_OF(n), rest = pixels % rows, low = 0;
  if (n > 1 && rows > LOW && rest) {
    if (pixels > rows && rows + rest <= 2 * LOW) low = rows + rest;
    else if (rest <= LOW) low = rest;
  }
#define RUN(name, from, count) \
  name(t, in + (from), w, w_step, at, y, out + (from), unit, lanes, e, count)
#define RUN_BOTH(full, few) \
  (RUN(full, 0, pixels - low), low ? RUN(few, pixels - low, low) : (void)0)
  if (n == 1) RUN(F(correlate_tile1), 0, pixels);
  else if (n == 2) RUN_BOTH(F(correlate_tile2), LOW2);
#if NR == 3
  else RUN_BOTH(F(correlate_tile3), LOW3);
#endif
#undef RUN_BOTH
#undef RUN
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
  F(vec) result[MAX_MR];
  UNROLL(i, 4, float of[MAX_LANES] = {0}; UNROLL(j, 3, of[j] = F(reduce_add)(sums[i][j]));
         result[i] = F(load)(of));
  F(store_narrow)(y, out, result, 4, units, e);
}

/* Whether units are so few that vectors are better filled along the depth of the weights, which lie
   in the order of the taps: those of a transposed convolution are in reverse. */
static LEAF int F(uses_dots)(const window_walk *g) {
  return pitch(g->col_weights, g->taps_w) >= 0 && pitch(g->row_weights, g->taps_h) >= 0 &&
         TAPS_D(g) == 1 && g->units <= 3 && g->depth_stride == 1 && g->depth >= LANES &&
         g->taps_w * g->depth >= 4 * LANES && g->unit_stride == g->taps_h * g->taps_w * g->depth;
}

typedef struct {
  const float *x, *w;
  float *y, *panel;
  const window_walk *g;
  F(epilogue) epilogue;
  int64_t points; /* packed weights of a unit, by the depth */
  int ready;      /* whether the panel holds them already */
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

/* Packs the weights of a tap and a vector of units as (depth, LANES). */
INLINE void F(pack_tap)(const window_walk *g, const float *from, int64_t lanes, float *panel) {
  if (g->depth_stride == 1 && lanes == LANES && g->depth >= LANES) {
    F(pack_rows)(from, g->unit_stride, g->depth, panel, LANES);
    return;
  }
  for (int64_t k = 0; k < g->depth; k++, from += g->depth_stride)
    if (g->unit_stride == 1 && lanes == LANES) F(store)(panel + k * LANES, F(load)(from));
    else
      for (int64_t l = 0; l < LANES; l++)
        panel[k * LANES + l] = l < lanes ? from[l * g->unit_stride] : 0;
}

/* Packs a part of the weights as (vector, tap, depth, LANES): units of a vector side by side. For
   tiles of 2×2 results, the planes of a tap are one depth. */
static void F(pack_part)(void *job, int part, int parts) {
  const F(correlate_job) *c = job;
  const window_walk *g = c->g;
  int64_t vectors = (g->units + LANES - 1) / LANES, lanes = g->units < LANES ? g->units : LANES;
  int64_t begin = chunk_begin(vectors, part, parts), end = chunk_begin(vectors, part + 1, parts);
  int64_t size = g->depth * LANES;
  float *unit = c->panel + begin * c->points * size;
  for (int64_t j = begin; j < end; j++, unit += c->points * size) {
    int64_t first = lanes < LANES ? 0 : F(vector_start)(j, g->units);
    float *panel = unit;
    for (int64_t p = 0; p < TAPS_D(g); p++)
      for (int64_t a = 0; a < g->taps_h; a++)
        for (int64_t b = 0; b < g->taps_w; b++, panel += size) {
          const float *from = c->w + OF_VOLUME(g->plane_weights[p], 0) + g->row_weights[a] +
                              g->col_weights[b] + first * g->unit_stride;
          int64_t point = (a * g->taps_w + b) * TAPS_D(g) + p;
          F(pack_tap)(g, from, lanes, IN_TILES(g) ? unit + point * size : panel);
        }
    if (IN_TILES(g)) F(weight_points)(unit, TAPS_D(g) * g->depth);
  }
}

/* Whether parts are ranges of the results; else they are ranges of the vectors of units. */
INLINE int F(by_results)(const window_walk *g, int parts) {
  return MANY_RESULTS(g, parts) ||
         ((g->units + LANES - 1) / LANES < 2 * parts && result_count(g) >= 4 * MR * parts);
}

/* One part: a range of the results, or of the vectors of units. */
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
    if (packed && !c->ready) F(pack_part)(job, part, parts);
  }
  walk_cursor cursor =
      many ? walk_begin(g, WIDE_BAND, part, parts) : walk_begin(g, WIDE_BAND, 0, 1);
  for (int pixels; (pixels = next_tile(g, &cursor, c->x, PIXELS, MAX_MR, in, out));) {
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
      UNROLL(i, NR, unit[i] = lanes < LANES ? 0 : F(vector_start)(j + i, g->units);
             at[i] = packed ? (j + i) * tap_count(g) * g->depth * LANES : unit[i]);
#if FASTER_FORMS
      if (listed && n < 3) {
        (n == 1 ? F(correlate_listed1) : F(correlate_listed2))(&list, in, w, at, c->y, out, unit,
                                                               &c->epilogue, pixels);
        continue;
      }
#endif
      F(correlate_pixels)(&taps, in, w, w_step, at, n, c->y, out, unit, lanes, &c->epilogue,
                          pixels);
    }
  }
}

#include "convolution_filter.h"
#include "winograd.h"

/* Whether units fill half of a vector, so that narrower ones are fuller. */
INLINE int F(is_narrow)(const window_walk *g) { return 2 * g->units <= LANES; }

void F(correlate)(const float *x, const float *w, const float *bias, const float *relu_mask,
                  float *y, float *panel, const window_walk *g, int64_t clamp, float lo, float hi,
                  int64_t packing) {
#if LANES == 16
  if (F(is_narrow)(g) && !F(uses_dots)(g)) {
    NARROWER(correlate)(x, w, bias, relu_mask, y, panel, g, clamp, lo, hi, packing);
    return;
  }
#endif
  if (F(uses_dots)(g)) panel = 0;
  int64_t points = IN_TILES(g) ? POINTS * TAPS_D(g) : tap_count(g),
          results = IN_TILES(g) ? tile_count(g) : result_count(g);
  int ready = packing == PACKED;
  F(correlate_job) c = {x, w, y, panel, g, {bias, relu_mask, clamp, lo, hi}, points, ready};
  int64_t weights = g->units * points * g->depth;
  int parts = parallel_parts((results * PRODUCT / LANES + WEIGHT) * weights);
  if (IN_TILES(g) && parts > PANEL_PARTS) parts = PANEL_PARTS;
  /* Parts of the units pack their weights themselves, without waiting for each other. */
  if (panel && !ready && (packing == PACKS || IN_TILES(g) || F(by_results)(g, parts)))
    parallel_for(F(pack_part), &c, parallel_parts(weights * 2 * WEIGHT));
  if (packing == PACKS) return;
  parallel_for(IN_TILES(g) ? F(correlate_tiles_part) : F(correlate_part), &c, parts);
}

void F(filter_sums)(const float *dy, const float *x, float *dw, float *db, float *scratch,
                    const window_walk *g, const int64_t *adds) {
#if LANES == 16
  if (F(is_narrow)(g) && g->depth < LANES) {
    NARROWER(filter_sums)(dy, x, dw, db, scratch, g, adds);
    return;
  }
#endif
  F(filter_job) c = {dy, x, dw, db, scratch, g, adds && *adds};
  int64_t size = tap_count(g) * g->depth, by_taps = g->depth < LANES;
  int64_t most = by_taps ? size / TAP_ROWS : F(filter_groups)(g);
  int parts = parallel_parts((result_count(g) * PRODUCT / LANES + WEIGHT) * size * g->units);
  if (IN_TILES(g)) most = PANEL_PARTS;
  if (most < parts) parts = most > 1 ? (int)most : 1;
  if (db) memset(db, 0, sizeof(float) * g->units);
  if (IN_TILES(g)) {
    memset(scratch, 0, sizeof(float) * (TAPS_D(g) * g->depth + g->units));
    parallel_for(F(filter_points_part), &c, parts);
    parallel_for(F(filter_end_part), &c, parallel_parts(size * g->units * 2 * WEIGHT));
    return;
  }
  parallel_for(by_taps ? F(tap_sums_part) : F(filter_sums_part), &c, parts);
}
