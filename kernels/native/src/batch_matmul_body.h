/* One instruction set's version of batch_matmul.c. */

#include "vectors.h"

#include "tile.h"
#include "transpose_tile.h"

/* n vectors of columns of `right`: vector j begins at b + at[j] and continues in steps of
   `depth_stride`, blocks of the depth in steps of `block_stride`; in y it begins at column to[j].
   `lanes` of each vector are stored. */
typedef struct {
  const float *b;
  int64_t block_stride, depth_stride, at[MAX_NR], to[MAX_NR];
  int lanes;
} F(block_of_columns);

/* Computes the product of m rows and n vectors of columns. */
INLINE void F(matmul_tile)(const matmul_shape *g, const float *a, const F(block_of_columns) * c,
                           float *y, int m, int n) {
  F(tile) sums;
  const int64_t *at = c->at;
  F(tile_clear)(sums, m, n);
  for (int64_t q = 0; q < g->blocks; q++) {
    const float *left = a + q * g->left_block_stride, *b = c->b + q * c->block_stride;
    for (int64_t k = 0; k < g->depth; k++, left += g->left_depth_stride, b += c->depth_stride)
      TILE_ADD_PRODUCT(sums, m, n, left[i * g->left_row_stride], b, at);
  }
  if (c->lanes == LANES) F(tile_store)(sums, y, g->columns, c->to, m, n);
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

typedef struct {
  const matmul_shape *g;
  const float *left, *right;
  float *y, *panel;
} F(matmul_job);

/* One part: blocks of rows and columns. Blocks of the same columns follow each other, so that a
   panel is packed once. */
static void F(matmul_part)(void *job, int part, int parts) {
  const F(matmul_job) *c = job;
  const matmul_shape *g = c->g;
  int64_t vectors = (g->columns + LANES - 1) / LANES, across = (vectors + NR - 1) / NR;
  int64_t width = (vectors < NR ? vectors : NR) * LANES,
          down = (g->rows + ROW_BLOCK - 1) / ROW_BLOCK;
  int64_t all = g->count * across * down, end = chunk_begin(all, part + 1, parts), packed = -1;
  float *panel = c->panel ? c->panel + part * g->blocks * g->depth * width : 0;
  for (int64_t at = chunk_begin(all, part, parts); at < end; at++) {
    int64_t matrix = at / down / across, first = at / down % across * NR, r = at % down * ROW_BLOCK;
    int64_t last = r + ROW_BLOCK < g->rows ? r + ROW_BLOCK : g->rows;
    int n = vectors - first < NR ? (int)(vectors - first) : NR, tall = last - r >= MR;
    const float *left = c->left + matrix * g->left_matrix_stride;
    const float *right = c->right + matrix * g->right_matrix_stride;
    F(block_of_columns)
    b = {right, g->right_block_stride, g->right_depth_stride, {0}, {0}, LANES};
    if (g->columns < LANES) b.lanes = (int)g->columns;
    else
      for (int j = 0; j < n; j++) b.at[j] = b.to[j] = F(vector_start)(first + j, g->columns);
    if (panel) {
      b.b = panel, b.depth_stride = width, b.block_stride = g->depth * width;
      for (int j = 0; j < n; j++) {
        b.at[j] = j * LANES;
        for (int64_t q = 0; q < g->blocks && packed != at / down; q++)
          F(pack_columns)(g, right + q * g->right_block_stride + b.to[j] * g->right_column_stride,
                          panel + q * b.block_stride + b.at[j], width);
      }
      packed = at / down;
    }
    for (; r < last; r += tall ? MR : 1) {
      if (tall && last - r < MR) r = last - MR; /* computes some rows twice, to the same bits */
      const float *a = left + r * g->left_row_stride;
      float *y = c->y + (matrix * g->rows + r) * g->columns;
#define RUN(n) tall ? F(matmul_rows##n)(g, a, &b, y) : F(matmul_row##n)(g, a, &b, y)
      if (n == 1) RUN(1);
      else if (n == 2) RUN(2);
#if NR == 3
      else RUN(3);
#endif
#undef RUN
    }
  }
}

/* Columns are packed into the panel if they are not contiguous or do not fill a vector. */
void F(matmul)(const matmul_shape *g, const float *left, const float *right, float *y,
               float *panel) {
  F(matmul_job)
  c = {g, left, right, y, g->right_column_stride != 1 || g->columns < LANES ? panel : 0};
  int parts =
      parallel_parts(g->count * g->rows * g->blocks * g->depth * g->columns / LANES * PRODUCT);
  parallel_for(F(matmul_part), &c, c.panel && parts > PANEL_PARTS ? PANEL_PARTS : parts);
}
