/* Halves as floats. */

/* A half as float32. The exponents have other biases; a subnormal number is the difference of two
   normal ones, since kernels may run with subnormal numbers as zero. */
INLINE float F(float_of)(uint32_t half) {
  union {
    uint32_t bits;
    float value;
  } y = {(half & 0x7fff) << 13}, small = {y.bits + (113 << 23)};
  small.value -= 6.103515625e-05f;                               /* 2⁻¹⁴ */
  uint32_t bias = y.bits < 0x0f800000 ? 112u << 23 : 224u << 23; /* of infinities and NaN */
  y.bits = (y.bits < 0x00800000 ? small.bits : y.bits + bias) | (half & 0x8000) << 16;
  return y.value;
}
