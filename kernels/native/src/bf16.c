/* Products whose factors are rounded to bfloat16 and whose sums are float32, by the dot products of
   pairs that AVX-512 processors with AVX512_BF16 have: forward pass and gradients of dense layers
   and convolutions, and BATCH_MATMUL.

   All are products of matrices, y = left · right, computed in blocks: a block of rows of `left` and
   one of columns of `right` are rounded and packed in pairs along the depth, 32 bits each. Rows of
   `left` may be the windows of images. */

#include <string.h>

#include "bf16.h"

#if HAS_BF16

#include <immintrin.h>

#include "loops.h"
#include "team.h"
#include "window_blocks.h"

BEGIN_TARGET("avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,avx2,fma")

#define F(name) name##_avx512
#define LANES 16
#define MR 8
#define NR 3
#include "each_isa_begin.h"

#include "vectors.h"

#include "column_sums.h"

#include "transpose_tile.h"

#define DEPTH BF16_DEPTH /* of a block, in values */
#define COLUMNS BF16_COLUMNS
#define MOST 16 /* elements of an array in loops that are unrolled: see loops.h */
/* Values of 32 bits from one packed row, or group of MR rows, to the next: there is place for twice
   the pairs, and a line more, so that rows share no sets of the cache. */
#define STRIDE (DEPTH + LANES)
#define GROUP(pairs) (2 * ((pairs) + 1) * MR)

typedef struct product product;
struct product {
  /* Packs a block of rows at `depth` values from k on, by rows STRIDE apart or, if not by_rows, by
     groups of MR rows, and lists where its rows begin in y. */
  void (*pack_left)(const product *p, int64_t matrix, int64_t row, int64_t rows, int64_t k,
                    int64_t depth, uint32_t *to, int64_t *out);
  /* Packs a block of columns by vectors. */
  void (*pack_right)(const product *p, int64_t matrix, int64_t column, int64_t columns, int64_t k,
                     int64_t depth, uint32_t *to);
  int64_t count, rows, columns, blocks, depth;
  int by_rows, adds, clamp;
  const float *left, *right, *bias, *relu_mask;
  float *y;
  const uint32_t *panel; /* all of `right`, packed by vectors, or null */
  float *scratch;
  const window_walk *g;
  const matmul_shape *m;
  float lo, hi;
  int64_t row_block, column_block;
};

INLINE int64_t blocks_of(int64_t size, int64_t block) { return (size + block - 1) / block; }

INLINE __mmask16 first_lanes(int64_t n) { return n < LANES ? (__mmask16)((1 << n) - 1) : 0xffff; }

/* Rounding. */

/* Two vectors as bfloat16, those of `low` first. */
INLINE __m512i round_two(__m512 low, __m512 high) {
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Lane l is the pair of the values l of two vectors. */
INLINE __m512i round_pairs(__m512 first, __m512 second) {
  const __m512i halves_in_turn =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(halves_in_turn, round_two(first, second));
}

/* The same from vectors that are rounded already. */
INLINE __m512i zip_pairs(const uint16_t *first, const uint16_t *second) {
  __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)first));
  __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)second));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Rounds values that are side by side. */
INLINE void round_run(const float *from, int64_t count, uint16_t *to) {
  int64_t k = 0;
  for (; k + 2 * LANES <= count; k += 2 * LANES)
    _mm512_storeu_si512(to + k,
                        round_two(_mm512_loadu_ps(from + k), _mm512_loadu_ps(from + k + LANES)));
  for (; k < count; k += LANES) {
    __mmask16 lanes = first_lanes(count - k);
    __m512 v = _mm512_maskz_loadu_ps(lanes, from + k);
    _mm256_mask_storeu_epi16(to + k, lanes, (__m256i)_mm512_cvtneps_pbh(v));
  }
}

INLINE uint32_t round_one(float v) {
  return (uint16_t)_mm_extract_epi16((__m128i)_mm_cvtneps_pbh(_mm_set_ss(v)), 0);
}

/* Packs the pairs of two values of `count` rows, first[r] and second[r] of row r, by groups of MR
   rows, `group` apart. Without `second`, the second value is 0. */
