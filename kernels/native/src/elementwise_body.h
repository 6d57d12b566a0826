/* One instruction set's version of elementwise.c; the compiler makes the vectors. */

#include "exponential.h"
#include "logarithm.h"
#include "row_reductions.h"

#include "column_sums.h"

typedef void (*F(loop))(float *y, const float *a, const float *b, const float *c, int64_t n,
                        float p, float q);
typedef struct {
  F(loop) loop;
  const elementwise_shape *shape;
  float *y;
  const float *inputs[MAX_INPUTS];
  float p, q;
} F(map_job);

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

/* Computes n values. Those that do not fill a vector are computed in a vector of their own, so that
   loops have no scalar rest. */
static void F(run_loop)(const F(map_job) * j, float *y, const float *const *from, int64_t n) {
  int64_t rest = n % LANES, full = n - rest;
  if (full) j->loop(y, from[0], from[1], from[2], full, j->p, j->q);
  if (!rest) return;
  float inputs[MAX_INPUTS][LANES] = {{0}}, results[LANES];
  for (int k = 0; k < MAX_INPUTS; k++)
    if (from[k]) memcpy(inputs[k], from[k] + full, sizeof(float) * (size_t)rest);
  j->loop(results, inputs[0], inputs[1], inputs[2], LANES, j->p, j->q);
  memcpy(y + full, results, sizeof(float) * (size_t)rest);
}

/* Computes the last two axes, short rows several at a time. An input that is broadcast is copied to
   a buffer, so that the loop has one kind of input. Results that are summed are computed in a
   buffer; is_first says whether they are the first ones. */
