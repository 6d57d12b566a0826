/* One part of a product: some blocks of rows and columns. Needs vectors.h. */

#include "tile.h"
#include "transpose_tile.h"

/* n vectors of columns of `right`: vector j begins at b + at[j] and continues in steps of
   `depth_stride`, blocks of the depth in steps of `block_stride`; in y it begins at column to[j].
   `lanes` of each vector are stored, or all are added to y. */
typedef struct {
  const float *b;
  int64_t block_stride, depth_stride, at[MAX_NR], to[MAX_NR];
  int lanes, adds;
} F(block_of_columns);

/* Computes the product of m rows and n vectors of columns. */
INLINE void F(matmul_tile)(const matmul_shape *g, const float *a, const F(block_of_columns) * c,
                           float *y, int m, int n) {
  F(tile) sums;
  const int64_t *at = c->at;
  if (c->adds) F(tile_load)(sums, y, g->columns, c->to, m, n);
  else F(tile_clear)(sums, m, n);
  for (int64_t q = 0; q < g->blocks; q++) {
    const float *left = a + q * g->left_block_stride, *b = c->b + q * c->block_stride;
    for (int64_t k = 0; k < g->depth; k++, left += g->left_depth_stride, b += c->depth_stride)
      TILE_ADD_PRODUCT(sums, m, n, left[i * g->left_row_stride], b + at[j]);
  }
  if (n > 1 || c->lanes == LANES) F(tile_store)(sums, y, g->columns, c->to, m, n);
  else { /* one vector */ float part[MAX_MR][LANES];
    UNROLL(i, m, F(store)(part[i], sums[i][0]));
    for (int i = 0; i < m; i++)
      for (int l = 0; l < c->lanes; l++) y[i * g->columns + l] = part[i][l];
  }
}

#define MATMUL_TILE(name, m, n)                                                               \
  static __attribute__((noinline)) void F(name##n)(const matmul_shape *g, const float *a,     \
                                                   const F(block_of_columns) * c, float *y) { \
    F(matmul_tile)(g, a, c, y, m, n);                                                         \
  }
MATMUL_TILE(matmul_rows, MR, 1)
MATMUL_TILE(matmul_rows, MR, 2)
MATMUL_TILE(matmul_row, 1, 1)
MATMUL_TILE(matmul_row, 1, 2)
#if NR == 3
MATMUL_TILE(matmul_rows, MR, 3)
MATMUL_TILE(matmul_row, 1, 3)
#endif
#undef MATMUL_TILE

/* Packs LANES columns of `right` as rows of LANES values, padded with zeros. */
static void F(pack_columns)(const matmul_shape *g, const float *right, float *panel,
                            int64_t depth_stride) {
  int64_t lanes = g->columns < LANES ? g->columns : LANES;
  if (lanes == LANES && g->depth >= LANES) {
    F(pack_rows)(right, g->right_column_stride, g->depth, panel, depth_stride);
    return;
  }
  for (int64_t k = 0; k < g->depth; k++)
    for (int64_t l = 0; l < LANES; l++)
      panel[k * depth_stride + l] =
          l < lanes ? right[k * g->right_depth_stride + l * g->right_column_stride] : 0;
}

/* Packs rows of `left` that lie side by side, ROW_BLOCK for each value of the depth. Otherwise a
   product would read a few values from each of many pages. */
static void F(pack_side)(const matmul_shape *g, const float *left, int64_t rows, float *panel) {
  for (int64_t q = 0; q < g->blocks; q++)
    for (int64_t k = 0; k < g->depth; k++, panel += ROW_BLOCK) {
      const float *from = left + q * g->left_block_stride + k * g->left_depth_stride;
      memcpy(panel, from, sizeof(float) * (size_t)rows);
    }
}

/* One part: blocks of rows and columns. Blocks that use the same panel follow each other, so that
   it is packed once; `packed` is the number of the panel that is packed. */
static void F(matmul_part)(void *job, int part, int parts) {
  const matmul_job *c = job;
  const matmul_shape *g = &c->g;
  int64_t vectors = (g->columns + LANES - 1) / LANES, across = (vectors + NR - 1) / NR;
  int64_t width = c->side ? ROW_BLOCK : (vectors < NR ? vectors : NR) * LANES,
          down = (g->rows + ROW_BLOCK - 1) / ROW_BLOCK, run = c->side ? across : down;
  int64_t all = g->count * across * down, end = chunk_begin(all, part + 1, parts), packed = -1;
  float *panel = c->panel ? c->panel + part * g->blocks * g->depth * width : 0;
  matmul_shape with_panel = *g;
  if (c->side)
    with_panel.left_block_stride = g->depth * width, with_panel.left_depth_stride = width;
  for (int64_t at = chunk_begin(all, part, parts); at < end; at++) {
    int64_t matrix = at / down / across, group = c->side ? at % across : at / down % across,
            first = vectors * group / across, n = vectors * (group + 1) / across - first;
    int64_t begin = (c->side ? at / across % down : at % down) * ROW_BLOCK,
            last = begin + ROW_BLOCK < g->rows ? begin + ROW_BLOCK : g->rows;
    int tall = last - begin >= MR;
    const float *left = c->left + matrix * g->left_matrix_stride + begin * g->left_row_stride;
    const float *right = c->right + matrix * g->right_matrix_stride;
    F(block_of_columns)
    b = {right, g->right_block_stride, g->right_depth_stride, {0}, {0}, LANES, c->adds};
    if (g->columns < LANES) b.lanes = (int)g->columns;
    else
      for (int j = 0; j < n; j++) b.at[j] = b.to[j] = F(vector_start)(first + j, g->columns);
    if (c->side) {
      if (packed != at / run) F(pack_side)(g, left, last - begin, panel);
      left = panel;
    } else if (panel) {
      b.b = panel, b.depth_stride = width, b.block_stride = g->depth * width;
      for (int j = 0; j < n; j++) {
        b.at[j] = j * LANES;
        for (int64_t q = 0; q < g->blocks && packed != at / run; q++)
          F(pack_columns)(g, right + q * g->right_block_stride + b.to[j] * g->right_column_stride,
                          panel + q * b.block_stride + b.at[j], width);
      }
    }
    packed = at / run;
    for (int64_t r = begin; r < last; r += tall ? MR : 1) {
      if (tall && last - r < MR) {
        if (c->adds) tall = 0;
        else r = last - MR; /* computes some rows twice, to the same bits */
      }
      const float *a = left + (r - begin) * g->left_row_stride;
      float *y = c->y + (matrix * g->rows + r) * g->columns;
#define RUN(n) \
  tall ? F(matmul_rows##n)(&with_panel, a, &b, y) : F(matmul_row##n)(&with_panel, a, &b, y)
      if (n == 1) RUN(1);
      else if (n == 2) RUN(2);
#if NR == 3
      else RUN(3);
#endif
#undef RUN
    }
  }
}
