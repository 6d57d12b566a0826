/* Vectors of LANES floats, at any address. */

typedef float F(vec) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t F(bits) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

INLINE F(vec) F(load)(const float *a) { return *(const F(vec) *)a; }
INLINE void F(store)(float *a, F(vec) v) { *(F(vec) *)a = v; }
INLINE F(vec) F(broadcast)(float a) { return a - (F(vec)){0}; }
INLINE F(vec) F(masked)(F(bits) mask, F(vec) v) { return (F(vec))(mask & (F(bits))v); }

/* a where the mask is set, else b. */
INLINE F(vec) F(selected)(F(bits) mask, F(vec) a, F(vec) b) {
  return (F(vec))((mask & (F(bits))a) | (~mask & (F(bits))b));
}

/* The smaller and the larger one; b if one is NaN. */
INLINE F(vec) F(least)(F(vec) a, F(vec) b) {
#if defined(__x86_64__) && LANES == 16
  return (F(vec))_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__x86_64__) && LANES == 8
  return (F(vec))_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
  return (F(vec))_mm_min_ps((__m128)a, (__m128)b);
#else
  return F(selected)(a < b, a, b);
#endif
}

INLINE F(vec) F(most)(F(vec) a, F(vec) b) {
#if defined(__x86_64__) && LANES == 16
  return (F(vec))_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__x86_64__) && LANES == 8
  return (F(vec))_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
  return (F(vec))_mm_max_ps((__m128)a, (__m128)b);
#else
  return F(selected)(a > b, a, b);
#endif
}

/* NaN stays NaN, as in np.clip. The instructions return their second operand for it. */
INLINE F(vec) F(clamp)(F(vec) v, float lo, float hi) {
#if defined(__x86_64__) && LANES == 16
  return (F(vec))_mm512_min_ps((__m512)F(broadcast)(hi),
                               _mm512_max_ps((__m512)F(broadcast)(lo), (__m512)v));
#elif defined(__x86_64__) && LANES == 8
  return (F(vec))_mm256_min_ps((__m256)F(broadcast)(hi),
                               _mm256_max_ps((__m256)F(broadcast)(lo), (__m256)v));
#elif defined(__wasm_simd128__)
  return __builtin_wasm_pmin_f32x4(__builtin_wasm_pmax_f32x4(v, F(broadcast)(lo)),
                                   F(broadcast)(hi));
#elif defined(__x86_64__)
  return (F(vec))_mm_min_ps((__m128)F(broadcast)(hi),
                            _mm_max_ps((__m128)F(broadcast)(lo), (__m128)v));
#else
  F(vec) least = F(broadcast)(lo), most = F(broadcast)(hi);
  return F(selected)(v > most, most, F(selected)(v < least, least, v));
#endif
}

/* v where lo < a < hi, else 0. */
INLINE F(vec) F(relu_masked)(F(vec) v, F(vec) a, float lo, float hi) {
  return F(masked)((a > F(broadcast)(lo)) & (a < F(broadcast)(hi)), v);
}

/* SHUFFLE(a, b, m, h): lane l is lane m(l, h) of a and b side by side. The lanes are literals,
   since gcc builds computed ones lane by lane. */
#undef EVERY
#undef SHUFFLE
#define FOUR(m, l, h) m(l, h), m(l + 1, h), m(l + 2, h), m(l + 3, h)
#if LANES == 16
#define EVERY(m, h) FOUR(m, 0, h), FOUR(m, 4, h), FOUR(m, 8, h), FOUR(m, 12, h)
#elif LANES == 8
#define EVERY(m, h) FOUR(m, 0, h), FOUR(m, 4, h)
#else
#define EVERY(m, h) FOUR(m, 0, h)
#endif
#ifdef __clang__
#define SHUFFLE(a, b, m, h) __builtin_shufflevector(a, b, EVERY(m, h))
#else
#define SHUFFLE(a, b, m, h) __builtin_shuffle(a, b, (F(bits)){EVERY(m, h)})
#endif

/* The sum of a vector's elements, computed pairwise. */
#define OTHER_LANE(l, h) ((l) ^ (h))
INLINE float F(reduce_add)(F(vec) v) {
#if LANES >= 16
  v += SHUFFLE(v, v, OTHER_LANE, 8);
#endif
#if LANES >= 8
  v += SHUFFLE(v, v, OTHER_LANE, 4);
#endif
  v += SHUFFLE(v, v, OTHER_LANE, 2);
  return v[0] + v[1];
}

/* Returns the first element of vector j of a row. The last vector ends with the row and may overlap
   the one before. */
INLINE int64_t F(vector_start)(int64_t j, int64_t size) {
  return (j + 1) * LANES <= size ? j * LANES : size - LANES;
}
