/* The end of a convolution of a tile: what is computed in registers before a result is stored. */

/* Computations applied to a result before it is stored. */
typedef struct {
  const float *bias, *relu_mask; /* or the values that are added */
  int clamp;                     /* 0, 1 or ADDS */
  float lo, hi;
} F(epilogue);

/* Stores the results of m pixels and n vectors of units. */
INLINE void F(store_results)(F(tile) sums, float *y, const int64_t *out, const int64_t *unit,
                             const F(epilogue) * source, int m, int n) {
  F(epilogue) e = *source; /* a copy, which stores to y cannot change */
  if (e.bias)
    UNROLL(j, n, F(vec) bias = F(load)(e.bias + unit[j]); UNROLL(i, m, sums[i][j] += bias));
  if (HAS_SUMS && e.clamp == ADDS) {
    UNROLL(i, m, const float *addend = e.relu_mask + out[i];
           UNROLL(j, n, sums[i][j] += F(load)(addend + unit[j])));
    e.relu_mask = 0;
  } else if (e.clamp) UNROLL(i, m, UNROLL(j, n, sums[i][j] = F(clamp)(sums[i][j], e.lo, e.hi)));
  if (e.relu_mask)
    UNROLL(i, m, const float *mask = e.relu_mask + out[i]; UNROLL(
               j, n, sums[i][j] = F(relu_masked)(sums[i][j], F(load)(mask + unit[j]), e.lo, e.hi)));
  UNROLL(i, m, float *to = y + out[i]; UNROLL(j, n, F(store)(to + unit[j], sums[i][j])));
}
