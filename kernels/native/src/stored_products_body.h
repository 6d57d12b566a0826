/* One instruction set's version of stored_products.c. */

#include "vectors.h"

#include "stored_values.h"
#include "tile.h"
#include "transpose_tile.h"

typedef struct {
  const float *x;
  const uint8_t *q;
  const float *scales, *zeros, *bias, *relu_mask;
  float *y, *panel;
  int64_t columns, step, of_depth, shift, bits, minimum, flip;
  const window_walk *g;
  int64_t clamp;
  float lo, hi;
  int64_t units, depth; /* of the weight */
} F(stored_job);

/* Integers of a unit that are decoded at once: LANES bytes of 2 bits. */
#undef SEGMENT
#define SEGMENT (4 * LANES)

/* Computes a segment of integers of a unit, from value k on. A vector of them is `step` values from
   the one before. */
INLINE void F(decode_integers)(const F(stored_job) * c, int64_t unit, int64_t k, float *y,
                               int64_t step, int bits) {
  int64_t each = ((c->depth - 1) >> c->shift) + 1;
  const uint8_t *q = c->q + (unit * c->depth + k) * bits / 8;
  const float *scales = c->scales + unit * each;
  for (int i = 0; i < SEGMENT; i += LANES * 8 / bits, q += LANES) {
    F(vec) v[MAX_MR];
    if (bits == 8) {
      F(bits) bytes = (F(load_bytes)(q) ^ (int32_t)c->flip) - (int32_t)c->flip;
      v[0] = __builtin_convertvector(bytes, F(vec)) - c->zeros[unit];
    } else {
      F(unpack_bytes)(q, v, bits);
    }
    UNROLL(p, 8 / bits,
           F(store)(y + (i / LANES + p) * step, v[p] * scales[(k + i + p * LANES) >> c->shift]));
  }
}

/* Computes segments, or blocks, of `rows` units, from value k on. A unit is `row_step` values from
   the one before in y, and a vector of its values `step`. */
#define SEGMENTS(name, ...)                                                                       \
  static __attribute__((noinline)) void F(name)(const F(stored_job) * c, int64_t unit, int64_t k, \
                                                int64_t rows, float *y, int64_t row_step,         \
                                                int64_t step) {                                   \
    for (int64_t u = unit; u < unit + rows; u++, y += row_step) __VA_ARGS__;                      \
  }
#define BLOCK_AT(u, k, bits, minimum) \
  (c->q + ((u) * c->depth + (k)) / BLOCK * block_bytes(bits, minimum))
SEGMENTS(twos, F(decode_integers)(c, u, k, y, step, 2))
SEGMENTS(fours, F(decode_integers)(c, u, k, y, step, 4))
SEGMENTS(bytes, F(decode_integers)(c, u, k, y, step, 8))
#define BLOCK_SEGMENTS(name, bits, minimum)                                 \
  SEGMENTS(name, {                                                          \
    __builtin_prefetch(BLOCK_AT(u + BLOCK, k, bits, minimum));              \
    F(decode_block)(BLOCK_AT(u, k, bits, minimum), y, step, bits, minimum); \
  })
BLOCK_SEGMENTS(blocks, 4, 0)
BLOCK_SEGMENTS(blocks_with_minimum, 4, 1)
BLOCK_SEGMENTS(blocks_of_bytes, 8, 0)
#undef BLOCK_SEGMENTS
#undef SEGMENTS

/* Of each of LANES units, which are `step` bytes apart, 16 bytes: vector i of v has bytes 4 i to
   4 i + 3 of each, the first one in the lowest bits. */
