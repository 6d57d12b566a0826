/* One instruction set's version of packed.c. */

#include "vectors.h"

#include "half.h"
#include "tile.h"
#include "transpose_tile.h"

typedef struct {
  const uint8_t *q;
  const float *x, *scales, *bias;
  float *y;
  int64_t rows, depth, units, inner, bits;
} F(packed_job);

/* The integers number p of some bytes, which are in the lowest bits of lanes, as floats. */
INLINE F(vec) F(integers)(F(bits) bytes, int p, int bits) {
#if defined(__x86_64__) && LANES == 16
  /* The permutation reads the lowest 4 bits of a lane. */
  if (bits == 8) return __builtin_convertvector((bytes << 24) >> 24, F(vec));
  const __m512 fours = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
  const __m512 twos = {0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1};
  F(bits) low = p ? bytes >> (bits * p) : bytes;
  return (F(vec))_mm512_permutexvar_ps((__m512i)low, bits == 4 ? fours : twos);
#else
#if defined(__x86_64__) && LANES == 8
  if (bits == 2) {
    const __m256 twos = {0, 1, -2, -1, 0, 1, -2, -1};
    return (F(vec))_mm256_permutevar8x32_ps(twos, (__m256i)(p ? bytes >> (2 * p) : bytes));
  }
#endif
  F(bits) v = (bytes << (32 - bits * (p + 1))) >> (32 - bits);
  return __builtin_convertvector(v, F(vec));
#endif
}

/* LANES bytes in the lowest bits of lanes. gcc 12 converts vectors of bytes lane by lane. */
INLINE F(bits) F(load_bytes)(const uint8_t *q) {
#if defined(__x86_64__) && LANES == 16
  return (F(bits))_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)q));
#elif defined(__x86_64__) && LANES == 8
  return (F(bits))_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)q));
#else
  F(bits) v;
  for (int lane = 0; lane < LANES; lane++) v[lane] = q[lane];
  return v;
#endif
}

/* Lanes of two vectors in turn, from the first halves and from the second ones. */
#undef FIRST_LANE
#undef SECOND_LANE
#define FIRST_LANE(l, h) (((l) & 1 ? LANES : 0) + (l) / 2)
#define SECOND_LANE(l, h) (FIRST_LANE(l, h) + LANES / 2)

/* Computes the integers of LANES bytes, as floats in order: 8 / bits vectors. */
INLINE void F(unpack_bytes)(const uint8_t *q, F(vec) * v, int bits) {
  F(bits) bytes = F(load_bytes)(q);
  F(vec) a = F(integers)(bytes, 0, bits), b = F(integers)(bytes, 1, bits);
  if (bits == 4) {
    v[0] = SHUFFLE(a, b, FIRST_LANE, 0), v[1] = SHUFFLE(a, b, SECOND_LANE, 0);
    return;
  }
  F(vec) c = F(integers)(bytes, 2, 2), d = F(integers)(bytes, 3, 2);
  F(vec) even = SHUFFLE(a, c, FIRST_LANE, 0), odd = SHUFFLE(b, d, FIRST_LANE, 0);
  v[0] = SHUFFLE(even, odd, FIRST_LANE, 0), v[1] = SHUFFLE(even, odd, SECOND_LANE, 0);
  even = SHUFFLE(a, c, SECOND_LANE, 0), odd = SHUFFLE(b, d, SECOND_LANE, 0);
  v[2] = SHUFFLE(even, odd, FIRST_LANE, 0), v[3] = SHUFFLE(even, odd, SECOND_LANE, 0);
}

INLINE float F(integer)(uint8_t byte, int p, int bits) {
  return (float)((int32_t)((uint32_t)byte << (32 - bits * (p + 1))) >> (32 - bits));
}

INLINE void F(unpack_unit)(const uint8_t *q, float *y, float scale, int64_t bytes, int bits) {
  int64_t k = 0;
  int count = 8 / bits;
  for (; k + LANES <= bytes; k += LANES) {
    F(vec) v[MAX_MR];
    F(unpack_bytes)(q + k, v, bits);
    UNROLL(p, 8 / bits, F(store)(y + k * count + p * LANES, F(broadcast)(scale) * v[p]));
  }
  for (; k < bytes; k++)
    for (int p = 0; p < count; p++) y[k * count + p] = scale * F(integer)(q[k], p, bits);
}

static void F(unpack_part)(void *job, int part, int parts) {
  const F(packed_job) *c = job;
  int64_t bytes = c->inner * c->bits / 8, last = chunk_begin(c->units, part + 1, parts);
  for (int64_t u = chunk_begin(c->units, part, parts); u < last; u++) {
    const uint8_t *q = c->q + u * bytes;
    float *y = c->y + u * c->inner;
    if (c->bits == 4) F(unpack_unit)(q, y, c->scales[u], bytes, 4);
    else F(unpack_unit)(q, y, c->scales[u], bytes, 2);
  }
}

