/* Vectors of the values of stored weights. Needs vectors.h. */

#include "half.h"

/* The integers number p of some bytes, which are in the lowest bits of lanes, as floats. */
INLINE F(vec) F(integers)(F(bits) bytes, int p, int bits) {
#if defined(__x86_64__) && LANES == 16
  /* The permutation reads the lowest 4 bits of a lane. */
  if (bits == 8) return __builtin_convertvector((bytes << 24) >> 24, F(vec));
  const __m512 fours = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
  const __m512 twos = {0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1};
  F(bits) low = p ? bytes >> (bits * p) : bytes;
  return (F(vec))_mm512_permutexvar_ps((__m512i)low, bits == 4 ? fours : twos);
#else
#if defined(__x86_64__) && LANES == 8
  if (bits == 2) {
    const __m256 twos = {0, 1, -2, -1, 0, 1, -2, -1};
    return (F(vec))_mm256_permutevar8x32_ps(twos, (__m256i)(p ? bytes >> (2 * p) : bytes));
  }
#endif
  F(bits) v = (bytes << (32 - bits * (p + 1))) >> (32 - bits);
  return __builtin_convertvector(v, F(vec));
#endif
}

/* LANES bytes in the lowest bits of lanes. gcc 12 converts vectors of bytes lane by lane. */
INLINE F(bits) F(load_bytes)(const uint8_t *q) {
#if defined(__x86_64__) && LANES == 16
  return (F(bits))_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)q));
#elif defined(__x86_64__) && LANES == 8
  return (F(bits))_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)q));
#else
  F(bits) v;
  for (int lane = 0; lane < LANES; lane++) v[lane] = q[lane];
  return v;
#endif
}

/* Lanes of two vectors in turn, from the first halves and from the second ones. */
#undef FIRST_LANE
#undef SECOND_LANE
#define FIRST_LANE(l, h) (((l) & 1 ? LANES : 0) + (l) / 2)
#define SECOND_LANE(l, h) (FIRST_LANE(l, h) + LANES / 2)

/* Computes the integers of LANES bytes, as floats in order: 8 / bits vectors. */
INLINE void F(unpack_bytes)(const uint8_t *q, F(vec) * v, int bits) {
  F(bits) bytes = F(load_bytes)(q);
  F(vec) a = F(integers)(bytes, 0, bits), b = F(integers)(bytes, 1, bits);
  if (bits == 4) {
    v[0] = SHUFFLE(a, b, FIRST_LANE, 0), v[1] = SHUFFLE(a, b, SECOND_LANE, 0);
    return;
  }
  F(vec) c = F(integers)(bytes, 2, 2), d = F(integers)(bytes, 3, 2);
  F(vec) even = SHUFFLE(a, c, FIRST_LANE, 0), odd = SHUFFLE(b, d, FIRST_LANE, 0);
  v[0] = SHUFFLE(even, odd, FIRST_LANE, 0), v[1] = SHUFFLE(even, odd, SECOND_LANE, 0);
  even = SHUFFLE(a, c, SECOND_LANE, 0), odd = SHUFFLE(b, d, SECOND_LANE, 0);
  v[2] = SHUFFLE(even, odd, FIRST_LANE, 0), v[3] = SHUFFLE(even, odd, SECOND_LANE, 0);
}

/* A half at some address, in all lanes. */
INLINE F(vec) F(half_at)(const uint8_t *q) {
#if defined(__x86_64__) && LANES == 16
  return (F(vec))_mm512_cvtph_ps(_mm256_set1_epi16((int16_t)(q[0] | q[1] << 8)));
#else
  return F(broadcast)(F(float_of)(q[0] | (uint32_t)q[1] << 8));
#endif
}

/* Computes the values of a block: d (q − zero) + m, with a half d and, if there is a minimum, a
   half m before the integers. A vector of them is `step` values from the one before. */
INLINE void F(decode_block)(const uint8_t *q, float *y, int64_t step, int bits, int minimum) {
  F(vec) d = F(half_at)(q), m = {0};
  if (minimum) m = F(half_at)(q + 2);
  q += minimum ? 4 : 2;
  int zero = bits == 4 && !minimum ? 8 : 0;
  for (int k = 0; k < BLOCK * bits / 8; k += LANES) {
    F(bits) bytes = F(load_bytes)(q + k);
    F(bits) first = bytes & 15;
    if (bits == 8) first = (bytes << 24) >> 24;
    F(vec) v = __builtin_convertvector(first - zero, F(vec)) * d;
    if (minimum) v += m;
    F(store)(y + k / LANES * step, v);
    if (bits == 8) continue;
    v = __builtin_convertvector((bytes >> 4) - zero, F(vec)) * d;
    if (minimum) v += m;
    F(store)(y + (BLOCK / 2 + k) / LANES * step, v);
  }
}
