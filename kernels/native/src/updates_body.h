/* One instruction set's version of updates.c; the compiler makes most vectors. */

#include "vectors.h"

void F(accumulate)(float *total, const float *gradient, int64_t n, const int64_t *adds) {
  if (!*adds) {
    memcpy(total, gradient, (size_t)n * sizeof *total);
    return;
  }
  IVDEP
  for (int64_t i = 0; i < n; i++) total[i] += gradient[i];
}

#ifndef ODT_EMBEDDED
void F(meet)(int64_t *state, int64_t all, const bound_call *calls, int64_t count) {
  meet_others(state, all, calls, count);
}

void F(side_by_side)(const call_list *lists, int64_t count) { run_side_by_side(lists, count, 1); }
#endif

/* `numbers` of an optimizer are those of `compiled` in its rule (kernels/optimizers), in that
   order. */

typedef struct {
  float *p, *m, *v;
  const float *g, *numbers;
  int64_t n;
} F(adam_job);

static void F(adam_part)(void *job, int part, int parts) {
  F(adam_job) a = *(const F(adam_job) *)job;
  float alpha = a.numbers[0], rate_m = a.numbers[1], rate_v = a.numbers[2];
  float epsilon = a.numbers[3], scale = a.numbers[4];
  float decay = a.numbers[5], p_scale = a.numbers[6];
  IVDEP
  for (int64_t i = chunk_begin(a.n, part, parts); i < chunk_begin(a.n, part + 1, parts); i++) {
    float g = a.g[i] + decay * a.p[i];
    float m = a.m[i] + rate_m * (g - a.m[i]), v = a.v[i] + rate_v * (g * g - a.v[i]);
    a.m[i] = m, a.v[i] = v;
    a.p[i] = a.p[i] * p_scale - alpha * m / (sqrtf(v) * scale + epsilon);
  }
}

/* Adam with the denominator √v · scale + ε. Weight decay: `decay` · p is added to the gradient, and
   p is first multiplied by `p_scale`. */
void F(adam)(float *p, const float *g, float *m, float *v, int64_t n, const float *numbers) {
  F(adam_job) a = {p, m, v, g, numbers, n};
  parallel_for(F(adam_part), &a, parallel_parts(n * 4));
}

void F(sgd)(float *p, const float *g, int64_t n, const float *numbers) {
  float learning_rate = numbers[0], decay = numbers[1];
  IVDEP
  for (int64_t i = 0; i < n; i++) p[i] -= learning_rate * (g[i] + decay * p[i]);
}

void F(momentum)(float *p, const float *g, float *m, int64_t n, const float *numbers) {
  float learning_rate = numbers[0], decay = numbers[1], momentum = numbers[2];
  int nesterov = numbers[3] > 0;
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    float mi = m[i] * momentum + gi;
    m[i] = mi;
    p[i] -= learning_rate * (nesterov ? gi + momentum * mi : mi);
  }
}

/* RMSprop and Adagrad: v = keep · v + add · g²; the gradient is divided by √v + ε. */
void F(root_scaled)(float *p, const float *g, float *v, int64_t n, const float *numbers) {
  float learning_rate = numbers[0], decay = numbers[1], keep = numbers[2], add = numbers[3],
        epsilon = numbers[4];
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    v[i] = v[i] * keep + gi * gi * add;
    p[i] -= learning_rate * gi / (sqrtf(v[i]) + epsilon);
  }
}

void F(root_scaled_momentum)(float *p, const float *g, float *v, float *m, int64_t n,
                             const float *numbers) {
  float learning_rate = numbers[0], decay = numbers[1], keep = numbers[2], add = numbers[3],
        epsilon = numbers[4], momentum = numbers[5];
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    v[i] = v[i] * keep + gi * gi * add;
    m[i] = m[i] * momentum + gi / (sqrtf(v[i]) + epsilon);
    p[i] -= learning_rate * m[i];
  }
}