INLINE void pack_pair_groups(const float *first, const float *second, int64_t count, uint32_t *to,
                             int64_t group) {
  for (int64_t i = 0; i < count; i += LANES, to += 2 * group) {
    __mmask16 lanes = first_lanes(count - i);
    __m512 a = _mm512_maskz_loadu_ps(lanes, first + i);
    __m512 b = second ? _mm512_maskz_loadu_ps(lanes, second + i) : _mm512_setzero_ps();
    __m512i pairs = round_pairs(a, b);
    _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(pairs));
    if (count - i > MR)
      _mm256_storeu_si256((__m256i *)(to + group), _mm512_extracti64x4_epi64(pairs, 1));
  }
}

/* Packs columns that are side by side by vectors of pairs; rows of the depth are `stride` apart. */
static void pack_columns(const float *from, int64_t stride, int64_t columns, int64_t depth,
                         uint32_t *to, int64_t vector) {
  for (int64_t k = 0; k < depth; k += 2, from += 2 * stride, to += LANES) {
    uint32_t *at = to;
    for (int64_t j = 0; j < columns; j += LANES, at += vector) {
      __mmask16 lanes = first_lanes(columns - j);
      __m512 a = _mm512_maskz_loadu_ps(lanes, from + j);
      __m512 b =
          k + 1 < depth ? _mm512_maskz_loadu_ps(lanes, from + stride + j) : _mm512_setzero_ps();
      _mm512_storeu_si512(at, round_pairs(a, b));
    }
  }
}

/* Packs columns whose depth is side by side, `stride` apart, in the same form. */
static void pack_deep_columns(const float *from, int64_t stride, int64_t columns, int64_t depth,
                              uint32_t *to, int64_t vector) {
  int64_t pairs = (depth + 1) / 2;
  for (int64_t j = 0; j < columns; j += LANES, to += vector)
    for (int64_t k = 0; k < pairs; k += LANES) {
      int64_t left = depth - 2 * k, width = pairs - k < LANES ? pairs - k : LANES;
      __mmask16 low = first_lanes(left), high = left > LANES ? first_lanes(left - LANES) : 0;
      int32_t square[LANES * LANES], turned[LANES * LANES];
      for (int64_t l = 0; l < LANES; l++) {
        const float *row = from + (j + l) * stride + 2 * k;
        int valid = j + l < columns;
        __m512 a = _mm512_maskz_loadu_ps(valid ? low : 0, row);
        __m512 b = _mm512_maskz_loadu_ps(valid ? high : 0, row + LANES);
        _mm512_storeu_si512(square + l * LANES, round_two(a, b));
      }
      int32_t *block = width == LANES ? (int32_t *)to + k * LANES : turned;
      F(transpose_tile)(square, LANES, block, LANES, 0);
      if (block == turned)
        memcpy(to + k * LANES, turned, sizeof(int32_t) * (size_t)(width * LANES));
    }
}

/* Tiles. Where the processor's dot products are slow, multiply-adds of floats take their place:
   then rows are floats, in the order of the depth, and columns are divided in registers. */

static int pairs_in_use = -1; /* not known yet */

static int uses_pairs(void) {
  if (pairs_in_use < 0) pairs_in_use = has_fast_bf16();
  return pairs_in_use;
}

void use_bf16_pairs(int use) { pairs_in_use = use; }

INLINE __m512i even_values(__m512i pairs) { return _mm512_slli_epi32(pairs, 16); }
INLINE __m512i odd_values(__m512i pairs) {
  return _mm512_and_si512(pairs, _mm512_set1_epi32((int32_t)0xffff0000));
}

/* Makes floats of packed rows, in their place: from the end, since they take twice the memory. */
static void widen_rows(uint32_t *to, int64_t rows, int64_t pairs) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  for (int64_t i = 0; i < rows; i++, to += STRIDE)
    for (int64_t k = (pairs - 1) / LANES * LANES; k >= 0; k -= LANES) {
      __m512i v = _mm512_loadu_si512(to + k), even = even_values(v), odd = odd_values(v);
      _mm512_storeu_si512(to + 2 * k, _mm512_permutex2var_epi32(even, low, odd));
      if (pairs - k > LANES / 2)
        _mm512_storeu_si512(to + 2 * k + LANES, _mm512_permutex2var_epi32(even, high, odd));
    }
}