#undef PAIRS
#undef HALVES
#define PAIRS(l, h) ((l) / 4 * 4 + (l) % 4 / 2 + (l) % 2 * LANES + (h))
#define HALVES(l, h) ((l) / 4 * 4 + (l) % 2 + (l) % 4 / 2 * LANES + (h))
INLINE void F(load_units)(const uint8_t *q, int64_t step, F(bits) * v) {
  int32_t rows[4][LANES];
  for (int l = 0; l < LANES; l++) memcpy(rows[l % 4] + l / 4 * 4, q + l * step, 16);
  const F(bits) *from = (F(bits) *)rows;
  F(bits) pairs[4];
  UNROLL(i, 2, pairs[i] = SHUFFLE(from[2 * i], from[2 * i + 1], PAIRS, 0);
         pairs[i + 2] = SHUFFLE(from[2 * i], from[2 * i + 1], PAIRS, 2));
  UNROLL(i, 2, v[2 * i] = SHUFFLE(pairs[2 * i], pairs[2 * i + 1], HALVES, 0);
         v[2 * i + 1] = SHUFFLE(pairs[2 * i], pairs[2 * i + 1], HALVES, 2));
}

/* The halves in the lowest bits of lanes. */
INLINE F(vec) F(halves)(F(bits) v) {
#if defined(__x86_64__) && LANES == 16
  return (F(vec))_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)v));
#else
  F(vec) y;
  for (int l = 0; l < LANES; l++) y[l] = F(float_of)((uint32_t)v[l] & 0xffff);
  return y;
#endif
}

/* Computes the blocks of LANES units: a vector of them for each value of the depth. */
INLINE void F(decode_units)(const F(stored_job) * c, int64_t unit, float *y, int bits,
                            int minimum) {
  int64_t step = c->depth / BLOCK * block_bytes(bits, minimum);
  int zero = bits == 4 && !minimum ? 8 : 0;
  for (int64_t k = 0; k < c->depth; k += BLOCK, y += BLOCK * LANES) {
    const uint8_t *q = BLOCK_AT(unit, k, bits, minimum);
    /* the bytes of the next units, since few of these rows are in order in memory */
    for (int64_t i = 0; i < LANES * block_bytes(bits, minimum); i += 64)
      __builtin_prefetch(BLOCK_AT(unit + LANES, k * LANES, bits, minimum) + i);
    int32_t headers[LANES];
    for (int l = 0; l < LANES; l++) memcpy(headers + l, q + l * step, 4);
    F(bits) header = *(F(bits) *)headers, v[4];
    F(vec) d = F(halves)(header), m = {0};
    if (minimum) m = F(halves)(header >> 16);
    q += minimum ? 4 : 2;
    for (int i = 0; i < BLOCK * bits / 8; i += 4) {
      if (i % 16 == 0) F(load_units)(q + i, step, v);
      F(bits) four = v[i / 4 % 4];
      for (int b = 0; b < 4; b++) {
        F(bits) first = (four >> (8 * b)) & 15;
        if (bits == 8) first = (four << (24 - 8 * b)) >> 24;
        F(vec) real = __builtin_convertvector(first - zero, F(vec)) * d;
        if (minimum) real += m;
        F(store)(y + (i + b) * LANES, real);
        if (bits == 8) continue;
        real = __builtin_convertvector(((four >> (8 * b + 4)) & 15) - zero, F(vec)) * d;
        if (minimum) real += m;
        F(store)(y + (BLOCK / 2 + i + b) * LANES, real);
      }
    }
  }
}
#define UNITS_OF(name, bits, minimum)                                                              \
  static __attribute__((noinline)) void F(name)(const F(stored_job) * c, int64_t unit, float *y) { \
    F(decode_units)(c, unit, y, bits, minimum);                                                    \
  }
UNITS_OF(units_of_blocks, 4, 0)
UNITS_OF(units_with_minimum, 4, 1)
UNITS_OF(units_of_bytes, 8, 0)
#undef UNITS_OF
#undef BLOCK_AT

