/* One instruction set's version of instance_norm.c. */

#include "vectors.h"

typedef struct {
  const float *x, *dy, *gamma, *beta;
  float *y, *mean, *inv;
  int64_t images, rows, channels;
  float epsilon;
} F(instance_job);

/* Runs a statement for each value of rows `from` to `end` of block b: i is the value's index in x,
   and c that in the row. */
#define EACH_VALUE(from, end, ...)                                     \
  for (int64_t s = from; s < (end); s++) {                             \
    const int64_t beyond = s > b.rows ? s - b.rows : 0;                \
    const int64_t row = b.at + (s - beyond) * b.stride + beyond * b.n; \
    const int count = s < b.rows ? b.width : b.n;                      \
    IVDEP                                                              \
    for (int c = 0; c < count; c++) {                                  \
      const int64_t i = row + c;                                       \
      __VA_ARGS__;                                                     \
    }                                                                  \
  }

/* Adds rows `from` to `end` of block b to the row `part`. `value` is an expression of AT(x), the
   value of x at index i, and OF(a), that of the row a at index c. Full rows are summed in
   registers. */
#define SCALAR_AT(x) x[i]
#define SCALAR_OF(a) a[c]
#define VECTOR_AT(x) F(load)(x + i)
#define VECTOR_OF(a) F(load)(a + c)
#define ADD_ROWS(part, from, end, value)                                             \
  if (b.width == CHANNELS && (end) <= b.rows) {                                      \
    F(vec) lanes[CHANNELS / LANES] = {{0}};                                          \
    for (int64_t s = from; s < (end); s++)                                           \
      for (int v = 0; v < CHANNELS / LANES; v++) {                                   \
        const int64_t c = v * LANES, i = b.at + s * b.stride + c;                    \
        lanes[v] += value(VECTOR_AT, VECTOR_OF);                                     \
      }                                                                              \
    for (int v = 0; v < CHANNELS / LANES; v++) F(store)(part + v * LANES, lanes[v]); \
  } else {                                                                           \
    EACH_VALUE(from, end, part[c] += value(SCALAR_AT, SCALAR_OF))                    \
  }

/* to[c] = Σ over rows of `value`, see ADD_ROWS, for each channel c of block b. */
#define SUM_ROWS(to, value)                                                    \
  {                                                                            \
    float sums[CHANNELS] = {0};                                                \
    const int64_t all = b.rows + b.rest;                                       \
    for (int64_t from = 0; from < all; from += SUMMED_ROWS) {                  \
      const int64_t end = all < from + SUMMED_ROWS ? all : from + SUMMED_ROWS; \
      float part[CHANNELS] = {0};                                              \
      ADD_ROWS(part, from, end, value)                                         \
      IVDEP                                                                    \
      for (int c = 0; c < b.width; c++) sums[c] += part[c];                    \
    }                                                                          \
    for (int c = 0; c < b.n; c++) to[c] = sums[c];                             \
    for (int at = b.n; at < b.width; at += b.n)                                \
      for (int c = 0; c < b.n; c++) to[c] += sums[at + c];                     \
  }

#define ONLY_X(AT, OF) AT(j.x)
#define ONLY_DY(AT, OF) AT(j.dy)
#define X_SQUARED(AT, OF) (AT(j.x) - OF(mean)) * (AT(j.x) - OF(mean))
#define DY_BY_X(AT, OF) AT(j.dy) * (AT(j.x) - OF(mean))

static void F(instance_norm_part)(void *job, int part, int parts) {
  F(instance_job) j = *(const F(instance_job) *)job;
  int64_t all = block_count(j.images, j.channels);
  for (int64_t u = chunk_begin(all, part, parts); u < chunk_begin(all, part + 1, parts); u++) {
    const channel_block b = block_at(u, j.rows, j.channels);
    float center[CHANNELS], inv[CHANNELS], mean[CHANNELS], factor[CHANNELS], gamma[CHANNELS],
        beta[CHANNELS];
    SUM_ROWS(center, ONLY_X)
    for (int c = 0; c < b.n; c++) center[c] /= (float)j.rows;
    repeat_channels(mean, center, &b);
    SUM_ROWS(inv, X_SQUARED)
    for (int c = 0; c < b.n; c++) inv[c] = 1 / sqrtf(inv[c] / (float)j.rows + j.epsilon);
    for (int c = 0; c < b.n; c++) j.mean[b.stats + c] = center[c], j.inv[b.stats + c] = inv[c];
    repeat_channels(factor, inv, &b);
    repeat_channels(gamma, j.gamma + b.first, &b);
    repeat_channels(beta, j.beta + b.first, &b);
    EACH_VALUE(0, b.rows + b.rest, j.y[i] = (j.x[i] - mean[c]) * factor[c] * gamma[c] + beta[c])
  }
}