/* p moves by the sign of β₁ m + (1 − β₁) g. The sign of NaN is NaN, as in np.sign. */
void F(lion)(float *p, const float *g, float *m, int64_t n, const float *numbers) {
  float learning_rate = numbers[0], p_scale = numbers[1], beta = numbers[2], rate = numbers[3];
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float difference = m[i] - g[i], direction = difference * beta + g[i];
    p[i] = p[i] * p_scale - learning_rate * (direction > 0 ? 1 : direction < 0 ? -1 : direction);
    m[i] -= rate * difference;
  }
}

/* Updates n values of a parameter by the kernel of an optimizer, with the slots a and b. */
static void F(update)(int64_t rule, float *p, const float *g, float *a, float *b, int64_t n,
                      const float *numbers) {
  switch (rule) {
  case SGD:
    F(sgd)(p, g, n, numbers);
    break;
  case MOMENTUM:
    F(momentum)(p, g, a, n, numbers);
    break;
  case ADAM:
    F(adam)(p, g, a, b, n, numbers);
    break;
  case ROOT_SCALED:
    F(root_scaled)(p, g, a, n, numbers);
    break;
  case ROOT_SCALED_MOMENTUM:
    F(root_scaled_momentum)(p, g, a, b, n, numbers);
    break;
  case LION:
    F(lion)(p, g, a, n, numbers);
    break;
  }
}

/* Adds gradients of rows of a table to their sums: row at[r] gets g[r]. `rows` begins with the
   number of rows that have a sum, which follow in the order of the sums; `places` says for each row
   of the table where its sum is, counted from 1, or 0. Sums without a row are 0. */
static void F(add_to_rows)(float *sums, int64_t *rows, int32_t *places, const float *g,
                           const int64_t *at, int64_t count, int64_t width) {
  for (int64_t r = 0; r < count; r++, g += width) {
    int32_t *place = places + at[r];
    if (!*place) rows[++rows[0]] = at[r], *place = (int32_t)rows[0];
    float *to = sums + (*place - 1) * width;
    IVDEP
    for (int64_t k = 0; k < width; k++) to[k] += g[k];
  }
}

void F(add_rows)(float *sums, int64_t *rows, int32_t *places, const float *g, const int64_t *at,
                 int64_t count, int64_t width, const int64_t *adds) {
  if (!*adds) {
    memset(sums, 0, (size_t)(rows[0] * width) * sizeof *sums);
    for (; rows[0]; rows[0]--) places[rows[rows[0]]] = 0;
  }
  F(add_to_rows)(sums, rows, places, g, at, count, width);
}

/* Adds the sums of rows of another worker. */
void F(merge_rows)(float *sums, int64_t *rows, int32_t *places, const float *others,
                   const int64_t *other_rows, int64_t width) {
  F(add_to_rows)(sums, rows, places, others, other_rows + 1, other_rows[0], width);
}

typedef struct {
  float *p, *a, *b;
  const float *numbers, *sums;
  const int64_t *rows;
  const int32_t *places;
  int64_t rule, entries, width, which, part, parts;
} F(rows_job);

static const float F(no_gradient)[STRETCH];

/* Whether all of n values are 0. */
static int F(are_zero)(const float *a, int64_t n) {
  uint32_t bits = 0;
  const uint32_t *words = (const uint32_t *)(const void *)a;
  for (int64_t i = 0; i < n; i++) bits |= words[i];
  return !bits;
}

/* Updates n values of the table from number `at` on. */
static void F(update_values)(const F(rows_job) * c, int64_t at, const float *g, int64_t n) {
  float *a = c->a ? c->a + at : 0, *b = c->b ? c->b + at : 0;
  F(update)(c->rule, c->p + at, g, a, b, n, c->numbers);
}

/* Whether n values from number `at` on stay as they are, because their gradients are 0. */
static int F(rest)(const F(rows_job) * c, int64_t at, int64_t n) {
  if (c->which == ALL) return 0;
  return F(are_zero)(c->a + at, n) && (!c->b || F(are_zero)(c->b + at, n));
}

