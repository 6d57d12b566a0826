/* Vectors of LANES floats, at any address. */

typedef float F(vec) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t F(bits) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE F(vec) F(load)(const float *a) { return *(const F(vec) *)a; }
INLINE void F(store)(float *a, F(vec) v) { *(F(vec) *)a = v; }
INLINE F(vec) F(all)(float a) { return a - (F(vec)){0}; }
INLINE F(vec) F(where)(F(bits) mask, F(vec) v) { return (F(vec))(mask & (F(bits))v); }

/* NaN stays NaN, as in np.clip. */
INLINE F(vec) F(clamp)(F(vec) v, float lo, float hi) {
  F(bits) low = v < F(all)(lo), high = v > F(all)(hi);
  v = (F(vec))((low & (F(bits))F(all)(lo)) | (~low & (F(bits))v));
  return (F(vec))((high & (F(bits))F(all)(hi)) | (~high & (F(bits))v));
}

/* v where lo < a < hi. */
INLINE F(vec) F(gated)(F(vec) v, F(vec) a, float lo, float hi) {
  return F(where)((a > F(all)(lo)) & (a < F(all)(hi)), v);
}

/* Where vector j of a row begins: the last one ends with the row and may lie over the one before. */
INLINE int64_t F(start)(int64_t j, int64_t size) {
  return (j + 1) * LANES <= size ? j * LANES : size - LANES;
}