/* y[u][k] = scales[u] q[u][k] for packed integers of 2 or 4 bits, the first in the lowest bits. */
void F(unpack_units)(const uint8_t *q, float *y, const float *scales, int64_t units, int64_t inner,
                     int64_t bits) {
  F(packed_job) c = {q, 0, scales, 0, y, 0, 0, units, inner, bits};
  parallel_for(F(unpack_part), &c, parallel_parts(units * inner));
}

/* Adds the products of m rows and a block of n units. Each row of `planes` has the values of x for
   the first integer of all bytes, then for the second one, and so on. */
INLINE void F(add_block)(const float *planes, int64_t depth, const uint8_t *q, int64_t bytes,
                         const float *scales, int64_t blocks, F(vec) * totals, float *rests, int m,
                         int n, int bits) {
  F(vec) sums[MAX_MR];
  int64_t unit = depth * bits / 8, k = 0;
  UNROLL(j, m * n, sums[j] = (F(vec)){0});
  for (; k + LANES <= bytes; k += LANES) {
    F(bits) v[MAX_MR];
    UNROLL(j, n, v[j] = F(load_bytes)(q + j * unit + k));
    for (int p = 0; p < 8 / bits; p++) {
      F(vec) x[MAX_MR];
      UNROLL(i, m, x[i] = F(load)(planes + i * depth + p * unit + k));
      UNROLL(j, n, F(vec) w = F(integers)(v[j], p, bits);
             UNROLL(i, m, sums[i * n + j] += x[i] * w; KEEP(sums[i * n + j])));
    }
  }
  UNROLL(t, m * n, totals[t] += F(broadcast)(scales[t % n * blocks]) * sums[t]);
  for (int j = 0; k < bytes && j < m * n; j++) {
    const float *row = planes + j / n * depth;
    const uint8_t *w = q + j % n * unit;
    float rest = 0;
    for (int64_t i = k; i < bytes; i++)
      for (int p = 0; p < 8 / bits; p++) rest += row[p * unit + i] * F(integer)(w[i], p, bits);
    rests[j] += scales[j % n * blocks] * rest;
  }
}

INLINE void F(packed_tile)(const F(packed_job) * c, int64_t r, int64_t u, int m, int n, int bits) {
  int64_t bytes = c->inner * bits / 8, blocks = c->depth / c->inner;
  F(vec) totals[MAX_MR];
  float rests[MAX_MR] = {0};
  for (int j = 0; j < m * n; j++) totals[j] = (F(vec)){0};
  for (int64_t b = 0; b < blocks; b++)
    F(add_block)(c->x + r * c->depth + b * bytes, c->depth,
                 c->q + u * c->depth * bits / 8 + b * bytes, bytes, c->scales + u * blocks + b,
                 blocks, totals, rests, m, n, bits);
  for (int j = 0; j < m * n; j++) {
    float sum = rests[j] + (c->bias ? c->bias[u + j % n] : 0);
    for (int lane = 0; lane < LANES; lane++) sum += totals[j][lane];
    c->y[(r + j / n) * c->units + u + j % n] = sum;
  }
}

#define PACKED_TILE(name, m, n)                                                                  \
  static __attribute__((noinline)) void F(name)(const F(packed_job) * c, int64_t r, int64_t u) { \
    if (c->bits == 8) F(packed_tile)(c, r, u, m, n, 8);                                          \
    else if (c->bits == 4) F(packed_tile)(c, r, u, m, n, 4);                                     \
    else F(packed_tile)(c, r, u, m, n, 2);                                                       \
  }
PACKED_TILE(packed_full, ROWS, UNITS)
PACKED_TILE(packed_row, 1, UNITS)
PACKED_TILE(packed_unit, ROWS, 1)
PACKED_TILE(packed_single, 1, 1)
#undef PACKED_TILE

static void F(packed_part)(void *job, int part, int parts) {
  const F(packed_job) *c = job;
  int64_t u = chunk_begin(c->units, part, parts), last = chunk_begin(c->units, part + 1, parts);
  while (u < last) {
    int wide = last - u >= UNITS;
    for (int64_t r = 0; r < c->rows;) {
      int tall = c->rows - r >= ROWS;
      if (tall) wide ? F(packed_full)(c, r, u) : F(packed_unit)(c, r, u);
      else wide ? F(packed_row)(c, r, u) : F(packed_single)(c, r, u);
      r += tall ? ROWS : 1;
    }
    u += wide ? UNITS : 1;
  }
}

