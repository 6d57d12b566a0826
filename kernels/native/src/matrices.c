/* Products of small matrices, many of them: BATCH_MATMUL. */

#include "team.h"

#define PANELS 4 /* parts with room for a panel of their own, at most */
#define TALL 128 /* rows of a block: a multiple of every MR */

/* y[m] = left[m] right[m] for `count` matrices m of rows × depth and depth × columns. Strides in
   floats; those from matrix to matrix are 0 where one is for all. */
typedef struct {
  int64_t count, rows, depth, columns;
  int64_t left_matrix, left_row, left_step;
  int64_t right_matrix, right_step, right_column;
} matrices;

#define BODY "matrices_body.h"
#include "each_isa.h"