static void widen_groups(uint32_t *to, int64_t rows, int64_t pairs) {
  for (int64_t i = 0; i < rows; i += MR, to += GROUP(pairs))
    for (int64_t k = pairs - 1; k >= 0; k--) {
      __m512i v = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(to + k * MR)));
      _mm512_storeu_si512(to + 2 * k * MR,
                          _mm512_shuffle_i32x4(even_values(v), odd_values(v), 0x44));
    }
}

typedef struct {
  const product *p;
  const int64_t *out;
  int64_t column; /* the first one */
  int rows, adds, ends;
  __mmask16 last; /* lanes of the last vector */
} tile_end;

/* Computes m rows and n vectors of columns: see `product`. */
INLINE void product_tile(const uint32_t *a, int64_t row, int64_t step, const uint32_t *b,
                         int64_t vector, int64_t pairs, const tile_end *e, int m, int n, int wide) {
  __m512 sums[MOST][MOST];
  const product *p = e->p;
  UNROLL(i, m, UNROLL(j, n, sums[i][j] = _mm512_setzero_ps()));
  for (int64_t k = 0; k < pairs && !wide; k++, a += step, b += LANES) {
    __m512bh v[MOST];
    UNROLL(j, n, v[j] = (__m512bh)_mm512_loadu_si512(b + j * vector));
    UNROLL(i, m, __m512bh u = (__m512bh)_mm512_set1_epi32((int32_t)a[i * row]);
           UNROLL(j, n, sums[i][j] = _mm512_dpbf16_ps(sums[i][j], v[j], u)));
  }
  for (int64_t k = 0; k < pairs && wide; k++, a += 2 * step, b += LANES) {
    const float *from = (const float *)a;
    __m512 v[MOST];
    UNROLL(j, n, v[j] = (__m512)even_values(_mm512_loadu_si512(b + j * vector)));
    UNROLL(i, m, __m512 u = _mm512_set1_ps(from[i * row]);
           UNROLL(j, n, sums[i][j] = _mm512_fmadd_ps(v[j], u, sums[i][j])));
    UNROLL(j, n, v[j] = (__m512)odd_values(_mm512_loadu_si512(b + j * vector)));
    UNROLL(i, m, __m512 u = _mm512_set1_ps(from[i * row + step]);
           UNROLL(j, n, sums[i][j] = _mm512_fmadd_ps(v[j], u, sums[i][j])));
  }
  float *y = p->y + e->column;
  const int64_t *out = e->out;
#define LANES_OF(j) ((j) == n - 1 ? e->last : 0xffff)
#define LOADED(j, from) _mm512_maskz_loadu_ps(LANES_OF(j), (from) + (j) * LANES)
  if (e->adds)
    UNROLL(i, m, const float *from = y + out[i < e->rows ? i : 0];
           UNROLL(j, n, sums[i][j] = _mm512_add_ps(sums[i][j], LOADED(j, from))));
  if (e->ends && p->bias)
    UNROLL(j, n, __m512 bias = LOADED(j, p->bias + e->column);
           UNROLL(i, m, sums[i][j] = _mm512_add_ps(sums[i][j], bias)));
  if (e->ends && p->clamp)
    UNROLL(i, m, UNROLL(j, n, sums[i][j] = (__m512)F(clamp)((F(vec))sums[i][j], p->lo, p->hi)));
  if (e->ends && p->relu_mask)
    UNROLL(i, m, const float *mask = p->relu_mask + e->column + out[i < e->rows ? i : 0];
           UNROLL(j, n,
                  sums[i][j] = (__m512)F(relu_masked)((F(vec))sums[i][j], (F(vec))LOADED(j, mask),
                                                      p->lo, p->hi)));
  UNROLL(i, m,
         if (i < e->rows)
             UNROLL(j, n, _mm512_mask_storeu_ps(y + out[i] + j * LANES, LANES_OF(j), sums[i][j])));
#undef LOADED
#undef LANES_OF
}

typedef void tile_function(const uint32_t *a, const uint32_t *b, int64_t vector, int64_t pairs,
                           const tile_end *e);

#define TILE(name, m, n, row, step, wide)                                                       \
  static __attribute__((noinline)) void name##m##n(                                             \
      const uint32_t *a, const uint32_t *b, int64_t vector, int64_t pairs, const tile_end *e) { \
    product_tile(a, row, step, b, vector, pairs, e, m, n, wide);                                \
  }
