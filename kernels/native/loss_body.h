/* One instruction set's version of loss.c; the compiler makes the vectors. */

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

/* p = softmax(β x) row by row; loss = −scale Σ t log p. */
void F(cross_entropy)(const float *x, const float *t, const float *scale, float *loss, float *p,
                      int64_t rows, int64_t classes, float beta, float divisor) {
  double sum = 0;
  for (int64_t r = 0; r < rows; r++, x += classes, t += classes, p += classes) {
    float top = -INFINITY, whole = 0, target = 0, hit = 0;
    for (int64_t k = 0; k < classes; k++) top = x[k] * beta > top ? x[k] * beta : top;
    for (int64_t k = 0; k < classes; k++) p[k] = F(exponential)(x[k] * beta - top);
    for (int64_t k = 0; k < classes; k++) whole += p[k];
    for (int64_t k = 0; k < classes; k++) {
      target += t[k];
      hit += t[k] != 0 ? t[k] * (x[k] * beta - top) : 0;
    }
    float share = 1 / whole;
    for (int64_t k = 0; k < classes; k++) p[k] *= share;
    sum += hit - target * logf(whole);
  }
  loss[0] = (float)(-sum * scale[0] / divisor);
}

/* dx = scale β (p Σ t − t). */
void F(cross_entropy_back)(const float *p, const float *t, const float *scale, float *dx,
                           int64_t rows, int64_t classes, float beta, float divisor) {
  float factor = scale[0] / divisor * beta;
  for (int64_t r = 0; r < rows; r++, p += classes, t += classes, dx += classes) {
    float target = 0;
    for (int64_t k = 0; k < classes; k++) target += t[k];
    for (int64_t k = 0; k < classes; k++) dx[k] = (p[k] * target - t[k]) * factor;
  }
}
