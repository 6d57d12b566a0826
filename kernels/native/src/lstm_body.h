/* One instruction set's version of lstm.c; the compiler makes the vectors. */

#include "exponential.h"
#include "vectors.h"

#include "tile.h"

INLINE int64_t F(round_up)(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* out[s] += a[s] b for rows s and n vectors of columns; b has rows of `width`. */
INLINE void F(add_product)(const float *const *a, const float *b, float *out, int rows, int n,
                           int64_t depth, int64_t width) {
  F(tile) sums;
  int64_t at[MAX_MR];
  for (int j = 0; j < MAX_MR; j++) at[j] = j * LANES;
  F(tile_load)(sums, out, GATES * MAX_LSTM_UNITS, at, rows, n);
  F(tile_add_products)(sums, a, depth, b, width, at, rows, n);
  F(tile_store)(sums, out, GATES * MAX_LSTM_UNITS, at, rows, n);
}

/* out[s] += a[s] b for rows s; b (depth, width) with width in whole vectors, and so is out. */
static __attribute__((noinline)) void F(gate_product)(const float *const *a, const float *b,
                                                      float (*out)[GATES * MAX_LSTM_UNITS],
                                                      int rows, int64_t depth, int64_t width) {
  for (int64_t j = 0; j < width;) {
    int n = width - j >= NR * LANES ? NR : 1;
#define RUN(s, rows, n) F(add_product)(a + (s), b + j, out[s] + j, rows, n, depth, width)
    if (rows == SAMPLES) n == NR ? RUN(0, SAMPLES, NR) : RUN(0, SAMPLES, 1);
    else
      for (int s = 0; s < rows; s++) n == NR ? RUN(s, 1, NR) : RUN(s, 1, 1);
#undef RUN
    j += n * LANES;
  }
}

typedef struct {
  const float *x, *w, *r, *bias, *dy;
  float *y, *gates, *cells, *dz;
  const lstm_shape *at;
} F(lstm_job);

static void F(lstm_part)(void *job, int part, int parts) {
  const F(lstm_job) *c = job;
  const lstm_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(GATES * units),
          end = chunk_begin(q->samples, part + 1, parts);
  float z[SAMPLES][GATES * MAX_LSTM_UNITS];
  const float *from[SAMPLES];
  for (int64_t n = chunk_begin(q->samples, part, parts); n < end; n += SAMPLES) {
    int rows = end - n < SAMPLES ? (int)(end - n) : SAMPLES;
    for (int64_t t = 0; t < q->steps; t++) {
#define ROW(s) ((n + (s)) * q->sample_stride + t * q->step_stride)
      for (int s = 0; s < rows; s++) {
        for (int64_t j = 0; j < width; j++) z[s][j] = c->bias[j];
        from[s] = c->x + ROW(s) * q->depth;
      }
      F(gate_product)(from, c->w, z, rows, q->depth, width);
      for (int s = 0; s < rows; s++) from[s] = c->y + (ROW(s) - q->step_stride) * units;
      if (t) F(gate_product)(from, c->r, z, rows, units, width);
      for (int s = 0; s < rows; s++) {
        float *a = c->gates + ROW(s) * GATES * units, *cell = c->cells + ROW(s) * units;
        float *h = c->y + ROW(s) * units;
        const float *c_prev = t ? cell - q->step_stride * units : 0;
        const float *zf = z[s], *zg = zf + units, *zo = zg + units, *zi = zo + units;
        IVDEP
        for (int64_t u = 0; u < units; u++) a[u] = F(logistic)(zf[u]);
        IVDEP
        for (int64_t u = 0; u < units; u++) a[units + u] = F(tanh)(zg[u]);
        IVDEP
        for (int64_t u = 0; u < units; u++) a[2 * units + u] = F(logistic)(zo[u]);
        IVDEP
        for (int64_t u = 0; u < units; u++) a[3 * units + u] = F(logistic)(zi[u]);
        IVDEP
        for (int64_t u = 0; u < units; u++) {
          float cell_value = a[3 * units + u] * a[units + u] + (c_prev ? a[u] * c_prev[u] : 0);
          cell_value = cell_value < -q->clip ? -q->clip : cell_value;
          cell[u] = cell_value > q->clip ? q->clip : cell_value;
          h[u] = a[2 * units + u] * F(tanh)(cell[u]);
        }
      }
    }
  }
}

/* Transposes the weights (units, depth) of all gates into one matrix (depth, width). */
static void F(pack_gates)(const float *const *w, float *to, int64_t units, int64_t depth,
                          int64_t width) {
  for (int64_t d = 0; d < depth; d++)
    for (int64_t j = GATES * units; j < width; j++) to[d * width + j] = 0;
  for (int k = 0; k < GATES; k++)
    for (int64_t u = 0; u < units; u++)
      for (int64_t d = 0; d < depth; d++) to[d * width + k * units + u] = w[k][u * depth + d];
}

/* scratch: (depth + units + 1) rows of all gates, rounded up to whole vectors. */
void F(lstm)(const float *x, float *y, float *gates, float *cells, float *scratch, const float *wf,
             const float *wg, const float *wo, const float *wi, const float *rf, const float *rg,
             const float *ro, const float *ri, const float *bf, const float *bg, const float *bo,
             const float *bi, const lstm_shape *at) {
  const float *w[] = {wf, wg, wo, wi}, *r[] = {rf, rg, ro, ri}, *b[] = {bf, bg, bo, bi};
  int64_t width = F(round_up)(GATES * at->units);
  float *recurrent = scratch + at->depth * width, *bias = recurrent + at->units * width;
  F(pack_gates)(w, scratch, at->units, at->depth, width);
  F(pack_gates)(r, recurrent, at->units, at->units, width);
  F(pack_gates)(b, bias, at->units, 1, width);
  F(lstm_job) c = {x, scratch, recurrent, bias, 0, y, gates, cells, 0, at};
  int64_t work = at->samples * at->steps * width * (at->depth + at->units + 64) / LANES;
  int parts = parallel_parts(work), max_parts = (int)((at->samples + SAMPLES - 1) / SAMPLES);
  parallel_for(F(lstm_part), &c, parts < max_parts ? parts : max_parts);
}

static void F(lstm_back_part)(void *job, int part, int parts) {
  const F(lstm_job) *c = job;
  const lstm_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(units),
          end = chunk_begin(q->samples, part + 1, parts);
  float dh[SAMPLES][GATES * MAX_LSTM_UNITS], dc_next[SAMPLES][MAX_LSTM_UNITS];
  const float *from[SAMPLES];
  for (int64_t n = chunk_begin(q->samples, part, parts); n < end; n += SAMPLES) {
    int rows = end - n < SAMPLES ? (int)(end - n) : SAMPLES;
    for (int s = 0; s < rows; s++)
      for (int64_t u = 0; u < units; u++) dc_next[s][u] = 0;
    for (int64_t t = q->steps - 1; t >= 0; t--) {
      for (int s = 0; s < rows; s++) {
        const float *dy = c->dy + ROW(s) * units;
        for (int64_t u = 0; u < units; u++) dh[s][u] = dy[u];
        for (int64_t u = units; u < width; u++) dh[s][u] = 0;
        from[s] = c->dz + (ROW(s) + q->step_stride) * GATES * units;
      }
      if (t + 1 < q->steps) F(gate_product)(from, c->r, dh, rows, GATES * units, width);
      for (int s = 0; s < rows; s++) {
        const float *a = c->gates + ROW(s) * GATES * units, *cell = c->cells + ROW(s) * units;
        const float *c_prev = t ? cell - q->step_stride * units : 0;
        float *d = c->dz + ROW(s) * GATES * units, *dc = dc_next[s];
        IVDEP
        for (int64_t u = 0; u < units; u++) {
          float f = a[u], g = a[units + u], o = a[2 * units + u], i = a[3 * units + u];
          float e = F(tanh)(cell[u]), m = dh[s][u], d_cell = dc[u] + m * o * (1 - e * e);
          d[2 * units + u] = m * e * o * (1 - o);
          d_cell = fabsf(cell[u]) < q->clip ? d_cell : 0;
          d[u] = c_prev ? d_cell * c_prev[u] * f * (1 - f) : 0;
          d[units + u] = d_cell * i * (1 - g * g);
          d[3 * units + u] = d_cell * g * i * (1 - i);
          dc[u] = d_cell * f;
        }
      }
#undef ROW
    }
  }
}

/* dz may be gates. scratch: the rows of all gates, rounded up to whole vectors. */
void F(lstm_back)(const float *dy, const float *gates, const float *cells, float *dz,
                  float *scratch, const float *rf, const float *rg, const float *ro,
                  const float *ri, const lstm_shape *at) {
  const float *r[] = {rf, rg, ro, ri};
  int64_t units = at->units, width = F(round_up)(units);
  for (int64_t k = 0; k < GATES * units; k++)
    for (int64_t p = 0; p < width; p++)
      scratch[k * width + p] = p < units ? r[k / units][k % units * units + p] : 0;
  F(lstm_job) c = {0, 0, scratch, 0, dy, 0, (float *)gates, (float *)cells, dz, at};
  int64_t work = at->samples * at->steps * width * (GATES * units + 64) / LANES;
  int parts = parallel_parts(work), max_parts = (int)((at->samples + SAMPLES - 1) / SAMPLES);
  parallel_for(F(lstm_back_part), &c, parts < max_parts ? parts : max_parts);
}
