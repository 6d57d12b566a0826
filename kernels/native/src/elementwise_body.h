/* One instruction set's version of elementwise.c; the compiler makes the vectors. */

#include "exponential.h"
#include "logarithm.h"
#include "power.h"
#include "row_reductions.h"

#include "column_sums.h"

/* Copies `rows` rows of n values side by side; a stride may be 0. */
static void F(gather_rows)(float *to, const float *from, int64_t rows, int64_t n,
                           int64_t row_stride, int64_t stride) {
  for (; rows; rows--, from += row_stride, to += n)
    if (stride) memcpy(to, from, sizeof(float) * (size_t)n);
    else {
      IVDEP
      for (int64_t i = 0; i < n; i++) to[i] = *from;
    }
}

static map_loop F(scale_loop);
static const map_set F(set) = {LANES, F(scale_loop), F(gather_rows), F(row_sum),
                               F(add_column_sums)};

/* With the arguments of a kernel in their order, which are passed on in their registers. */
static void F(map)(const elementwise_shape *m, float *y, const float *a, const float *b,
                   const float *c, float p, float q, map_loop *loop) {
  map_job j = {&F(set), loop, m, y, {a, b, c}, p, q};
  map_all(&j);
}

/* Defines the kernel of a line of elementwise_maps.h. */
#define MAP(name, value)                                                                          \
  static void F(name##_loop)(float *y, const float *a, const float *b, const float *c, int64_t n, \
                             float p, float q) {                                                  \
    (void)a, (void)b, (void)c, (void)p, (void)q;                                                  \
    IVDEP_UNROLLED                                                                                \
    for (int64_t i = 0; i < (n & -LANES); i++) y[i] = (value);                                    \
  }                                                                                               \
  void F(map_##name) MAP_ARGUMENTS { F(map)(m, y, a, b, c, p, q, F(name##_loop)); }

/* NaN stays NaN, as in np.clip. */
INLINE float F(clamp_scalar)(float x, float lo, float hi) {
  float v = x < lo ? lo : x;
  return v > hi ? hi : v;
}

/* The derivative of x σ(x), where σ is the logistic function. */
INLINE float F(swish_slope)(float x) {
  float s = F(logistic)(x);
  return s * (1 + x * (1 - s));
}

/* The density of the normal distribution: e^(−x²/2) / √(2π). */
#define NORMAL(x) (0.3989422804f * F(exp_nonpositive)(-0.5f * (x) * (x)))

/* GELU approximated by tanh: Φ = (1 + tanh u) / 2, the logistic function of 2 u, with
   u = √(2/π) (x + c x³), c = 0.044715. The slope is that of 2 u: 2 √(2/π) (1 + 3 c x²). */
#define GELU_PHI(x) F(logistic)(1.5957691216f * (x) * (1 + 0.044715f * (x) * (x)))
#define GELU_SLOPE(x) (1.5957691216f * (1 + 0.134145f * (x) * (x)))

/* The binary focal loss of a logit x is m^γ `loss`, and its derivative m^(γ − 1) (m `slope` +
   γ `curve`). With p = σ(x), q = 1 − p, target t, its weight a and binary cross-entropy b:
   loss = a b, m = p (1 − t) + q t, slope = a (p − t), curve = a b (1 − 2 t) p q. */
typedef struct {
  float m, loss, slope, curve;
} F(focal_terms);

INLINE F(focal_terms) F(focal)(float x, float t, float alpha) {
  float e = F(exp_nonpositive)(-fabsf(x)), s = 1 / (1 + e);
  float p = x > 0 ? s : e * s, q = x > 0 ? e * s : s, a = 1 - alpha + (2 * alpha - 1) * t;
  float miss = p * (1 - t), hit = q * t, loss = a * ((x > 0 ? x : 0) - x * t + F(log1p)(e));
  return (F(focal_terms)){miss + hit, loss, a * (miss - hit), loss * (1 - 2 * t) * p * q};
}

#define FOCAL F(focal)(a[i], b[i], q)

#include "elementwise_maps.h"

#undef MAP
#undef NORMAL
#undef GELU_PHI
#undef GELU_SLOPE
#undef FOCAL

/* y = 1 where c is true, else 0. */
void F(truths)(const uint8_t *c, float *y, int64_t size) {
  IVDEP
  for (int64_t i = 0; i < size; i++) y[i] = c[i] != 0;
}
