/* Products of small matrices, many of them: BATCH_MATMUL. */

#include "team.h"

#define PANEL_PARTS 4 /* parts with room for a panel of their own, at most */
#define ROW_BLOCK 128 /* rows of a block: a multiple of every MR */

/* y[m] = left[m] right[m] for `count` matrices m of rows × depth and depth × columns. Strides in
   floats; those from matrix to matrix are 0 where one is for all. */
typedef struct {
  int64_t count, rows, depth, columns;
  int64_t left_matrix_stride, left_row_stride, left_depth_stride;
  int64_t right_matrix_stride, right_depth_stride, right_column_stride;
} matmul_shape;

#define BODY "batch_matmul_body.h"
#include "each_isa.h"
