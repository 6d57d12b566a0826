/* Vectors of LANES floats, at any address. */

typedef float F(vec) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t F(bits) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE F(vec) F(load)(const float *a) { return *(const F(vec) *)a; }
INLINE void F(store)(float *a, F(vec) v) { *(F(vec) *)a = v; }
INLINE F(vec) F(broadcast)(float a) { return a - (F(vec)){0}; }
INLINE F(vec) F(masked)(F(bits) mask, F(vec) v) { return (F(vec))(mask & (F(bits))v); }

/* NaN stays NaN, as in np.clip. */
INLINE F(vec) F(clamp)(F(vec) v, float lo, float hi) {
  F(bits) low = v<F(broadcast)(lo), high = v> F(broadcast)(hi);
  v = (F(vec))((low & (F(bits))F(broadcast)(lo)) | (~low & (F(bits))v));
  return (F(vec))((high & (F(bits))F(broadcast)(hi)) | (~high & (F(bits))v));
}

/* v where lo < a < hi, else 0. */
INLINE F(vec) F(relu_masked)(F(vec) v, F(vec) a, float lo, float hi) {
  return F(masked)((a > F(broadcast)(lo)) & (a < F(broadcast)(hi)), v);
}

/* The sum of a vector's elements, computed pairwise. */
INLINE float F(reduce_add)(F(vec) v) {
#ifdef __clang__
  float sum = 0;
  for (int l = 0; l < LANES; l++) sum += v[l];
  return sum;
#else
#pragma GCC unroll 4
  for (int half = LANES / 2; half; half /= 2) {
    F(bits) other;
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) other[l] = l ^ half;
    v += __builtin_shuffle(v, other);
  }
  return v[0];
#endif
}

/* Returns the first element of vector j of a row. The last vector ends with the row and may overlap
   the one before. */
INLINE int64_t F(vector_start)(int64_t j, int64_t size) {
  return (j + 1) * LANES <= size ? j * LANES : size - LANES;
}
