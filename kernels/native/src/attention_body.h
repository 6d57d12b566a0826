/* One instruction set's version of attention.c. */

#include "exponential.h"
#include "row_reductions.h"

#include "matmul_part.h"

typedef struct {
  const float *q, *k, *v, *mask, *dy;
  float *y, *stats, *dq, *dk, *dv, *sums, *scratch;
  int64_t count, rows, queries, keys, depth, width, splits;
  float beta, hidden;
} F(attention_job);

/* y = left right, or y += left right, for rows of `right` and y without gaps in the columns. If the
   columns of `left` are contiguous, `panel` holds ROW_BLOCK of them for each value of the depth. */
static void F(block_product)(const float *left, int64_t row_stride, int64_t depth_stride,
                             const float *right, int64_t right_stride, float *y, int64_t rows,
                             int64_t depth, int64_t columns, float *panel, int adds) {
  for (int64_t k = 0; k < depth; k += DEPTH_BLOCK) {
    matmul_shape g = {1,
                      rows,
                      1,
                      depth - k < DEPTH_BLOCK ? depth - k : DEPTH_BLOCK,
                      columns,
                      0,
                      row_stride,
                      0,
                      depth_stride,
                      0,
                      0,
                      right_stride,
                      1};
    matmul_job c = {
        g, left + k * depth_stride, right + k * right_stride, y, panel, panel != 0, adds || k > 0};
    F(matmul_part)(&c, 0, 1);
  }
}

/* Transposes x (keys × depth) into a matrix with gaps. */
static void F(transpose_keys)(const float *x, int64_t keys, int64_t depth, float *to) {
  for (int64_t j = 0; j * LANES < keys; j++) {
    int64_t at = F(vector_start)(j, keys);
    F(pack_rows)(x + at * depth, depth, depth, to + at, keys + MAX_LANES);
  }
}

/* The number of keys up to the last one that a row sees; all keys if it sees none. */
static inline int64_t F(keys_seen)(const float *mask, int64_t keys, float hidden) {
  int64_t end = keys;
  for (; end >= LANES; end -= LANES) {
    F(bits) seen = F(load)(mask + end - LANES) > hidden;
    int any = 0;
    for (int l = 0; l < LANES; l++) any |= seen[l];
    if (any) break;
  }
  while (end && !(mask[end - 1] > hidden)) end--;
  return end ? end : keys;
}

/* Lists the keys that each of some rows sees; returns the most, and at least a vector. */
static int64_t F(list_seen)(const F(attention_job) * c, int64_t first, int64_t rows,
                            int64_t *seen) {
  int64_t most = MAX_LANES;
  for (int64_t i = 0; i < rows; i++) {
    const float *mask = c->mask + (first + i) % c->queries * c->keys;
    seen[i] = F(keys_seen)(mask, c->keys, c->hidden);
    if (seen[i] > most) most = seen[i];
  }
  return most;
}

/* s becomes β (s + mask) for the keys that a row sees. */
INLINE void F(add_mask)(const F(attention_job) * c, float *s, int64_t row, int64_t seen) {
  const float *mask = c->mask + row % c->queries * c->keys;
  float beta = c->beta;
  IVDEP
  for (int64_t k = 0; k < seen; k++) s[k] = (s[k] + mask[k]) * beta;
}

/* s becomes exp(s − max) factor for the keys that a row sees, and 0 for those up to `end`. */
INLINE void F(exponentials)(float *s, float max, float factor, int64_t seen, int64_t end) {
  IVDEP
  for (int64_t k = 0; k < seen; k++) s[k] = F(exp_nonpositive)(s[k] - max) * factor;
  memset(s + seen, 0, sizeof(float) * (size_t)(end - seen));
}