/* Packs a range of units as vectors by the depth, the layout of the panel of `correlate`. */
static void F(pack_units)(const F(stored_job) * c, int64_t first, int64_t count, float *panel) {
  float rows[LANES * SEGMENT];
  for (int64_t u = first; u < first + count; u += LANES, panel += c->depth * LANES) {
    if (!c->scales) {
      (c->bits == 8 ? F(units_of_bytes)
       : c->minimum ? F(units_with_minimum)
                    : F(units_of_blocks))(c, u, panel);
      continue;
    }
    for (int64_t k = 0; k < c->depth; k += SEGMENT) {
      (c->bits == 2   ? F(twos)
       : c->bits == 4 ? F(fours)
                      : F(bytes))(c, u, k, LANES, rows, SEGMENT, LANES);
      F(pack_rows)(rows, SEGMENT, SEGMENT, panel + k * LANES, LANES);
    }
  }
}

/* Packs a range of the depth as vectors by the units. */
static void F(pack_depth)(const F(stored_job) * c, int64_t first, int64_t count, float *panel) {
  int64_t size = c->scales ? SEGMENT : BLOCK;
  void (*decode)(const F(stored_job) *, int64_t, int64_t, int64_t, float *, int64_t, int64_t) =
      c->scales      ? c->bits == 2   ? F(twos)
                       : c->bits == 4 ? F(fours)
                                      : F(bytes)
      : c->bits == 8 ? F(blocks_of_bytes)
      : c->minimum   ? F(blocks_with_minimum)
                     : F(blocks);
  for (int64_t u = 0, n; u < c->units; u += n) {
    n = c->units - u < BLOCK ? c->units - u : BLOCK; /* few: their bytes stay in the cache */
    for (int64_t k = 0; k < count; k += size)
      decode(c, u, first + k, n, panel + k * c->units + u * LANES, LANES, c->units * LANES);
  }
}

/* One part: a range of the columns of the result. */
static void F(stored_part)(void *job, int part, int parts) {
  const F(stored_job) *c = job;
  int64_t steps = c->g->units / c->step, end = chunk_begin(steps, part + 1, parts) * c->step;
  int64_t most = c->columns / parts, all = (steps + parts - 1) / parts * c->step;
  if (most >= all) most = all;
  else most -= most % (most < TILED ? c->step : TILED);
  float *panel = c->panel + part * most * c->g->depth;
  window_walk g = *c->g;
  for (int64_t at = chunk_begin(steps, part, parts) * c->step; at < end; at += g.units) {
    g.units = end - at < most ? end - at : most;
    (c->of_depth ? F(pack_depth) : F(pack_units))(c, at, g.units, panel);
    F(correlate)(c->x, 0, c->bias ? c->bias + at : 0, c->relu_mask ? c->relu_mask + at : 0,
                 c->y + at, panel, &g, c->clamp, c->lo, c->hi, PACKED);
  }
}

/* The product that `correlate` computes, with a stored weight (units, depth) in panels: its units
   are the columns of the result, or if `of_depth`, the values of a unit. Blocks are those of
   decode_blocks and have no scales; integers have one for each 2ˢʰⁱᶠᵗ of a unit. columns: of the
   panels of all threads. step: columns that are decoded together. */
void F(stored_product)(const float *x, const uint8_t *q, const float *scales, const float *zeros,
                       const float *bias, const float *relu_mask, float *y, float *panel,
                       int64_t columns, int64_t step, int64_t of_depth, int64_t shift, int64_t bits,
                       int64_t minimum, int64_t flip, const window_walk *g, int64_t clamp, float lo,
                       float hi) {
  F(stored_job)
  c = {x,
       q,
       scales,
       zeros,
       bias,
       relu_mask,
       y,
       panel,
       columns,
       step,
       of_depth,
       shift,
       bits,
       minimum,
       flip,
       g,
       clamp,
       lo,
       hi,
       of_depth ? g->depth : g->units,
       of_depth ? g->units : g->depth};
  int64_t rows = g->images * g->rows * g->cols;
  int parts = parallel_parts((rows * PRODUCT / LANES + WEIGHT) * g->units * g->depth);
  parallel_for(F(stored_part), &c, parts < columns / step ? parts : (int)(columns / step));
}
