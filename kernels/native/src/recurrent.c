/* RNN, LSTM and GRU, forward and backward through time. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "team.h"

#define GATES 4         /* of an LSTM: forget, cell, output, input, side by side */
#define GRU_GATES 3     /* of a GRU: update, reset, new */
#define LARGE (1 << 18) /* recurrent weights that do not fit into the cache of a core */

/* Samples from n on, at a step. */
typedef struct {
  int64_t n, rows, t;
} recurrent_place;

/* A pass, forward or, with dy, backward and without x; gates and cells are those of an LSTM. Of a
   GRU, cells are the products that the reset gate multiplies, dz is the gradient by the products
   with y, and the pass back has one step more, for the state before the first one. */
typedef struct recurrent_job recurrent_job;
struct recurrent_job {
  const float *x, *dy, *state; /* state before the first step; null for 0 */
  float *y, *gates, *cells, *dz;
  const float *late; /* biases of the products with y */
  float *dx, *before, *dstate;
  const float *const *kinds[3]; /* weights of x, of y and biases, each of all gates */
  float *w, *r, *bias, *work;   /* packed; `size` floats for each part that computes all units */
  int64_t size;
  const recurrent_shape *at;
  /* Packs the weights of units from `begin` to `end`, and computes these units of a step. */
  void (*pack)(const recurrent_job *c, int64_t begin, int64_t end);
  void (*step)(const recurrent_job *c, float *work, recurrent_place p, int64_t begin, int64_t end);
  int64_t lanes, low_rows; /* floats of a vector, rows of the lowest register tile */
  recurrent_place place;   /* that is computed now */
};

/* out[r] = from[r] + x[r] b for some rows, those of `from` `stride` apart and those of `out`
   `width`. `reverse` begins with the last columns: if weights do not fit into the cache,
   alternate steps find there those that the step before has read last. */
typedef struct {
  const float *const *x;
  const float *b, *from;
  float *out;
  int64_t rows, depth, stride, width, reverse;
} row_product;

/* The first unit of a part. Units that do not fill vectors are one part. */
static int64_t first_unit(const recurrent_job *c, int part, int parts) {
  int64_t units = c->at->units;
  return part < parts ? chunk_begin(units / c->lanes, part, parts) * c->lanes : units;
}

static void pack_part(void *job, int part, int parts) {
  const recurrent_job *c = job;
  c->pack(c, first_unit(c, part, parts), first_unit(c, part + 1, parts));
}

/* One part: some units of a step. */
static void units_part(void *job, int part, int parts) {
  const recurrent_job *c = job;
  c->step(c, c->work, c->place, first_unit(c, part, parts), first_unit(c, part + 1, parts));
}

/* Computes all steps of the samples from `begin` to `end`, in blocks; parts divide the units. */
static void compute(recurrent_job *c, int64_t begin, int64_t end, int parts) {
  recurrent_place *p = &c->place;
  for (p->n = begin; p->n < end; p->n += p->rows) {
    p->rows = end - p->n < RECURRENT_ROWS ? end - p->n : RECURRENT_ROWS;
    for (int64_t k = 0; k < c->at->steps + (c->dstate != 0); k++) {
      p->t = c->dy ? c->at->steps - 1 - k : k;
      parallel_for(units_part, c, parts);
    }
  }
}

/* One part: some samples. */
static void samples_part(void *job, int part, int parts) {
  recurrent_job own = *(const recurrent_job *)job;
  int64_t samples = own.at->samples;
  own.work += part * own.size;
  compute(&own, chunk_begin(samples, part, parts), chunk_begin(samples, part + 1, parts), 1);
}

/* Each thread computes some samples; or, if these are few or each thread would read large weights
   in each step, some units. scratch: the packed weights and bias, then RECURRENT_ROWS rows of gates
   for each part; backward the packed weights, then twice as many rows of units. */
static void run_recurrent(recurrent_job *c, float *scratch) {
  const recurrent_shape *q = c->at;
  int64_t units = q->units, wide = q->gates * units,
          vectors = units % c->lanes ? 1 : units / c->lanes,
          rows = q->samples < RECURRENT_ROWS ? q->samples : RECURRENT_ROWS,
          depth = q->depth + units, work = wide * (depth + 64) / c->lanes * PRODUCT,
          most = (q->samples + c->low_rows - 1) / c->low_rows;
  int64_t width = ((c->dy ? units : wide) + c->lanes - 1) / c->lanes * c->lanes;
  c->w = scratch, c->r = c->w + q->depth * width;
  c->bias = c->r + (c->dy ? wide : units) * width, c->work = c->bias + (c->dy ? 0 : width);
  c->size = (c->dy ? 2 : 1) * RECURRENT_ROWS * width;
  int packing = parallel_parts(wide * depth * 2 * WEIGHT), parts = parallel_parts(rows * work);
  parallel_for(pack_part, c, packing < vectors ? packing : (int)vectors);
  if (most > RECURRENT_PARTS) most = RECURRENT_PARTS;
  if (parts > vectors) parts = (int)vectors;
  if (parts > 1 && (parts > most || wide * units > LARGE)) {
    compute(c, 0, q->samples, parts);
    return;
  }
  parts = parallel_parts(q->samples * q->steps * work);
  parallel_for(samples_part, c, parts < most ? parts : (int)most);
}

/* One LSTM on integers, as in kernels/integer/unidirectional_sequence_lstm.py. Columns of (4, n)
   factors hold m, k, 2ᵏ⁻¹, and 1 if k > 0: a factor is m / 2³¹⁺ᵏ. */
