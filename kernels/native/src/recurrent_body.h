/* One instruction set's version of recurrent.c; the compiler makes the vectors. */

#include "exponential.h"
#include "vectors.h"

#include "tile.h"
#include "transpose_tile.h"

#define HALF (MR / 2) /* rows of a low tile; products have one row, two, or whole low tiles */
#define ROW_VECTORS 4 /* vectors in a tile of one or two rows */

INLINE int64_t F(round_up)(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Rows of a product for n rows that are needed. */
INLINE int64_t F(product_rows)(int64_t n) { return n <= 2 && n < HALF ? n : F(round_up)(n, HALF); }

/* Columns of a product from j on, of m rows and n vectors. */
INLINE void F(add_product)(const row_product *p, int64_t r, int64_t j, int m, int n) {
  F(tile) sums;
  int64_t at[MAX_MR], to[MAX_MR];
  for (int i = 0; i < n; i++) at[i] = i * p->depth * LANES, to[i] = i * LANES;
  F(tile_load)(sums, p->from + r * p->stride + j, p->stride, to, m, n);
  F(tile_add_products)(sums, p->x + r, p->depth, p->b + j * p->depth, LANES, at, m, n);
  F(tile_store)(sums, p->out + r * p->width + j, p->width, to, m, n);
}

/* Columns of a product of one or two rows from j on: one vector, or ROW_VECTORS. */
INLINE void F(few_rows)(const row_product *p, int64_t j, int n) {
  if (p->rows == 1 || HALF <= 2)
    n == 1 ? F(add_product)(p, 0, j, 1, 1) : F(add_product)(p, 0, j, 1, ROW_VECTORS);
  else n == 1 ? F(add_product)(p, 0, j, 2, 1) : F(add_product)(p, 0, j, 2, ROW_VECTORS);
}

/* Columns `first` to `last` of a product, in whole vectors. b is packed as (vector, depth, LANES),
   so that its vectors are read once for all rows. */
static __attribute__((noinline)) void F(gate_product)(const row_product *p, int64_t first,
                                                      int64_t last) {
  int64_t most = p->rows < HALF ? ROW_VECTORS : NR;
  for (int64_t left = last - first, n; left; left -= n * LANES) {
    n = left >= most * LANES ? most : 1;
    int64_t j = p->reverse ? first + left - n * LANES : last - left;
    if (p->rows < HALF) {
      F(few_rows)(p, j, (int)n);
      continue;
    }
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

/* The state of a sample before a step; null for 0. */
INLINE const float *F(state_before)(const recurrent_job *c, recurrent_place p, int64_t s) {
  const recurrent_shape *q = c->at;
  if (p.t) return c->y + ROW(s, p.t - 1) * q->units;
  return c->state ? c->state + (p.n + (s < p.rows ? s : p.rows - 1)) * q->units : 0;
}

/* Columns of units, gate by gate, from the last one on if `reverse`; of all units at once, because
   those of a gate may not fill vectors. */
#define EACH_GATE(first, last, reverse)                                                         \
  for (int64_t gate = 0, all = end - begin == units, next = (reverse) && !all ? -units : units, \
               first = begin + (next < 0 ? (q->gates - 1) * units : 0),                         \
               last = all ? width : first + end - begin;                                        \
       gate < (all ? 1 : q->gates); gate++, first += next, last += next)

/* Columns of the units from `begin` to `end` of a product. */
static void F(gate_products)(const row_product *p, const recurrent_shape *q, int64_t begin,
                             int64_t end) {
  int64_t units = q->units, width = p->width;
  EACH_GATE(first, last, p->reverse) F(gate_product)(p, first, last);
}

/* Computes the arguments of all gates at a step, those of the samples `width` apart. */
static float *F(gate_arguments)(const recurrent_job *c, float *work, recurrent_place p,
                                int64_t begin, int64_t end, int64_t width) {
  const recurrent_shape *q = c->at;
  int64_t block = F(product_rows)(p.rows), steps = RECURRENT_ROWS / block, t = p.t;
  float *z = work + t % steps * block * width;
  const float *from[RECURRENT_ROWS];
  if (t % steps == 0) { /* products with x of several steps */
    int64_t left = q->steps - t, count = (left < steps ? left : steps) * block;
    int64_t many = F(product_rows)(count);
    for (int64_t i = 0; i < many; i++) {
      int64_t row = i < count ? i : count - 1; /* rows behind the last one stand for it */
      from[i] = c->x + ROW(row % block, t + row / block) * q->depth;
    }
    row_product read = {from, c->w, c->bias, z, many, q->depth, 0, width, 0};
    F(gate_products)(&read, q, begin, end);
  }
  for (int64_t s = 0; s < block; s++) from[s] = F(state_before)(c, p, s);
  row_product with_state = {from, c->r, z, z, block, q->units, width, width, t % 2};
  if (from[0]) F(gate_products)(&with_state, q, begin, end);
  return z + begin;
}

static void F(rnn_step)(const recurrent_job *c, float *work, recurrent_place p, int64_t begin,
                        int64_t end) {
  const recurrent_shape *q = c->at;
  int64_t width = F(round_up)(q->units, LANES);
  const float *z = F(gate_arguments)(c, work, p, begin, end, width);
  for (int64_t s = 0; s < p.rows; s++, z += width) {
    float *h = c->y + ROW(s, p.t) * q->units + begin;
    if (q->is_tanh) F(tanh_row)(z, h, end - begin);
    else {
      IVDEP
      for (int64_t u = 0; u < end - begin; u++) {
        float limited = z[u] < q->lo ? q->lo : z[u];
        h[u] = limited > q->hi ? q->hi : limited;
      }
    }
  }
}

static void F(lstm_step)(const recurrent_job *c, float *work, recurrent_place p, int64_t begin,
                         int64_t end) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(GATES * units, LANES), count = end - begin, t = p.t;
  const float *zs = F(gate_arguments)(c, work, p, begin, end, width);
  for (int64_t s = 0; s < p.rows; s++, zs += width) {
    float *a = c->gates + ROW(s, t) * GATES * units + begin;
    float *cell = c->cells + ROW(s, t) * units + begin, *h = c->y + ROW(s, t) * units + begin;
    const float *c_prev = t ? cell - q->step_stride * units : 0;
    F(logistic_row)(zs, a, count);
    F(tanh_row)(zs + units, a + units, count);
    for (int k = 2; k < GATES; k++) F(logistic_row)(zs + k * units, a + k * units, count);
    IVDEP
    for (int64_t u = 0; u < count; u++) {
      float cell_value = a[3 * units + u] * a[units + u] + (c_prev ? a[u] * c_prev[u] : 0);
      cell_value = cell_value < q->lo ? q->lo : cell_value;
      cell[u] = cell_value > q->hi ? q->hi : cell_value;
    }
    F(tanh_row)(cell, h, count);
    IVDEP
    for (int64_t u = 0; u < count; u++) h[u] *= a[2 * units + u];
  }
}

/* The columns of a GRU's products are u, g, w₃ x + b₃ and r₃ h + c₃; in the others those with x and
   with h are added up. */
static void F(gru_step)(const recurrent_job *c, float *work, recurrent_place p, int64_t begin,
                        int64_t end) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(q->gates * units, LANES), count = end - begin;
  float *z = F(gate_arguments)(c, work, p, begin, end, width);
  const float *late = c->late + begin;
  for (int64_t s = 0; s < p.rows; s++, z += width) {
    float *a = c->gates + ROW(s, p.t) * GRU_GATES * units + begin;
    float *inner = c->cells + ROW(s, p.t) * units + begin, *h = c->y + ROW(s, p.t) * units + begin;
    const float *before = F(state_before)(c, p, s);
    IVDEP
    for (int64_t u = 0; u < count; u++) {
      z[u] += late[u];
      z[units + u] += late[units + u];
    }
    for (int k = 0; k < 2; k++) F(logistic_row)(z + k * units, a + k * units, count);
    IVDEP
    for (int64_t u = 0; u < count; u++) {
      inner[u] = z[3 * units + u];
      z[2 * units + u] += a[units + u] * inner[u];
    }
    F(tanh_row)(z + 2 * units, a + 2 * units, count);
    IVDEP
    for (int64_t u = 0; u < count; u++) {
      float from = before ? before[begin + u] : 0, now = a[2 * units + u];
      h[u] = (from - now) * a[u] + now;
    }
  }
}

/* Computes the gradients by y at a step, those of the samples `width` apart. */
static float *F(gradients_by_y)(const recurrent_job *c, float *work, recurrent_place p,
                                int64_t begin, int64_t end, int64_t width) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, wide = q->gates * units, count = end - begin,
          block = F(product_rows)(p.rows), t = p.t, last = count == units ? width : end;
  float *dh = work + begin;
  const float *from[RECURRENT_ROWS];
  for (int64_t s = 0; s < block; s++) {
    const float *dy = c->dy + ROW(s, t) * units + begin;
    memcpy(dh + s * width, dy, sizeof(float) * (size_t)count);
    memset(dh + s * width + count, 0, sizeof(float) * (size_t)(last - end));
    from[s] = c->dz + ROW(s, t + 1) * wide;
  }
  row_product with_state = {from, c->r, work, work, block, wide, width, width, t % 2};
  if (t + 1 < q->steps) F(gate_product)(&with_state, begin, last);
  return dh;
}

