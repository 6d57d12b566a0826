/* One instruction set's version of lstm.c; the compiler makes the vectors. */

#include "exponential.h"
#include "vectors.h"

#include "tile.h"
#include "transpose_tile.h"

#define HALF (MR / 2) /* rows of a low tile; blocks have whole low tiles */

INLINE int64_t F(round_up)(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* out[r] += x[r] b for m rows and n vectors of columns. */
INLINE void F(add_product)(const float *const *x, const float *b, float *out, int m, int n,
                           int64_t depth, int64_t width) {
  F(tile) sums;
  int64_t at[MAX_MR], to[MAX_MR];
  for (int j = 0; j < n; j++) at[j] = j * depth * LANES, to[j] = j * LANES;
  F(tile_load)(sums, out, width, to, m, n);
  F(tile_add_products)(sums, x, depth, b, LANES, at, m, n);
  F(tile_store)(sums, out, width, to, m, n);
}

/* out[r] += x[r] b for whole low tiles of rows. b is packed as (vector, depth, LANES), so that its
   vectors are read once for all rows; out has rows of `width`, in whole vectors. */
static __attribute__((noinline)) void F(gate_product)(const float *const *x, const float *b,
                                                      float *out, int64_t rows, int64_t depth,
                                                      int64_t width) {
  for (int64_t j = 0, n; j < width; j += n * LANES) {
    n = width - j >= NR * LANES ? NR : 1;
    for (int64_t r = 0; r < rows;) {
      int tall = rows - r >= MR;
#define RUN(m, n) F(add_product)(x + r, b + j * depth, out + r * width + j, m, n, depth, width)
      if (tall) n == NR ? RUN(MR, NR) : RUN(MR, 1);
      else n == NR ? RUN(HALF, NR) : RUN(HALF, 1);
#undef RUN
      r += tall ? MR : HALF;
    }
  }
}

static void F(logistic_row)(const float *x, float *y, int64_t n) {
  IVDEP
  for (int64_t i = 0; i < n; i++) y[i] = F(logistic)(x[i]);
}

static void F(tanh_row)(const float *x, float *y, int64_t n) {
  IVDEP
  for (int64_t i = 0; i < n; i++) y[i] = F(tanh)(x[i]);
}

typedef struct {
  const float *x, *w, *r, *bias, *dy;
  float *y, *gates, *cells, *dz, *work; /* of each part: LSTM_ROWS rows of whole vectors */
  const lstm_shape *at;
} F(lstm_job);

/* The row of a part's sample and step. Samples behind the last one stand for that one: their
   results are not used. */
#define ROW(s, t) ((n + ((s) < rows ? (s) : rows - 1)) * q->sample_stride + (t) * q->step_stride)

/* One part: samples in blocks. The products with x are computed for several steps at once. */
static void F(lstm_part)(void *job, int part, int parts) {
  const F(lstm_job) *c = job;
  const lstm_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(GATES * units, LANES), rows,
          end = chunk_begin(q->samples, part + 1, parts);
  float *work = c->work + part * LSTM_ROWS * width;
  const float *from[LSTM_ROWS];
  for (int64_t n = chunk_begin(q->samples, part, parts); n < end; n += rows) {
    rows = end - n < LSTM_ROWS ? end - n : LSTM_ROWS;
    int64_t block = F(round_up)(rows, HALF), steps = LSTM_ROWS / block;
    for (int64_t t = 0; t < q->steps; t++) {
      float *z = work + t % steps * block * width;
      if (t % steps == 0) {
        int64_t all = (q->steps - t < steps ? q->steps - t : steps) * block;
        for (int64_t i = 0; i < all; i++) {
          IVDEP
          for (int64_t j = 0; j < width; j++) z[i * width + j] = c->bias[j];
          from[i] = c->x + ROW(i % block, t + i / block) * q->depth;
        }
        F(gate_product)(from, c->w, z, all, q->depth, width);
      }
      for (int64_t s = 0; s < block && t; s++) from[s] = c->y + ROW(s, t - 1) * units;
      if (t) F(gate_product)(from, c->r, z, block, units, width);
      for (int64_t s = 0; s < rows; s++) {
        float *a = c->gates + ROW(s, t) * GATES * units, *cell = c->cells + ROW(s, t) * units;
        float *h = c->y + ROW(s, t) * units;
        const float *c_prev = t ? cell - q->step_stride * units : 0;
        const float *zs = z + s * width;
        F(logistic_row)(zs, a, units);
        F(tanh_row)(zs + units, a + units, units);
        F(logistic_row)(zs + 2 * units, a + 2 * units, 2 * units);
        IVDEP
        for (int64_t u = 0; u < units; u++) {
          float cell_value = a[3 * units + u] * a[units + u] + (c_prev ? a[u] * c_prev[u] : 0);
          cell_value = cell_value < -q->clip ? -q->clip : cell_value;
          cell[u] = cell_value > q->clip ? q->clip : cell_value;
        }
        F(tanh_row)(cell, h, units);
        IVDEP
        for (int64_t u = 0; u < units; u++) h[u] *= a[2 * units + u];
      }
    }
  }
}

/* Packs the weights (units, depth) of all gates for gate_product; behind the last gate is 0. */
static void F(pack_gates)(const float *const *w, float *to, int64_t units, int64_t depth) {
  int64_t columns = GATES * units;
  for (int64_t first = 0; first < columns; first += LANES, to += depth * LANES) {
    if (units % LANES == 0 && depth >= LANES) {
      F(pack_rows)(w[first / units] + first % units * depth, depth, depth, to, LANES);
      continue;
    }
    for (int64_t l = 0; l < LANES; l++) {
      int64_t column = first + l < columns ? first + l : 0;
      const float *from = w[column / units] + column % units * depth;
      for (int64_t d = 0; d < depth; d++) to[d * LANES + l] = first + l < columns ? from[d] : 0;
    }
  }
}

static void F(run_lstm)(part_function f, F(lstm_job) * c, int64_t width, int64_t depth) {
  int parts =
      parallel_parts(c->at->samples * c->at->steps * width * (depth + 64) / LANES * PRODUCT);
  int64_t most = (c->at->samples + HALF - 1) / HALF;
  if (most > LSTM_PARTS) most = LSTM_PARTS;
  parallel_for(f, c, parts < most ? parts : (int)most);
}

/* scratch: the packed weights and bias, then LSTM_ROWS rows of gates for each part. */
void F(lstm)(const float *x, float *y, float *gates, float *cells, float *scratch, const float *wf,
             const float *wg, const float *wo, const float *wi, const float *rf, const float *rg,
             const float *ro, const float *ri, const float *bf, const float *bg, const float *bo,
             const float *bi, const lstm_shape *at) {
  const float *w[] = {wf, wg, wo, wi}, *r[] = {rf, rg, ro, ri}, *b[] = {bf, bg, bo, bi};
  int64_t width = F(round_up)(GATES * at->units, LANES);
  float *recurrent = scratch + at->depth * width, *bias = recurrent + at->units * width;
  F(pack_gates)(w, scratch, at->units, at->depth);
  F(pack_gates)(r, recurrent, at->units, at->units);
  F(pack_gates)(b, bias, at->units, 1);
  F(lstm_job) c = {x, scratch, recurrent, bias, 0, y, gates, cells, 0, bias + width, at};
  F(run_lstm)(F(lstm_part), &c, width, at->depth + at->units);
}

static void F(lstm_back_part)(void *job, int part, int parts) {
  const F(lstm_job) *c = job;
  const lstm_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(units, LANES), rows,
          end = chunk_begin(q->samples, part + 1, parts);
  float *dh = c->work + part * 2 * LSTM_ROWS * width, *dc_next = dh + LSTM_ROWS * width;
  const float *from[LSTM_ROWS];
  for (int64_t n = chunk_begin(q->samples, part, parts); n < end; n += rows) {
    rows = end - n < LSTM_ROWS ? end - n : LSTM_ROWS;
    int64_t block = F(round_up)(rows, HALF);
    for (int64_t i = 0; i < block * width; i++) dc_next[i] = 0;
    for (int64_t t = q->steps - 1; t >= 0; t--) {
      for (int64_t s = 0; s < block; s++) {
        const float *dy = c->dy + ROW(s, t) * units;
        IVDEP
        for (int64_t u = 0; u < width; u++) dh[s * width + u] = u < units ? dy[u] : 0;
        from[s] = c->dz + ROW(s, t + 1) * GATES * units;
      }
      if (t + 1 < q->steps) F(gate_product)(from, c->r, dh, block, GATES * units, width);
      for (int64_t s = 0; s < rows; s++) {
        const float *a = c->gates + ROW(s, t) * GATES * units, *cell = c->cells + ROW(s, t) * units;
        const float *c_prev = t ? cell - q->step_stride * units : 0;
        float *d = c->dz + ROW(s, t) * GATES * units;
        float *dc = dc_next + s * width, *dm = dh + s * width;
        IVDEP
        for (int64_t u = 0; u < units; u++) {
          float f = a[u], g = a[units + u], o = a[2 * units + u], i = a[3 * units + u];
          float e = F(tanh)(cell[u]), m = dm[u], d_cell = dc[u] + m * o * (1 - e * e);
          d[2 * units + u] = m * e * o * (1 - o);
          d_cell = fabsf(cell[u]) < q->clip ? d_cell : 0;
          d[u] = c_prev ? d_cell * c_prev[u] * f * (1 - f) : 0;
          d[units + u] = d_cell * i * (1 - g * g);
          d[3 * units + u] = d_cell * g * i * (1 - i);
          dc[u] = d_cell * f;
        }
      }
    }
  }
}

/* dz may be gates. scratch: the packed weights, then 2 · LSTM_ROWS rows of units for each part. */
void F(lstm_back)(const float *dy, const float *gates, const float *cells, float *dz,
                  float *scratch, const float *rf, const float *rg, const float *ro,
                  const float *ri, const lstm_shape *at) {
  const float *r[] = {rf, rg, ro, ri};
  int64_t units = at->units, width = F(round_up)(units, LANES);
  float *to = scratch;
  for (int64_t first = 0; first < units; first += LANES)
    for (int k = 0; k < GATES; k++)
      for (int64_t u = 0; u < units; u++, to += LANES)
        for (int64_t l = 0; l < LANES; l++)
          to[l] = first + l < units ? r[k][u * units + first + l] : 0;
  F(lstm_job) c = {0, 0, scratch, 0, dy, 0, (float *)gates, (float *)cells, dz, to, at};
  F(run_lstm)(F(lstm_back_part), &c, width, GATES * units);
}

#undef ROW
#undef HALF

void F(integer_lstm)(const int8_t *x, const float *w, const float *r, const int64_t *b,
                     const int64_t *br, const int64_t *m, const int64_t *mr, const int64_t *p,
                     const float *wp, const int64_t *bp, const int16_t *tables, int8_t *y,
                     float *scratch, int64_t *cells, const integer_lstm_shape *at) {
  int64_t size = at->samples * at->gates * at->units;
  integer_lstm_job c = {
      x,     w,  r, b, br, m, mr, p, wp, bp, tables, y, scratch + 2 * size, scratch, scratch + size,
      cells, at, 0};
  integer_steps(&c, F(dense));
}