typedef struct {
  const int8_t *x;
  const float *w, *r;
  const int64_t *b, *br, *m, *mr, *p;
  const float *wp;
  const int64_t *bp;
  const int16_t *tables;
  int8_t *y;
  float *rows, *products, *state_products; /* of a step; state_products is null at the first */
  int64_t *cells;
  const integer_lstm_shape *at;
  int8_t *to; /* y of the step */
} integer_lstm_job;

#define TABLE 65536 /* values of a table; the middle one is of 0 */

static int64_t limited(int64_t a, int64_t lo, int64_t hi) { return a < lo ? lo : a > hi ? hi : a; }
static int64_t short_of(int64_t a) { return limited(a, INT16_MIN, INT16_MAX); }

/* a / 2ᵇⁱᵗˢ, rounded half away from 0; bits > 0. */
static int64_t divided(int64_t a, int64_t bits) {
  return (a + ((int64_t)1 << (bits - 1)) + (a >> 63)) >> bits;
}

/* a times the factor in a column of n, rounded for 2³¹ and for 2ᵏ. */
static int64_t scaled(int64_t a, const int64_t *m, int64_t n) {
  a = (int64_t)((uint64_t)a * (uint64_t)m[0] + (1 << 30)) >> 31;
  return (a + m[2 * n] + (a >> 63) * m[3 * n]) >> m[n];
}

static void integer_cells(void *job, int part, int parts) {
  const integer_lstm_job *c = job;
  const integer_lstm_shape *q = c->at;
  int64_t units = q->units, wide = q->gates * units;
  int64_t begin = chunk_begin(q->samples, part, parts),
          end = chunk_begin(q->samples, part + 1, parts);
  const int16_t *sigmoid = c->tables + TABLE / 2, *tanh = sigmoid + TABLE;
  for (int64_t n = begin; n < end; n++)
    for (int64_t u = 0; u < units; u++) {
      int64_t *cell = c->cells + n * units + u, z[GATES] = {0};
      for (int64_t g = 0; g < q->gates; g++) {
        int64_t j = g * units + u, at = n * wide + j;
        z[g] = short_of(scaled((int64_t)c->products[at] + c->b[j], c->m + j, wide));
        if (c->state_products)
          z[g] =
              short_of(z[g] + scaled((int64_t)c->state_products[at] + c->br[j], c->mr + j, wide));
        if (c->p && g % 3 == 0)
          z[g] = short_of(z[g] + scaled(*cell * c->p[j], c->p + wide + j, wide));
      }
      int64_t f = sigmoid[z[0]], i = q->gates == GATES ? sigmoid[z[3]] : INT16_MAX - f;
      *cell = divided(*cell * f, 15) + divided(i * tanh[z[1]], q->bits);
      *cell = limited(*cell, q->cell_lo, q->cell_hi);
      if (c->p) {
        const int64_t *p = c->p + 2 * units + u;
        z[2] = short_of(z[2] + scaled(*cell * p[0], p + wide, wide));
      }
      int64_t e = scaled((tanh + TABLE)[*cell] * sigmoid[z[2]], q->m, 1);
      e = limited(e + q->hidden_zero, q->hidden_lo, q->hidden_hi);
      if (c->wp) c->rows[n * units + u] = (float)e;
      else c->to[n * q->sample_stride * q->out + u] = (int8_t)e;
    }
}

/* Rows of all samples at a step as floats. */
static void widen(const integer_lstm_job *c, const int8_t *from, int64_t step, int64_t width) {
  const integer_lstm_shape *q = c->at;
  from += step * q->step_stride * width;
  for (int64_t n = 0; n < q->samples; n++)
    for (int64_t k = 0; k < width; k++)
      c->rows[n * width + k] = from[n * q->sample_stride * width + k];
}

typedef void dense_kernel(const float *x, const float *w, const float *bias, float *y, int64_t rows,
                          int64_t depth, int64_t units, int64_t clamp, float lo, float hi);

/* Computes all steps; products of integers are exact in floats. */
static void integer_steps(integer_lstm_job *c, dense_kernel *dense) {
  const integer_lstm_shape *q = c->at;
  int64_t n = q->samples, units = q->units, wide = q->gates * units, out = q->out;
  float *state_products = c->state_products;
  int parts = parallel_parts(n * wide * 64);
  for (int64_t k = 0; k < n * units; k++) c->cells[k] = 0;
  for (int64_t t = 0; t < q->steps; t++) {
    c->to = c->y + t * q->step_stride * out;
    widen(c, c->x, t, q->depth);
    dense(c->rows, c->w, 0, c->products, n, q->depth, wide, 0, 0, 0);
    if (t) {
      widen(c, c->y, t - 1, out);
      dense(c->rows, c->r, 0, state_products, n, out, wide, 0, 0, 0);
    }
    c->state_products = t ? state_products : 0;
    parallel_for(integer_cells, c, n < parts ? (int)n : parts);
    if (!c->wp) continue;
    dense(c->rows, c->wp, 0, c->products, n, units, out, 0, 0, 0);
    for (int64_t k = 0; k < n * out; k++) {
      int64_t e = (int64_t)c->products[k] + c->bp[k % out];
      e = scaled(e, c->bp + out + k % out, out) + q->zero;
      c->to[k / out * q->sample_stride * out + k % out] = (int8_t)limited(e, q->lo, q->hi);
    }
  }
}

#define BODY "recurrent_body.h"
#include "each_isa.h"
