/* One instruction set's version of integer.c. */

#include "vectors.h"

#if LANES == 16

#define SUM_ROWS VNNI_ROWS
typedef uint8_t F(element);

/* The results of n windows in a tile. */
static void F(round_tile)(const product_job *c, const uint8_t *tile, int64_t n, uint8_t *y) {
  int64_t units = c->g->units, step;
  for (int64_t unit = 0; unit < units; unit += step) {
    int is_pair = unit + GROUP < units;
    step = is_pair && n >= VNNI_ROWS ? 2 * GROUP : GROUP;
    for (int64_t p = 0, rows; p < n; p += rows) {
      const uint8_t *x = tile + p * c->depth;
      uint8_t *to = y + p * units + unit;
      rows = n - p >= VNNI_ROWS ? VNNI_ROWS : 1;
      if (rows > 1 && step > GROUP) vnni_tile(c, x, unit, to);
      else if (rows > 1) vnni_group(c, x, unit, to);
      else
        for (int64_t u = 0; u < step; u += GROUP) vnni_row(c, x, unit + u, to + u);
    }
  }
}

#else

typedef int16_t F(element);

/* Rounds the sums of 16 units in each of several rows: y = clip(rint((s + start) m) + zero). */
static __attribute__((noinline)) void F(round_sums)(const product_job *c, const int32_t *sums,
                                                    int rows, int64_t unit, uint8_t *y,
                                                    int64_t row_size, int64_t count) {
  float lo = (float)(c->lo - c->zero), hi = (float)(c->hi - c->zero);
  int32_t offset = (int32_t)c->zero - MAGIC_BITS;
  const int32_t *start = c->start + unit;
  for (const float *m = c->m + unit; rows; rows--, sums += GROUP, y += row_size) {
    uint8_t rounded[GROUP];
    for (int l = 0; l < GROUP; l++) {
      float v = (float)(int32_t)((uint32_t)sums[l] + (uint32_t)start[l]) * m[l];
      int32_t bits;
      v = v < lo ? lo : v;
      v = v > hi ? hi : v;
      v += MAGIC;
      memcpy(&bits, &v, sizeof bits);
      rounded[l] = (uint8_t)(bits + offset);
    }
    if (count == GROUP) memcpy(y, rounded, GROUP);
    else memcpy(y, rounded, count);
  }
}

/* sums[i][u] = x[i] · w[u] for a row of 16-bit values, or two. */
#if LANES == 8

#define SUM_ROWS 2
typedef __m256i F(pairs);
#define PAIR_SUMS 2 /* sums of a unit, each of two products */
INLINE F(pairs) F(widened)(const int8_t *w) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w));
}
INLINE F(pairs) F(repeated)(const int16_t *x) {
  int64_t four;
  memcpy(&four, x, sizeof four);
  return _mm256_set1_epi64x(four);
}
INLINE F(pairs) F(add_products)(F(pairs) s, F(pairs) x, F(pairs) w) {
  return _mm256_add_epi32(s, _mm256_madd_epi16(x, w));
}

#elif defined(__SSE2__)

