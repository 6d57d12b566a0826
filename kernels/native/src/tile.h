/* A register tile: accumulators of m rows × n vectors in registers. m and n are compile-time
   constants where a tile is used, so that every loop here is unrolled. */

typedef F(vec) F(tile)[2 * MR][NR];

INLINE void F(tile_clear)(F(tile) sums, int m, int n) {
#pragma GCC unroll 16
  for (int i = 0; i < m; i++)
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) sums[i][j] = (F(vec)){0};
}

/* Loads row i from `from` + i·row_stride, its vector j at offset at[j]. */
INLINE void F(tile_load)(F(tile) sums, const float *from, int64_t row_stride, const int64_t *at,
                         int m, int n) {
#pragma GCC unroll 16
  for (int i = 0; i < m; i++)
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) sums[i][j] = F(load)(from + i * row_stride + at[j]);
}

INLINE void F(tile_store)(F(tile) sums, float *to, int64_t row_stride, const int64_t *at, int m,
                          int n) {
#pragma GCC unroll 16
  for (int i = 0; i < m; i++)
#pragma GCC unroll 4
    for (int j = 0; j < n; j++) F(store)(to + i * row_stride + at[j], sums[i][j]);
}

/* sums[i][j] += a b[at[j]]: one step along the depth. `a` is the float of row i, an expression of
   i. This is a macro so that `a` is broadcast directly from memory. */
#define TILE_ADD_PRODUCT(sums, m, n, a, b, at)                                                \
  do {                                                                                        \
    F(vec) tile_b[NR];                                                                        \
    _Pragma("GCC unroll 4") for (int j = 0; j < (n); j++) tile_b[j] = F(load)((b) + (at)[j]); \
    _Pragma("GCC unroll 16") for (int i = 0; i < (m); i++) {                                  \
      F(vec) tile_a = F(broadcast)(a);                                                        \
      _Pragma("GCC unroll 4") for (int j = 0; j < (n); j++) sums[i][j] += tile_a * tile_b[j]; \
    }                                                                                         \
  } while (0)
