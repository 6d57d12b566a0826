/* Products of quantized images with filters, in integers: exact sums, rounded once. The bits do not
   depend on the instruction set.

   Bytes of x are treated as unsigned: those of int8 are flipped to x + 128, and `start` takes the
   products of 128 out again. The weights of 16 units are side by side, four values of the depth for
   each. Where they have zero points, the sum of a unit is less by its zero point times `total`, the
   sum of the bytes that a window reads. */

#include <string.h>

#include "integer.h"
#include "loops.h"
#include "target.h"
#include "team.h"

#if HAS_AVX_BESIDE_BASE
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if HAS_AVX_BESIDE_BASE || HAS_DOTPROD_BESIDE_BASE

typedef uint8_t sixteen_bytes __attribute__((vector_size(16), aligned(1), may_alias));

static depthwise_layout layout_of(const window_walk *g, const depthwise_form *form) {
  int64_t width = form->width, depth = g->depth, low = depth & -depth,
          merged = width / (low < width ? low : width);
  if (g->stride_w > 1 || depth * merged > MERGED) merged = 1;
  depthwise_layout l = {depth * merged, (g->taps_h * g->taps_w + QUAD - 1) / QUAD, 0, 0, 0, 0};
  int64_t reach = g->col_taps[g->taps_w - 1] + 1;
  l.block = width * (QUAD * form->weight * l.quads + TABLE_HEAD);
  l.tables = (l.period + width - 1) / width * l.block;
  l.columns = (DEPTHWISE_BYTES - l.tables) / g->taps_h - SLACK - reach * depth;
  l.columns = l.columns < 0 ? 0 : l.columns / (g->stride_w * depth) + 1;
  if (l.columns > g->cols) l.columns = g->cols;
  l.line = ((l.columns - 1) * g->stride_w + reach) * depth + SLACK;
  return l;
}

/* Copies the columns from w on of row h of an image, and border outside. */
static void fill_line(const product_job *c, const uint8_t *x, int64_t h, int64_t w, int64_t columns,
                      uint8_t *to) {
  const window_walk *g = c->g;
  int64_t depth = g->depth, end = w + columns < g->width ? w + columns : g->width;
  int64_t first = w < 0 ? 0 : w, inside = h < 0 || h >= g->height ? 0 : end - first;
  int border = (uint8_t)(c->border ^ c->flip);
  if (inside <= 0) {
    memset(to, border, columns * depth);
    return;
  }
  uint8_t *from = to + (first - w) * depth;
  memset(to, border, from - to);
  memcpy(from, x + h * g->row_stride + first * depth, inside * depth);
  for (int64_t k = 0; k < inside * depth; k += 16) *(sixteen_bytes *)(from + k) ^= (uint8_t)c->flip;
  memset(from + inside * depth, border, (columns - inside) * depth - (from - to));
}

/* Writes the table of the vector of results from channel `first` on, which continue with channel 0
   after the last: start and m in the order of the sums, and the weights, four taps side by side. */
static void fill_table(const product_job *c, const depthwise_job *d, int64_t first, uint8_t *to) {
  const depthwise_form *form = d->form;
  int64_t depth = c->g->depth, taps = c->g->taps_h * c->g->taps_w, width = form->width;
  int32_t *start = (int32_t *)to;
  float *m = (float *)to + width;
  uint8_t *weights = to + TABLE_HEAD * width;
  for (int64_t lane = 0, channel = first; lane < width; lane++) {
    int64_t at = lane % 16 / 4 * (width / 4) + lane / 16 * 4 + lane % 4;
    start[at] = c->start[channel];
    for (int64_t tap = 0; tap < taps && form->less; tap++)
      start[at] += form->less * c->w[tap * depth + channel];
    m[at] = c->m[channel];
    channel = channel + 1 < depth ? channel + 1 : 0;
  }
  memset(weights, 0, d->layout.block - TABLE_HEAD * width);
  for (int64_t tap = 0; tap < taps; tap++) {
    uint8_t *row = weights + (tap / QUAD * QUAD * form->weight + tap % QUAD) * width;
    for (int64_t lane = 0, channel = first, run; lane < width; lane += run, channel = 0) {
      run = depth - channel < width - lane ? depth - channel : width - lane;
      memcpy(row + lane, c->w + tap * depth + channel, run);
    }
  }
  form->order_weights(weights, d->layout.quads);
}

/* Columns of the lines of x that the windows of a row of results read. Windows of the next row read
   most of these lines again, so that they stay: line h is in slot (h - start_h) / step modulo the
   taps, where step is the distance of two taps. The lines of a row thus have different slots. */
