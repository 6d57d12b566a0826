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

#include "integer_row_sums.h"

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

WINDOW_TOTALS(F(window_totals), F(element), 0)

static void F(product_part)(void *job, int part, int parts) {
  const product_job *c = job;
  const window_walk *g = c->g;
  F(element) tile[TILE_BYTES + SLACK];
  int32_t totals[TILE_BYTES / QUAD];
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
    F(round_tile)(c, tile, F(window_totals)(c, tile, n, totals), n, c->y + at * g->units);
  }
}
#undef SUM_ROWS

void F(integer_products)(const uint8_t *x, const int8_t *w, const int32_t *start, const float *m,
                         uint8_t *y, const window_walk *g, int64_t border, int64_t flip,
                         int64_t zero, int64_t lo, int64_t hi, const int32_t *weight_zeros) {
  int64_t window = g->taps_h * g->taps_w * g->depth, depth = (window + QUAD - 1) / QUAD * QUAD;
  int64_t all = g->images * g->rows * g->cols;
  int is_whole = window == depth && depth == g->depth && all == g->images * g->height * g->width;
  product_job c = {x,     w,      start, m,    y,  g,  weight_zeros, window,
                   depth, border, flip,  zero, lo, hi, is_whole};
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
    const uint8_t *x = window_at(g, c->x, pixel, &h, &v);
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
      F(round_sums)(c, sums, 0, 1, unit, c->y + pixel * depth + unit, 0, count);
    }
  }
}

#endif

void F(integer_depthwise)(const uint8_t *x, const int8_t *w, const int32_t *start, const float *m,
                          uint8_t *y, const window_walk *g, int64_t border, int64_t flip,
                          int64_t zero, int64_t lo, int64_t hi) {
  product_job c = {x, w, start, m, y, g, 0, 0, 0, border, flip, zero, lo, hi, 0};
  int64_t all = g->images * g->rows * g->cols;
  int parts = parallel_parts(all * g->taps_h * g->taps_w * g->depth / LANES * LOADED_PRODUCT);
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
#if LANES == 4
  parallel_for(F(integer_depthwise_part), &c, all < parts ? (int)all : parts);
#else
  parallel_for(integer_depthwise_part_base, &c, all < parts ? (int)all : parts);
#endif
}

#include "integer_bytes.h"

/* The mean of each window without the border, halves rounded away from 0; bytes are signed if
   `flip` is 128. */
void F(integer_average_pool)(const uint8_t *x, uint8_t *y, const window_walk *g, int64_t flip,
                             int64_t lo, int64_t hi) {
  for (int64_t p = 0; p < g->images * g->rows * g->cols; p++, y += g->depth) {
    int64_t h, w;
    const uint8_t *pixels = window_at(g, x, p, &h, &w);
    for (int64_t first = 0; first < g->depth; first += GROUP) {
      int64_t n = g->depth - first < GROUP ? g->depth - first : GROUP;
      int32_t sums[GROUP] = {0}, count = 0;
      for (int64_t a = 0; a < g->taps_h; a++)
        for (int64_t b = 0; b < g->taps_w; b++) {
          const uint8_t *from = tap_at(g, pixels, h + g->row_taps[a], w + g->col_taps[b]);
          if (!from) continue;
          count++;
          for (int64_t i = 0; i < n; i++)
            sums[i] += (int32_t)(from[first + i] ^ flip) - (int32_t)flip;
        }
      for (int64_t i = 0; i < n; i++) {
        int32_t s = sums[i], mean = ((s < 0 ? -s : s) + count / 2) / count;
        mean = s < 0 ? -mean : mean;
        y[first + i] = (uint8_t)(mean < lo ? lo : mean > hi ? hi : mean);
      }
    }
  }
}
