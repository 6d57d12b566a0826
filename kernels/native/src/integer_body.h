/* One instruction set's version of integer.c. */

#include "vectors.h"

typedef uint8_t F(byte_vec) __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef uint32_t F(words) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#if LANES < 16

INLINE F(words) F(widened_bytes)(const uint8_t *x, uint8_t flip) {
  return __builtin_convertvector(*(const F(byte_vec) *)x ^ flip, F(words));
}

/* The low bytes of v. */
INLINE void F(store_bytes)(uint8_t *y, F(bits) v) {
#ifdef __SSE2__
  __m128i halves[LANES / 4];
  v &= 255;
  memcpy(halves, &v, sizeof v);
  __m128i low = _mm_packs_epi32(halves[0], halves[LANES / 4 - 1]);
  low = _mm_packus_epi16(low, low);
  memcpy(y, &low, LANES);
#else
  *(F(byte_vec) *)y = __builtin_convertvector(v, F(byte_vec));
#endif
}

/* Limits v, also NaN, and rounds it half to even: 1.5 · 2²³ + v has the integer in its low bits. */
INLINE void F(store_rounded)(uint8_t *y, F(vec) v, float lo, float hi, int64_t zero) {
  v = F(selected)(v > F(broadcast)(lo), v, F(broadcast)(lo));
  v = F(selected)(v < F(broadcast)(hi), v, F(broadcast)(hi)) + 12582912.0f;
  F(store_bytes)(y, (F(bits))v + (int32_t)(zero - 0x4B400000));
}

#endif

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
  const int32_t *start = c->start + unit;
#pragma GCC unroll 1
  for (const float *m = c->m + unit; rows; rows--, sums += GROUP, y += row_size) {
    uint8_t rounded[GROUP];
    UNROLL(j, GROUP / LANES, int l = j * LANES;
           F(words) s = *(const F(words) *)(sums + l) + *(const F(words) *)(start + l);
           F(vec) v = __builtin_convertvector((F(bits))s, F(vec)) * F(load)(m + l);
           F(store_rounded)(rounded + l, v, lo, hi, c->zero));
    if (count == GROUP) memcpy(y, rounded, GROUP);
    else memcpy(y, rounded, count);
  }
}

/* sums[i][u] = x[i] · w[u] for a row of 16-bit values, or two. */
#if LANES == 8

#define SUM_ROWS 2
typedef __m256i F(pairs), F(factors);
#define PAIR_SUMS 2 /* sums of a unit, each of two products */
INLINE F(factors) F(widened)(const int8_t *w) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w));
}
INLINE F(factors) F(repeated)(const int16_t *x) {
  int64_t four;
  memcpy(&four, x, sizeof four);
  return _mm256_set1_epi64x(four);
}
INLINE F(pairs) F(add_products)(F(pairs) s, F(factors) x, F(factors) w) {
  return _mm256_add_epi32(s, _mm256_madd_epi16(x, w));
}

#elif defined(__SSE2__)

#define SUM_ROWS 1
typedef __m128i F(pairs), F(factors);
#define PAIR_SUMS 2
INLINE F(factors) F(widened)(const int8_t *w) {
  __m128i bytes = _mm_loadl_epi64((const __m128i *)w);
  return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
INLINE F(factors) F(repeated)(const int16_t *x) {
  int64_t four;
  memcpy(&four, x, sizeof four);
  return _mm_set1_epi64x(four);
}
INLINE F(pairs) F(add_products)(F(pairs) s, F(factors) x, F(factors) w) {
  return _mm_add_epi32(s, _mm_madd_epi16(x, w));
}

#elif defined(__aarch64__)

#define SUM_ROWS 1
typedef int32x4_t F(pairs);
typedef int16x4_t F(factors);
#define PAIR_SUMS 4 /* each of one product */
INLINE F(factors) F(widened)(const int8_t *w) {
  int32_t four;
  memcpy(&four, w, sizeof four);
  return vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))));
}
INLINE F(factors) F(repeated)(const int16_t *x) { return vld1_s16(x); }
INLINE F(pairs) F(add_products)(F(pairs) s, F(factors) x, F(factors) w) {
  return vmlal_s16(s, x, w);
}