typedef struct {
  uint8_t *lines;
  int64_t left, columns;    /* the first column, and how many */
  int64_t loaded[MAX_TAPS]; /* slot -> its line, or NOT_LOADED */
} line_ring;

#define NOT_LOADED INT64_MIN

/* Loads the lines for a row of results of an image, and writes where each tap reads. */
static void load_lines(const depthwise_job *d, line_ring *ring, int64_t image, int64_t row,
                       const uint8_t **taps) {
  const product_job *c = d->products;
  const window_walk *g = c->g;
  const uint8_t *pixels = c->x + image * g->image_stride;
  int64_t step = g->taps_h > 1 ? g->row_taps[1] : 1;
  for (int64_t tap_row = 0; tap_row < g->taps_h; tap_row++) {
    int64_t below = row * g->stride_h + g->row_taps[tap_row], h = g->start_h + below;
    int64_t slot = below / step % g->taps_h;
    uint8_t *line = ring->lines + slot * d->layout.line;
    if (ring->loaded[slot] != h) fill_line(c, pixels, h, ring->left, ring->columns, line);
    ring->loaded[slot] = h;
    for (int64_t tap_col = 0; tap_col < g->taps_w; tap_col++)
      *taps++ = line + g->col_taps[tap_col] * g->depth;
  }
}

static void depthwise_part(void *job, int part, int parts) {
  const depthwise_job *d = job;
  const depthwise_layout *l = &d->layout;
  const product_job *c = d->products;
  const window_walk *g = c->g;
  uint8_t scratch[DEPTHWISE_BYTES] __attribute__((aligned(SLACK)));
  const uint8_t *taps[MAX_TAPS + QUAD];
  line_ring ring = {.lines = scratch + l->tables};
  int64_t depth = g->depth, width = d->form->width, rows = g->images * g->rows;
  int64_t first = chunk_begin(rows, part, parts), end = chunk_begin(rows, part + 1, parts);
  for (int64_t at = 0, vector = 0; at < l->period; at += width, vector++)
    fill_table(c, d, at % depth, scratch + vector * l->block);
  for (int64_t col = 0; col < g->cols; col += l->columns) {
    int64_t count = g->cols - col < l->columns ? g->cols - col : l->columns;
    ring.left = g->start_w + col * g->stride_w;
    ring.columns = (l->line - SLACK) / depth - (l->columns - count) * g->stride_w;
    for (int64_t line = first; line < end; line++) {
      int64_t image = line / g->rows, row = line - image * g->rows;
      if (line == first || row == 0)
        for (int64_t slot = 0; slot < g->taps_h; slot++) ring.loaded[slot] = NOT_LOADED;
      load_lines(d, &ring, image, row, taps);
      for (int64_t tap = g->taps_h * g->taps_w; tap < l->quads * QUAD; tap++)
        taps[tap] = taps[0]; /* with weights of 0 */
      uint8_t *y = c->y + (line * g->cols + col) * depth;
      d->form->row(c, l, scratch, taps, y, count * depth);
    }
  }
}

#endif

#if HAS_AVX_BESIDE_BASE

#define VNNI_ROWS 12

BEGIN_TARGET("avx512f,avx512vl,avx512dq,avx512bw,avx512vnni")

/* y = clip(rint(s m) + zero) for 16 units, of which the first ones are stored, in each of
   several rows. */
static __attribute__((noinline)) void vnni_round(const product_job *c, const int32_t *sums,
                                                 int rows, int64_t unit, uint8_t *y) {
  int64_t units = c->g->units, left = units - unit;
  __m512i zero = _mm512_set1_epi32((int32_t)c->zero);
  __m512 m = _mm512_loadu_ps(c->m + unit), lo = _mm512_set1_ps((float)(c->lo - c->zero));
  __m512 hi = _mm512_set1_ps((float)(c->hi - c->zero));
#pragma GCC unroll 1
  for (; rows; rows--, sums += GROUP, y += units) {
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sums)), m);
    __m512i s = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(v, lo), hi));
    __asm__("" : "+r"(left)); /* one loop, not one for each case */
    __m128i bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(s, zero));
    if (left >= GROUP) _mm_storeu_si128((__m128i *)y, bytes);
    else if (left == 8) _mm_storel_epi64((__m128i *)y, bytes);
    else memcpy(y, &bytes, left);
  }
}

/* The results of several windows for one or two groups of units from `unit` on. totals: of the
   windows, or null. */
