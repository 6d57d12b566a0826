/* Sum, dot product and maximum of rows. */

#include "vectors.h"

static inline float F(row_sum)(const float *a, int64_t n) {
  F(vec) lanes = {0};
  float total = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) lanes += F(load)(a + i);
  for (; i < n; i++) total += a[i];
  return total + F(reduce_add)(lanes);
}

static inline float F(row_dot)(const float *a, const float *b, int64_t n) {
  F(vec) lanes = {0};
  float total = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) lanes += F(load)(a + i) * F(load)(b + i);
  for (; i < n; i++) total += a[i] * b[i];
  return total + F(reduce_add)(lanes);
}

/* The maximum; NaN is ignored. */
static inline float F(row_max)(const float *a, int64_t n) {
  F(vec) lanes = F(broadcast)(-INFINITY);
  float top = -INFINITY;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    F(vec) v = F(load)(a + i);
    F(bits) more = v > lanes;
    lanes = (F(vec))((more & (F(bits))v) | (~more & (F(bits))lanes));
  }
  for (; i < n; i++) top = a[i] > top ? a[i] : top;
  for (int l = 0; l < LANES; l++) top = lanes[l] > top ? lanes[l] : top;
  return top;
}
