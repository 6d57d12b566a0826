/* One instruction set's version of matrices.c. */

#include "turn.h"

/* Where n vectors of columns of `right` are: at[j] floats beyond b, in steps of `step`. In y they
   are to[j] columns to the right; `lanes` of each are stored. */
typedef struct {
  const float *b;
  int64_t step, at[NR], to[NR];
  int lanes;
} F(block_of_columns);

/* m rows times n vectors of columns, in registers. */
INLINE void F(rows_by_columns)(const matrices *g, const float *a, const F(block_of_columns) * c,
                               float *y, int m, int n) {
  F(vec) acc[MR][NR];
  const float *b = c->b;
#pragma GCC unroll 8
  for (int i = 0; i < m; i++)
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) acc[i][j] = (F(vec)){0};
  for (int64_t k = 0; k < g->depth; k++, a += g->left_step, b += c->step) {
    F(vec) v[NR];
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) v[j] = F(load)(b + c->at[j]);
#pragma GCC unroll 8
    for (int i = 0; i < m; i++) {
      F(vec) x = F(all)(a[i * g->left_row]);
#pragma GCC unroll 4
      for (int j = 0; j < n; j++) acc[i][j] += x * v[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < m; i++)
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) {
      float *to = y + i * g->columns + c->to[j], part[LANES];
      if (c->lanes == LANES) F(store)(to, acc[i][j]);
      else {
        F(store)(part, acc[i][j]);
        for (int l = 0; l < c->lanes; l++) to[l] = part[l];
      }
    }
}

#define ROWS_BY_COLUMNS(name, m, n)                                                                \
  static __attribute__((noinline)) void F(name##n)(                                                \
      const matrices *g, const float *a, const F(block_of_columns) * c, float *y) {                \
    F(rows_by_columns)(g, a, c, y, m, n);                                                          \
  }
ROWS_BY_COLUMNS(rows_by, MR, 1)
ROWS_BY_COLUMNS(rows_by, MR, 2)
ROWS_BY_COLUMNS(row_by, 1, 1)
ROWS_BY_COLUMNS(row_by, 1, 2)
#if NR == 3
ROWS_BY_COLUMNS(rows_by, MR, 3)
ROWS_BY_COLUMNS(row_by, 1, 3)
#endif
#undef ROWS_BY_COLUMNS

/* LANES columns of `right` side by side, for all its depth; what is beyond the last is 0. */
static void F(pack_columns)(const matrices *g, const float *right, float *panel, int64_t step) {
  int64_t lanes = g->columns < LANES ? g->columns : LANES;
  if (lanes == LANES && g->depth >= LANES) {
    for (int64_t j = 0; j * LANES < g->depth; j++) {
      int64_t k = F(start)(j, g->depth);
      F(turn)((const int32_t *)right + k, g->right_column, (int32_t *)panel + k * step, step, 0);
    }
    return;
  }
  for (int64_t k = 0; k < g->depth; k++)
    for (int64_t l = 0; l < LANES; l++)
      panel[k * step + l] = l < lanes ? right[k * g->right_step + l * g->right_column] : 0;
}

typedef struct {
  const matrices *g;
  const float *left, *right;
  float *y, *panel;
} F(multiplying);

/* Some blocks of rows and columns of some matrices; those of the same columns follow each other. */
static void F(multiply_part)(void *job, int part, int parts) {
  const F(multiplying) *c = job;
  const matrices *g = c->g;
  int64_t vectors = (g->columns + LANES - 1) / LANES, across = (vectors + NR - 1) / NR;
  int64_t width = (vectors < NR ? vectors : NR) * LANES, down = (g->rows + TALL - 1) / TALL;
  int64_t all = g->count * across * down, end = cut(all, part + 1, parts), packed = -1;
  float *panel = c->panel ? c->panel + part * g->depth * width : 0;
  for (int64_t at = cut(all, part, parts); at < end; at++) {
    int64_t matrix = at / down / across, first = at / down % across * NR, r = at % down * TALL;
    int64_t last = r + TALL < g->rows ? r + TALL : g->rows;
    int n = vectors - first < NR ? (int)(vectors - first) : NR, tall = last - r >= MR;
    const float *left = c->left + matrix * g->left_matrix;
    const float *right = c->right + matrix * g->right_matrix;
    F(block_of_columns) b = {right, g->right_step, {0}, {0}, LANES};
    if (g->columns < LANES) b.lanes = (int)g->columns;
    else
      for (int j = 0; j < n; j++) b.at[j] = b.to[j] = F(start)(first + j, g->columns);
    if (panel) {
      b.b = panel, b.step = width;
      for (int j = 0; j < n; j++) {
        b.at[j] = j * LANES;
        if (packed != at / down)
          F(pack_columns)(g, right + b.to[j] * g->right_column, panel + b.at[j], width);
      }
      packed = at / down;
    }
    for (; r < last; r += tall ? MR : 1) {
      if (tall && last - r < MR) r = last - MR; /* some once more, to the same */
      const float *a = left + r * g->left_row;
      float *y = c->y + (matrix * g->rows + r) * g->columns;
#define RUN(n) tall ? F(rows_by##n)(g, a, &b, y) : F(row_by##n)(g, a, &b, y)
      if (n == 1) RUN(1);
      else if (n == 2) RUN(2);
#if NR == 3
      else RUN(3);
#endif
#undef RUN
    }
  }
}

/* panel: room for PANELS blocks of columns, where they do not lie side by side or are few. */
void F(multiply)(const matrices *g, const float *left, const float *right, float *y, float *panel) {
  F(multiplying) c = {g, left, right, y, g->right_column != 1 || g->columns < LANES ? panel : 0};
  int parts = parts_of(g->count * g->rows * g->depth * g->columns / LANES);
  share(F(multiply_part), &c, c.panel && parts > PANELS ? PANELS : parts);
}
