/* A register tile: accumulators of m rows × n vectors in registers. m and n are compile-time
   constants where a tile is used, so that all of a tile's elements are in registers. */

#include "loops.h"

#define MAX_MR 16

typedef F(vec) F(tile)[MAX_MR][MAX_MR];

INLINE void F(tile_clear)(F(tile) sums, int m, int n) {
  UNROLL(i, m, UNROLL(j, n, sums[i][j] = (F(vec)){0}));
}

/* Loads row i from `from` + i·row_stride, its vector j at offset at[j]. */
INLINE void F(tile_load)(F(tile) sums, const float *from, int64_t row_stride, const int64_t *at,
                         int m, int n) {
  UNROLL(i, m, UNROLL(j, n, sums[i][j] = F(load)(from + i * row_stride + at[j])));
}

INLINE void F(tile_store)(F(tile) sums, float *to, int64_t row_stride, const int64_t *at, int m,
                          int n) {
  UNROLL(i, m, UNROLL(j, n, F(store)(to + i * row_stride + at[j], sums[i][j])));
}

/* clang would copy and spill accumulators where they fill all of AVX2's 16 registers together with
   the operands. An empty instruction that reads and writes one keeps it where it is. */
#undef KEEP
#if defined(__clang__) && LANES == 8
#define KEEP(v) __asm__("" : "+x"(v))
#else
#define KEEP(v) (void)0
#endif

/* sums[i][j] += a b[at[j]]: one step along the depth. `a` is the float of row i, an expression of
   i. This is a macro so that `a` is broadcast directly from memory. */
#define TILE_ADD_PRODUCT(sums, m, n, a, b, at)                                \
  do {                                                                        \
    F(vec) tile_b[MAX_MR];                                                    \
    UNROLL(j, n, tile_b[j] = F(load)((b) + (at)[j]));                         \
    UNROLL(i, m, F(vec) tile_a = F(broadcast)(a);                             \
           UNROLL(j, n, sums[i][j] += tile_a * tile_b[j]; KEEP(sums[i][j]))); \
  } while (0)