#define TILES_OF(name, row, step, wide)                                      \
  TILE(name, 4, 1, row, step, wide)                                          \
  TILE(name, 4, 2, row, step, wide)                                          \
  TILE(name, 4, 3, row, step, wide)                                          \
  TILE(name, 8, 1, row, step, wide)                                          \
  TILE(name, 8, 2, row, step, wide)                                          \
  TILE(name, 8, 3, row, step, wide)                                          \
  static tile_function *const name[2][NR] = {{name##41, name##42, name##43}, \
                                             {name##81, name##82, name##83}};
TILES_OF(group_tiles, 1, MR, 0)
TILES_OF(row_tiles, STRIDE, 1, 0)
TILES_OF(wide_group_tiles, 1, MR, 1)
TILES_OF(wide_row_tiles, STRIDE, 1, 1)
#undef TILES_OF
#undef TILE

/* Computes a block from packed rows and columns. */
static void product_block(const uint32_t *a, const uint32_t *b, int64_t vector, int64_t rows,
                          int64_t columns, int64_t pairs, tile_end *e, const int64_t *out) {
  int by_rows = e->p->by_rows, wide = !uses_pairs();
  tile_function *const(*tiles)[NR] = by_rows ? wide ? wide_row_tiles : row_tiles
                                     : wide  ? wide_group_tiles
                                             : group_tiles;
  int64_t vectors = blocks_of(columns, LANES), column = e->column;
  for (int64_t j = 0, n; j < vectors; j += n) {
    n = vectors - j <= NR ? vectors - j : vectors - j == NR + 1 ? 2 : NR;
    e->column = column + j * LANES;
    e->last = first_lanes(columns - (j + n - 1) * LANES);
    for (int64_t i = 0; i < rows; i += MR) {
      e->rows = rows - i < MR ? (int)(rows - i) : MR, e->out = out + i;
      const uint32_t *from = a + (by_rows ? i * STRIDE : i / MR * GROUP(pairs));
      tiles[e->rows > 4][n - 1](from, b + j * vector, vector, pairs, e);
    }
  }
}

/* Computes blocks `at` to `end` of rows, of one block of columns. */
static void product_blocks(const product *p, int64_t at, int64_t end, uint32_t *left,
                           uint32_t *right) {
  int64_t down = blocks_of(p->rows, p->row_block), across = blocks_of(p->columns, p->column_block),
          matrix = at / down / across, column = at / down % across * p->column_block,
          columns = p->columns - column;
  int64_t ranges = p->depth > DEPTH ? blocks_of(p->depth, DEPTH) : 1, all = ranges * p->blocks;
  int64_t out[ROW_BLOCK];
  int64_t most = blocks_of(blocks_of(p->depth, ranges), 2) * 2; /* no pair is divided */
  if (columns > p->column_block) columns = p->column_block;
  for (int64_t range = 0; range < all; range++) {
    int64_t k = range % ranges * most, depth = p->depth - k < most ? p->depth - k : most;
    int64_t pairs = (depth + 1) / 2, vector = pairs * LANES, from = range / ranges * p->depth + k;
    const uint32_t *b = right;
    if (p->panel) {
      vector = (p->depth + 1) / 2 * LANES;
      b = p->panel + column / LANES * vector + k / 2 * LANES;
    } else p->pack_right(p, matrix, column, columns, from, depth, right);
    tile_end e = {.p = p, .adds = p->adds || range > 0, .ends = range == all - 1};
    for (int64_t i = at; i < end; i++) {
      int64_t row = i % down * p->row_block, rows = p->rows - row;
      if (rows > p->row_block) rows = p->row_block;
      p->pack_left(p, matrix, row, rows, from, depth, left, out);
      if (!uses_pairs() && pairs) (p->by_rows ? widen_rows : widen_groups)(left, rows, pairs);
      e.column = column;
      product_block(left, b, vector, rows, columns, pairs, &e, out);
    }
  }
}

/* One part: a range of blocks. Blocks of the same columns share these, unless all are packed. */
static void product_part(void *job, int part, int parts) {
  const product *p = job;
  int64_t down = blocks_of(p->rows, p->row_block),
          all = p->count * blocks_of(p->columns, p->column_block) * down;
  uint32_t *left = (uint32_t *)p->scratch + part * BF16_SCRATCH;
  int64_t end = chunk_begin(all, part + 1, parts);
  for (int64_t at = chunk_begin(all, part, parts), last; at < end; at = last) {
    last = p->panel ? at + 1 : (at / down + 1) * down;
    if (last > end) last = end;
    product_blocks(p, at, last, left, left + BF16_LEFT);
  }
}

static void run_product(product *p) {
  int64_t products = p->count * p->rows * p->columns * p->blocks * p->depth;
  int parts = parallel_parts(products / (2 * LANES) * PRODUCT);
  if (parts > PANEL_PARTS) parts = PANEL_PARTS;
  p->row_block = ROW_BLOCK, p->column_block = p->panel ? p->columns : COLUMNS;
  while (parts > 1 &&
         p->count * blocks_of(p->rows, p->row_block) * blocks_of(p->columns, p->column_block) <
             2 * parts) {
    if (p->row_block > 4 * MR && p->rows > 4 * MR) p->row_block /= 2;
    else if (p->column_block > NR * LANES)
      p->column_block = blocks_of(p->column_block / 2, NR * LANES) * NR * LANES;
    else break;
  }
  parallel_for(product_part, p, parts);
}

/* Windows. */

/* A place in the results of a walk. */
typedef struct {
  int64_t image, row, col;
} place;

INLINE place place_of(const window_walk *g, int64_t n) {
  return (place){n / g->cols / g->rows, n / g->cols % g->rows, n % g->cols};
}

INLINE void next_place(const window_walk *g, place *at) {
  if (++at->col < g->cols) return;
  at->col = 0;
  if (++at->row < g->rows) return;
  at->row = 0, at->image++;
}

INLINE int64_t result_at(const window_walk *g, const place *p) {
  return g->out_start + p->image * g->out_image + p->row * g->out_row + p->col * g->out_col;
}

/* Rounds values `begin` to `end` of a row that continues to both sides, of which those from 0 to
   `size` exist; the others are 0. */
INLINE void round_inside(const float *from, int64_t begin, int64_t end, int64_t size,
                         uint16_t *to) {
  int64_t first = begin < 0 ? 0 : begin, last = end > size ? size : end;
  if (first >= last) first = last = end;
  if (first > begin) memset(to, 0, sizeof(uint16_t) * (size_t)(first - begin));
  if (last > first) round_run(from + first, last - first, to + (first - begin));
  if (end > last) memset(to + (last - begin), 0, sizeof(uint16_t) * (size_t)(end - last));
}

/* Whether windows are the rows of a matrix, one after the other. */
static int is_matrix(const window_walk *g) {
  return g->taps_h * g->taps_w == 1 && g->start_h + g->row_taps[0] == 0 &&
         g->start_w + g->col_taps[0] == 0 && g->stride_h == 1 && g->stride_w == 1 &&
         g->rows == g->height && g->cols == g->width && g->out_row == g->cols * g->out_col &&
         g->out_image == g->rows * g->out_row;
}

/* Rounds values k to k + depth of windows, in the order (tap, depth); windows are `stride` apart
   in `to`. */
static void round_windows(const window_walk *g, const float *x, int64_t first, int64_t count,
                          int64_t k, int64_t depth, uint16_t *to, int64_t stride) {
  if (is_matrix(g)) {
    for (int64_t n = 0; n < count; n++, to += stride) {
      round_run(x + (first + n) * g->col_stride + k, depth, to);
      if (depth % 2) to[depth] = 0;
    }
    return;
  }
  if (!depth) return; /* no taps */
  place at = place_of(g, first);
  int64_t tap = k / g->depth, row_size = g->taps_w * g->depth;
  /* Whether taps of a row lie side by side: then they are one run. */
  int joined = g->taps_w > 1 && pitch(g->col_taps, g->taps_w) * g->col_stride == g->depth;
  for (int64_t n = 0; n < count; n++, to += stride, next_place(g, &at)) {
    const float *image = x + at.image * g->image_stride;
    int64_t h0 = g->start_h + at.row * g->stride_h, w0 = g->start_w + at.col * g->stride_w;
    int64_t a = tap / g->taps_w, b = tap % g->taps_w, d = k % g->depth;
    for (int64_t done = 0, run; done < depth; done += run, d = 0) {
      int64_t h = h0 + g->row_taps[a], w = w0 + g->col_taps[b];
      int64_t begin = w * g->col_stride + d, end = begin + g->depth - d, size = g->width * g->depth;
      if (joined) end = begin + row_size - b * g->depth - d;
      if (end - begin > depth - done) end = begin + depth - done;
      run = end - begin;
      if (h < 0 || h >= g->height || (!joined && (w < 0 || w >= g->width)))
        memset(to + done, 0, sizeof(uint16_t) * (size_t)run);
      else if (joined) round_inside(image + h * g->row_stride, begin, end, size, to + done);
      else round_run(image + h * g->row_stride + begin, run, to + done);
      if (joined || ++b == g->taps_w) b = 0, a++;
    }
    if (depth % 2) to[depth] = 0;
  }
}

static void pack_windows(const product *p, int64_t matrix, int64_t row, int64_t rows, int64_t k,
                         int64_t depth, uint32_t *to, int64_t *out) {
  (void)matrix;
  round_windows(p->g, p->left, row, rows, k, depth, (uint16_t *)to, 2 * STRIDE);
  if (is_matrix(p->g)) {
    for (int64_t n = 0; n < rows; n++) out[n] = p->g->out_start + (row + n) * p->g->out_col;
    return;
  }
  place at = place_of(p->g, row);
  for (int64_t n = 0; n < rows; n++, next_place(p->g, &at)) out[n] = result_at(p->g, &at);
}

/* Packs a part of the weights by vectors of units. */
static void pack_weights_part(void *job, int part, int parts) {
  const product *p = job;
  const window_walk *g = p->g;
  uint32_t *panel = (uint32_t *)p->panel;
  int64_t vectors = (g->units + LANES - 1) / LANES, vector = (p->depth + 1) / 2 * LANES;
  int64_t begin = chunk_begin(vectors, part, parts) * LANES,
          end = chunk_begin(vectors, part + 1, parts) * LANES;
  if (end > g->units) end = g->units;
  if (begin >= end || !p->depth) return;
  int side_by_side = g->depth_stride == 1 &&
                     (g->taps_w == 1 || pitch(g->col_weights, g->taps_w) == g->depth) &&
                     (g->taps_h == 1 || pitch(g->row_weights, g->taps_h) == g->taps_w * g->depth);
  int64_t runs = side_by_side ? 1 : g->taps_h * g->taps_w, depth = p->depth / runs;
  for (int64_t run = 0; run < runs; run++) {
    const float *from = p->right + g->row_weights[run / g->taps_w] +
                        g->col_weights[run % g->taps_w] + begin * g->unit_stride;
    uint32_t *to = panel + begin / LANES * vector + run * depth / 2 * LANES;
    if (runs > 1 && depth % 2) { /* pairs of two taps */
      for (int64_t u = begin; u < end; u++)
        for (int64_t d = 0; d < depth; d++) {
          int64_t k = run * depth + d;
          uint32_t *pair = panel + u / LANES * vector + k / 2 * LANES + u % LANES;
          uint32_t v = round_one(from[d * g->depth_stride + (u - begin) * g->unit_stride]);
          *pair = k % 2 ? *pair | v << 16 : v;
        }
    } else if (g->depth_stride == 1)
      pack_deep_columns(from, g->unit_stride, end - begin, depth, to, vector);
    else pack_columns(from, g->depth_stride, end - begin, depth, to, vector);
  }
}

void F(correlate_bf16)(const float *x, const float *w, const float *bias, const float *relu_mask,
                       float *y, float *panel, float *scratch, const window_walk *g, int64_t clamp,
                       float lo, float hi, int64_t packing) {
  product p = {.pack_left = pack_windows,
               .count = 1,
               .rows = result_count(g),
               .columns = g->units,
               .blocks = 1,
               .depth = g->taps_h * g->taps_w * g->depth,
               .by_rows = 1,
               .clamp = (int)clamp,
               .left = x,
               .right = w,
               .bias = bias,
               .relu_mask = relu_mask,
               .y = y,
               .panel = (const uint32_t *)panel,
               .scratch = scratch,
               .g = g,
               .lo = lo,
               .hi = hi};
  if (packing != PACKED)
    parallel_for(pack_weights_part, &p, parallel_parts(p.columns * p.depth * 2 * WEIGHT));
  if (packing != PACKS) run_product(&p);
}

/* Filter gradients: the depth are the results of the walk, columns the values of a window. */

static void pack_dy(const product *p, int64_t matrix, int64_t row, int64_t rows, int64_t k,
                    int64_t depth, uint32_t *to, int64_t *out) {
  int64_t pairs = (depth + 1) / 2;
  place at = place_of(p->g, k);
  (void)matrix;
  for (int64_t d = 0; d < depth; d += 2, to += MR) {
    const float *first = p->left + result_at(p->g, &at) + row, *second = 0;
    next_place(p->g, &at);
    if (d + 1 < depth) second = p->left + result_at(p->g, &at) + row;
    next_place(p->g, &at);
    pack_pair_groups(first, second, rows, to, GROUP(pairs));
  }
  for (int64_t n = 0; n < rows; n++) out[n] = (row + n) * p->columns;
}

/* A vector of the values of a window: its tap, and where it begins in the first window. */
typedef struct {
  int64_t h, w, at;
} window_vector;

/* Packs a block of the values of windows, whose vectors each belong to one tap. */
static void pack_whole_vectors(const product *p, int64_t column, int64_t vectors, int64_t k,
                               int64_t depth, uint32_t *to) {
  const window_walk *g = p->g;
  window_vector list[COLUMNS / LANES];
  int64_t vector = (depth + 1) / 2 * LANES, below = g->row_taps[g->taps_h - 1],
          right = g->col_taps[g->taps_w - 1];
  for (int64_t j = 0; j < vectors; j++) {
    int64_t value = column + j * LANES, tap = value / g->depth;
    int64_t h = g->row_taps[tap / g->taps_w], w = g->col_taps[tap % g->taps_w];
    list[j] = (window_vector){h, w, h * g->row_stride + w * g->col_stride + value % g->depth};
  }
  place at = place_of(g, k);
  for (int64_t d = 0; d < depth; d += 2, to += LANES) {
    const float *from[MOST];
    int64_t h[MOST], w[MOST];
    int whole = 1;
    for (int q = 0; q < 2; q++, next_place(g, &at)) {
      h[q] = g->start_h + at.row * g->stride_h, w[q] = g->start_w + at.col * g->stride_w;
      if (d + q == depth) h[q] = g->height; /* beyond the end: all taps are outside */
      from[q] = p->right + at.image * g->image_stride + h[q] * g->row_stride + w[q] * g->col_stride;
      whole =
          whole && h[q] >= 0 && w[q] >= 0 && h[q] + below < g->height && w[q] + right < g->width;
    }
    uint32_t *packed = to;
    for (int64_t j = 0; whole && j < vectors; j++, packed += vector)
      _mm512_storeu_si512(packed, round_pairs(_mm512_loadu_ps(from[0] + list[j].at),
                                              _mm512_loadu_ps(from[1] + list[j].at)));
    for (int64_t j = 0; !whole && j < vectors; j++, packed += vector) {
      __m512 v[MOST];
      UNROLL(q, 2, int64_t row = h[q] + list[j].h, col = w[q] + list[j].w;
             int inside = row >= 0 && row < g->height && col >= 0 && col < g->width;
             v[q] = inside ? _mm512_loadu_ps(from[q] + list[j].at) : _mm512_setzero_ps());
      _mm512_storeu_si512(packed, round_pairs(v[0], v[1]));
    }
  }
}

#define AT_ONCE 16 /* windows */

static void pack_window_columns(const product *p, int64_t matrix, int64_t column, int64_t columns,
                                int64_t k, int64_t depth, uint32_t *to) {
  const window_walk *g = p->g;
  uint16_t rounded[AT_ONCE][COLUMNS];
  int64_t vector = (depth + 1) / 2 * LANES;
  (void)matrix;
  if (g->depth % LANES == 0) {
    pack_whole_vectors(p, column, columns / LANES, k, depth, to);
    return;
  }
  if (is_matrix(g)) {
    pack_columns(p->right + k * g->col_stride + column, g->col_stride, columns, depth, to, vector);
    return;
  }
  for (int64_t d = 0, n; d < depth; d += n) {
    n = depth - d < AT_ONCE ? depth - d : AT_ONCE;
    round_windows(g, p->right, k + d, n, column, columns, rounded[0], COLUMNS);
    if (n % 2) memset(rounded[n], 0, sizeof(rounded[n]));
    for (int64_t q = 0; q < n; q += 2, to += LANES)
      for (int64_t j = 0; j < columns; j += LANES)
        _mm512_storeu_si512(to + j / LANES * vector, zip_pairs(rounded[q] + j, rounded[q + 1] + j));
  }
}

static void sum_columns_part(void *job, int part, int parts) {
  const product *p = job;
  float *db = (float *)p->bias;
  F(add_column_sums)(p->left, result_count(p->g), p->g->out_col, chunk_begin(p->rows, part, parts),
                     chunk_begin(p->rows, part + 1, parts), db);
}

void F(filter_sums_bf16)(const float *dy, const float *x, float *dw, float *db, float *scratch,
                         const window_walk *g, const int64_t *adds) {
  product p = {.pack_left = pack_dy,
               .pack_right = pack_window_columns,
               .count = 1,
               .rows = g->units,
               .columns = g->taps_h * g->taps_w * g->depth,
               .blocks = 1,
               .depth = result_count(g),
               .adds = adds && *adds,
               .left = dy,
               .right = x,
               .y = dw,
               .scratch = scratch,
               .g = g};
  run_product(&p);
  if (!db) return;
  p.bias = db;
  memset(db, 0, sizeof(float) * (size_t)g->units);
  parallel_for(sum_columns_part, &p, parallel_parts(p.depth * p.rows * WEIGHT));
}

/* BATCH_MATMUL. */

static void pack_left_matrix(const product *p, int64_t matrix, int64_t row, int64_t rows, int64_t k,
                             int64_t depth, uint32_t *to, int64_t *out) {
  const matmul_shape *m = p->m;
  const float *from = p->left + matrix * m->left_matrix_stride +
                      k / p->depth * m->left_block_stride + row * m->left_row_stride +
                      k % p->depth * m->left_depth_stride;
  int64_t pairs = (depth + 1) / 2;
  for (int64_t n = 0; p->by_rows && n < rows; n++) {
    uint16_t *packed = (uint16_t *)(to + n * STRIDE);
    round_run(from + n * m->left_row_stride, depth, packed);
    if (depth % 2) packed[depth] = 0;
  }
  for (int64_t d = 0; !p->by_rows && d < depth; d += 2, to += MR) {
    const float *first = from + d * m->left_depth_stride, *second = first + m->left_depth_stride;
    pack_pair_groups(first, d + 1 < depth ? second : 0, rows, to, GROUP(pairs));
  }
  for (int64_t n = 0; n < rows; n++) out[n] = (matrix * p->rows + row + n) * p->columns;
}

static void pack_right_matrix(const product *p, int64_t matrix, int64_t column, int64_t columns,
                              int64_t k, int64_t depth, uint32_t *to) {
  const matmul_shape *m = p->m;
  const float *from = p->right + matrix * m->right_matrix_stride +
                      k / p->depth * m->right_block_stride + column * m->right_column_stride +
                      k % p->depth * m->right_depth_stride;
  int64_t vector = (depth + 1) / 2 * LANES;
  if (m->right_column_stride == 1)
    pack_columns(from, m->right_depth_stride, columns, depth, to, vector);
  else pack_deep_columns(from, m->right_column_stride, columns, depth, to, vector);
}

void F(matmul_bf16)(const matmul_shape *m, const float *left, const float *right, float *y,
                    float *scratch) {
  product p = {.pack_left = pack_left_matrix,
               .pack_right = pack_right_matrix,
               .count = m->count,
               .rows = m->rows,
               .columns = m->columns,
               .blocks = m->blocks,
               .depth = m->depth,
               .by_rows = m->left_depth_stride == 1,
               .left = left,
               .right = right,
               .y = y,
               .scratch = scratch,
               .m = m};
  run_product(&p);
}

END_TARGET

#endif
