/* Transposes a LANES × LANES block of four-byte elements in registers. Needs loops.h and
   vectors.h. */

/* Lanes of the vectors a and b (lines i and i + h of a block) in the new lines i and i + h. */
#define UPPER(l, h) ((l) & (h) ? LANES + (l) - (h) : (l))
#define LOWER(l, h) ((l) & (h) ? LANES + (l) : (l) + (h))
#define EXCHANGE(h)                                                           \
  UNROLL(                                                                     \
      i, LANES, if (!(i & (h))) {                                             \
        F(bits) a = v[i], b = v[i + (h)];                                     \
        v[i] = SHUFFLE(a, b, UPPER, h), v[i + (h)] = SHUFFLE(a, b, LOWER, h); \
      })

/* Interleaves lines i and i + LANES / 2 of a block, which become lines 2 i and 2 i + 1. Two rounds
   transpose a block of four lines, by shuffles that are single instructions everywhere. */
#define PAIRED(l, h) ((l) % 2 * LANES + (l) / 2 + (h))
#define INTERLEAVE(to, from)                                         \
  UNROLL(i, LANES / 2, F(bits) a = from[i], b = from[i + LANES / 2]; \
         to[2 * i] = SHUFFLE(a, b, PAIRED, 0), to[2 * i + 1] = SHUFFLE(a, b, PAIRED, LANES / 2))

/* Exchanges halves of the block, then quarters, and so on. Skips the first `known` lines of y. */
INLINE void F(transpose_tile)(const int32_t *x, int64_t x_stride, int32_t *y, int64_t y_line_stride,
                              int known) {
  F(bits) v[LANES];
  UNROLL(i, LANES, v[i] = *(const F(bits) *)(x + i * x_stride));
#if LANES >= 16
  EXCHANGE(8);
#endif
#if LANES >= 8
  EXCHANGE(4);
  EXCHANGE(2);
  EXCHANGE(1);
#else
  F(bits) half[LANES];
  INTERLEAVE(half, v);
  INTERLEAVE(v, half);
#endif
  UNROLL(i, LANES, if (i >= known) * (F(bits) *)(y + i * y_line_stride) = v[i]);
}

/* Packs LANES rows of x, each of `length` ≥ LANES floats, as columns: to[k][l] = x[l][k]. */
static inline void F(pack_rows)(const float *x, int64_t x_stride, int64_t length, float *to,
                                int64_t to_stride) {
  for (int64_t j = 0; j * LANES < length; j++) {
    int64_t k = F(vector_start)(j, length);
    F(transpose_tile)((const int32_t *)x + k, x_stride, (int32_t *)to + k * to_stride, to_stride,
                      0);
  }
}

#undef UPPER
#undef LOWER
#undef EXCHANGE
#undef PAIRED
#undef INTERLEAVE
