/* A register tile: accumulators of m rows × n vectors in registers. m and n are compile-time
   constants where a tile is used, so that all of a tile's elements are in registers. */

#include "loops.h"

#define MAX_MR 16

/* Rows of a tile of one vector: more, unless engines of browsers would spill their operands. */
#ifdef __wasm__
#define WIDE_MR MR
#else
#define WIDE_MR (2 * MR)
#endif

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

/* sums[i][j] += a b: one step along the depth. `a` is the float of row i, an expression of i, and b
   the address of vector j, one of j. This is a macro so that `a` is broadcast directly from
   memory. */
#define TILE_ADD_PRODUCT(sums, m, n, a, b)                                    \
  do {                                                                        \
    F(vec) tile_b[MAX_MR];                                                    \
    UNROLL(j, n, tile_b[j] = F(load)(b));                                     \
    UNROLL(i, m, F(vec) tile_a = F(broadcast)(a);                             \
           UNROLL(j, n, sums[i][j] += tile_a * tile_b[j]; KEEP(sums[i][j]))); \
  } while (0)

/* Whether a multiply-add can take an operand from any element of a vector. Then the floats of
   several steps are loaded at once, since an in-order processor waits for loads. */
#ifdef __aarch64__
#define BY_ELEMENT 1
#else
#define BY_ELEMENT 0
#endif

/* sums[i][j] += Σ over k of x[i][k] b[k · depth_stride + at[j]]. */
INLINE void F(tile_add_products)(F(tile) sums, const float *const *x, int64_t depth, const float *b,
                                 int64_t depth_stride, const int64_t *at, int m, int n) {
  int64_t k = 0;
  if (BY_ELEMENT && m <= MR)
    for (; k + LANES <= depth; k += LANES) {
      F(vec) a[MAX_MR];
      UNROLL(i, m, a[i] = F(load)(x[i] + k));
      UNROLL(l, LANES, TILE_ADD_PRODUCT(sums, m, n, a[i][l % LANES], b + at[j]); b += depth_stride);
    }
  if (USES_BLOCKS) {
    const float *a[MAX_MR], *from[MAX_MR];
    UNROLL(i, m, a[i] = x[i]);
    UNROLL(j, n, from[j] = b + at[j]);
    FOUR_BLOCKS(u, depth, UNROLL(i, m, ADVANCE(a[i], 4)),
                TILE_ADD_PRODUCT(sums, m, n, a[i][u], from[j]);
                UNROLL(j, n, ADVANCE(from[j], depth_stride)));
    return;
  }
  for (; k < depth; k++, b += depth_stride) TILE_ADD_PRODUCT(sums, m, n, x[i][k], b + at[j]);
}

/* sums[i][j] += Σ over p of a[a_at[p] + i] b[p][at[j]]. */
INLINE void F(tile_add_outer_products)(F(tile) sums, const float *a, const int64_t *a_at,
                                       const float *const *b, const int64_t *at, int count, int m,
                                       int n) {
  int p = 0;
  if (BY_ELEMENT && m % LANES == 0)
    for (; p + 3 <= count; p += 3) {
      F(vec) u[3][MAX_MR], v[3][MAX_MR];
      UNROLL(q, 3, UNROLL(i, m / LANES, u[q][i] = F(load)(a + a_at[p + q] + i * LANES));
             UNROLL(j, n, v[q][j] = F(load)(b[p + q] + at[j])));
      UNROLL(q, 3, UNROLL(i, m, UNROLL(j, n, sums[i][j] += u[q][i / LANES][i % LANES] * v[q][j])));
    }
  if (USES_BLOCKS && m > 1) { /* a single row leaves registers without blocks */
    FOUR_BLOCKS(u, count, a_at += 4; b += 4, const float *from = a + a_at[u];
                TILE_ADD_PRODUCT(sums, m, n, from[i], b[u] + at[j]));
    return;
  }
  for (; p < count; p++) {
    const float *from = a + a_at[p];
    TILE_ADD_PRODUCT(sums, m, n, from[i], b[p] + at[j]);
  }
}