/* y[r][u] = x[r] · w[u] + bias[u] for weights of packed integers, with a scale for each `inner` of
   them. `planes`: the values of each row, those for the first integer of all bytes first. */
void F(packed_dense)(const float *x, const uint8_t *q, const float *scales, const float *bias,
                     float *y, float *planes, int64_t rows, int64_t depth, int64_t units,
                     int64_t inner, int64_t bits) {
  int64_t count = 8 / bits, bytes = depth / count;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t p = 0; p < count; p++) {
      IVDEP
      for (int64_t k = 0; k < bytes; k++)
        planes[r * depth + p * bytes + k] = x[r * depth + k * count + p];
    }
  F(packed_job) c = {q, planes, scales, bias, y, rows, depth, units, inner, bits};
  parallel_for(F(packed_part), &c, parallel_parts(rows * depth * units));
}

/* y[r] = row at[r] of a table of integers of 2, 4 or 8 bits. Each row has `scales` scales and zero
   points; if there are 0, all rows have one. flip: 0x80 for signed bytes, else 0. */
void F(decode_rows)(const uint8_t *q, float *y, const int64_t *at, const float *scale,
                    const float *zero, int64_t rows, int64_t width, int64_t scales, int64_t bits,
                    int64_t flip) {
  int64_t units = scales ? scales : 1, inner = width / units, count = 8 / bits;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t u = 0; u < units; u++, y += inner) {
      int64_t unit = at[r] * units + u, of = scales ? unit : 0;
      const uint8_t *from = q + unit * inner / count;
      float s = scale[of], z = zero[of];
      for (int64_t k = 0; bits == 8 && k < inner; k++)
        y[k] = ((float)((from[k] ^ (int32_t)flip) - (int32_t)flip) - z) * s;
      for (int64_t k = 0; bits != 8 && k < inner; k++)
        y[k] = (F(integer)(from[k / count], (int)(k % count), (int)bits) - z) * s;
    }
}

typedef struct {
  const uint8_t *q;
  float *y;
  const int64_t *at;
  int64_t rows, blocks, bits, minimum;
} F(blocks_job);

/* A half at some address, in all lanes. */
INLINE F(vec) F(half_at)(const uint8_t *q) {
#if defined(__x86_64__) && LANES == 16
  return (F(vec))_mm512_cvtph_ps(_mm256_set1_epi16((int16_t)(q[0] | q[1] << 8)));
#else
  return F(broadcast)(F(float_of)(q[0] | (uint32_t)q[1] << 8));
#endif
}

/* Computes the values of a block: d (q − zero) + m, with a half d and, if there is a minimum, a
   half m before the integers. A vector of them is `step` values from the one before. */
INLINE void F(decode_block)(const uint8_t *q, float *y, int64_t step, int bits, int minimum) {
  F(vec) d = F(half_at)(q), m = {0};
  if (minimum) m = F(half_at)(q + 2);
  q += minimum ? 4 : 2;
  int zero = bits == 4 && !minimum ? 8 : 0;
  for (int k = 0; k < BLOCK * bits / 8; k += LANES) {
    F(bits) bytes = F(load_bytes)(q + k);
    F(bits) first = bytes & 15;
    if (bits == 8) first = (bytes << 24) >> 24;
    F(vec) v = __builtin_convertvector(first - zero, F(vec)) * d;
    if (minimum) v += m;
    F(store)(y + k / LANES * step, v);
    if (bits == 8) continue;
    v = __builtin_convertvector((bytes >> 4) - zero, F(vec)) * d;
    if (minimum) v += m;
    F(store)(y + (BLOCK / 2 + k) / LANES * step, v);
  }
}

static void F(decode_part)(void *job, int part, int parts) {
  const F(blocks_job) *c = job;
  int64_t nbytes = (c->minimum ? 4 : 2) + BLOCK * c->bits / 8;
  int64_t last = chunk_begin(c->rows, part + 1, parts);
  for (int64_t r = chunk_begin(c->rows, part, parts); r < last; r++) {
    const uint8_t *q = c->q + (c->at ? c->at[r] : r) * c->blocks * nbytes;
    float *y = c->y + r * c->blocks * BLOCK;
    for (int64_t b = 0; b < c->blocks; b++, q += nbytes, y += BLOCK) {
      if (c->bits == 8) F(decode_block)(q, y, LANES, 8, 0);
      else if (c->minimum) F(decode_block)(q, y, LANES, 4, 1);
      else F(decode_block)(q, y, LANES, 4, 0);
    }
  }
}

/* y[r] = row at[r], or r without `at`, of a weight in blocks: of 8 bits, of 4 bits with a minimum,
   or of 4 bits, of which 8 stands for 0. */