/* One part: some blocks of rows. */
static void F(attention_part)(void *job, int part, int parts) {
  const F(attention_job) *c = job;
  int64_t blocks = (c->rows + ATTENTION_ROWS - 1) / ATTENTION_ROWS, all = c->count * blocks,
          seen[ATTENTION_ROWS], packed = -1;
  float *s = c->scratch + part * (GAPPED(c->depth, c->keys) + ATTENTION_ROWS * c->keys),
        *columns = s + ATTENTION_ROWS * c->keys;
  for (int64_t at = chunk_begin(all, part, parts); at < chunk_begin(all, part + 1, parts); at++) {
    int64_t m = at / blocks, first = at % blocks * ATTENTION_ROWS,
            rows = c->rows - first < ATTENTION_ROWS ? c->rows - first : ATTENTION_ROWS,
            row = m * c->rows + first, end = F(list_seen)(c, first, rows, seen);
    if (packed != m) F(transpose_keys)(c->k + m * c->keys * c->depth, c->keys, c->depth, columns);
    packed = m;
    F(block_product)(c->q + row * c->depth, c->depth, 1, columns, c->keys + MAX_LANES, s, rows,
                     c->depth, end, 0, 0);
    for (int64_t i = 0; i < rows; i++) {
      float *scores = s + i * end, *stats = c->stats + (row + i) * 2;
      F(add_mask)(c, scores, first + i, seen[i]);
      stats[0] = F(row_max)(scores, seen[i]);
      F(exponentials)(scores, stats[0], 1, seen[i], end);
      stats[1] = 1 / F(row_sum)(scores, seen[i]);
    }
    float *y = c->y + row * c->width;
    F(block_product)(s, end, 1, c->v + m * c->keys * c->width, c->width, y, rows, end, c->width, 0,
                     0);
    for (int64_t i = 0; i < rows; i++, y += c->width) {
      float factor = c->stats[(row + i) * 2 + 1];
      IVDEP
      for (int64_t k = 0; k < c->width; k++) y[k] *= factor;
    }
  }
}

/* y = softmax(β (q kᵀ + mask)) v, matrix by matrix. stats: the largest score of each row, times β,
   and 1 / Σ exp. scratch: of each part, the scores of a block of rows, and kᵀ. */
void F(attention)(const float *q, const float *k, const float *v, const float *mask, float *y,
                  float *stats, float *scratch, int64_t count, int64_t rows, int64_t queries,
                  int64_t keys, int64_t depth, int64_t width, float beta, float hidden) {
  F(attention_job) c = {0};
  c.q = q, c.k = k, c.v = v, c.mask = mask, c.y = y, c.stats = stats, c.scratch = scratch;
  c.count = count, c.rows = rows, c.queries = queries, c.keys = keys, c.depth = depth;
  c.width = width, c.beta = beta, c.hidden = hidden;
  int parts = parallel_parts(count * rows * keys * (depth + width) / LANES * PRODUCT);
  parallel_for(F(attention_part), &c, parts > PANEL_PARTS ? PANEL_PARTS : parts);
}