/* Updates n values from number `first` on, whose gradients are 0. */
static void F(update_without_gradient)(const F(rows_job) * c, int64_t first, int64_t n) {
  int64_t from = first, end = first + n; /* values before `from` are done */
  for (int64_t at = first, count; at < end; at += count) {
    count = end - at < PIECE ? end - at : PIECE;
    int rests = F(rest)(c, at, count);
    int64_t waiting = at - from + (rests ? 0 : count);
    if (waiting && (rests || waiting > STRETCH - PIECE || at + count == end))
      F(update_values)(c, from, F(no_gradient), waiting), from += waiting;
    if (rests) from = at + count;
  }
}

static void F(update_row)(const F(rows_job) * c, int64_t row, int64_t place) {
  F(update_values)(c, row * c->width, c->sums + place * c->width, c->width);
}

static void F(rows_part)(void *job, int part, int parts) {
  const F(rows_job) *c = job;
  int64_t n = c->which == LISTED ? c->rows[0] : c->entries, of = c->parts * parts;
  int64_t k = n * (c->part * parts + part) / of, end = n * (c->part * parts + part + 1) / of;
  if (c->which == LISTED) {
    for (; k < end; k++) F(update_row)(c, c->rows[1 + k], k);
    return;
  }
  for (int64_t last; k < end; k = last) {
    last = k + 1;
    if (c->places[k]) {
      F(update_row)(c, k, c->places[k] - 1);
      continue;
    }
    while (last < end && !c->places[last]) last++;
    F(update_without_gradient)(c, k * c->width, (last - k) * c->width);
  }
}

/* Updates one of several parts of a table by the sums of its rows' gradients: all rows, those that
   have a gradient or state that is not 0, or the listed ones, which have a gradient. */
void F(update_rows)(float *p, float *a, float *b, const float *numbers, int64_t rule,
                    const float *sums, const int64_t *rows, const int32_t *places, int64_t entries,
                    int64_t width, int64_t which, int64_t part, int64_t parts) {
  F(rows_job) c = {.p = p, .a = a, .b = b, .numbers = numbers, .sums = sums, .rows = rows};
  c.places = places, c.rule = rule, c.entries = entries, c.width = width, c.which = which;
  c.part = part, c.parts = parts;
  int64_t updated = which == LISTED ? rows[0] : entries / parts;
  parallel_for(F(rows_part), &c, parallel_parts(updated * width * 4));
}

/* The exponential moving average e of weights w: e += share · (w − e). */
void F(move_average)(float *e, const float *w, int64_t n, const float *numbers) {
  float share = numbers[0];
  IVDEP
  for (int64_t i = 0; i < n; i++) e[i] += share * (w[i] - e[i]);
}

/* Σ a², value i in sum i mod SQUARE_SUMS, then these in order: the order does not depend on the
   instruction set, and squares are exact in double. */
void F(sum_squares)(const float *a, int64_t n, double *total) {
  double sums[SQUARE_SUMS] = {0};
  int64_t whole = n - n % SQUARE_SUMS;
  for (int64_t i = 0; i < whole; i += SQUARE_SUMS)
    for (int k = 0; k < SQUARE_SUMS; k++) sums[k] += (double)a[i + k] * a[i + k];
  for (int64_t i = whole; i < n; i++) sums[i - whole] += (double)a[i] * a[i];
  *total = sums[0];
  for (int k = 1; k < SQUARE_SUMS; k++) *total += sums[k];
}

/* The factor that scales gradients to at most a norm. */
void F(clip_factor)(const double *squares, int64_t n, const double *norm, double *factor) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += squares[i];
  double length = sqrt(sum);
  *factor = length > *norm ? *norm / length : 1;
}

void F(scale_by)(float *a, int64_t n, const double *factor) {
  float p = (float)*factor;
  if (p == 1) return;
  IVDEP
  for (int64_t i = 0; i < n; i++) a[i] *= p;
}

/* The running mean and variance of n channels move towards those of a batch, which give the share
   `rest`; inv is 1 / √(variance + ε) of the batch. */
void F(move_statistics)(float *mean, float *variance, const float *center, const float *inv,
                        int64_t n, float momentum, float rest, float epsilon) {
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float of_batch = 1 / (inv[i] * inv[i]) - epsilon;
    mean[i] = mean[i] * momentum + rest * center[i];
    variance[i] = variance[i] * momentum + rest * (of_batch < 0 ? 0 : of_batch);
  }
}