#define VNNI_TILE(name, rows, groups)                                                            \
  static void name(const product_job *c, const uint8_t *x, const int32_t *totals, int64_t unit,  \
                   uint8_t *y) {                                                                 \
    int64_t depth = c->depth;                                                                    \
    const int8_t *w = c->w + unit * depth;                                                       \
    __m512i acc[GROUP][GROUP];                                                                   \
    int32_t sums[groups][rows * GROUP];                                                          \
    UNROLL(j, groups, acc[0][j] = _mm512_loadu_si512(c->start + unit + j * GROUP));              \
    UNROLL(i, rows, UNROLL(j, groups, acc[i][j] = acc[0][j]));                                   \
    if (totals)                                                                                  \
      UNROLL(j, groups, __m512i zeros = _mm512_loadu_si512(c->weight_zeros + unit + j * GROUP);  \
             UNROLL(i, rows, __m512i total = _mm512_set1_epi32(totals[i]);                       \
                    acc[i][j] = _mm512_sub_epi32(acc[i][j], _mm512_mullo_epi32(total, zeros)))); \
    for (int64_t k = 0; k < depth; k += QUAD, x += QUAD, w += QUAD * GROUP) {                    \
      __m512i v[GROUP];                                                                          \
      UNROLL(j, groups, v[j] = _mm512_loadu_si512(w + j * GROUP * depth));                       \
      UNROLL(i, rows, int32_t four; memcpy(&four, x + i * depth, QUAD);                          \
             __m512i u = _mm512_set1_epi32(four);                                                \
             UNROLL(j, groups, acc[i][j] = _mm512_dpbusd_epi32(acc[i][j], u, v[j])));            \
    }                                                                                            \
    UNROLL(j, groups, UNROLL(i, rows, _mm512_storeu_si512(&sums[j][i * GROUP], acc[i][j])));     \
    for (int j = 0; j < groups; j++)                                                             \
      vnni_round(c, sums[j], rows, unit + j * GROUP, y + j * GROUP);                             \
  }
VNNI_TILE(vnni_tile, VNNI_ROWS, 2)
VNNI_TILE(vnni_group, VNNI_ROWS, 1)
VNNI_TILE(vnni_row, 1, 1)
#undef VNNI_TILE

#define NAME(name) vnni_##name
#define WIDTH 64
#define LESS 0
#define VECTOR __m512i
#define FLOATS __m512
#define V(name) _mm512_##name
#define LOAD _mm512_loadu_si512
#define STORE _mm512_storeu_si512
#define WEIGHT_BYTES 1
#define STORE_WEIGHTS STORE
#define ADD_QUADS(s, x, w) _mm512_dpbusd_epi32(s, x, LOAD(w))
#include "integer_depthwise.h"

END_TARGET
BEGIN_TARGET("avx2,fma")

#define NAME(name) avx2_##name
#define WIDTH 32
#define LESS 0
#define VECTOR __m256i
#define FLOATS __m256
#define V(name) _mm256_##name
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define WEIGHT_BYTES 2 /* those of even bytes, then those of odd ones */
#define STORE_WEIGHTS(to, w)                                 \
  (STORE(to, _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8)), \
   STORE((to) + WIDTH, _mm256_srai_epi16(w, 8)))
#define ADD_QUADS(s, x, w) avx2_add_quads(s, x, LOAD(w), LOAD((w) + WIDTH))
static inline __m256i avx2_add_quads(__m256i s, __m256i x, __m256i even, __m256i odd) {
  s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_and_si256(x, _mm256_set1_epi16(255)), even));
  return _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_srli_epi16(x, 8), odd));
}
#include "integer_depthwise.h"

END_TARGET

#endif

/* The first input row and column of a window, which may be outside the image. */
static const uint8_t *window_at(const window_walk *g, const uint8_t *x, int64_t pixel, int64_t *h,
                                int64_t *w) {
  uint32_t line = (uint32_t)pixel / (uint32_t)g->cols, image = line / (uint32_t)g->rows;
  *h = g->start_h + (line - image * g->rows) * g->stride_h;
  *w = g->start_w + (pixel - line * g->cols) * g->stride_w;
  return x + image * g->image_stride;
}

/* The channels that a tap reads, or null outside the image. */
static inline const uint8_t *tap_at(const window_walk *g, const uint8_t *x, int64_t i, int64_t j) {
  if (i < 0 || i >= g->height || j < 0 || j >= g->width) return 0;
  return x + i * g->row_stride + j * g->col_stride;
}

/* Writes the sum of the unsigned bytes of each window in a tile, whose elements are `less` than
   them; returns null instead if no zero point of weights needs it. */
#define WINDOW_TOTALS(name, element, less)                                         \
  static const int32_t *name(const product_job *c, const element *tile, int64_t n, \
                             int32_t *totals) {                                    \
    if (!c->weight_zeros) return 0;                                                \
    for (int64_t p = 0; p < n; p++, tile += c->depth) {                            \
      totals[p] = (int32_t)(less * c->window);                                     \
      for (int64_t k = 0; k < c->window; k++) totals[p] += tile[k];                \
    }                                                                              \
    return totals;                                                                 \
  }