static void F(rnn_back_step)(const recurrent_job *c, float *work, recurrent_place p, int64_t begin,
                             int64_t end) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(units, LANES);
  const float *dh = F(gradients_by_y)(c, work, p, begin, end, width);
  float square = q->is_tanh ? 1 : 0;
  for (int64_t s = 0; s < p.rows; s++, dh += width) {
    const float *h = c->y + ROW(s, p.t) * units + begin;
    float *d = c->dz + ROW(s, p.t) * units + begin;
    IVDEP
    for (int64_t u = 0; u < end - begin; u++) {
      float slope = 1 - square * h[u] * h[u];
      d[u] = h[u] > q->lo && h[u] < q->hi ? dh[u] * slope : 0;
    }
  }
}

static void F(lstm_back_step)(const recurrent_job *c, float *work, recurrent_place p, int64_t begin,
                              int64_t end) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(units, LANES), count = end - begin, t = p.t;
  const float *dh = F(gradients_by_y)(c, work, p, begin, end, width);
  float *dc = work + RECURRENT_ROWS * width + begin;
  for (int64_t s = 0; s < p.rows; s++, dh += width, dc += width) {
    if (t + 1 == q->steps) memset(dc, 0, sizeof(float) * (size_t)count);
    const float *a = c->gates + ROW(s, t) * GATES * units + begin;
    const float *cell = c->cells + ROW(s, t) * units + begin;
    const float *c_prev = t ? cell - q->step_stride * units : 0;
    float *d = c->dz + ROW(s, t) * GATES * units + begin;
    IVDEP
    for (int64_t u = 0; u < count; u++) {
      float f = a[u], g = a[units + u], o = a[2 * units + u], i = a[3 * units + u];
      float e = F(tanh)(cell[u]), m = dh[u], d_cell = dc[u] + m * o * (1 - e * e);
      d[2 * units + u] = m * e * o * (1 - o);
      d_cell = cell[u] > q->lo && cell[u] < q->hi ? d_cell : 0;
      d[u] = c_prev ? d_cell * c_prev[u] * f * (1 - f) : 0;
      d[units + u] = d_cell * i * (1 - g * g);
      d[3 * units + u] = d_cell * g * i * (1 - i);
      dc[u] = d_cell * f;
    }
  }
}

