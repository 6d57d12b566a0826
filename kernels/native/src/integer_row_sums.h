/* Included by integer_body.h: products of windows with units, rounded to bytes. Each instruction
   set has a round_tile of its own, which computes up to SUM_ROWS windows at once. */

#if LANES == 16

#define SUM_ROWS VNNI_ROWS
typedef uint8_t F(element);

/* The results of n windows in a tile. */
static void F(round_tile)(const product_job *c, const uint8_t *tile, const int32_t *totals,
                          int64_t n, uint8_t *y) {
  int64_t units = c->g->units, step;
  for (int64_t unit = 0; unit < units; unit += step) {
    int is_pair = unit + GROUP < units;
    step = is_pair && n >= VNNI_ROWS ? 2 * GROUP : GROUP;
    for (int64_t p = 0, rows; p < n; p += rows) {
      const uint8_t *x = tile + p * c->depth;
      uint8_t *to = y + p * units + unit;
      const int32_t *of_rows = totals ? totals + p : 0;
      rows = n - p >= VNNI_ROWS ? VNNI_ROWS : 1;
      if (rows > 1 && step > GROUP) vnni_tile(c, x, of_rows, unit, to);
      else if (rows > 1) vnni_group(c, x, of_rows, unit, to);
      else
        for (int64_t u = 0; u < step; u += GROUP) vnni_row(c, x, of_rows, unit + u, to + u);
    }
  }
}

#else

typedef int16_t F(element);

/* Rounds the sums of 16 units in each of several rows:
   y = clip(rint((s + start − total z) m) + zero), with the zero points z of their weights. */
static __attribute__((noinline)) void F(round_sums)(const product_job *c, const int32_t *sums,
                                                    const int32_t *totals, int rows, int64_t unit,
                                                    uint8_t *y, int64_t row_size, int64_t count) {
  float lo = (float)(c->lo - c->zero), hi = (float)(c->hi - c->zero);
  const int32_t *start = c->start + unit;
#pragma GCC unroll 1
  for (const float *m = c->m + unit; rows; rows--, sums += GROUP, y += row_size) {
    uint8_t rounded[GROUP];
    UNROLL(j, GROUP / LANES, int l = j * LANES;
           F(words) s = *(const F(words) *)(sums + l) + *(const F(words) *)(start + l);
           if (totals) s -= *(const F(words) *)(c->weight_zeros + unit + l) * (uint32_t)*totals;
           F(vec) v = __builtin_convertvector((F(bits))s, F(vec)) * F(load)(m + l);
           F(store_rounded)(rounded + l, v, lo, hi, c->zero));
    if (totals) totals++;
    if (count == GROUP) memcpy(y, rounded, GROUP); /* of a constant size: one instruction */
    else memcpy(y, rounded, count);
  }
}

/* Products of four 16-bit values with weights of several units, in pairs where an instruction adds
   two products. */
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

#if !defined(__SSE__) && !defined(__aarch64__) && !defined(__ARM_NEON) && !defined(__wasm_simd128__)

/* As below, for processors without vectors and with little memory. */
INLINE void F(sum)(const int16_t *x, int64_t stride, const int8_t *w, int64_t quads, int32_t *sums,
                   int rows) {
  (void)stride, (void)rows; /* one row */
  for (int u = 0; u < GROUP; u++) sums[u] = 0;
  for (int64_t k = 0; k < quads; k++, x += QUAD)
    for (int u = 0; u < GROUP; u++, w += QUAD)
      sums[u] += x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3];
}

#else

/* Vectors of sums of a group. */
#define SUM_VECTORS ((int)(GROUP * PAIR_SUMS * 4 / sizeof(F(pairs))))

/* sums[i][u] = x[i] · w[u] for the units of a group, in `rows` rows of x. */
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
#endif

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
static void F(round_tile)(const product_job *c, const int16_t *tile, const int32_t *totals,
                          int64_t n, uint8_t *y) {
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
      const int32_t *of_rows = totals ? totals + p : 0;
      F(round_sums)(c, sums, of_rows, (int)rows, unit, y + p * units + unit, units, count);
    }
  }
}
#undef SUM_ONE_ROW
#undef PAIR_SUMS
#undef SUM_VECTORS

#endif
