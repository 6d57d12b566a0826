/* Products of bytes by the dot products of 64-bit ARM, which multiply signed bytes: those of x are
   the unsigned ones less 128, and the sums begin at 128 times the sum of the weights more. */

#define DOT_ROWS 4

BEGIN_TARGET(DOTPROD)

/* The sums of 16 units without products: start + 128 Σ w. */
static void dot_begin(const product_job *c, const int8_t *w, int64_t unit, int32x4_t *to) {
  int32x4_t sums[QUAD] = {0};
  for (const int8_t *end = w + c->depth * GROUP; w < end; w += QUAD * GROUP)
    UNROLL(j, 4, sums[j] = vdotq_s32(sums[j], vld1q_s8(w + j * GROUP), vdupq_n_s8(1)));
  UNROLL(j, 4, to[j] = vaddq_s32(vld1q_s32(c->start + unit + j * 4), vshlq_n_s32(sums[j], 7)));
}

/* y = clip(rint(s m) + zero) for 16 units, of which the first ones are stored. */
static inline void dot_round(const product_job *c, const int32x4_t *sums, int64_t unit,
                             uint8_t *y) {
  int64_t left = c->g->units - unit;
  int32x4_t zero = vdupq_n_s32((int32_t)c->zero), s[QUAD];
  float32x4_t lo = vdupq_n_f32((float)(c->lo - c->zero));
  float32x4_t hi = vdupq_n_f32((float)(c->hi - c->zero));
  UNROLL(j, 4, float32x4_t v = vmulq_f32(vcvtq_f32_s32(sums[j]), vld1q_f32(c->m + unit + j * 4));
         s[j] = vaddq_s32(vcvtnq_s32_f32(vminnmq_f32(vmaxnmq_f32(v, lo), hi)), zero));
  int16x8_t low = vcombine_s16(vmovn_s32(s[0]), vmovn_s32(s[1]));
  int16x8_t high = vcombine_s16(vmovn_s32(s[2]), vmovn_s32(s[3]));
  int8x16_t bytes = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
  if (left >= GROUP) vst1q_s8((int8_t *)y, bytes);
  else memcpy(y, &bytes, left);
}

#define DOT_LANE(rows, q)                                    \
  UNROLL(j, 4, int8x16_t u = vld1q_s8(w + (4 * q + j) * 16); \
         UNROLL(i, rows, acc[i][j] = vdotq_laneq_s32(acc[i][j], u, v[i], q)))

/* The results of several windows for 16 units, whose sums begin at `begin`. */
#define DOT_TILE(name, rows)                                                                  \
  static void name(const product_job *c, const uint8_t *x, const int8_t *w,                   \
                   const int32x4_t *begin, const int32_t *totals, int64_t unit, uint8_t *y) { \
    int64_t depth = c->depth, left = depth;                                                   \
    int32x4_t acc[GROUP][QUAD];                                                               \
    int8x16_t v[GROUP];                                                                       \
    UNROLL(i, rows, UNROLL(j, 4, acc[i][j] = begin[j]));                                      \
    if (totals)                                                                               \
      UNROLL(j, 4, int32x4_t z = vld1q_s32(c->weight_zeros + unit + j * 4);                   \
             UNROLL(i, rows, acc[i][j] = vmlsq_n_s32(acc[i][j], z, totals[i])));              \
    for (; left >= 16; left -= 16, x += 16, w += 16 * GROUP) {                                \
      UNROLL(i, rows, v[i] = vld1q_s8((const int8_t *)x + i * depth));                        \
      DOT_LANE(rows, 0);                                                                      \
      DOT_LANE(rows, 1);                                                                      \
      DOT_LANE(rows, 2);                                                                      \
      DOT_LANE(rows, 3);                                                                      \
    }                                                                                         \
    for (; left; left -= QUAD, x += QUAD, w += QUAD * GROUP) {                                \
      UNROLL(i, rows, int32_t four; memcpy(&four, x + i * depth, QUAD);                       \
             v[i] = vreinterpretq_s8_s32(vdupq_n_s32(four)));                                 \
      DOT_LANE(rows, 0);                                                                      \
    }                                                                                         \
    UNROLL(i, rows, dot_round(c, acc[i], unit, y + i * c->g->units));                         \
  }
DOT_TILE(dot_tile, DOT_ROWS)
DOT_TILE(dot_row, 1)
#undef DOT_TILE
#undef DOT_LANE

WINDOW_TOTALS(dot_window_totals, int8_t, 128)