void F(decode_blocks)(const uint8_t *q, float *y, const int64_t *at, int64_t rows, int64_t blocks,
                      int64_t bits, int64_t minimum) {
  F(blocks_job) c = {q, y, at, rows, blocks, bits, minimum};
  parallel_for(F(decode_part), &c, parallel_parts(rows * blocks * BLOCK));
}

typedef struct {
  const uint8_t *q;
  const float *scales, *zeros;
  float *panel;
  int64_t units, depth, first, columns, shift, bits, minimum, flip;
} F(panel_job);

/* Values of a unit that are decoded at once: a block, or the integers of LANES bytes of 2 bits. */
#undef SEGMENT
#undef MAX_SEGMENT
#define SEGMENT (4 * LANES)
#define MAX_SEGMENT (SEGMENT > BLOCK ? SEGMENT : BLOCK)

/* Computes a segment of integers of a unit, from value k on. */
INLINE void F(decode_integers)(const F(panel_job) * c, int64_t unit, int64_t k, float *y,
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

/* Computes segments of `rows` units, from value k on. A unit is `row_step` values from the one
   before in y, and a vector of its values `step`. */
#define SEGMENTS(name, bits, ...)                                                                \
  static __attribute__((noinline)) void F(name)(const F(panel_job) * c, int64_t unit, int64_t k, \
                                                int64_t rows, float *y, int64_t row_step,        \
                                                int64_t step) {                                  \
    for (int64_t u = unit; u < unit + rows; u++, y += row_step) __VA_ARGS__;                     \
  }
#define BLOCK_SEGMENTS(name, bits, minimum)                                                       \
  SEGMENTS(                                                                                       \
      name, bits,                                                                                 \
      F(decode_block)(c->q + (u * c->depth + k) / BLOCK * ((minimum ? 4 : 2) + BLOCK * bits / 8), \
                      y, step, bits, minimum))
SEGMENTS(twos, 2, F(decode_integers)(c, u, k, y, step, 2))
SEGMENTS(fours, 4, F(decode_integers)(c, u, k, y, step, 4))
SEGMENTS(bytes, 8, F(decode_integers)(c, u, k, y, step, 8))
BLOCK_SEGMENTS(blocks, 4, 0)
BLOCK_SEGMENTS(blocks_with_minimum, 4, 1)
BLOCK_SEGMENTS(blocks_of_bytes, 8, 0)
#undef BLOCK_SEGMENTS
#undef SEGMENTS

static void F(panel_part)(void *job, int part, int parts) {
  const F(panel_job) *c = job;
  int64_t all = c->columns ? c->units : c->units / LANES;
  int64_t end = chunk_begin(all, part + 1, parts), size = c->scales ? SEGMENT : BLOCK;
  void (*decode)(const F(panel_job) *, int64_t, int64_t, int64_t, float *, int64_t, int64_t) =
      c->scales      ? c->bits == 2   ? F(twos)
                       : c->bits == 4 ? F(fours)
                                      : F(bytes)
      : c->bits == 8 ? F(blocks_of_bytes)
      : c->minimum   ? F(blocks_with_minimum)
                     : F(blocks);
  if (!c->columns) {
    float rows[LANES * MAX_SEGMENT];
    for (int64_t j = chunk_begin(all, part, parts); j < end; j++)
      for (int64_t k = 0; k < c->depth; k += size) {
        decode(c, j * LANES, k, LANES, rows, size, LANES);
        F(pack_rows)(rows, size, size, c->panel + (j * c->depth + k) * LANES, LANES);
      }
    return;
  }
  for (int64_t u = chunk_begin(all, part, parts), n; u < end; u += n) {
    n = end - u < BLOCK ? end - u : BLOCK; /* few, so that their bytes stay in the cache */
    for (int64_t k = 0; k < c->columns; k += size)
      decode(c, u, c->first + k, n, c->panel + (k * c->units + u * LANES), LANES, c->units * LANES);
  }
}

/* Packs weights (units, depth) into the panel of `correlate`: the units as vectors, by the depth,
   or if there are `columns`, as many values of the depth from `first` on, by the units. Blocks are
   those of decode_blocks and have no scales; integers have one for each 2ˢʰⁱᶠᵗ of a unit. */
void F(decode_panel)(const uint8_t *q, const float *scales, const float *zeros, float *panel,
                     int64_t units, int64_t depth, int64_t first, int64_t columns, int64_t shift,
                     int64_t bits, int64_t minimum, int64_t flip) {
  F(panel_job)
  c = {q, scales, zeros, panel, units, depth, first, columns, shift, bits, minimum, flip};
  parallel_for(F(panel_part), &c, parallel_parts(units * (columns ? columns : depth)));
}