/* The gradient by the state before the first step: what the first step gives back. */
static void F(gru_first_state)(const recurrent_job *c, float *work, recurrent_place p,
                               int64_t begin, int64_t end) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(units, LANES), wide = GRU_GATES * units,
          block = F(product_rows)(p.rows), last = end - begin == units ? width : end;
  const float *from[RECURRENT_ROWS], *carried = work + RECURRENT_ROWS * width;
  for (int64_t s = 0; s < block; s++) {
    memset(work + s * width + begin, 0, sizeof(float) * (size_t)(last - begin));
    from[s] = c->dz + ROW(s, 0) * wide;
  }
  row_product with_state = {from, c->r, work, work, block, wide, width, width, 1};
  F(gate_product)(&with_state, begin, last);
  for (int64_t s = 0; s < p.rows; s++) {
    float *to = c->dstate + (p.n + s) * units;
    for (int64_t u = begin; u < end; u++) to[u] = work[s * width + u] + carried[s * width + u];
  }
}

static void F(gru_back_step)(const recurrent_job *c, float *work, recurrent_place p, int64_t begin,
                             int64_t end) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(units, LANES), count = end - begin, t = p.t;
  if (t < 0) {
    F(gru_first_state)(c, work, p, begin, end);
    return;
  }
  const float *dh = F(gradients_by_y)(c, work, p, begin, end, width);
  float *carried = work + RECURRENT_ROWS * width + begin;
  for (int64_t s = 0; s < p.rows; s++, dh += width, carried += width) {
    if (t + 1 == q->steps) memset(carried, 0, sizeof(float) * (size_t)count);
    const float *a = c->gates + ROW(s, t) * GRU_GATES * units + begin;
    const float *inner = c->cells + ROW(s, t) * units + begin;
    const float *before = F(state_before)(c, p, s);
    float *d = c->dx + ROW(s, t) * GRU_GATES * units + begin;
    float *dp = c->dz + ROW(s, t) * GRU_GATES * units + begin;
    float *state = c->before + ROW(s, t) * units + begin;
    IVDEP
    for (int64_t u = 0; u < count; u++) {
      float update = a[u], reset = a[units + u], now = a[2 * units + u];
      float from = before ? before[begin + u] : 0, sum = dh[u] + carried[u];
      float d_new = (1 - update) * sum * (1 - now * now);
      float d_update = (from - now) * sum * update * (1 - update);
      float d_reset = d_new * inner[u] * reset * (1 - reset);
      state[u] = from;
      d[u] = dp[u] = d_update;
      d[units + u] = dp[units + u] = d_reset;
      d[2 * units + u] = d_new;
      dp[2 * units + u] = d_new * reset;
      carried[u] = sum * update;
    }
  }
}

