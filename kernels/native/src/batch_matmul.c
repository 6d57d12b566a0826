/* BATCH_MATMUL: products of many small matrices. */

#include <string.h>

#include "loops.h"
#include "matmul_job.h"
#include "team.h"

/* Computes a product range by range of the depth, so that what a block of rows reads stays in the
   cache. A product of less than a vector of columns is one range. */
static void run_matmul(const matmul_job *full, part_function f, int64_t lanes) {
  const matmul_shape *g = &full->g;
  int64_t depth = g->depth, blocks = 1;
  if (g->columns < lanes) blocks = g->blocks;
  else if (depth < DEPTH_BLOCK) blocks = DEPTH_BLOCK / (depth + 1) + 1;
  else depth = DEPTH_BLOCK;
  for (int64_t q = 0; q < g->blocks; q += blocks) {
    int64_t k = 0;
    do { /* once without a depth, which gives zeros */
      matmul_job range = *full;
      range.g.blocks = g->blocks - q < blocks ? g->blocks - q : blocks;
      range.g.depth = g->depth - k < depth ? g->depth - k : depth;
      range.left += q * g->left_block_stride + k * g->left_depth_stride;
      range.right += q * g->right_block_stride + k * g->right_depth_stride;
      range.adds = q + k > 0;
      int64_t products = g->count * g->rows * range.g.blocks * range.g.depth * g->columns;
      int parts = parallel_parts(products / lanes * PRODUCT);
      parallel_for(f, &range, range.panel && parts > PANEL_PARTS ? PANEL_PARTS : parts);
      k += depth;
    } while (k < g->depth);
  }
}

#define BODY "batch_matmul_body.h"
#include "each_isa.h"
