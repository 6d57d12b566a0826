/* One instruction set's version of instance_norm.c; the compiler makes the vectors. */

typedef struct {
  const float *x, *dy, *gamma, *beta;
  float *y, *mean, *inv;
  int64_t images, rows, channels;
  float epsilon;
} F(instance_job);

/* to[c] = Σ over rows of `value`, an expression of i, the index of channel c in the row. */
#define SUM_ROWS(to, value)                                             \
  for (int c = 0; c < n; c++) to[c] = 0;                                \
  for (int64_t from = 0; from < j.rows; from += SUMMED_ROWS) {          \
    float part[CHANNELS] = {0};                                         \
    for (int64_t s = from; s < j.rows && s < from + SUMMED_ROWS; s++) { \
      const int64_t row = at + s * j.channels;                          \
      IVDEP                                                             \
      for (int c = 0; c < n; c++) {                                     \
        int64_t i = row + c;                                            \
        part[c] += (value);                                             \
      }                                                                 \
    }                                                                   \
    IVDEP                                                               \
    for (int c = 0; c < n; c++) to[c] += part[c];                       \
  }

/* Declares a block of n channels of one image from channel `first`. It begins at `at` in x, and at
   `stats` in mean and inv. */
#define BLOCKS ((j.channels + CHANNELS - 1) / CHANNELS)
#define CHANNEL_BLOCK(image, block)                                               \
  int64_t first = (block) * CHANNELS, at = (image) * j.rows * j.channels + first; \
  int64_t stats = (image) * j.channels + first;                                   \
  int n = (int)(j.channels - first < CHANNELS ? j.channels - first : CHANNELS)

static void F(instance_norm_part)(void *job, int part, int parts) {
  F(instance_job) j = *(const F(instance_job) *)job;
  int64_t all = j.images * BLOCKS;
  for (int64_t u = chunk_begin(all, part, parts); u < chunk_begin(all, part + 1, parts); u++) {
    CHANNEL_BLOCK(u / BLOCKS, u % BLOCKS);
    float mean[CHANNELS], inv[CHANNELS];
    SUM_ROWS(mean, j.x[i])
    for (int c = 0; c < n; c++) mean[c] /= (float)j.rows;
    SUM_ROWS(inv, (j.x[i] - mean[c]) * (j.x[i] - mean[c]))
    for (int c = 0; c < n; c++) inv[c] = 1 / sqrtf(inv[c] / (float)j.rows + j.epsilon);
    for (int c = 0; c < n; c++) j.mean[stats + c] = mean[c], j.inv[stats + c] = inv[c];
    for (int64_t s = 0; s < j.rows; s++) {
      const float *x = j.x + at + s * j.channels, *gamma = j.gamma + first, *beta = j.beta + first;
      float *y = j.y + at + s * j.channels;
      IVDEP
      for (int c = 0; c < n; c++) y[c] = (x[c] - mean[c]) * inv[c] * gamma[c] + beta[c];
    }
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
  int64_t all = j.images * BLOCKS;
  for (int64_t u = chunk_begin(all, part, parts); u < chunk_begin(all, part + 1, parts); u++) {
    CHANNEL_BLOCK(u / BLOCKS, u % BLOCKS);
    float mean_dy[CHANNELS], dot[CHANNELS], scale[CHANNELS];
    const float *mean = j.mean + stats, *inv = j.inv + stats;
    SUM_ROWS(mean_dy, j.dy[i])
    SUM_ROWS(dot, j.dy[i] * (j.x[i] - mean[c]))
    for (int c = 0; c < n; c++) {
      mean_dy[c] /= (float)j.rows;
      dot[c] *= inv[c] * inv[c] / (float)j.rows;
      scale[c] = j.gamma[first + c] * inv[c];
    }
    for (int64_t s = 0; s < j.rows; s++) {
      const float *x = j.x + at + s * j.channels, *dy = j.dy + at + s * j.channels;
      float *dx = j.y + at + s * j.channels;
      IVDEP
      for (int c = 0; c < n; c++)
        dx[c] = scale[c] * (dy[c] - mean_dy[c] - (x[c] - mean[c]) * dot[c]);
    }
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
  for (int64_t u = 0; u < images * BLOCKS; u++) {
    CHANNEL_BLOCK(u / BLOCKS, u % BLOCKS);
    float dot[CHANNELS];
    SUM_ROWS(dot, dy[i] * (x[i] - mean[stats + c]))
    for (int c = 0; c < n; c++) dgamma[first + c] += dot[c] * inv[stats + c];
  }
}

#undef SUM_ROWS
#undef BLOCKS
#undef CHANNEL_BLOCK
