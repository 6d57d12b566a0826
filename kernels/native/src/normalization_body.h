/* One instruction set's version of normalization.c; the compiler makes the vectors. */

#include "row_reductions.h"

typedef struct {
  const float *x, *dy, *gamma;
  float *y, *saved; /* saved: norm or inv of each row, from forward for backward */
  int64_t rows, n;
  float least;
} F(norm_job);

static void F(l2_norm_part)(void *job, int part, int parts) {
  F(norm_job) j = *(const F(norm_job) *)job;
  for (int64_t r = chunk_begin(j.rows, part, parts); r < chunk_begin(j.rows, part + 1, parts);
       r++) {
    const float *x = j.x + r * j.n;
    float *y = j.y + r * j.n, norm = sqrtf(F(row_dot)(x, x, j.n));
    j.saved[r] = norm = norm < j.least ? j.least : norm;
    IVDEP
    for (int64_t k = 0; k < j.n; k++) y[k] = x[k] / norm;
  }
}

/* norm = max(‖x‖, least) and y = x / norm, row by row; y may be x. */
void F(l2_norm)(const float *x, float *y, float *norm, int64_t rows, int64_t n, float least) {
  F(norm_job) j = {x, 0, 0, y, norm, rows, n, least};
  parallel_for(F(l2_norm_part), &j, parallel_parts(rows * n * 4));
}

static void F(l2_norm_back_part)(void *job, int part, int parts) {
  F(norm_job) j = *(const F(norm_job) *)job;
  for (int64_t r = chunk_begin(j.rows, part, parts); r < chunk_begin(j.rows, part + 1, parts);
       r++) {
    const float *y = j.x + r * j.n, *dy = j.dy + r * j.n;
    float *dx = j.y + r * j.n, norm = j.saved[r];
    float dot = norm <= j.least ? 0 : F(row_dot)(dy, y, j.n);
    IVDEP
    for (int64_t k = 0; k < j.n; k++) dx[k] = (dy[k] - y[k] * dot) / norm;
  }
}

/* dx = (dy − y Σ dy y) / norm, and dy / norm where the norm is `least`; dx may be dy or y. */
void F(l2_norm_back)(const float *dy, const float *y, float *norm, float *dx, int64_t rows,
                     int64_t n, float least) {
  F(norm_job) j = {y, dy, 0, dx, norm, rows, n, least};
  parallel_for(F(l2_norm_back_part), &j, parallel_parts(rows * n * 4));
}

static void F(rms_norm_part)(void *job, int part, int parts) {
  F(norm_job) j = *(const F(norm_job) *)job;
  for (int64_t r = chunk_begin(j.rows, part, parts); r < chunk_begin(j.rows, part + 1, parts);
       r++) {
    const float *x = j.x + r * j.n, *gamma = j.gamma;
    float *y = j.y + r * j.n, inv = 1 / sqrtf(F(row_dot)(x, x, j.n) / (float)j.n + j.least);
    j.saved[r] = inv;
    IVDEP
    for (int64_t k = 0; k < j.n; k++) y[k] = x[k] * inv * gamma[k];
  }
}

/* inv = 1 / √(mean(x²) + ε) and y = γ x inv, row by row. */
void F(rms_norm)(const float *x, const float *gamma, float *y, float *inv, int64_t rows, int64_t n,
                 float epsilon) {
  F(norm_job) j = {x, 0, gamma, y, inv, rows, n, epsilon};
  parallel_for(F(rms_norm_part), &j, parallel_parts(rows * n * 4));
}

static void F(rms_norm_back_part)(void *job, int part, int parts) {
  F(norm_job) j = *(const F(norm_job) *)job;
  for (int64_t r = chunk_begin(j.rows, part, parts); r < chunk_begin(j.rows, part + 1, parts);
       r++) {
    const float *x = j.x + r * j.n, *dy = j.dy + r * j.n, *gamma = j.gamma;
    float *dx = j.y + r * j.n, inv = j.saved[r];
    IVDEP
    for (int64_t k = 0; k < j.n; k++) dx[k] = dy[k] * gamma[k];
    float dot = F(row_dot)(dx, x, j.n) * inv * inv / (float)j.n;
    IVDEP
    for (int64_t k = 0; k < j.n; k++) dx[k] = (dx[k] - x[k] * dot) * inv;
  }
}

/* dx = inv (γ dy − x inv² mean(γ dy x)), row by row. */
void F(rms_norm_back)(const float *dy, const float *x, const float *gamma, float *inv, float *dx,
                      int64_t rows, int64_t n) {
  F(norm_job) j = {x, dy, gamma, dx, inv, rows, n, 0};
  parallel_for(F(rms_norm_back_part), &j, parallel_parts(rows * n * 4));
}
