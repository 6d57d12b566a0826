/* One instruction set's version of softmax.c; the compiler makes the vectors. */

#include "exponential.h"
#include "row_reductions.h"

/* p = softmax(β x) of a row; returns max(β x), and sets `whole` to the sum of exponentials. */
static inline float F(softmax_row)(const float *x, float *p, int64_t classes, float beta,
                                   float *whole) {
  for (int64_t k = 0; k < classes; k++) p[k] = x[k] * beta;
  float top = F(row_max)(p, classes);
  for (int64_t k = 0; k < classes; k++) p[k] = F(exp_nonpositive)(p[k] - top);
  *whole = F(row_sum)(p, classes);
  float share = 1 / *whole;
  for (int64_t k = 0; k < classes; k++) p[k] *= share;
  return top;
}

/* p = softmax(β x) row by row; loss = −scale Σ t log p. */
void F(cross_entropy)(const float *x, const float *t, const float *scale, float *loss, float *p,
                      int64_t rows, int64_t classes, float beta, float divisor) {
  double sum = 0;
  for (int64_t r = 0; r < rows; r++, x += classes, t += classes, p += classes) {
    float whole, target = 0, hit = 0, top = F(softmax_row)(x, p, classes, beta, &whole);
    for (int64_t k = 0; k < classes; k++) {
      target += t[k];
      hit += t[k] != 0 ? t[k] * (x[k] * beta - top) : 0;
    }
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
    float whole;
    F(softmax_row)(j.a + r * j.classes, j.y + r * j.classes, j.classes, j.beta, &whole);
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
    float *dx = j.y + r * j.classes, mean = F(row_dot)(dy, y, j.classes);
    IVDEP
    for (int64_t k = 0; k < j.classes; k++) dx[k] = j.beta * y[k] * (dy[k] - mean);
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
    float *y = j.y + r * j.classes, top = F(row_max)(x, j.classes), whole = 0, powers[CHUNK];
    for (int64_t at = 0; at < j.classes; at += CHUNK) {
      int64_t count = j.classes - at < CHUNK ? j.classes - at : CHUNK;
      for (int64_t k = 0; k < count; k++) powers[k] = F(exp_nonpositive)(x[at + k] - top);
      whole += F(row_sum)(powers, count);
    }
    float rest = logf(whole);
    IVDEP
    for (int64_t k = 0; k < j.classes; k++) y[k] = x[k] - top - rest;
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
    float *dx = j.y + r * j.classes, whole = F(row_sum)(dy, j.classes);
    IVDEP
    for (int64_t k = 0; k < j.classes; k++) dx[k] = dy[k] - F(exp_nonpositive)(y[k]) * whole;
  }
}

/* dx = dy − eʸ Σ dy row by row; dx may be y. */
void F(log_softmax_back)(const float *dy, const float *y, float *dx, int64_t rows,
                         int64_t classes) {
  F(softmax_job) j = {dy, y, dx, rows, classes, 1};
  parallel_for(F(log_softmax_back_part), &j, parallel_parts(rows * classes * 16));
}
