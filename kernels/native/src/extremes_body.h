/* One instruction set's version of extremes.c. */

#include "vectors.h"

typedef struct {
  const float *x, *y, *dy;
  float *to; /* y, or dx */
  int64_t outer, count, inner;
  int is_min, first_only, relu_mask;
  float lo, hi;
} F(extreme_job);

/* The larger values of v and w, or the smaller ones; v if they are equal, or one is NaN. */
INLINE F(vec) F(further)(F(vec) v, F(vec) w, int is_min) {
  return is_min ? F(least)(w, v) : F(most)(w, v);
}

/* The extreme value of a row. Its last vector may overlap the one before, or is filled up. */
INLINE float F(row_extreme)(const float *row, int64_t count, int is_min) {
  F(vec) v;
  for (int l = 0; l < LANES; l++) v[l] = row[l < count ? l : count - 1];
  F(bits) is_nan = v != v;
  for (int64_t j = 1; j * LANES < count; j++) {
    F(vec) w = F(load)(row + F(vector_start)(j, count));
    v = F(further)(v, w, is_min), is_nan |= w != w;
  }
  v = F(selected)(is_nan, F(broadcast)(NAN), v);
#define FOLD(h)                                           \
  do {                                                    \
    F(vec) w = SHUFFLE(v, v, OTHER_LANE, h);              \
    v = F(selected)(w != w, w, F(further)(v, w, is_min)); \
  } while (0)
#if LANES >= 16
  FOLD(8);
#endif
#if LANES >= 8
  FOLD(4);
#endif
  FOLD(2);
  FOLD(1);
#undef FOLD
  return v[0];
}

/* Takes `rows` rows into the extreme values of n columns. NaN stays NaN, as in np.max. */
INLINE void F(take_rows)(float *y, const float *x, int64_t stride, int64_t n, int rows,
                         int is_min) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    F(vec) v = F(load)(y + i);
    F(bits) is_nan = {0};
    for (int k = 0; k < rows; k++) {
      F(vec) w = F(load)(x + k * stride + i);
      v = F(further)(v, w, is_min), is_nan |= w != w;
    }
    F(store)(y + i, F(selected)(is_nan, F(broadcast)(NAN), v));
  }
  for (; i < n; i++)
    for (int k = 0; k < rows; k++) {
      float v = y[i], w = x[k * stride + i];
      y[i] = ((is_min ? w < v : w > v) | (w != w)) ? w : v;
    }
}

/* One part: a range of `outer`. */
INLINE void F(extreme_range)(const F(extreme_job) * c, int part, int parts, int is_min) {
  int64_t count = c->count, inner = c->inner, end = chunk_begin(c->outer, part + 1, parts);
  for (int64_t o = chunk_begin(c->outer, part, parts); o < end; o++) {
    const float *row = c->x + o * count * inner;
    float *y = c->to + o * inner;
    if (inner == 1) {
      *y = F(row_extreme)(row, count, is_min);
      continue;
    }
    memcpy(y, row, sizeof(float) * (size_t)inner);
    int64_t k = 1;
    for (; k + 4 <= count; k += 4) F(take_rows)(y, row + k * inner, inner, inner, 4, is_min);
    for (; k < count; k++) F(take_rows)(y, row + k * inner, inner, inner, 1, is_min);
  }
}

static void F(extreme_part)(void *job, int part, int parts) {
  const F(extreme_job) *c = job;
  if (c->is_min) F(extreme_range)(c, part, parts, 1);
  else F(extreme_range)(c, part, parts, 0);
}

/* y[o][i] = the maximum of x[o][k][i] over k, or the minimum. */
void F(extreme)(const float *x, float *y, int64_t outer, int64_t count, int64_t inner,
                int64_t is_min) {
#ifdef NARROWER
  if (inner == 1 && count < LANES) {
    NARROWER(extreme)(x, y, outer, count, inner, is_min);
    return;
  }
#endif
  F(extreme_job) c = {.x = x, .to = y, .outer = outer, .count = count, .inner = inner};
  c.is_min = (int)is_min;
  parallel_for(F(extreme_part), &c, parallel_parts(outer * count * inner));
}

/* The gradient of n columns with one extreme value each: dx = dy where x is y and, with relu_mask,
   lo < y < hi. Returns how many more values are y than columns have one. */
