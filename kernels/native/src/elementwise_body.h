/* One instruction set's version of elementwise.c; the compiler makes the vectors. */

#include "exponential.h"
#include "logarithm.h"
#include "row_reductions.h"

typedef void (*F(loop))(float *y, const float *a, const float *b, const float *c, int64_t n,
                        float p, float q);
typedef struct {
  F(loop) loop;
  const elementwise_shape *shape;
  float *y;
  const float *inputs[MAX_INPUTS];
  float p, q;
} F(map_job);

/* Computes one row along the last axis. An input that is broadcast along this axis is copied to a
   buffer of equal values, so that the loop has one kind of input. Results that are summed are
   computed in a buffer. */
static void F(map_row)(const F(map_job) * j, float *y, const float *const *inputs, int is_first) {
  const elementwise_shape *m = j->shape;
  int64_t last = m->rank - 1, n = m->sizes[last], most = n;
  float repeated[MAX_INPUTS][CHUNK], part[CHUNK], total = 0;
  const float *from[MAX_INPUTS];
  int buffered = !m->y[last] || !is_first;
  if (buffered && most > CHUNK) most = CHUNK;
  for (int k = 0; k < MAX_INPUTS; k++) {
    from[k] = inputs[k];
    if (!inputs[k] || m->inputs[k][last]) continue;
    if (most > CHUNK) most = CHUNK;
    for (int64_t i = 0; i < most; i++) repeated[k][i] = *inputs[k];
    from[k] = repeated[k];
  }
  for (int64_t at = 0; at < n; at += most) {
    int64_t count = n - at < most ? n - at : most;
    j->loop(buffered ? part : y + at, from[0], from[1], from[2], count, j->p, j->q);
    if (!m->y[last]) total += F(row_sum)(part, count);
    else if (buffered)
      for (int64_t i = 0; i < count; i++) y[at + i] += part[i];
    for (int k = 0; k < MAX_INPUTS; k++)
      if (inputs[k] && m->inputs[k][last]) from[k] += count;
  }
  if (!m->y[last]) *y = is_first ? total : *y + total;
}

/* One part: a range of the first axis. */
static void F(map_part)(void *job, int part, int parts) {
  F(map_job) j = *(const F(map_job) *)job;
  elementwise_shape m = *j.shape;
  int64_t begin = chunk_begin(m.sizes[0], part, parts), at[MAX_RANK] = {0};
  m.sizes[0] = chunk_begin(m.sizes[0], part + 1, parts) - begin;
  if (!m.sizes[0]) return;
  j.shape = &m;
  j.y += begin * m.y[0];
  for (int k = 0; k < MAX_INPUTS; k++)
    if (j.inputs[k]) j.inputs[k] += begin * m.inputs[k][0];
  for (;;) {
    int is_first = 1;
    for (int64_t d = 0; d + 1 < m.rank; d++) is_first &= m.y[d] || !at[d];
    F(map_row)(&j, j.y, j.inputs, is_first);
    int64_t d = m.rank - 2;
    for (; d >= 0; d--) { /* the next row */
      int64_t steps = ++at[d] < m.sizes[d] ? 1 : 1 - m.sizes[d];
      j.y += steps * m.y[d];
      for (int k = 0; k < MAX_INPUTS; k++)
        if (j.inputs[k]) j.inputs[k] += steps * m.inputs[k][d];
      if (steps == 1) break;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

static void F(map_all)(F(loop) loop, const elementwise_shape *m, float *y, const float *a,
                       const float *b, const float *c, float p, float q) {
  F(map_job) j = {loop, m, y, {a, b, c}, p, q};
  int64_t work = 1;
  for (int64_t d = 0; d < m->rank; d++) work *= m->sizes[d];
  parallel_for(F(map_part), &j, m->y[0] ? parallel_parts(work * 2) : 1);
}

/* Defines the kernel of a line of elementwise_maps.h. y and an input either do not overlap, or are
   the same array. */
#define MAP(name, value)                                                                          \
  static void F(name##_loop)(float *y, const float *a, const float *b, const float *c, int64_t n, \
                             float p, float q) {                                                  \
    (void)a, (void)b, (void)c, (void)p, (void)q;                                                  \
    IVDEP                                                                                         \
    for (int64_t i = 0; i < n; i++) y[i] = (value);                                               \
  }                                                                                               \
  void F(map_##name) MAP_ARGUMENTS { F(map_all)(F(name##_loop), m, y, a, b, c, p, q); }

/* NaN stays NaN, as in np.clip. */
INLINE float F(clamp_scalar)(float x, float lo, float hi) {
  float v = x < lo ? lo : x;
  return v > hi ? hi : v;
}

/* The density of the normal distribution. */
#define NORMAL(x) (0.3989422804f * F(exp_nonpositive)(-0.5f * (x) * (x)))

/* GELU approximated by tanh: Φ = (1 + tanh u) / 2, the logistic function of 2 u, with
   u = √(2/π) (x + c x³). */
#define GELU_PHI(x) F(logistic)(1.5957691216f * (x) * (1 + 0.044715f * (x) * (x)))
#define GELU_SLOPE(x) (1.5957691216f * (1 + 0.134145f * (x) * (x)))

#include "elementwise_maps.h"

#undef MAP
#undef NORMAL
#undef GELU_PHI
#undef GELU_SLOPE

/* db[c] = Σ over rows of dy[row][c]. */
void F(column_sums)(const float *dy, float *db, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; c++) db[c] = 0;
  for (int64_t r = 0; r < rows; r++, dy += columns)
    for (int64_t c = 0; c < columns; c++) db[c] += dy[c];
}