/* Packs columns of weights (units, depth) of all gates for gate_product; of a gate without weights,
   and behind the last gate, they are 0. */
static void F(pack_gates)(const float *const *w, float *to, const recurrent_shape *q, int64_t depth,
                          int64_t first, int64_t last) {
  int64_t units = q->units, columns = q->gates * units;
  for (to += first * depth; first < last; first += LANES, to += depth * LANES) {
    if (units % LANES == 0 && depth >= LANES && w[first / units]) {
      F(pack_rows)(w[first / units] + first % units * depth, depth, depth, to, LANES);
      continue;
    }
    for (int64_t l = 0; l < LANES; l++) {
      int64_t column = first + l < columns ? first + l : 0;
      const float *from = first + l < columns ? w[column / units] : 0;
      if (from) from += column % units * depth;
      for (int64_t d = 0; d < depth; d++) to[d * LANES + l] = from ? from[d] : 0;
    }
  }
}

static void F(pack_forward)(const recurrent_job *c, int64_t begin, int64_t end) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, width = F(round_up)(q->gates * units, LANES);
  EACH_GATE(first, last, 0) {
    F(pack_gates)(c->kinds[0], c->w, q, q->depth, first, last);
    F(pack_gates)(c->kinds[1], c->r, q, units, first, last);
    F(pack_gates)(c->kinds[2], c->bias, q, 1, first, last);
  }
}

static void F(pack_back)(const recurrent_job *c, int64_t begin, int64_t end) {
  int64_t units = c->at->units, gates = c->at->gates;
  for (float *to = c->r + begin * gates * units; begin < end; begin += LANES)
    for (int64_t k = 0; k < gates; k++)
      for (int64_t u = 0; u < units; u++, to += LANES) {
        const float *from = c->kinds[1][k] + u * units + begin;
        if (begin + LANES <= units) F(store)(to, F(load)(from));
        else
          for (int64_t l = 0; l < LANES; l++) to[l] = begin + l < units ? from[l] : 0;
      }
}