/* One part: some splits, each a run of the blocks of rows of a matrix, with sums of its own. */
static void F(attention_back_part)(void *job, int part, int parts) {
  const F(attention_job) *c = job;
  int64_t blocks = (c->rows + ATTENTION_ROWS - 1) / ATTENTION_ROWS, all = c->count * c->splits,
          of_k = c->keys * c->depth, of_v = c->keys * c->width, seen[ATTENTION_ROWS], packed = -1,
          each = GAPPED(c->depth + c->width, c->keys) + ATTENTION_ROWS * (2 * c->keys + ROW_BLOCK);
  float *p = c->scratch + part * each, *ds = p + ATTENTION_ROWS * c->keys,
        *panel = ds + ATTENTION_ROWS * c->keys, *k_columns = panel + ATTENTION_ROWS * ROW_BLOCK,
        *v_columns = k_columns + GAPPED(c->depth, c->keys);
  for (int64_t at = chunk_begin(all, part, parts); at < chunk_begin(all, part + 1, parts); at++) {
    int64_t m = at / c->splits, split = at % c->splits;
    const float *k = c->k + m * of_k, *v = c->v + m * of_v;
    float *sums = c->sums + (m * (c->splits - 1) + split - 1) * (of_k + of_v),
          *dk = split ? sums : c->dk + m * of_k, *dv = split ? sums + of_k : c->dv + m * of_v;
    memset(dk, 0, sizeof(float) * (size_t)of_k);
    memset(dv, 0, sizeof(float) * (size_t)of_v);
    if (packed != m) {
      F(transpose_keys)(k, c->keys, c->depth, k_columns);
      F(transpose_keys)(v, c->keys, c->width, v_columns);
    }
    packed = m;
    for (int64_t b = blocks * split / c->splits; b < blocks * (split + 1) / c->splits; b++) {
      int64_t first = b * ATTENTION_ROWS,
              rows = c->rows - first < ATTENTION_ROWS ? c->rows - first : ATTENTION_ROWS,
              row = m * c->rows + first, end = F(list_seen)(c, first, rows, seen),
              stride = c->keys + MAX_LANES;
      const float *q = c->q + row * c->depth, *dy = c->dy + row * c->width;
      F(block_product)(q, c->depth, 1, k_columns, stride, p, rows, c->depth, end, 0, 0);
      F(block_product)(dy, c->width, 1, v_columns, stride, ds, rows, c->width, end, 0, 0);
      for (int64_t i = 0; i < rows; i++) {
        float *of_row = p + i * end, *dp = ds + i * end;
        const float *stats = c->stats + (row + i) * 2;
        F(add_mask)(c, of_row, first + i, seen[i]);
        F(exponentials)(of_row, stats[0], stats[1], seen[i], end);
        float dot = F(row_dot)(of_row, dp, seen[i]), beta = c->beta;
        IVDEP
        for (int64_t j = 0; j < seen[i]; j++) dp[j] = beta * of_row[j] * (dp[j] - dot);
        memset(dp + seen[i], 0, sizeof(float) * (size_t)(end - seen[i]));
      }
      F(block_product)(p, 1, end, dy, c->width, dv, end, rows, c->width, panel, 1);
      F(block_product)(ds, 1, end, q, c->depth, dk, end, rows, c->depth, panel, 1);
      F(block_product)(ds, end, 1, k, c->depth, c->dq + row * c->depth, rows, end, c->depth, 0, 0);
    }
  }
}

/* Gradients of `attention` by q, k and v; its scores are computed again. The rows of a matrix are
   split, so that threads can divide them: sums (count, splits − 1, keys, depth and width) are of
   all splits but the first, whose sums are in dk and dv. scratch: of each part, two blocks of
   scores, a panel, kᵀ and vᵀ. */
void F(attention_back)(const float *q, const float *k, const float *v, const float *mask,
                       const float *stats, const float *dy, float *dq, float *dk, float *dv,
                       float *sums, float *scratch, int64_t count, int64_t rows, int64_t queries,
                       int64_t keys, int64_t depth, int64_t width, int64_t splits, float beta,
                       float hidden) {
  F(attention_job) c = {0};
  c.q = q, c.k = k, c.v = v, c.mask = mask, c.stats = (float *)stats, c.dy = dy, c.dq = dq;
  c.dk = dk, c.dv = dv, c.sums = sums, c.scratch = scratch, c.count = count, c.rows = rows;
  c.queries = queries, c.keys = keys, c.depth = depth, c.width = width, c.splits = splits;
  c.beta = beta, c.hidden = hidden;
  int parts = parallel_parts(count * rows * keys * (depth + width) / LANES * PRODUCT * 2);
  parallel_for(F(attention_back_part), &c, parts > PANEL_PARTS ? PANEL_PARTS : parts);
  int64_t of_k = keys * depth, of_v = keys * width;
  for (int64_t m = 0; m < count; m++)
    for (int64_t split = 1; split < splits; split++, sums += of_k + of_v) {
      float *to_k = dk + m * of_k, *to_v = dv + m * of_v;
      IVDEP
      for (int64_t i = 0; i < of_k; i++) to_k[i] += sums[i];
      IVDEP
      for (int64_t i = 0; i < of_v; i++) to_v[i] += sums[of_k + i];
    }
}
