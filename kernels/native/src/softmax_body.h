/* One instruction set's version of softmax.c; the compiler makes the vectors. */

#include "exponential.h"
#include "row_reductions.h"

/* p = softmax(β x) of a row; returns max(β x), and sets `sum` to the sum of exponentials. */
static inline float F(softmax_row)(const float *x, float *p, int64_t classes, float beta,
                                   float *sum) {
  IVDEP
  for (int64_t k = 0; k < classes; k++) p[k] = x[k] * beta;
  float max = F(row_max)(p, classes);
  IVDEP
  for (int64_t k = 0; k < classes; k++) p[k] = F(exp_nonpositive)(p[k] - max);
  *sum = F(row_sum)(p, classes);
  float inverse = 1 / *sum;
  IVDEP
  for (int64_t k = 0; k < classes; k++) p[k] *= inverse;
  return max;
}

/* Σ t (β x − max) where t is not 0. */
static inline float F(target_dot)(const float *x, const float *t, int64_t classes, float beta,
                                  float max) {
  F(vec) sums = {0};
  float total = 0;
  int64_t k = 0;
  for (; k + LANES <= classes; k += LANES) {
    F(vec) target = F(load)(t + k);
    sums += F(masked)(target != 0, target * (F(load)(x + k) * beta - max));
  }
  for (; k < classes; k++) total += t[k] != 0 ? t[k] * (x[k] * beta - max) : 0;
  return total + F(reduce_add)(sums);
}

typedef struct {
  const float *x, *t;
  float *p, *dx;
  double totals[SUMS];
  int64_t rows, classes;
  float beta, divisor;
  const float *scale; /* (1), or (rows) if by_row */
  int64_t by_row;
} F(loss_job);

/* One part: some of the sums of rows, which are the same for any number of parts. */
static void F(cross_entropy_part)(void *job, int part, int parts) {
  F(loss_job) *j = job;
  int64_t n = j->classes;
  for (int k = (int)chunk_begin(SUMS, part, parts); k < chunk_begin(SUMS, part + 1, parts); k++)
    for (int64_t r = chunk_begin(j->rows, k, SUMS); r < chunk_begin(j->rows, k + 1, SUMS); r++) {
      const float *x = j->x + r * n, *t = j->t + r * n;
      float sum, max = F(softmax_row)(x, j->p + r * n, n, j->beta, &sum);
      float entropy = F(target_dot)(x, t, n, j->beta, max) - F(row_sum)(t, n) * logf(sum);
      j->totals[k] += j->by_row ? j->scale[r] * entropy : entropy;
    }
}

/* p = softmax(β x) row by row; loss = −Σ scale Σ t log p / divisor. */
void F(cross_entropy)(const float *x, const float *t, const float *scale, float *loss, float *p,
                      int64_t rows, int64_t classes, int64_t by_row, float beta, float divisor) {
  F(loss_job) j = {x, t, p, 0, {0}, rows, classes, beta, divisor, scale, by_row};
  parallel_for(F(cross_entropy_part), &j, parallel_parts(rows * classes * 16));
  for (int k = 1; k < SUMS; k++) j.totals[0] += j.totals[k];
  loss[0] = (float)(-j.totals[0] * (by_row ? 1 : scale[0]) / divisor);
}

static void F(cross_entropy_back_part)(void *job, int part, int parts) {
  F(loss_job) *j = job;
  int64_t n = j->classes, end = chunk_begin(j->rows, part + 1, parts);
  float factor = j->scale[0] / j->divisor * j->beta;
  for (int64_t r = chunk_begin(j->rows, part, parts); r < end; r++) {
    const float *p = j->p + r * n, *t = j->t + r * n;
    float *dx = j->dx + r * n, target = F(row_sum)(t, n);
    if (j->by_row) factor = j->scale[r] / j->divisor * j->beta;
    IVDEP
    for (int64_t k = 0; k < n; k++) dx[k] = (p[k] * target - t[k]) * factor;
  }
}

/* dx = scale β (p Σ t − t) / divisor. */
void F(cross_entropy_back)(const float *p, const float *t, const float *scale, float *dx,
                           int64_t rows, int64_t classes, int64_t by_row, float beta,
                           float divisor) {
  F(loss_job) j = {0, t, (float *)p, dx, {0}, rows, classes, beta, divisor, scale, by_row};
  parallel_for(F(cross_entropy_back_part), &j, parallel_parts(rows * classes * 4));
}

typedef struct {
  const float *x;
  const int32_t *t;
  float *p, *dx;
  double totals[SUMS];
  int64_t rows, classes;
  float beta, divisor;
  const float *scale; /* (1), or (rows) if by_row */
  int64_t by_row;
} F(label_job);

/* The class of a row with label t; below 0 if the row is ignored. Labels are checked when data is
   read; one that is too large all the same counts as the last class, which is inside of the row. */
static inline int64_t F(label)(int64_t t, int64_t classes) { return t < classes ? t : classes - 1; }

