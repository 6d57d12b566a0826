/* Rounding to integers, remainders and powers, in float32. */

/* The nearest integer, halves to even: floats of at least 2²³ have no fraction. */
INLINE float F(nearest)(float x) {
  float m = fabsf(x);
  return m < 8388608 ? copysignf(m + 8388608 - 8388608, x) : x;
}

INLINE float F(floor)(float x) {
  float y = F(nearest)(x);
  return y > x ? y - 1 : y;
}

INLINE float F(ceil)(float x) {
  float y = F(nearest)(x);
  return y < x ? copysignf(y + 1, x) : y;
}

/* x − ⌊x / y⌋ y with the sign of y, exactly. */
INLINE float F(remainder)(float x, float y) {
  float r = fmodf(x, y);
  if (r == 0) return copysignf(0, y);
  return (r < 0) != (y < 0) ? r + y : r;
}

/* ⌊x / y⌋ of the exact quotient: x / y may round up to an integer. */
INLINE float F(floor_quotient)(float x, float y) {
  return F(nearest)((x - F(remainder)(x, y)) / y);
}

/* log₂ x in double for positive numbers: k + log₂ m, as in logarithm.h, with the series to 2⁻³⁹. */
INLINE double F(log2)(float x) {
  union {
    float value;
    uint32_t bits;
  } m = {x < 1.17549435e-38f ? x * 8388608 : x};
  uint32_t from_root = m.bits - 0x3f3504f3;
  int32_t k = (int32_t)from_root >> 23;
  m.bits = (from_root & 0x7fffff) + 0x3f3504f3;
  double s = ((double)m.value - 1) / ((double)m.value + 1), q = s * s, r = 1.0 / 13;
  r = r * q + 1.0 / 11;
  r = r * q + 1.0 / 9;
  r = r * q + 1.0 / 7;
  r = r * q + 1.0 / 5;
  r = r * q + 1.0 / 3;
  r = r * q + 1;
  return (double)(x < 1.17549435e-38f ? k - 23 : k) + s * r * 2.8853900817779268; /* 2 / ln 2 */
}

/* 2ˣ rounded to float32: 2ⁿ 2ʳ, |r| ≤ ½, from Taylor's series to 2⁻³⁷; 2ⁿ as a product. */
INLINE float F(exp2)(double x) {
  double v = x > 160 ? 160 : x >= -160 ? x : -160;
  double n = v + 6755399441055744.0 - 6755399441055744.0; /* the nearest integer */
  double t = (v - n) * 0.69314718055994531, e = 1.0 / 362880;
  e = e * t + 1.0 / 40320;
  e = e * t + 1.0 / 5040;
  e = e * t + 1.0 / 720;
  e = e * t + 1.0 / 120;
  e = e * t + 1.0 / 24;
  e = e * t + 1.0 / 6;
  e = e * t + 0.5;
  e = e * t + 1;
  e = e * t + 1;
  float half = F(round_int)((float)n / 2);
  return (float)(e * F(exp2_int)(half) * F(exp2_int)((float)n - half));
}

/* xʸ to half a unit in the last place and little more, with the special cases of pow in C. */
INLINE float F(power)(float x, float y) {
  float m = fabsf(x), z = F(exp2)(y * F(log2)(m)), zero_or_infinity = y > 0 ? 0 : INFINITY;
  int is_whole = F(nearest)(y) == y, is_odd = is_whole && F(nearest)(y / 2) != y / 2;
  int is_negative = copysignf(1, x) < 0;
  z = m == 1 ? 1 : m == 0 ? zero_or_infinity : m == INFINITY ? (y > 0 ? INFINITY : 0) : z;
  z = is_negative && is_odd ? -z : z;
  z = is_negative && !is_whole && m != 0 && m != INFINITY ? NAN : z;
  z = x != x || y != y ? NAN : z;
  return y == 0 || x == 1 ? 1 : z;
}