#define STEPS(step_of, pack_of) .step = step_of, .pack = pack_of, .lanes = LANES, .low_rows = HALF

void F(rnn)(const float *x, float *y, float *scratch, const float *w, const float *r,
            const float *b, const recurrent_shape *at) {
  recurrent_job c = {
      .x = x, .y = y, .kinds = {&w, &r, &b}, .at = at, STEPS(F(rnn_step), F(pack_forward))};
  run_recurrent(&c, scratch);
}

/* dz may be dy. */
void F(rnn_back)(const float *dy, const float *y, float *dz, float *scratch, const float *r,
                 const recurrent_shape *at) {
  recurrent_job c = {.dy = dy,
                     .y = (float *)y,
                     .dz = dz,
                     .kinds = {0, &r, 0},
                     .at = at,
                     STEPS(F(rnn_back_step), F(pack_back))};
  run_recurrent(&c, scratch);
}

void F(lstm)(const float *x, float *y, float *gates, float *cells, float *scratch, const float *wf,
             const float *wg, const float *wo, const float *wi, const float *rf, const float *rg,
             const float *ro, const float *ri, const float *bf, const float *bg, const float *bo,
             const float *bi, const recurrent_shape *at) {
  const float *w[] = {wf, wg, wo, wi}, *r[] = {rf, rg, ro, ri}, *b[] = {bf, bg, bo, bi};
  recurrent_job c = {.x = x,
                     .y = y,
                     .gates = gates,
                     .cells = cells,
                     .kinds = {w, r, b},
                     .at = at,
                     STEPS(F(lstm_step), F(pack_forward))};
  run_recurrent(&c, scratch);
}

/* dz may be gates. */
void F(lstm_back)(const float *dy, const float *gates, const float *cells, float *dz,
                  float *scratch, const float *rf, const float *rg, const float *ro,
                  const float *ri, const recurrent_shape *at) {
  const float *r[] = {rf, rg, ro, ri};
  recurrent_job c = {.dy = dy,
                     .gates = (float *)gates,
                     .cells = (float *)cells,
                     .dz = dz,
                     .kinds = {0, r, 0},
                     .at = at,
                     STEPS(F(lstm_back_step), F(pack_back))};
  run_recurrent(&c, scratch);
}

void F(gru)(const float *x, float *y, float *gates, float *inner, float *scratch, const float *w,
            const float *r, const float *b, const float *late, const float *state,
            const recurrent_shape *at) {
  int64_t n = at->units, wide = n * at->depth, square = n * n;
  const float *ws[] = {w, w + wide, w + 2 * wide, 0}, *rs[] = {r, r + square, 0, r + 2 * square};
  const float *bs[] = {b, b + n, b + 2 * n, late + 2 * n};
  recurrent_job c = {.x = x,
                     .state = state,
                     .y = y,
                     .gates = gates,
                     .cells = inner,
                     .late = late,
                     .kinds = {ws, rs, bs},
                     .at = at,
                     STEPS(F(gru_step), F(pack_forward))};
  run_recurrent(&c, scratch);
}

void F(gru_back)(const float *dy, const float *y, const float *gates, const float *inner,
                 const float *state, float *dz, float *dp, float *before, float *dstate,
                 float *scratch, const float *r, const recurrent_shape *at) {
  int64_t square = at->units * at->units;
  const float *rs[] = {r, r + square, r + 2 * square};
  recurrent_job c = {.dy = dy,
                     .state = state,
                     .y = (float *)y,
                     .gates = (float *)gates,
                     .cells = (float *)inner,
                     .dz = dp,
                     .dx = dz,
                     .before = before,
                     .dstate = dstate,
                     .kinds = {0, rs, 0},
                     .at = at,
                     STEPS(F(gru_back_step), F(pack_back))};
  run_recurrent(&c, scratch);
}

#undef STEPS
#undef EACH_GATE
#undef ROW
#undef ROW_VECTORS
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
