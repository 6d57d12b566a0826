/* One instruction set's version of packed.c. */

#include "vectors.h"

#include "stored_values.h"
#include "tile.h"

typedef struct {
  const uint8_t *q;
  const float *x, *scales, *bias;
  float *y;
  int64_t rows, depth, units, inner, bits;
} F(packed_job);

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

static void F(decode_part)(void *job, int part, int parts) {
  const F(blocks_job) *c = job;
  int64_t nbytes = block_bytes(c->bits, c->minimum), last = chunk_begin(c->rows, part + 1, parts);
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
