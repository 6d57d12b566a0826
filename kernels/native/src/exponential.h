/* eˣ and functions of it, in float32. NaN stays NaN. */

/* The nearest integer, for |x| < 2²²: floats of at least 2²³ have no fraction. */
INLINE float F(round_int)(float x) { return x + 12582912 - 12582912; }

/* 2ⁿ for an integer n from -126 to 127. The sum holds n in its lowest bits: WebAssembly has a
   conversion to int32_t only with checks of the range, which take several instructions. */
INLINE float F(exp2_int)(float n) {
  union {
    float value;
    uint32_t bits;
  } power = {n + 12582912};
  power.bits = (power.bits + 127) << 23;
  return power.value;
}

/* eᵛ = 2ⁿ eʳ, |r| ≤ ln 2 / 2, to about one unit in the last place; returns eʳ, from Taylor's
   series. */
INLINE float F(exp_reduced)(float v, float *n) {
  *n = F(round_int)(v * 1.44269504f);
  float r = v - *n * 0.693359375f + *n * 2.12194440e-4f; /* ln 2 in two parts */
  float e = 1.0f / 5040;
  e = e * r + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  return e * r + 1.0f;
}

/* eˣ for x ≤ 0; 0 below the smallest normal number. */
INLINE float F(exp_nonpositive)(float x) {
  float n, e = F(exp_reduced)(x < -87.3f ? -87.3f : x, &n);
  return x < -87.3f ? 0 : e * F(exp2_int)(n);
}

/* eˣ for every x, down to the denormals: 2ⁿ as a product, since it may be denormal. */
INLINE float F(exp)(float x) {
  float v = x < -104 ? -104 : x, n, e = F(exp_reduced)(v > 89 ? 89 : v, &n),
        half = F(round_int)(n / 2);
  return e * F(exp2_int)(half) * F(exp2_int)(n - half);
}

/* 1 / (1 + e⁻ˣ) without overflow. */
INLINE float F(logistic)(float x) {
  float e = F(exp_nonpositive)(-fabsf(x));
  return (x > 0 ? 1 : e) / (1 + e);
}

/* tanh x from e⁻²ˣ; near 0, where 1 − e⁻²ˣ loses digits, from its series. */
INLINE float F(tanh)(float x) {
  float e = F(exp_nonpositive)(-2 * fabsf(x)), far = (1 - e) / (1 + e), q = x * x;
  float near = q * (-1.0f / 3 + q * (2.0f / 15 + q * (-17.0f / 315 + q * (62.0f / 2835))));
  return q < 0.09f ? x * (1 + near) : x > 0 ? far : -far;
}

/* eˣ − 1 for x ≤ 0, exact near 0 too. */
INLINE float F(expm1)(float x) {
  float t = F(tanh)(x / 2);
  return 2 * t / (1 - t);
}

/* The standard normal distribution function Φ; for x > 0, 1 − Φ(−x). For x ≤ 0, Φ(x) exp(x²/2) is
   approximated by t P(t), t = 1 / (1 − 0.26 x): a least-squares fit to erfc between −13.5 and 0
   with a relative error of at most 2e-8. Φ is 0 below −13.2. */
INLINE float F(normal_cdf)(float x) {
  float t = 1 / (1 + 0.26f * fabsf(x)), p = 0.0307836942f;
  p = p * t - 0.154189795f;
  p = p * t + 0.254318774f;
  p = p * t - 0.154207408f;
  p = p * t + 0.163221017f;
  p = p * t + 0.0500467494f;
  p = p * t + 0.103285462f;
  p = p * t + 0.102980211f;
  p = p * t + 0.103761263f;
  p *= t * F(exp_nonpositive)(-0.5f * x * x);
  return x > 0 ? 1 - p : p;
}

/* erf x: near 0, where 1 − 2 Φ loses digits, x P(x²), a fit with a relative error of at most
   1.2e-8; else 1 − 2 Φ(−√2 |x|) with the sign of x. */
INLINE float F(erf)(float x) {
  float q = x * x, p = -0.000609034458f, far = 1 - 2 * F(normal_cdf)(-1.41421356f * fabsf(x));
  p = p * q + 0.00501195966f;
  p = p * q - 0.0267789066f;
  p = p * q + 0.112821407f;
  p = p * q - 0.376125233f;
  p = p * q + 1.12837915f;
  return q < 0.81f ? x * p : x > 0 ? far : -far;
}
