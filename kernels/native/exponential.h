/* eˣ for x ≤ 0 to about one unit in the last place: 2ⁿ eʳ, |r| ≤ ln 2 / 2, eʳ by Taylor's series;
   0 below the smallest normal number. NaN stays NaN. */
static inline float F(exponential)(float x) {
  float v = x < -87.3f ? -87.3f : x;
  float n = floorf(v * 1.44269504f + 0.5f);
  float r = v - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 in two parts */
  float e = 1.0f / 5040;
  e = e * r + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  union {
    int32_t bits;
    float value;
  } power = {((int32_t)n + 127) * (1 << 23)};
  return x < -87.3f ? 0 : e * power.value;
}

/* 1 / (1 + e⁻ˣ) without overflow. */
static inline float F(logistic)(float x) {
  float e = F(exponential)(x > 0 ? -x : x);
  return (x > 0 ? 1 : e) / (1 + e);
}