static void F(label_entropy_part)(void *job, int part, int parts) {
  F(label_job) *j = job;
  int64_t n = j->classes;
  for (int k = (int)chunk_begin(SUMS, part, parts); k < chunk_begin(SUMS, part + 1, parts); k++)
    for (int64_t r = chunk_begin(j->rows, k, SUMS); r < chunk_begin(j->rows, k + 1, SUMS); r++) {
      const float *x = j->x + r * n;
      int64_t label = F(label)(j->t[r], j->classes);
      float sum, max = F(softmax_row)(x, j->p + r * n, n, j->beta, &sum);
      if (label < 0) continue;
      float entropy = x[label] * j->beta - max - logf(sum);
      j->totals[k] += j->by_row ? j->scale[r] * entropy : entropy;
    }
}

/* p = softmax(β x) row by row; loss = −Σ scale log p / divisor, p of the class t, over the rows
   where t is not below 0. */
void F(label_entropy)(const float *x, const int32_t *t, const float *scale, float *loss, float *p,
                      int64_t rows, int64_t classes, int64_t by_row, float beta, float divisor) {
  F(label_job) j = {x, t, p, 0, {0}, rows, classes, beta, divisor, scale, by_row};
  parallel_for(F(label_entropy_part), &j, parallel_parts(rows * classes * 16));
  for (int k = 1; k < SUMS; k++) j.totals[0] += j.totals[k];
  loss[0] = (float)(-j.totals[0] * (by_row ? 1 : scale[0]) / divisor);
}

static void F(label_entropy_back_part)(void *job, int part, int parts) {
  F(label_job) *j = job;
  int64_t n = j->classes, end = chunk_begin(j->rows, part + 1, parts);
  float factor = j->scale[0] / j->divisor * j->beta;
  for (int64_t r = chunk_begin(j->rows, part, parts); r < end; r++) {
    const float *p = j->p + r * n;
    float *dx = j->dx + r * n;
    int64_t label = F(label)(j->t[r], j->classes);
    if (label < 0) {
      memset(dx, 0, sizeof(float) * (size_t)n);
      continue;
    }
    if (j->by_row) factor = j->scale[r] / j->divisor * j->beta;
    IVDEP
    for (int64_t k = 0; k < n; k++) dx[k] = p[k] * factor;
    dx[label] -= factor;
  }
}

/* dx = scale β (p − 1 at the class t) / divisor, or 0 where t is below 0; dx may be p. */
void F(label_entropy_back)(const float *p, const int32_t *t, const float *scale, float *dx,
                           int64_t rows, int64_t classes, int64_t by_row, float beta,
                           float divisor) {
  F(label_job) j = {0, t, (float *)p, dx, {0}, rows, classes, beta, divisor, scale, by_row};
  parallel_for(F(label_entropy_back_part), &j, parallel_parts(rows * classes * 4));
}

typedef struct {
  float *x;
  const int32_t *t;
  double totals[SUMS];
  int64_t rows, classes;
  float beta, divisor;
  const float *scale; /* (1), or (rows) if by_row */
  int64_t by_row, has_gradient;
  float *terms;
  int32_t *best;
} F(row_job);

/* The first place of a value; 0 if there is none. */
static inline int32_t F(place_of)(const float *a, int64_t n, float value) {
  for (int64_t k = 0; k < n; k++)
    if (a[k] == value) return (int32_t)k;
  return 0;
}

/* Row r of label_rows; returns log p of its class. */
static inline float F(label_row)(const F(row_job) * j, int64_t r) {
  int64_t n = j->classes, label = F(label)(j->t[r], n);
  float *x = j->x + r * n, sum = 0;
  if (label < 0 && !j->best) {
    if (j->has_gradient) memset(x, 0, sizeof(float) * (size_t)n);
    return 0;
  }
  IVDEP
  for (int64_t k = 0; k < n; k++) x[k] *= j->beta;
  float max = F(row_max)(x, n), target = label < 0 ? 0 : x[label];
  if (j->best) j->best[r] = F(place_of)(x, n, max);
  for (int64_t at = 0; at < n; at += CHUNK) {
    int64_t count = n - at < CHUNK ? n - at : CHUNK;
    IVDEP
    for (int64_t k = 0; k < count; k++) x[at + k] = F(exp_nonpositive)(x[at + k] - max);
    sum += F(row_sum)(x + at, count);
  }
  if (j->has_gradient) {
    float factor = label < 0 ? 0 : j->scale[j->by_row ? r : 0] / j->divisor * j->beta;
    float of_sum = factor / sum;
    IVDEP
    for (int64_t k = 0; k < n; k++) x[k] *= of_sum;
    if (label >= 0) x[label] -= factor;
  }
  return label < 0 ? 0 : target - max - logf(sum);
}

/* One part: some of the sums of rows, which are the same for any number of parts. */
static void F(label_rows_part)(void *job, int part, int parts) {
  F(row_job) *j = job;
  for (int k = (int)chunk_begin(SUMS, part, parts); k < chunk_begin(SUMS, part + 1, parts); k++)
    for (int64_t r = chunk_begin(j->rows, k, SUMS); r < chunk_begin(j->rows, k + 1, SUMS); r++) {
      float term = F(label_row)(j, r);
      if (j->terms) j->terms[r] = -term;
      j->totals[k] += j->by_row ? j->scale[r] * term : term;
    }
}