/* Copies the bytes that a window reads, tap after tap. */
static void gather_window(const product_job *c, const uint8_t *x, int64_t h, int64_t w,
                          uint8_t *to) {
  const window_walk *g = c->g;
  int is_run = g->taps_w > 1 && g->col_taps[1] == 1 && w >= 0 && w + g->taps_w <= g->width;
  int64_t taps = is_run ? 1 : g->taps_w, size = g->depth * (is_run ? g->taps_w : 1);
  for (int64_t a = 0; a < g->taps_h; a++)
    for (int64_t b = 0; b < taps; b++, to += size) {
      const uint8_t *from = tap_at(g, x, h + g->row_taps[a], w + g->col_taps[b]);
      if (from) memcpy(to, from, size);
      else memset(to, (uint8_t)c->border, size);
    }
}

/* Gathers the windows of n pixels from `pixel` on, each rounded up to whole quads. Writes at most
   SHORT_RUN bytes more. */
static void gather_windows(const product_job *c, int64_t pixel, int64_t n, uint8_t *to) {
  const window_walk *g = c->g;
  int64_t left = 0, h = 0, w = 0, taps_h = g->taps_h, size = g->taps_w * g->depth;
  int64_t down = g->row_taps[taps_h - 1] + 1, end = taps_h * size;
  int is_short = size <= SHORT_RUN && g->col_taps[g->taps_w - 1] == g->taps_w - 1, is_inside = 0;
  const uint8_t *x = 0, *last = c->x + g->images * g->image_stride - SHORT_RUN;
  for (int64_t k = 0; k < n; k++, left--, w += g->stride_w, to += c->depth) {
    if (!left) {
      x = window_at(g, c->x, pixel + k, &h, &w);
      left = g->cols - (w - g->start_w) / g->stride_w;
      is_inside = is_short && h >= 0 && h + down <= g->height;
      is_inside = is_inside && x + (h + down) * g->row_stride <= last;
    }
    if (is_inside && w >= 0 && w + g->taps_w <= g->width) {
      const uint8_t *from = x + h * g->row_stride + w * g->depth;
      for (int64_t a = 0; a < taps_h; a++) /* what is too much is written again */
        memcpy(to + a * size, from + g->row_taps[a] * g->row_stride, SHORT_RUN);
    } else gather_window(c, x, h, w, to);
    for (int64_t i = end; i < c->depth; i++) to[i] = 0;
  }
}

static void resize_part(void *job, int part, int parts) {
  const resize_job *c = job;
  int64_t all = c->images * c->out_h, end = chunk_begin(all, part + 1, parts), n = c->channels;
  uint32_t one = 1 << RESIZE_BITS, half = one * one / 2;
  for (int64_t line = chunk_begin(all, part, parts); line < end; line++) {
    int64_t k = line % c->out_h, h = c->rows[k];
    uint32_t down = (uint32_t)c->rows[c->out_h + k];
    const uint8_t *above = c->x + (line / c->out_h * c->height + h) * c->width * n;
    const uint8_t *below = above + (h + 1 < c->height) * c->width * n;
    uint8_t *y = c->y + line * c->out_w * n;
    for (int64_t j = 0; j < c->out_w; j++, y += n) {
      int64_t at = c->cols[j] * n, next = at + (c->cols[j] + 1 < c->width) * n;
      uint32_t right = (uint32_t)c->cols[c->out_w + j], v = right * down, u = right * one - v;
      uint32_t s = down * one - v, r = one * one - u - s - v;
      IVDEP
      for (int64_t i = 0; i < n; i++) {
        uint32_t sum = half + r * (above[at + i] ^ c->flip) + u * (above[next + i] ^ c->flip);
        sum += s * (below[at + i] ^ c->flip) + v * (below[next + i] ^ c->flip);
        y[i] = (uint8_t)(sum >> 2 * RESIZE_BITS) ^ c->flip;
      }
    }
  }
}

#if HAS_DOTPROD_BESIDE_BASE
#include "integer_dotprod.h"
#endif

#if HAS_AVX_BESIDE_BASE /* what AVX-512 has no form of its own for */
static void product_part_avx2(void *job, int part, int parts);
static void integer_sum_part_avx2(void *job, int part, int parts);
static void integer_quantize_part_avx2(void *job, int part, int parts);
static void integer_dequantize_part_avx2(void *job, int part, int parts);
#endif

#define BODY "integer_body.h"
#include "each_isa.h"