#define SUM_ROWS 1
typedef __m128i F(pairs);
#define PAIR_SUMS 2
INLINE F(pairs) F(widened)(const int8_t *w) {
  __m128i bytes = _mm_loadl_epi64((const __m128i *)w);
  return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
INLINE F(pairs) F(repeated)(const int16_t *x) {
  int64_t four;
  memcpy(&four, x, sizeof four);
  return _mm_set1_epi64x(four);
}
INLINE F(pairs) F(add_products)(F(pairs) s, F(pairs) x, F(pairs) w) {
  return _mm_add_epi32(s, _mm_madd_epi16(x, w));
}

#else

#define SUM_ROWS 1
typedef int32_t F(pairs) __attribute__((vector_size(16)));
#define PAIR_SUMS 4 /* each of one product */
INLINE F(pairs) F(widened)(const int8_t *w) { return (F(pairs)){w[0], w[1], w[2], w[3]}; }
INLINE F(pairs) F(repeated)(const int16_t *x) { return (F(pairs)){x[0], x[1], x[2], x[3]}; }
INLINE F(pairs) F(add_products)(F(pairs) s, F(pairs) x, F(pairs) w) { return s + x * w; }

#endif

/* Vectors of sums of a group. */
#define SUM_VECTORS ((int)(GROUP * PAIR_SUMS * 4 / sizeof(F(pairs))))

INLINE void F(sum)(const int16_t *x, int64_t stride, const int8_t *w, int64_t quads, int32_t *sums,
                   int rows) {
  F(pairs) acc[GROUP][GROUP];
  UNROLL(i, rows, for (int j = 0; j < SUM_VECTORS; j++) acc[i][j] = (F(pairs)){0});
  for (int64_t k = 0; k < quads; k++, x += QUAD, w += QUAD * GROUP) {
    F(pairs) v[GROUP];
    UNROLL(i, rows, v[i] = F(repeated)(x + i * stride));
#pragma GCC unroll 16
    for (int j = 0; j < SUM_VECTORS; j++) {
      F(pairs) u = F(widened)(w + j * (QUAD * GROUP / SUM_VECTORS));
      UNROLL(i, rows, acc[i][j] = F(add_products)(acc[i][j], v[i], u));
    }
  }
  for (int i = 0; i < rows; i++) {
    int32_t parts[GROUP * PAIR_SUMS];
    memcpy(parts, acc[i], sizeof parts);
    for (int l = 0; l < GROUP; l++) {
      int32_t s = 0;
      for (int p = 0; p < PAIR_SUMS; p++) s += parts[l * PAIR_SUMS + p];
      sums[i * GROUP + l] = s;
    }
  }
}
static void F(sum_row)(const int16_t *x, int64_t stride, const int8_t *w, int64_t quads,
                       int32_t *sums) {
  F(sum)(x, stride, w, quads, sums, 1);
}
#if SUM_ROWS > 1
static void F(sum_rows)(const int16_t *x, int64_t stride, const int8_t *w, int64_t quads,
                        int32_t *sums) {
  F(sum)(x, stride, w, quads, sums, SUM_ROWS);
}
#else
#define SUM_ONE_ROW
#endif

/* The results of n windows in a tile. */
static void F(round_tile)(const product_job *c, const int16_t *tile, int64_t n, uint8_t *y) {
  int64_t depth = c->depth, units = c->g->units;
  for (int64_t unit = 0; unit < units; unit += GROUP) {
    int32_t sums[SUM_ROWS * GROUP];
    int64_t count = units - unit < GROUP ? units - unit : GROUP;
    const int8_t *w = c->w + unit * depth;
    for (int64_t p = 0, rows; p < n; p += rows) {
      rows = 1;
#ifndef SUM_ONE_ROW
      if (n - p >= SUM_ROWS) {
        rows = SUM_ROWS;
        F(sum_rows)(tile + p * depth, depth, w, depth / QUAD, sums);
      } else
#endif
        F(sum_row)(tile + p * depth, depth, w, depth / QUAD, sums);
      F(round_sums)(c, sums, (int)rows, unit, y + p * units + unit, units, count);
    }
  }
}
#undef SUM_ONE_ROW
#undef PAIR_SUMS
#undef SUM_VECTORS

#endif

static void F(product_part)(void *job, int part, int parts) {
  const product_job *c = job;
  const window_walk *g = c->g;
  F(element) tile[TILE_BYTES + SHORT_RUN];
#if LANES == 16
  uint8_t *bytes = tile;
#else
  uint8_t bytes[TILE_BYTES + SHORT_RUN];
#endif
  int64_t depth = c->depth, all = g->images * g->rows * g->cols, most = TILE_BYTES / depth;
  int64_t at = chunk_begin(all, part, parts), end = chunk_begin(all, part + 1, parts);
  if (most > SUM_ROWS) most -= most % SUM_ROWS;
  for (int64_t n; at < end; at += n) {
    n = end - at < most ? end - at : most;
    const uint8_t *from = c->is_whole ? c->x + at * depth : bytes;
    if (!c->is_whole) gather_windows(c, at, n, bytes);
    const uint8_t flip = (uint8_t)c->flip;
    for (int64_t k = 0; k < n * depth; k++) tile[k] = from[k] ^ flip;
    F(round_tile)(c, tile, n, c->y + at * g->units);
  }
}
#undef SUM_ROWS

void F(integer_products)(const uint8_t *x, const int8_t *w, const int32_t *start, const float *m,
                         uint8_t *y, const window_walk *g, int64_t border, int64_t flip,
                         int64_t zero, int64_t lo, int64_t hi) {
  int64_t window = g->taps_h * g->taps_w * g->depth, depth = (window + QUAD - 1) / QUAD * QUAD;
  int64_t all = g->images * g->rows * g->cols;
  int is_whole = window == depth && depth == g->depth && all == g->images * g->height * g->width;
  product_job c = {x, w, start, m, y, g, depth, border, flip, zero, lo, hi, is_whole};
  int parts = parallel_parts(all * depth * g->units / (LANES * QUAD) * PRODUCT);
  part_function run = F(product_part);
#if LANES == 16
  if (!has_vnni()) run = product_part_avx2;
#endif
  parallel_for(run, &c, all < parts ? (int)all : parts);
}

#if LANES == 4

/* sums[u] = Σ over taps of x[t][u] w[t][u] for 16 units; w[t] is at w + t · stride. */
typedef uint8_t F(byte_vec) __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef int8_t F(signed_vec) __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef int16_t F(short_vec) __attribute__((vector_size(LANES * 2)));

INLINE void F(tap_sums)(const uint8_t *const *x, const int8_t *w, int64_t stride, int64_t taps,
                        uint8_t flip, int32_t *sums) {
  F(bits) acc[GROUP] = {0};
  for (int64_t t = 0; t < taps; t++, w += stride) {
    UNROLL(j, GROUP / LANES, F(byte_vec) read = *(const F(byte_vec) *)(x[t] + j * LANES) ^ flip;
           F(signed_vec) weights = *(const F(signed_vec) *)(w + j * LANES);
           F(short_vec) products = __builtin_convertvector(read, F(short_vec)) *
                                   __builtin_convertvector(weights, F(short_vec));
           acc[j] += __builtin_convertvector(products, F(bits)));
  }
  memcpy(sums, acc, GROUP * sizeof *sums);
}

static void F(integer_depthwise_part)(void *job, int part, int parts) {
  const product_job *c = job;
  const window_walk *g = c->g;
  int64_t depth = g->depth, all = g->images * g->rows * g->cols, taps = g->taps_h * g->taps_w;
  int64_t count = depth < GROUP ? depth : GROUP, end = chunk_begin(all, part + 1, parts);
  const uint8_t *in[MAX_TAPS], *here[MAX_TAPS];
  uint8_t outside[GROUP], values[MAX_TAPS][GROUP] = {0};
  int8_t weights[MAX_TAPS][GROUP] = {0};
  int is_narrow = depth < GROUP;
  memset(outside, (uint8_t)c->border, GROUP);
  for (int64_t t = 0; t < taps && is_narrow; t++) memcpy(weights[t], c->w + t * depth, depth);
  for (int64_t pixel = chunk_begin(all, part, parts); pixel < end; pixel++) {
    int64_t h, v;
    const uint8_t *x = window_at(c, pixel, &h, &v);
    for (int64_t a = 0, t = 0; a < g->taps_h; a++)
      for (int64_t b = 0; b < g->taps_w; b++)
        in[t++] = tap_at(g, x, h + g->row_taps[a], v + g->col_taps[b]);
    for (int64_t first = 0; first < depth; first += GROUP) { /* the last group may overlap */
      int64_t unit = first + GROUP > depth ? depth - count : first;
      int32_t sums[GROUP];
      for (int64_t t = 0; t < taps; t++) {
        here[t] = in[t] ? in[t] + unit : outside;
        if (!is_narrow) continue;
        if (depth == 8) memcpy(values[t], here[t], 8);
        else memcpy(values[t], here[t], depth);
        here[t] = values[t];
      }
      const int8_t *w = is_narrow ? weights[0] : c->w + unit;
      F(tap_sums)(here, w, is_narrow ? GROUP : depth, taps, (uint8_t)c->flip, sums);
      F(round_sums)(c, sums, 1, unit, c->y + pixel * depth + unit, 0, count);
    }
  }
}

#endif

void F(integer_depthwise)(const uint8_t *x, const int8_t *w, const int32_t *start, const float *m,
                          uint8_t *y, const window_walk *g, int64_t border, int64_t flip,
                          int64_t zero, int64_t lo, int64_t hi) {
  product_job c = {x, w, start, m, y, g, 0, border, flip, zero, lo, hi, 0};
  int64_t all = g->images * g->rows * g->cols;
  int parts = parallel_parts(all * g->taps_h * g->taps_w * g->depth / LANES * (3 * PRODUCT));
#if LANES == 4
  part_function run = F(integer_depthwise_part);
#else
  depthwise_layout l = avx2_layout_of(g);
  part_function run = avx2_depthwise_part;
#if LANES == 16
  if (has_vnni()) l = vnni_layout_of(g), run = vnni_depthwise_part;
#endif
  if (!l.columns) run = integer_depthwise_part_base;
#endif
  parallel_for(run, &c, all < parts ? (int)all : parts);
}

/* Loops over bytes have no form of their own for AVX-512. */
#if LANES == 16
#define BYTES_PART(name) name##_avx2
#else
#define BYTES_PART F
#endif

#if LANES < 16

static void F(integer_sum_part)(void *job, int part, int parts) {
  const sum_job c = *(const sum_job *)job;
  int64_t begin = chunk_begin(c.size, part, parts), end = chunk_begin(c.size, part + 1, parts);
  const uint8_t *a = c.a, *b = c.b;
  uint8_t *restrict y = c.y;
  IVDEP
  for (int64_t i = begin; i < end; i++) {
    uint32_t s = c.start + c.of_a * (uint8_t)(a[i] ^ c.flip) + c.of_b * (uint8_t)(b[i] ^ c.flip);
    int32_t v = ((int32_t)s >> c.shift) + c.zero;
    v = v < c.lo ? c.lo : v;
    y[i] = (uint8_t)(v > c.hi ? c.hi : v);
  }
}

#endif

void F(integer_sum)(const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t size, int64_t flip,
                    int64_t start, int64_t of_a, int64_t of_b, int64_t shift, int64_t zero,
                    int64_t lo, int64_t hi) {
  sum_job c = {a,
               b,
               y,
               size,
               (uint8_t)flip,
               (uint32_t)start,
               (uint32_t)of_a,
               (uint32_t)of_b,
               (int32_t)shift,
               (int32_t)zero,
               (int32_t)lo,
               (int32_t)hi};
  parallel_for(BYTES_PART(integer_sum_part), &c, parallel_parts(size / LANES));
}

#if LANES < 16

static void F(integer_quantize_part)(void *job, int part, int parts) {
  const conversion_job c = *(const conversion_job *)job;
  int64_t begin = chunk_begin(c.size, part, parts), end = chunk_begin(c.size, part + 1, parts);
  float lo = (float)(c.lo - c.zero), hi = (float)(c.hi - c.zero);
  const float *x = c.x;
  uint8_t *restrict y = c.y;
  IVDEP
  for (int64_t i = begin; i < end; i++) {
    float v = x[i] * c.factor;
    int32_t bits;
    v = v > lo ? v : lo; /* also NaN */
    v = v < hi ? v : hi;
    v += MAGIC;
    memcpy(&bits, &v, sizeof bits);
    y[i] = (uint8_t)(bits + c.zero - MAGIC_BITS);
  }
}

static void F(integer_dequantize_part)(void *job, int part, int parts) {
  const conversion_job c = *(const conversion_job *)job;
  int64_t begin = chunk_begin(c.size, part, parts), end = chunk_begin(c.size, part + 1, parts);
  const uint8_t *x = c.x;
  float *restrict y = c.y;
  IVDEP
  for (int64_t i = begin; i < end; i++)
    y[i] = (float)((int32_t)(uint8_t)(x[i] ^ c.flip) - c.zero) * c.factor;
}

#endif

void F(integer_quantize)(const float *x, uint8_t *y, int64_t size, float factor, int64_t zero,
                         int64_t lo, int64_t hi) {
  conversion_job c = {x, y, size, factor, 0, (int32_t)zero, (int32_t)lo, (int32_t)hi};
  parallel_for(BYTES_PART(integer_quantize_part), &c, parallel_parts(size / LANES * PRODUCT));
}

void F(integer_dequantize)(const uint8_t *x, float *y, int64_t size, float factor, int64_t flip,
                           int64_t zero) {
  conversion_job c = {x, y, size, factor, (uint8_t)flip, (int32_t)(zero + flip), 0, 0};
  parallel_for(BYTES_PART(integer_dequantize_part), &c, parallel_parts(size / LANES * PRODUCT));
}
#undef BYTES_PART