/* Widens a range {least, most} to that of n numbers. NaN is ignored. The minima and maxima of
   several vectors are side by side: a chain of them would wait for memory again and again. */
static void F(widen)(const float *a, int64_t n, float *range) {
  F(vec) least[SIDE_BY_SIDE], most[SIDE_BY_SIDE];
  UNROLL(j, SIDE_BY_SIDE, least[j] = F(broadcast)(range[0]); most[j] = F(broadcast)(range[1]));
  int64_t i = 0;
  for (; i + SIDE_BY_SIDE * LANES <= n; i += SIDE_BY_SIDE * LANES)
    UNROLL(j, SIDE_BY_SIDE, F(vec) v = F(load)(a + i + j * LANES);
           __builtin_prefetch(a + i + j * LANES + AHEAD); least[j] = F(least)(v, least[j]);
           most[j] = F(most)(v, most[j]));
  for (; i + LANES <= n; i += LANES) {
    F(vec) v = F(load)(a + i);
    least[0] = F(least)(v, least[0]), most[0] = F(most)(v, most[0]);
  }
  for (int j = 1; j < SIDE_BY_SIDE; j++)
    least[0] = F(least)(least[j], least[0]), most[0] = F(most)(most[j], most[0]);
  for (int lane = 0; lane < LANES; lane++) {
    range[0] = least[0][lane] < range[0] ? least[0][lane] : range[0];
    range[1] = most[0][lane] > range[1] ? most[0][lane] : range[1];
  }
  for (; i < n; i++) {
    range[0] = a[i] < range[0] ? a[i] : range[0];
    range[1] = a[i] > range[1] ? a[i] : range[1];
  }
}

typedef struct {
  const float *w, *scales, *zeros;
  float *y, lo, hi;
  int64_t outer, units, inner, fixed;
} F(rounding_job);

/* Returns the scale of a unit with which integers from lo to hi cover its range, and sets *zero,
   the zero point, unless it is null: then the range is symmetric and only the scale grows. Both are
   those of the file unless the range exceeds theirs by more than ROUNDING of
   geometry/weight_quantization.py. */
static float F(fitted)(const float *range, float scale, float *zero, float lo, float hi) {
  if (!zero) {
    scale = range[0] / lo > scale ? range[0] / lo : scale;
    return range[1] / hi > scale ? range[1] / hi : scale;
  }
  double low = ((double)lo - *zero) * scale, high = ((double)hi - *zero) * scale;
  low = range[0] < low ? range[0] : low, high = range[1] > high ? range[1] : high;
  double wider = (high - low) / ((double)hi - lo), nearest = rint(lo - low / wider);
  if (!(wider > scale * (1 + 1e-6))) return scale;
  *zero = (float)(nearest < lo ? lo : nearest > hi ? hi : nearest);
  return (float)wider;
}

static void F(round_part)(void *job, int part, int parts) {
  F(rounding_job) c = *(const F(rounding_job) *)job;
  int64_t last = chunk_begin(c.units, part + 1, parts), row = c.units * c.inner;
  for (int64_t u = chunk_begin(c.units, part, parts); u < last; u++) {
    float range[2] = {0}, zero = c.zeros ? c.zeros[u] : 0;
    for (int64_t at = u * c.inner; at < c.outer * row && !c.fixed; at += row)
      F(widen)(c.w + at, c.inner, range);
    float scale = F(fitted)(range, c.scales[u], c.zeros ? &zero : 0, c.lo, c.hi);
    float inverse = 1 / scale, lo = c.lo - zero, hi = c.hi - zero;
    for (int64_t at = u * c.inner; at < c.outer * row; at += row) {
      int64_t i = at, end = at + c.inner;
      for (; i + LANES <= end; i += LANES) {
        __builtin_prefetch(c.w + i + AHEAD);
        F(vec) v = F(clamp)(F(load)(c.w + i) * inverse, lo, hi);
        F(store)(c.y + i, scale * ROUND(v));
      }
      for (; i < end; i++) {
        float v = c.w[i] * inverse;
        v = v < lo ? lo : v > hi ? hi : v;
        c.y[i] = scale * ROUND(v);
      }
    }
  }
}