static void F(map_rows)(const F(map_job) * j, float *y, const float *const *inputs, int is_first) {
  const elementwise_shape *m = j->shape;
  int64_t last = m->rank - 1, n = m->sizes[last], rows = last ? m->sizes[last - 1] : 1;
  int64_t y_row = last ? m->y[last - 1] : 0, y_stride = m->y[last];
  int64_t group = rows > 1 && 2 * n <= CHUNK ? CHUNK / n : 1, most = group * n, steps[MAX_INPUTS];
  float copies[MAX_INPUTS][CHUNK], part[CHUNK];
  int buffered = !y_stride || (!y_row && rows > 1) || !is_first, copied[MAX_INPUTS];
  for (int k = 0; k < MAX_INPUTS; k++) {
    steps[k] = inputs[k] && last ? m->inputs[k][last - 1] : 0;
    copied[k] = inputs[k] && (!m->inputs[k][last] || (group > 1 && steps[k] != n));
    if ((copied[k] || buffered) && most > CHUNK) most = CHUNK;
  }
  for (int64_t r = 0, some; r < rows; r += some, y += some * y_row) {
    some = rows - r < group ? rows - r : group;
    int64_t row = n < most ? n : most; /* of the buffers */
    int first = is_first && (y_row || !r);
    const float *from[MAX_INPUTS];
    for (int k = 0; k < MAX_INPUTS; k++) {
      const float *values = inputs[k] ? inputs[k] + r * steps[k] : 0;
      if (copied[k] && (steps[k] || !r))
        F(gather_rows)(copies[k], values, some, row, steps[k], m->inputs[k][last]);
      from[k] = copied[k] ? copies[k] : values;
    }
    for (int64_t at = 0, count; at < some * n; at += count) {
      count = some * n - at < most ? some * n - at : most;
      F(run_loop)(j, buffered ? part : y + at, from, count);
      for (int k = 0; k < MAX_INPUTS; k++)
        if (inputs[k] && !copied[k]) from[k] += count;
      if (!buffered) continue;
      int64_t values = group > 1 ? n : count, summed = y_row && group > 1 ? 1 : some;
      if (!y_stride)
        for (int64_t i = 0; i < some; i++) {
          float *sum = y + i * y_row, total = F(row_sum)(part + i * values, values);
          *sum = first && !at && (y_row || !i) ? total : *sum + total;
        }
      else {
        if (summed < some) values = count; /* rows that are side by side in y, too */
        if (first)
          for (int64_t i = 0; i < values; i++) y[at + i] = 0;
        F(add_column_sums)(part, summed, values, 0, values, y + at);
      }
    }
  }
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
    for (int64_t d = 0; d + 2 < m.rank; d++) is_first &= m.y[d] || !at[d];
    F(map_rows)(&j, j.y, j.inputs, is_first);
    int64_t d = m.rank - 3;
    for (; d >= 0; d--) { /* the next rows */
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
   the same array; n is a multiple of LANES. */
#define MAP(name, value)                                                                          \
  static void F(name##_loop)(float *y, const float *a, const float *b, const float *c, int64_t n, \
                             float p, float q) {                                                  \
    (void)a, (void)b, (void)c, (void)p, (void)q;                                                  \
    IVDEP                                                                                         \
    for (int64_t i = 0; i < (n & -LANES); i++) y[i] = (value);                                    \
  }                                                                                               \
  void F(map_##name) MAP_ARGUMENTS { F(map_all)(F(name##_loop), m, y, a, b, c, p, q); }

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

/* y = 1 where c is true, else 0. */
void F(truths)(const uint8_t *c, float *y, int64_t size) {
  IVDEP
  for (int64_t i = 0; i < size; i++) y[i] = c[i] != 0;
}

/* db[c] = Σ over rows of dy[row][c]. */
void F(column_sums)(const float *dy, float *db, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; c++) db[c] = 0;
  F(add_column_sums)(dy, rows, columns, 0, columns, db);
}

typedef struct {
  const float *x;
  float *y, sign;
  int64_t outer, count, inner;
} F(extreme_job);

/* The larger values of v and w, or with sign −1 the smaller ones. NaN stays NaN, as in np.max. */
INLINE F(vec) F(more)(F(vec) v, F(vec) w, float sign) {
  return F(selected)((w * sign <= v * sign) | (v != v), v, w);
}

/* The maximum of a row of whole vectors; the last one may overlap the one before. */
INLINE float F(row_extreme)(const float *row, int64_t count, float sign) {
  F(vec) v = F(load)(row);
  for (int64_t j = 1; j * LANES < count; j++)
    v = F(more)(v, F(load)(row + F(vector_start)(j, count)), sign);
#if LANES >= 16
  v = F(more)(v, SHUFFLE(v, v, OTHER_LANE, 8), sign);
#endif
#if LANES >= 8
  v = F(more)(v, SHUFFLE(v, v, OTHER_LANE, 4), sign);
#endif
  v = F(more)(v, SHUFFLE(v, v, OTHER_LANE, 2), sign);
  return F(more)(v, SHUFFLE(v, v, OTHER_LANE, 1), sign)[0];
}

/* One part: a range of `outer`. */
static void F(extreme_part)(void *job, int part, int parts) {
  F(extreme_job) c = *(const F(extreme_job) *)job;
  int64_t count = c.count, inner = c.inner, end = chunk_begin(c.outer, part + 1, parts);
  for (int64_t o = chunk_begin(c.outer, part, parts); o < end; o++) {
    const float *rows = c.x + o * count * inner;
    float *y = c.y + o * inner;
    if (inner == 1 && count >= LANES) {
      *y = F(row_extreme)(rows, count, c.sign);
      continue;
    }
    memcpy(y, rows, sizeof(float) * (size_t)inner);
    for (int64_t k = 1; k < count; k++) {
      const float *row = rows + k * inner;
      IVDEP
      for (int64_t i = 0; i < inner; i++)
        y[i] = (row[i] * c.sign <= y[i] * c.sign) | (y[i] != y[i]) ? y[i] : row[i];
    }
  }
}

/* y[o][i] = the maximum of x[o][k][i] over k, or with sign −1 the minimum. */
void F(extreme)(const float *x, float *y, int64_t outer, int64_t count, int64_t inner, float sign) {
  F(extreme_job) c = {x, y, sign, outer, count, inner};
  parallel_for(F(extreme_part), &c, parallel_parts(outer * count * inner));
}
