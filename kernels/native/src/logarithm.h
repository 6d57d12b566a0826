/* ln x to one unit in the last place: k ln 2 + ln m for x = 2ᵏ m, m from √½ to √2. With f = m − 1
   and s = f / (2 + f), ln m = 2 atanh s = f − s (f − R), where R is the series of atanh from its
   second term on. −∞ of 0; NaN of negative numbers. */
INLINE float F(log)(float x) {
  union {
    float value;
    uint32_t bits;
  } m = {x < 1.17549435e-38f ? x * 8388608 : x}; /* denormals as normal numbers */
  uint32_t from_root = m.bits - 0x3f3504f3;      /* the bits of √½ */
  int32_t k = (int32_t)from_root >> 23;
  m.bits = (from_root & 0x7fffff) + 0x3f3504f3;
  float e = (float)(x < 1.17549435e-38f ? k - 23 : k);
  float f = m.value - 1, s = f / (2 + f), q = s * s;
  float r = q * (2.0f / 3 + q * (2.0f / 5 + q * (2.0f / 7 + q * (2.0f / 9))));
  float y = e * 0.693359375f + (f - (s * (f - r) + e * 2.12194440e-4f)); /* ln 2 in two parts */
  y = x > 0 ? y : x == 0 ? -INFINITY : NAN;
  return x == INFINITY ? x : y;
}

/* ln(1 + x) for x ≥ 0: ln u times x / (u − 1), u = 1 + x rounded, which takes the rounding back. */
INLINE float F(log1p)(float x) {
  float u = 1 + x;
  return u == 1 ? x : F(log)(u) * (x / (u - 1));
}
