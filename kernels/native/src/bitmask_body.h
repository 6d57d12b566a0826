/* One instruction set's version of bitmask.c. A byte holds eight elements, the first in the highest
   bit. */

typedef float F(floats) __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t F(eight) __attribute__((vector_size(32), aligned(4), may_alias));

static const F(eight) F(bit_of_lane) = {128, 64, 32, 16, 8, 4, 2, 1};

/* The byte of eight elements from a vector with all bits of an element set, or none. */
static inline uint8_t F(byte_of)(const F(eight) * set) {
  F(eight) bits = *set & F(bit_of_lane);
#ifdef __clang__
  for (int k = 1; k < 8; k++) bits[0] |= bits[k];
#else
  bits |= __builtin_shuffle(bits, (F(eight)){4, 5, 6, 7, 0, 1, 2, 3});
  bits |= __builtin_shuffle(bits, (F(eight)){2, 3, 0, 1, 6, 7, 4, 5});
  bits |= __builtin_shuffle(bits, (F(eight)){1, 0, 3, 2, 5, 4, 7, 6});
#endif
  return (uint8_t)bits[0];
}

/* Sets an element's bit where lo < y < hi. */
void F(pack_bitmask)(const float *y, uint8_t *mask, int64_t n, float lo, float hi) {
  for (int64_t i = 0; i < n; i += 8, mask++) {
    if (n - i < 8) {
      *mask = 0;
      for (int64_t k = i; k < n; k++) *mask |= (y[k] > lo && y[k] < hi) << (7 - (k - i));
      return;
    }
    F(floats) v = *(const F(floats) *)(y + i);
    F(eight) set = (v > lo) & (v < hi);
    *mask = F(byte_of)(&set);
  }
}

/* dx = dy where the bit is set, else 0. */
void F(apply_bitmask)(const float *dy, const uint8_t *mask, float *dx, int64_t n) {
  for (int64_t i = 0; i < n; i += 8, mask++) {
    if (n - i < 8) {
      for (int64_t k = i; k < n; k++) dx[k] = *mask >> (7 - (k - i)) & 1 ? dy[k] : 0;
      return;
    }
    F(eight) set = ((((F(eight)){0}) + *mask) & F(bit_of_lane)) != 0;
    *(F(eight) *)(dx + i) = set & *(const F(eight) *)(dy + i);
  }
}

/* y = scale · round(x · inverse limited to lo and hi), with inverse, scale, lo and hi in numbers;
   sets an element's bit where lo ≤ x · inverse ≤ hi. observed: the smallest and the largest x, and
   0, and the fractions below and above the limits. NaN stays NaN. y may be x. */
void F(fake_quant)(const float *x, float *y, uint8_t *mask, float *observed, const float *numbers,
                   int64_t n) {
  float inverse = numbers[0], scale = numbers[1], lo = numbers[2], hi = numbers[3];
  F(floats) zero = {0}, least = zero, most = zero;
  F(eight) under = {0}, over = {0};
  float result[4] = {0};
  int64_t i = 0;
  for (; n - i >= 8; i += 8, mask++) {
    F(floats) r = *(const F(floats) *)(x + i), v = r * inverse;
    F(eight) below = v<lo, above = v> hi, less = r<least, more = r> most;
    F(eight) inside = (v >= lo) & (v <= hi);
    *mask = F(byte_of)(&inside);
    least = (F(floats))((less & (F(eight))r) | (~less & (F(eight))least));
    most = (F(floats))((more & (F(eight))r) | (~more & (F(eight))most));
    under -= below, over -= above;
    v = (F(floats))((below & (F(eight))(zero + lo)) | (above & (F(eight))(zero + hi)) |
                    (~(below | above) & (F(eight))v));
    *(F(floats) *)(y + i) = scale * ROUND(v);
  }
  if (i < n) *mask = 0;
  for (int64_t k = i; k < n; k++) {
    float v = x[k] * inverse;
    *mask |= (v >= lo && v <= hi) << (7 - (k - i));
    result[0] = x[k] < result[0] ? x[k] : result[0];
    result[1] = x[k] > result[1] ? x[k] : result[1];
    result[2] += v<lo, result[3] += v> hi;
    v = v < lo ? lo : v > hi ? hi : v;
    y[k] = scale * ROUND(v);
  }
  for (int k = 0; k < 8; k++) {
    result[0] = least[k] < result[0] ? least[k] : result[0];
    result[1] = most[k] > result[1] ? most[k] : result[1];
    result[2] += (float)under[k], result[3] += (float)over[k];
  }
  for (int k = 0; k < 4; k++) observed[k] = k < 2 ? result[k] : result[k] / (float)n;
}