#else

#define SUM_ROWS 1
typedef int32_t F(pairs) __attribute__((vector_size(16)));
typedef F(pairs) F(factors);
#define PAIR_SUMS 4
INLINE F(factors) F(widened)(const int8_t *w) { return (F(pairs)){w[0], w[1], w[2], w[3]}; }
INLINE F(factors) F(repeated)(const int16_t *x) { return (F(pairs)){x[0], x[1], x[2], x[3]}; }
INLINE F(pairs) F(add_products)(F(pairs) s, F(factors) x, F(factors) w) { return s + x * w; }

#endif

/* Vectors of sums of a group. */
#define SUM_VECTORS ((int)(GROUP * PAIR_SUMS * 4 / sizeof(F(pairs))))

INLINE void F(sum)(const int16_t *x, int64_t stride, const int8_t *w, int64_t quads, int32_t *sums,
                   int rows) {
  F(pairs) acc[GROUP][GROUP];
  UNROLL(i, rows, for (int j = 0; j < SUM_VECTORS; j++) acc[i][j] = (F(pairs)){0});
  for (int64_t k = 0; k < quads; k++, x += QUAD, w += QUAD * GROUP) {
    F(factors) v[GROUP];
    UNROLL(i, rows, v[i] = F(repeated)(x + i * stride));
#pragma GCC unroll 16
    for (int j = 0; j < SUM_VECTORS; j++) {
      F(factors) u = F(widened)(w + j * (QUAD * GROUP / SUM_VECTORS));
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

/* Flips bytes, and widens them for 16-bit products; writes up to a vector more. */
#if LANES == 16
typedef uint8_t F(all_bytes) __attribute__((vector_size(64), aligned(1), may_alias));
static void F(flip_bytes)(uint8_t *x, int64_t size, uint8_t flip, uint8_t *x_again) {
  (void)x_again;
  for (int64_t k = 0; k < size && flip; k += 64) *(F(all_bytes) *)(x + k) ^= flip;
}
#else
typedef int16_t F(short_vec) __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
static void F(flip_bytes)(const uint8_t *x, int64_t size, uint8_t flip, int16_t *to) {
  for (int64_t k = 0; k < size; k += LANES) {
    F(byte_vec) flipped = *(const F(byte_vec) *)(x + k) ^ flip;
    *(F(short_vec) *)(to + k) = __builtin_convertvector(flipped, F(short_vec));
  }
}
#endif

static void F(product_part)(void *job, int part, int parts) {
  const product_job *c = job;
  const window_walk *g = c->g;
  F(element) tile[TILE_BYTES + SLACK];
#if LANES == 16
  uint8_t *bytes = tile;
#else
  uint8_t bytes[TILE_BYTES + SLACK];
#endif
  int64_t depth = c->depth, all = g->images * g->rows * g->cols, most = TILE_BYTES / depth;
  int64_t at = chunk_begin(all, part, parts), end = chunk_begin(all, part + 1, parts);
  if (most > SUM_ROWS) most -= most % SUM_ROWS;
  for (int64_t n; at < end; at += n) {
    n = end - at < most ? end - at : most;
    if (c->is_whole) memcpy(bytes, c->x + at * depth, n * depth);
    else gather_windows(c, at, n, bytes);
    F(flip_bytes)(bytes, n * depth, (uint8_t)c->flip, tile);
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
#elif HAS_DOTPROD_BESIDE_BASE
  if (has_dotprod()) run = dot_product_part;
#endif
  parallel_for(run, &c, all < parts ? (int)all : parts);
}

#if LANES == 4

/* sums[u] = Σ over taps of x[t][u] w[t][u] for 16 units; w[t] is at w + t · stride. */
typedef int8_t F(signed_vec) __attribute__((vector_size(LANES), aligned(1), may_alias));

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
#if LANES > 4 || HAS_DOTPROD_BESIDE_BASE
  const depthwise_form *form = 0;
#if LANES == 4
  if (has_dotprod()) form = &dot_form;
#else
  form = &avx2_form;
#endif
#if LANES == 16
  if (has_vnni()) form = &vnni_form;
#endif
  if (form) {
    product_job signs = c;
    signs.flip ^= form->less;
    depthwise_job d = {&signs, form, layout_of(g, form)};
    if (d.layout.columns) {
      parallel_for(depthwise_part, &d, all < parts ? (int)all : parts);
      return;
    }
  }
#endif
  parallel_for(integer_depthwise_part_base, &c, all < parts ? (int)all : parts);
}

/* Loops over bytes have no form of their own for AVX-512. */
#if LANES == 16
#define BYTES_PART(name) name##_avx2
#else
#define BYTES_PART F
#endif

#if LANES < 16

/* The first of LANES elements from i on; the last vector may overlap the one before. */
INLINE int64_t F(within)(int64_t i, int64_t end) { return i + LANES <= end ? i : end - LANES; }

static void F(integer_sum_part)(void *job, int part, int parts) {
  const sum_job c = *(const sum_job *)job;
  int64_t end = chunk_begin(c.size, part + 1, parts);
  F(bits) lo = (F(bits)){0} + c.lo, hi = (F(bits)){0} + c.hi;
  for (int64_t k = chunk_begin(c.size, part, parts); k < end; k += LANES) {
    int64_t i = F(within)(k, end);
    F(words) s = F(widened_bytes)(c.a + i, c.flip) * c.of_a + c.start;
    s += F(widened_bytes)(c.b + i, c.flip) * c.of_b;
    F(bits) v = ((F(bits))s >> c.shift) + c.zero;
    v = (v & (v > lo)) | (lo & (v <= lo));
    v = (v & (v < hi)) | (hi & (v >= hi));
    F(store_bytes)(c.y + i, v);
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
  int64_t end = chunk_begin(c.size, part + 1, parts);
  float lo = (float)(c.lo - c.zero), hi = (float)(c.hi - c.zero);
  for (int64_t k = chunk_begin(c.size, part, parts); k < end; k += LANES) {
    int64_t i = F(within)(k, end);
    F(vec) v = F(load)((const float *)c.x + i) * c.factor;
    F(store_rounded)((uint8_t *)c.y + i, v, lo, hi, c.zero);
  }
}

static void F(integer_dequantize_part)(void *job, int part, int parts) {
  const conversion_job c = *(const conversion_job *)job;
  int64_t end = chunk_begin(c.size, part + 1, parts);
  for (int64_t k = chunk_begin(c.size, part, parts); k < end; k += LANES) {
    int64_t i = F(within)(k, end);
    F(bits) q = (F(bits))F(widened_bytes)((const uint8_t *)c.x + i, c.flip) - c.zero;
    F(store)((float *)c.y + i, __builtin_convertvector(q, F(vec)) * c.factor);
  }
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

void F(integer_dequantize_units)(const uint8_t *x, float *y, const float *scale, const float *zero,
                                 int64_t outer, int64_t units, int64_t inner, int64_t flip) {
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t u = 0; u < units && inner == 1; u++)
      y[u] = ((float)((x[u] ^ (int32_t)flip) - (int32_t)flip) - zero[u]) * scale[u];
    for (int64_t u = 0; u < units && inner != 1; u++)
      for (int64_t i = u * inner; i < (u + 1) * inner; i++)
        y[i] = ((float)((x[i] ^ (int32_t)flip) - (int32_t)flip) - zero[u]) * scale[u];
    x += units * inner, y += units * inner;
  }
}

void F(integer_resize)(const uint8_t *x, uint8_t *y, const int32_t *rows, const int32_t *cols,
                       int64_t images, int64_t height, int64_t width, int64_t channels,
                       int64_t out_h, int64_t out_w, int64_t flip) {
  resize_job c = {x, y, rows, cols, images, height, width, channels, out_h, out_w, (uint8_t)flip};
  int parts = parallel_parts(images * out_h * out_w * channels * PRODUCT);
  parallel_for(resize_part, &c, images * out_h < parts ? (int)(images * out_h) : parts);
}
#undef BYTES_PART
