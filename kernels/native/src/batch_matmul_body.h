/* One instruction set's version of batch_matmul.c. */

#include "vectors.h"

#include "matmul_part.h"

/* A panel holds columns that are not contiguous or do not fill a vector, or, if all columns are
   contiguous, rows of `left` that lie side by side. Callers do not know which vectors are in use:
   with fewer than MAX_LANES columns a panel has memory for columns only. */
void F(matmul)(const matmul_shape *g, const float *left, const float *right, float *y,
               float *panel) {
  int columns = g->right_column_stride != 1 || g->columns < LANES,
      side = panel && !columns && g->left_row_stride == 1 && g->columns > LANES &&
             g->columns >= MAX_LANES;
  matmul_job c = {*g, left, right, y, columns || side ? panel : 0, side, 0};
  run_matmul(&c, F(matmul_part), LANES);
}