static void dot_product_part(void *job, int part, int parts) {
  const product_job *c = job;
  const window_walk *g = c->g;
  uint8_t tile[TILE_BYTES + SLACK], flip = (uint8_t)c->flip ^ 128;
  int32_t totals_of_tile[TILE_BYTES / QUAD];
  int64_t depth = c->depth, all = g->images * g->rows * g->cols, most = TILE_BYTES / depth;
  int64_t at = chunk_begin(all, part, parts), end = chunk_begin(all, part + 1, parts);
  if (most > DOT_ROWS) most -= most % DOT_ROWS;
  for (int64_t n; at < end; at += n) {
    n = end - at < most ? end - at : most;
    if (c->is_whole) memcpy(tile, c->x + at * depth, n * depth);
    else gather_windows(c, at, n, tile);
    for (int64_t k = 0; k < n * depth && flip; k += 16)
      vst1q_u8(tile + k, veorq_u8(vld1q_u8(tile + k), vdupq_n_u8(flip)));
    const int32_t *totals = dot_window_totals(c, (const int8_t *)tile, n, totals_of_tile);
    for (int64_t unit = 0; unit < g->units; unit += GROUP) {
      const int8_t *w = c->w + unit * depth;
      int32x4_t begin[QUAD];
      dot_begin(c, w, unit, begin);
      for (int64_t p = 0, rows; p < n; p += rows) {
        uint8_t *y = c->y + (at + p) * g->units + unit;
        rows = n - p >= DOT_ROWS ? DOT_ROWS : 1;
        const int32_t *of_rows = totals ? totals + p : 0;
        (rows > 1 ? dot_tile : dot_row)(c, tile + p * depth, w, begin, of_rows, unit, y);
      }
    }
  }
}

#define DOT_INLINE static inline __attribute__((always_inline))
DOT_INLINE uint8x16_t dot_unpacklo_epi16(uint8x16_t a, uint8x16_t b) {
  uint16x8_t pairs = vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
  return vreinterpretq_u8_u16(pairs);
}
DOT_INLINE uint8x16_t dot_unpackhi_epi16(uint8x16_t a, uint8x16_t b) {
  uint16x8_t pairs = vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
  return vreinterpretq_u8_u16(pairs);
}
DOT_INLINE float32x4_t dot_cvtepi32_ps(uint8x16_t v) {
  return vcvtq_f32_s32(vreinterpretq_s32_u8(v));
}
DOT_INLINE uint8x16_t dot_cvtps_epi32(float32x4_t v) {
  return vreinterpretq_u8_s32(vcvtnq_s32_f32(v));
}
DOT_INLINE uint8x16_t dot_packs_epi32(uint8x16_t a, uint8x16_t b) {
  int16x4_t low = vqmovn_s32(vreinterpretq_s32_u8(a)), high = vqmovn_s32(vreinterpretq_s32_u8(b));
  return vreinterpretq_u8_s16(vcombine_s16(low, high));
}
DOT_INLINE uint8x16_t dot_packus_epi16(uint8x16_t a, uint8x16_t b) {
  uint8x8_t low = vqmovun_s16(vreinterpretq_s16_u8(a));
  return vcombine_u8(low, vqmovun_s16(vreinterpretq_s16_u8(b)));
}
DOT_INLINE uint8x16_t dot_adds_epi16(uint8x16_t a, uint8x16_t b) {
  int16x8_t sum = vqaddq_s16(vreinterpretq_s16_u8(a), vreinterpretq_s16_u8(b));
  return vreinterpretq_u8_s16(sum);
}
DOT_INLINE uint8x16_t dot_add_quads(uint8x16_t s, uint8x16_t x, const uint8_t *w) {
  int8x16_t weights = vreinterpretq_s8_u8(vld1q_u8(w));
  int32x4_t sum = vdotq_s32(vreinterpretq_s32_u8(s), vreinterpretq_s8_u8(x), weights);
  return vreinterpretq_u8_s32(sum);
}
#undef DOT_INLINE
#define dot_unpacklo_epi8 vzip1q_u8
#define dot_unpackhi_epi8 vzip2q_u8
#define dot_mul_ps vmulq_f32
#define dot_min_ps vminnmq_f32
#define dot_loadu_ps vld1q_f32
#define dot_add_epi8 vaddq_u8
#define dot_set1_ps vdupq_n_f32
#define dot_set1_epi8(v) vdupq_n_u8((uint8_t)(v))
#define dot_set1_epi16(v) vreinterpretq_u8_s16(vdupq_n_s16(v))

#define NAME(name) dot_##name
#define WIDTH 16
#define LESS 128
#define VECTOR uint8x16_t
#define FLOATS float32x4_t
#define V(name) dot_##name
#define LOAD(p) vld1q_u8((const uint8_t *)(p))
#define STORE(p, v) vst1q_u8(p, v)
#define WEIGHT_BYTES 1
#define STORE_WEIGHTS STORE
#define ADD_QUADS dot_add_quads
#include "integer_depthwise.h"

END_TARGET
