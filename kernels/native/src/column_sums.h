/* Sums of the columns of a matrix, in the order of its rows. */

#include "loops.h"

INLINE void F(add_columns)(const float *rows, int64_t count, int64_t stride, float *sums, int n) {
  F(vec) acc[16];
  UNROLL(i, n, acc[i] = F(load)(sums + i * LANES));
  for (int64_t p = 0; p < count; p++, rows += stride) {
    UNROLL(i, n, acc[i] += F(load)(rows + i * LANES));
  }
  UNROLL(i, n, F(store)(sums + i * LANES, acc[i]));
}

/* sums[k] += Σ over rows of row[k], for k from `begin` to `end`. Several vectors at a time hide the
   latency of a sum. */
static void F(add_column_sums)(const float *rows, int64_t count, int64_t stride, int64_t begin,
                               int64_t end, float *sums) {
  int64_t k = begin;
  for (; k + 4 * LANES <= end; k += 4 * LANES) F(add_columns)(rows + k, count, stride, sums + k, 4);
  for (; k + LANES <= end; k += LANES) F(add_columns)(rows + k, count, stride, sums + k, 1);
  if (k == end) return;
  /* The rest, in vectors that reach into the next row, as far as there is one. */
  F(vec) acc = {0};
  int64_t p = 0, reach = (count - 1) * stride + end - k - LANES;
  memcpy(&acc, sums + k, sizeof(float) * (size_t)(end - k));
  for (; p * stride <= reach; p++) acc += F(load)(rows + p * stride + k);
  memcpy(sums + k, &acc, sizeof(float) * (size_t)(end - k));
  for (; p < count; p++)
    for (int64_t i = k; i < end; i++) sums[i] += rows[p * stride + i];
}
