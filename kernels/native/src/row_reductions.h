/* Sum, dot product and maximum of rows. */

#include "vectors.h"

static inline float F(row_sum)(const float *a, int64_t n) {
  F(vec) sums = {0};
  float total = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) sums += F(load)(a + i);
  for (; i < n; i++) total += a[i];
  return total + F(reduce_add)(sums);
}

static inline float F(row_dot)(const float *a, const float *b, int64_t n) {
  F(vec) sums = {0};
  float total = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) sums += F(load)(a + i) * F(load)(b + i);
  for (; i < n; i++) total += a[i] * b[i];
  return total + F(reduce_add)(sums);
}

/* The maximum; NaN is ignored. */
static inline float F(row_max)(const float *a, int64_t n) {
  F(vec) v_max = F(broadcast)(-INFINITY);
  float max = -INFINITY;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    F(vec) v = F(load)(a + i);
    F(bits) larger = v > v_max;
    v_max = F(selected)(larger, v, v_max);
  }
  for (; i < n; i++) max = a[i] > max ? a[i] : max;
  for (int l = 0; l < LANES; l++) max = v_max[l] > max ? v_max[l] : max;
  return max;
}
