/* One instruction set's version of lstm.c; the compiler makes the vectors. */

#include "exponential.h"
#include "vectors.h"

#include "tile.h"
#include "transpose_tile.h"

#define HALF (MR / 2) /* rows of a low tile; blocks have whole low tiles */

INLINE int64_t F(round_up)(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Columns of a product from j on, of m rows and n vectors. */
INLINE void F(add_product)(const row_product *p, int64_t r, int64_t j, int m, int n) {
  F(tile) sums;
  int64_t at[MAX_MR], to[MAX_MR];
  for (int i = 0; i < n; i++) at[i] = i * p->depth * LANES, to[i] = i * LANES;
  F(tile_load)(sums, p->from + r * p->stride + j, p->stride, to, m, n);
  F(tile_add_products)(sums, p->x + r, p->depth, p->b + j * p->depth, LANES, at, m, n);
  F(tile_store)(sums, p->out + r * p->width + j, p->width, to, m, n);
}

/* Columns `first` to `last` of a product, in whole vectors, for whole low tiles of rows. b is
   packed as (vector, depth, LANES), so that its vectors are read once for all rows. */
static __attribute__((noinline)) void F(gate_product)(const row_product *p, int64_t first,
                                                      int64_t last) {
  for (int64_t left = last - first, n; left; left -= n * LANES) {
    n = left >= NR * LANES ? NR : 1;
    int64_t j = p->turned ? first + left - n * LANES : last - left;
    for (int64_t r = 0; r < p->rows;) {
      int tall = p->rows - r >= MR;
      if (tall) n == NR ? F(add_product)(p, r, j, MR, NR) : F(add_product)(p, r, j, MR, 1);
      else n == NR ? F(add_product)(p, r, j, HALF, NR) : F(add_product)(p, r, j, HALF, 1);
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

/* The row of a sample and step. Samples behind the last one stand for that one: their results are
   not used. */
#define ROW(s, t) \
  ((p.n + ((s) < p.rows ? (s) : p.rows - 1)) * q->sample_stride + (t) * q->step_stride)

/* Columns of units, gate by gate, from the last one on if `turned`; of all units at once, because
   those of a gate may not fill vectors. */
#define EACH_GATE(first, last, turned)                                                         \
  for (int64_t gate = 0, all = end - begin == units, next = (turned) && !all ? -units : units, \
               first = begin + (next < 0 ? (GATES - 1) * units : 0),                           \
               last = all ? width : first + end - begin;                                       \
       gate < (all ? 1 : GATES); gate++, first += next, last += next)

/* Columns of the units from `begin` to `end` of a product. */
static void F(gate_products)(const row_product *p, int64_t units, int64_t begin, int64_t end) {
  int64_t width = p->width;
  EACH_GATE(first, last, p->turned) F(gate_product)(p, first, last);
}

static void F(forward_step)(const lstm_job *c, float *work, lstm_place p, int64_t begin,
                            int64_t end) {
  const lstm_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(GATES * units, LANES), count = end - begin,
          block = F(round_up)(p.rows, HALF), steps = LSTM_ROWS / block, t = p.t;
  float *z = work + t % steps * block * width;
  const float *from[LSTM_ROWS];
  if (t % steps == 0) { /* products with x of several steps */
    int64_t many = (q->steps - t < steps ? q->steps - t : steps) * block;
    for (int64_t i = 0; i < many; i++) from[i] = c->x + ROW(i % block, t + i / block) * q->depth;
    row_product read = {from, c->w, c->bias, z, many, q->depth, 0, width, 0};
    F(gate_products)(&read, units, begin, end);
  }
  for (int64_t s = 0; s < block && t; s++) from[s] = c->y + ROW(s, t - 1) * units;
  row_product returned = {from, c->r, z, z, block, units, width, width, t % 2};
  if (t) F(gate_products)(&returned, units, begin, end);
  for (int64_t s = 0; s < p.rows; s++) {
    const float *zs = z + s * width + begin;
    float *a = c->gates + ROW(s, t) * GATES * units + begin;
    float *cell = c->cells + ROW(s, t) * units + begin, *h = c->y + ROW(s, t) * units + begin;
    const float *c_prev = t ? cell - q->step_stride * units : 0;
    F(logistic_row)(zs, a, count);
    F(tanh_row)(zs + units, a + units, count);
    for (int k = 2; k < GATES; k++) F(logistic_row)(zs + k * units, a + k * units, count);
    IVDEP
    for (int64_t u = 0; u < count; u++) {
      float cell_value = a[3 * units + u] * a[units + u] + (c_prev ? a[u] * c_prev[u] : 0);
      cell_value = cell_value < -q->clip ? -q->clip : cell_value;
      cell[u] = cell_value > q->clip ? q->clip : cell_value;
    }
    F(tanh_row)(cell, h, count);
    IVDEP
    for (int64_t u = 0; u < count; u++) h[u] *= a[2 * units + u];
  }
}

static void F(back_step)(const lstm_job *c, float *work, lstm_place p, int64_t begin, int64_t end) {
  const lstm_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(units, LANES), count = end - begin,
          block = F(round_up)(p.rows, HALF), t = p.t, last = count == units ? width : end;
  float *dh = work + begin, *dc_next = dh + LSTM_ROWS * width;
  const float *from[LSTM_ROWS];
  for (int64_t s = 0; s < block; s++) {
    const float *dy = c->dy + ROW(s, t) * units + begin;
    memcpy(dh + s * width, dy, sizeof(float) * (size_t)count);
    memset(dh + s * width + count, 0, sizeof(float) * (size_t)(last - end));
    if (t + 1 == q->steps) memset(dc_next + s * width, 0, sizeof(float) * (size_t)count);
    from[s] = c->dz + ROW(s, t + 1) * GATES * units;
  }
  row_product returned = {from, c->r, work, work, block, GATES * units, width, width, t % 2};
  if (t + 1 < q->steps) F(gate_product)(&returned, begin, last);
  for (int64_t s = 0; s < p.rows; s++) {
    const float *a = c->gates + ROW(s, t) * GATES * units + begin;
    const float *cell = c->cells + ROW(s, t) * units + begin;
    const float *c_prev = t ? cell - q->step_stride * units : 0;
    float *d = c->dz + ROW(s, t) * GATES * units + begin;
    float *dc = dc_next + s * width, *dm = dh + s * width;
    IVDEP
    for (int64_t u = 0; u < count; u++) {
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

/* Packs columns of weights (units, depth) of all gates for gate_product; behind the last gate is
   0. */
static void F(pack_gates)(const float *const *w, float *to, int64_t units, int64_t depth,
                          int64_t first, int64_t last) {
  int64_t columns = GATES * units;
  for (to += first * depth; first < last; first += LANES, to += depth * LANES) {
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

static void F(pack_forward)(const lstm_job *c, int64_t begin, int64_t end) {
  int64_t units = c->at->units, width = F(round_up)(GATES * units, LANES);
  EACH_GATE(first, last, 0) {
    F(pack_gates)(c->kinds[0], c->w, units, c->at->depth, first, last);
    F(pack_gates)(c->kinds[1], c->r, units, units, first, last);
    F(pack_gates)(c->kinds[2], c->bias, units, 1, first, last);
  }
}

static void F(pack_back)(const lstm_job *c, int64_t begin, int64_t end) {
  int64_t units = c->at->units;
  for (float *to = c->r + begin * GATES * units; begin < end; begin += LANES)
    for (int k = 0; k < GATES; k++)
      for (int64_t u = 0; u < units; u++, to += LANES) {
        const float *from = c->kinds[1][k] + u * units + begin;
        if (begin + LANES <= units) F(store)(to, F(load)(from));
        else
          for (int64_t l = 0; l < LANES; l++) to[l] = begin + l < units ? from[l] : 0;
      }
}

/* scratch: the packed weights and bias, then LSTM_ROWS rows of gates for each part. */
void F(lstm)(const float *x, float *y, float *gates, float *cells, float *scratch, const float *wf,
             const float *wg, const float *wo, const float *wi, const float *rf, const float *rg,
             const float *ro, const float *ri, const float *bf, const float *bg, const float *bo,
             const float *bi, const lstm_shape *at) {
  const float *w[] = {wf, wg, wo, wi}, *r[] = {rf, rg, ro, ri}, *b[] = {bf, bg, bo, bi};
  int64_t width = F(round_up)(GATES * at->units, LANES);
  float *recurrent = scratch + at->depth * width, *bias = recurrent + at->units * width;
  lstm_job c = {.x = x,
                .y = y,
                .gates = gates,
                .cells = cells,
                .kinds = {w, r, b},
                .w = scratch,
                .r = recurrent,
                .bias = bias,
                .work = bias + width,
                .size = LSTM_ROWS * width,
                .at = at,
                .pack = F(pack_forward),
                .step = F(forward_step)};
  run_lstm(&c, at->depth + at->units, LANES, HALF);
}

/* dz may be gates. scratch: the packed weights, then 2 · LSTM_ROWS rows of units for each part. */
void F(lstm_back)(const float *dy, const float *gates, const float *cells, float *dz,
                  float *scratch, const float *rf, const float *rg, const float *ro,
                  const float *ri, const lstm_shape *at) {
  const float *r[] = {rf, rg, ro, ri};
  int64_t width = F(round_up)(at->units, LANES);
  lstm_job c = {.dy = dy,
                .gates = (float *)gates,
                .cells = (float *)cells,
                .dz = dz,
                .kinds = {0, r, 0},
                .r = scratch,
                .work = scratch + GATES * at->units * width,
                .size = 2 * LSTM_ROWS * width,
                .at = at,
                .pack = F(pack_back),
                .step = F(back_step)};
  run_lstm(&c, at->units, LANES, HALF);
}

#undef EACH_GATE
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