/* loss = −Σ scale log p / divisor, p of the class t, where t is not below 0, for p = softmax(β x)
   row by row; x becomes the gradient by x, or scratch. terms (R) and best (R), which may be absent,
   become −log p of the class, and the place of the largest x. */
void F(label_rows)(float *x, const int32_t *t, const float *scale, float *loss, float *terms,
                   int32_t *best, int64_t rows, int64_t classes, int64_t by_row, float beta,
                   float divisor, int64_t has_gradient) {
  F(row_job)
  j = {x, t, {0}, rows, classes, beta, divisor, scale, by_row, has_gradient, terms, best};
  parallel_for(F(label_rows_part), &j, parallel_parts(rows * classes * 20));
  for (int k = 1; k < SUMS; k++) j.totals[0] += j.totals[k];
  loss[0] = (float)(-j.totals[0] * (by_row ? 1 : scale[0]) / divisor);
}

typedef struct {
  const float *a, *b;
  float *y;
  int64_t rows, classes;
  float beta;
} F(softmax_job);

static void F(softmax_part)(void *job, int part, int parts) {
  F(softmax_job) j = *(const F(softmax_job) *)job;
  for (int64_t r = chunk_begin(j.rows, part, parts); r < chunk_begin(j.rows, part + 1, parts);
       r++) {
    float sum;
    F(softmax_row)(j.a + r * j.classes, j.y + r * j.classes, j.classes, j.beta, &sum);
  }
}

/* y = softmax(β x) row by row; y may be x. */
void F(softmax)(const float *x, float *y, int64_t rows, int64_t classes, float beta) {
  F(softmax_job) j = {x, 0, y, rows, classes, beta};
  parallel_for(F(softmax_part), &j, parallel_parts(rows * classes * 16));
}

static void F(softmax_back_part)(void *job, int part, int parts) {
  F(softmax_job) j = *(const F(softmax_job) *)job;
  for (int64_t r = chunk_begin(j.rows, part, parts); r < chunk_begin(j.rows, part + 1, parts);
       r++) {
    const float *dy = j.a + r * j.classes, *y = j.b + r * j.classes;
    float *dx = j.y + r * j.classes, dot = F(row_dot)(dy, y, j.classes);
    IVDEP
    for (int64_t k = 0; k < j.classes; k++) dx[k] = j.beta * y[k] * (dy[k] - dot);
  }
}

/* dx = β y (dy − Σ dy y) row by row; dx may be dy. */
void F(softmax_back)(const float *dy, const float *y, float *dx, int64_t rows, int64_t classes,
                     float beta) {
  F(softmax_job) j = {dy, y, dx, rows, classes, beta};
  parallel_for(F(softmax_back_part), &j, parallel_parts(rows * classes * 4));
}

static void F(log_softmax_part)(void *job, int part, int parts) {
  F(softmax_job) j = *(const F(softmax_job) *)job;
  for (int64_t r = chunk_begin(j.rows, part, parts); r < chunk_begin(j.rows, part + 1, parts);
       r++) {
    const float *x = j.a + r * j.classes;
    float *y = j.y + r * j.classes, max = F(row_max)(x, j.classes), sum = 0, exps[CHUNK];
    for (int64_t at = 0; at < j.classes; at += CHUNK) {
      int64_t count = j.classes - at < CHUNK ? j.classes - at : CHUNK;
      IVDEP
      for (int64_t k = 0; k < count; k++) exps[k] = F(exp_nonpositive)(x[at + k] - max);
      sum += F(row_sum)(exps, count);
    }
    float log_sum = logf(sum);
    IVDEP
    for (int64_t k = 0; k < j.classes; k++) y[k] = x[k] - max - log_sum;
  }
}

/* y = x − ln Σ eˣ row by row; y may be x. */
void F(log_softmax)(const float *x, float *y, int64_t rows, int64_t classes) {
  F(softmax_job) j = {x, 0, y, rows, classes, 1};
  parallel_for(F(log_softmax_part), &j, parallel_parts(rows * classes * 16));
}

static void F(log_softmax_back_part)(void *job, int part, int parts) {
  F(softmax_job) j = *(const F(softmax_job) *)job;
  for (int64_t r = chunk_begin(j.rows, part, parts); r < chunk_begin(j.rows, part + 1, parts);
       r++) {
    const float *dy = j.a + r * j.classes, *y = j.b + r * j.classes;
    float *dx = j.y + r * j.classes, sum = F(row_sum)(dy, j.classes);
    IVDEP
    for (int64_t k = 0; k < j.classes; k++) dx[k] = dy[k] - F(exp_nonpositive)(y[k]) * sum;
  }
}

/* dx = dy − eʸ Σ dy row by row; dx may be y. */
void F(log_softmax_back)(const float *dy, const float *y, float *dx, int64_t rows,
                         int64_t classes) {
  F(softmax_job) j = {dy, y, dx, rows, classes, 1};
  parallel_for(F(log_softmax_back_part), &j, parallel_parts(rows * classes * 16));
}