/* y = γ (x − mean) inv + β, inv = 1 / √(mean((x − mean)²) + ε), for each channel of an image. */
void F(instance_norm)(const float *x, const float *gamma, const float *beta, float *y, float *mean,
                      float *inv, int64_t images, int64_t rows, int64_t channels, float epsilon) {
  F(instance_job) j = {x, 0, gamma, beta, y, mean, inv, images, rows, channels, epsilon};
  parallel_for(F(instance_norm_part), &j, parallel_parts(images * rows * channels * 8));
}

static void F(instance_norm_back_part)(void *job, int part, int parts) {
  F(instance_job) j = *(const F(instance_job) *)job;
  int64_t all = block_count(j.images, j.channels);
  for (int64_t u = chunk_begin(all, part, parts); u < chunk_begin(all, part + 1, parts); u++) {
    const channel_block b = block_at(u, j.rows, j.channels);
    float sum[CHANNELS], factor[CHANNELS], mean[CHANNELS], mean_dy[CHANNELS], dot[CHANNELS],
        scale[CHANNELS];
    const float *inv = j.inv + b.stats;
    repeat_channels(mean, j.mean + b.stats, &b);
    SUM_ROWS(sum, ONLY_DY)
    for (int c = 0; c < b.n; c++) sum[c] /= (float)j.rows;
    repeat_channels(mean_dy, sum, &b);
    SUM_ROWS(sum, DY_BY_X)
    for (int c = 0; c < b.n; c++) sum[c] *= inv[c] * inv[c] / (float)j.rows;
    repeat_channels(dot, sum, &b);
    for (int c = 0; c < b.n; c++) factor[c] = j.gamma[b.first + c] * inv[c];
    repeat_channels(scale, factor, &b);
    EACH_VALUE(0, b.rows + b.rest,
               j.y[i] = scale[c] * (j.dy[i] - mean_dy[c] - (j.x[i] - mean[c]) * dot[c]))
  }
}

/* dx = γ inv (dy − mean(dy) − x̂ mean(dy x̂)), x̂ = (x − mean) inv. */
void F(instance_norm_back)(const float *dy, const float *x, const float *gamma, float *mean,
                           float *inv, float *dx, int64_t images, int64_t rows, int64_t channels) {
  F(instance_job) j = {x, dy, gamma, 0, dx, mean, inv, images, rows, channels, 0};
  parallel_for(F(instance_norm_back_part), &j, parallel_parts(images * rows * channels * 8));
}

/* dγ = Σ dy x̂ over rows and images. */
void F(instance_norm_scale)(const float *dy, const float *x, float *mean, float *inv, float *dgamma,
                            int64_t images, int64_t rows, int64_t channels) {
  F(instance_job) j = {x, dy, 0, 0, 0, mean, inv, images, rows, channels, 0};
  for (int64_t c = 0; c < channels; c++) dgamma[c] = 0;
  for (int64_t u = 0; u < block_count(images, channels); u++) {
    const channel_block b = block_at(u, rows, channels);
    float dot[CHANNELS], mean[CHANNELS];
    repeat_channels(mean, j.mean + b.stats, &b);
    SUM_ROWS(dot, DY_BY_X)
    for (int c = 0; c < b.n; c++) dgamma[b.first + c] += dot[c] * inv[b.stats + c];
  }
}

#undef ONLY_X
#undef ONLY_DY
#undef X_SQUARED
#undef DY_BY_X
#undef SUM_ROWS
#undef ADD_ROWS
#undef EACH_VALUE
#undef SCALAR_AT
#undef SCALAR_OF
#undef VECTOR_AT
#undef VECTOR_OF