INLINE int64_t F(pass_to_extremes)(const F(extreme_job) * c, const float *x, float *dx,
                                   const float *y, const float *dy, int64_t n, int relu_mask) {
  F(bits) minus = {0};
  int64_t found = 0, i = 0;
  for (; i + LANES <= n; i += LANES) minus -= F(load)(y + i) == F(load)(y + i);
  for (; i < n; i++) found -= y[i] == y[i];
  for (int64_t k = 0; k < c->count; k++, x += c->inner, dx += c->inner) {
    for (i = 0; i + LANES <= n; i += LANES) {
      F(vec) v = F(load)(y + i), slope = F(load)(dy + i);
      F(bits) is_found = F(load)(x + i) == v;
      minus += is_found;
      if (relu_mask) slope = F(relu_masked)(slope, v, c->lo, c->hi);
      F(store)(dx + i, F(masked)(is_found, slope));
    }
    for (; i < n; i++) {
      int is_found = x[i] == y[i];
      found += is_found;
      dx[i] = is_found && (!relu_mask || (y[i] > c->lo && y[i] < c->hi)) ? dy[i] : 0;
    }
  }
  for (int l = 0; l < LANES; l++) found -= minus[l];
  return found;
}

/* Of n columns in which dx has several values: keeps the first one of each, or divides them. */
static LEAF void F(share_columns)(const F(extreme_job) * c, float *dx, const float *dy, int64_t n) {
  int32_t found[CHUNK] = {0};
  float share[CHUNK];
  for (int64_t k = 0; k < c->count; k++) {
    float *to = dx + k * c->inner;
    if (c->first_only) {
      IVDEP
      for (int64_t i = 0; i < n; i++) {
        int32_t is_found = to[i] != 0;
        to[i] = found[i] ? 0 : to[i];
        found[i] |= is_found;
      }
    } else {
      IVDEP
      for (int64_t i = 0; i < n; i++) found[i] += to[i] != 0;
    }
  }
  if (c->first_only) return;
  int64_t begin = 0, end = n;
  while (begin < end && found[begin] < 2) begin++;
  while (end > begin && found[end - 1] < 2) end--;
  for (int64_t i = begin; i < end; i++) share[i] = dy[i] / (float)found[i];
  for (int64_t k = 0; k < c->count; k++) {
    float *to = dx + k * c->inner;
    IVDEP
    for (int64_t i = begin; i < end; i++) to[i] = to[i] != 0 ? share[i] : 0;
  }
}

/* The gradient of n columns, in one pass over the memory if none has equal extreme values. */
static void F(extreme_back_columns)(const F(extreme_job) * c, const float *x, float *dx,
                                    const float *y, const float *dy, int64_t n) {
  if (!(c->relu_mask ? F(pass_to_extremes)(c, x, dx, y, dy, n, 1)
                     : F(pass_to_extremes)(c, x, dx, y, dy, n, 0)))
    return;
  for (int64_t i = 0; i < n; i += CHUNK)
    F(share_columns)(c, dx + i, dy + i, n - i < CHUNK ? n - i : CHUNK);
}

/* The same of a row. */
INLINE void F(extreme_back_row)(const F(extreme_job) * c, const float *x, float *dx, float y,
                                float dy) {
  int64_t found = 0;
  if (c->first_only) {
    if (!c->relu_mask || ((y > c->lo) & (y < c->hi)))
      while (found < c->count && x[found] != y) found++;
    else found = c->count;
    memset(dx, 0, sizeof(float) * (size_t)c->count);
    if (found < c->count) dx[found] = dy;
    return;
  }
  for (int64_t k = 0; k < c->count; k++) found += x[k] == y;
  dy /= (float)found;
  IVDEP
  for (int64_t k = 0; k < c->count; k++) dx[k] = x[k] == y ? dy : 0;
}

static void F(extreme_back_part)(void *job, int part, int parts) {
  const F(extreme_job) *c = job;
  int64_t inner = c->inner, end = chunk_begin(c->outer, part + 1, parts);
  for (int64_t o = chunk_begin(c->outer, part, parts); o < end; o++) {
    int64_t first = o * c->count * inner;
    if (inner == 1) F(extreme_back_row)(c, c->x + first, c->to + first, c->y[o], c->dy[o]);
    else
      for (int64_t i = 0; i < inner; i += WIDE) {
        int64_t n = inner - i < WIDE ? inner - i : WIDE, at = o * inner + i;
        F(extreme_back_columns)(c, c->x + first + i, c->to + first + i, c->y + at, c->dy + at, n);
      }
  }
}

/* dx[o][k][i] = dy[o][i] at the k where x is y, divided by their number, or at the first of them
   and, with relu_mask, if lo < y < hi. dx and x may be the same array. */
void F(extreme_back)(const float *dy, const float *x, const float *y, float *dx, int64_t outer,
                     int64_t count, int64_t inner, int64_t first_only, int64_t relu_mask, float lo,
                     float hi) {
  F(extreme_job) c = {.x = x, .y = y, .dy = dy, .to = dx};
  c.outer = outer, c.count = count, c.inner = inner;
  c.first_only = (int)first_only, c.relu_mask = (int)relu_mask, c.lo = lo, c.hi = hi;
  parallel_for(F(extreme_back_part), &c, parallel_parts(outer * count * inner));
}