/* Rounds weights to the numbers that integers from lo to hi represent, with scale and zero point of
   each unit: those of the file, or the next ones that fit the weights, unless they are fixed. zeros
   may be null: they stay 0. */
void F(round_units)(const float *w, float *y, const float *scales, const float *zeros,
                    int64_t outer, int64_t units, int64_t inner, float lo, float hi,
                    int64_t fixed) {
  F(rounding_job) c = {w, scales, zeros, y, lo, hi, outer, units, inner, fixed};
  int parts = parallel_parts(outer * units * inner * 4);
  parallel_for(F(round_part), &c, units < parts ? (int)units : parts);
}

typedef struct {
  uint8_t *q;
  const float *g, *numbers, *scales, *zeros;
  float *a, *b, lo, hi;
  int64_t first, n, units, inner, rule;
  int32_t flip; /* sign bit of signed integers, else 0: (q ^ flip) - flip is the value */
  random_sequence sequence;
} F(integers_job);

/* Fills in scale and zero point of n values from number `first` on. */
static void F(unit_scales)(const F(integers_job) * c, int64_t first, int64_t n, float *scales,
                           float *zeros) {
  int64_t unit = first / c->inner % c->units, left = c->inner - first % c->inner;
  for (int64_t i = 0; i < n; i++) {
    scales[i] = c->scales[unit], zeros[i] = c->zeros[unit];
    if (--left) continue;
    left = c->inner;
    if (++unit == c->units) unit = 0;
  }
}

static void F(integers_part)(void *job, int part, int parts) {
  F(integers_job) c = *(const F(integers_job) *)job;
  int64_t end = chunk_begin(c.n, part + 1, parts);
  for (int64_t at = chunk_begin(c.n, part, parts); at < end; at += INTEGERS) {
    int64_t n = end - at < INTEGERS ? end - at : INTEGERS;
    float real[INTEGERS], noise[INTEGERS], scales[INTEGERS], zeros[INTEGERS];
    F(unit_scales)(&c, c.first + at, n, scales, zeros);
    uint8_t *q = c.q + at;
    for (int64_t i = 0; i < n; i++)
      real[i] = ((float)((q[i] ^ c.flip) - c.flip) - zeros[i]) * scales[i];
    float *a = c.a ? c.a + at : 0, *b = c.b ? c.b + at : 0;
    F(update)(c.rule, real, c.g + at, a, b, n, c.numbers);
    draw_uniform(&c.sequence, c.first + at, n, noise);
    for (int64_t i = 0; i < n; i++) {
      float v = real[i] / scales[i] + zeros[i] + noise[i];
      v = v > c.lo ? v : c.lo, v = v < c.hi ? v : c.hi;
      int32_t whole = (int32_t)v;
      q[i] = (uint8_t)(whole - ((float)whole > v)); /* rounded down, also below 0 */
    }
  }
}

/* Updates a weight that is integers from lo to hi: real numbers, by the kernel of an optimizer with
   the slots a and b, and then integers again, rounded up with a probability of the fraction.
   `first` is the number of the first value in the whole weight, whose number is `weight`. */
void F(update_integers)(uint8_t *q, const float *g, float *a, float *b, const float *numbers,
                        int64_t rule, int64_t first, int64_t n, const float *scales,
                        const float *zeros, int64_t units, int64_t inner, int64_t flip, float lo,
                        float hi, int64_t weight, const uint64_t *origin) {
  F(integers_job) c = {.q = q, .g = g, .a = a, .b = b, .numbers = numbers, .rule = rule};
  c.first = first, c.n = n, c.scales = scales, c.zeros = zeros, c.units = units, c.inner = inner;
  c.flip = (int32_t)flip, c.lo = lo, c.hi = hi;
  c.sequence.key[0] = (origin[0] << 32) + (uint64_t)weight, c.sequence.key[1] = origin[1];
  parallel_for(F(integers_part), &c, parallel_parts(n * 16));
}
