/* One instruction set's version of scans.c; the compiler makes the vectors. */

/* Cumulative sums of x (outer, count, inner) along the axis of `count`; from its end in reverse,
   and without the value itself if they are exclusive. */
void F(cumulative_sum)(const float *x, float *y, int64_t outer, int64_t count, int64_t inner,
                       int64_t exclusive, int64_t reverse) {
  int64_t step = reverse ? -inner : inner, first = reverse ? (count - 1) * inner : 0;
  for (int64_t o = 0; o < outer; o++, x += count * inner, y += count * inner) {
    const float *from = x + first;
    float *to = y + first;
    if (exclusive)
      for (int64_t i = 0; i < inner; i++) to[i] = 0;
    else memcpy(to, from, sizeof(float) * (size_t)inner);
    for (int64_t k = 1; k < count; k++, from += step, to += step) {
      const float *next = exclusive ? from : from + step;
      if (exclusive && k == 1) {
        memcpy(to + step, next, sizeof(float) * (size_t)inner);
        continue;
      }
      IVDEP
      for (int64_t i = 0; i < inner; i++) to[step + i] = to[i] + next[i];
    }
  }
}

/* y (outer, inner): the products of x (outer, count, inner). */
void F(product)(const float *x, float *y, int64_t outer, int64_t count, int64_t inner) {
  for (int64_t o = 0; o < outer; o++, y += inner) {
    for (int64_t i = 0; i < inner; i++) y[i] = 1;
    for (int64_t k = 0; k < count; k++, x += inner) {
      IVDEP
      for (int64_t i = 0; i < inner; i++) y[i] *= x[i];
    }
  }
}

/* dx = dy times the product of all other values. The product of those that are not 0 is divided by
   x; with one 0 it is the gradient of this one. */
void F(product_back)(const float *dy, const float *x, float *dx, int64_t outer, int64_t count,
                     int64_t inner) {
  for (int64_t o = 0; o < outer; o++, x += count * inner, dx += count * inner)
    for (int64_t i = 0; i < inner; i++) {
      float product = 1;
      int64_t zeros = 0;
      for (int64_t k = i; k < count * inner; k += inner)
        if (x[k] == 0) zeros++;
        else product *= x[k];
      product *= *dy++;
      for (int64_t k = i; k < count * inner; k += inner) {
        float v = x[k];
        dx[k] = v == 0 ? (zeros == 1 ? product : 0) : zeros ? 0 : product / v;
      }
    }
}

/* sin(x + quarter · π/2) for |x| < 2²⁹: x − k π/2 in three parts, of which k times the first two
   is exact, then Taylor's series of the sine or cosine to 2⁻⁴⁰, in double. */
INLINE float F(sine)(float x, int64_t quarter) {
  double k = (double)x * 0.63661977236758134 + 6755399441055744.0 - 6755399441055744.0;
  double r = x - k * 1.570796251296997; /* 24 bits of π/2 */
  r = r - k * 7.549789415861596e-08;    /* the next 24 */
  r = r - k * 5.390302858158119e-15;
  int64_t n = (int64_t)k + quarter;
  double q = r * r;
  double sine =
      r * (1 + q * (-1.0 / 6 + q * (1.0 / 120 + q * (-1.0 / 5040 +
                                                     q * (1.0 / 362880 - q * (1.0 / 39916800))))));
  double cosine =
      1 + q * (-0.5 + q * (1.0 / 24 +
                           q * (-1.0 / 720 +
                                q * (1.0 / 40320 + q * (-1.0 / 3628800 + q * (1.0 / 479001600))))));
  double y = n & 1 ? cosine : sine;
  return (float)(n & 2 ? -y : y);
}

/* y = sin x, or cos x with a quarter of 1. */
void F(sines)(const float *x, float *y, int64_t n, int64_t quarter) {
  for (int64_t at = 0, count; at < n; at += count) {
    count = n - at < CHUNK ? n - at : CHUNK;
    int far = 0;
    for (int64_t i = at; i < at + count; i++) far |= !(fabsf(x[i]) < 536870912.0f);
    if (far) {
      for (int64_t i = at; i < at + count; i++)
        y[i] = quarter ? (float)cos((double)x[i]) : (float)sin((double)x[i]);
      continue;
    }
    IVDEP
    for (int64_t i = at; i < at + count; i++) y[i] = F(sine)(x[i], quarter);
  }
}
