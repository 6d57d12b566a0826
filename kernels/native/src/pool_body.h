/* One instruction set's version of pool.c. */

#include "vectors.h"

typedef struct {
  const float *x, *y, *dy;
  float *to; /* y, or dx */
  uint8_t *argmax;
  const window_walk *g;
  int64_t depth, down, across; /* channels, and the distances of taps */
  int64_t relu_mask, none;
  float lo, hi;
} F(pool_job);

/* Channels that do not fill a vector are left to narrower ones, and in the narrowest to some lanes
   of one. */
#ifdef NARROWER
#define IS_FEW(depth) 0
#define IF_FEW(kernel, ...)                                                          \
  if (g->depth < LANES || (g->depth < 4 * LANES && g->depth % LANES == LANES / 2)) { \
    NARROWER(kernel)(__VA_ARGS__);                                                   \
    return;                                                                          \
  }
#else
#define IS_FEW(depth) ((depth) < LANES)
#define IF_FEW(kernel, ...)
#endif

/* Channels of a window. */
typedef struct {
  int64_t first, few; /* few: their number, if they do not fill a vector */
  int repeats;        /* the last vector overlaps the one before */
  F(bits) fresh;      /* −1 for channels that it does not repeat */
} F(channels);

/* Returns vector j of the channels, or what is left of them after whole vectors. */
INLINE F(channels) F(channels_at)(int64_t j, int64_t depth, int is_rest) {
  F(channels) c = {.first = j * LANES};
  if (!is_rest) return c;
  if (IS_FEW(depth)) c.few = depth;
  else {
    F(bits) lane;
    for (int l = 0; l < LANES; l++) lane[l] = l;
    c.first = depth - LANES, c.repeats = 1, c.fresh = lane >= (int32_t)(j * LANES - c.first);
  }
  return c;
}

INLINE F(vec) F(load_channels)(const F(channels) * c, const float *a) {
  if (!c->few) return F(load)(a + c->first);
  F(vec) v = {a[0]};
  if (c->few > 1) v[1] = a[1];
  if (c->few > 2) v[2] = a[2];
  return v;
}

INLINE void F(store_channels)(const F(channels) * c, float *a, F(vec) v) {
  if (!c->few) F(store)(a + c->first, v);
  else
    for (int64_t k = 0; k < c->few; k++) a[k] = v[k];
}

/* Computes `rows` × `cols` taps of a window, for whole vectors of channels or the rest. */
typedef void F(window_function)(const F(pool_job) * c, const pool_window *w, int64_t rows,
                                int64_t cols, int is_rest);

/* Computes windows `index` to end − 1, row by row, first whole vectors: what is left would wait for
   results just stored. Windows of 2 × 2 and 3 × 3 are compiled apart, without loops, if `apart`. */
INLINE void F(pool_range)(const F(pool_job) * c, int64_t index, int64_t end, int apart,
                          F(window_function) * act) {
  while (index < end) {
    int64_t first = index % c->g->cols, last = first + end - index;
    if (last > c->g->cols) last = c->g->cols;
    window_row row = row_at(c->g, index / c->g->cols);
    for (int64_t col = first; col < last && c->depth >= LANES; col++) {
      pool_window w = window_at(c->g, &row, col);
      if (apart && w.rows == 2 && w.cols == 2) act(c, &w, 2, 2, 0);
      else if (apart && w.rows == 3 && w.cols == 3) act(c, &w, 3, 3, 0);
      else act(c, &w, w.rows, w.cols, 0);
    }
    for (int64_t col = first; col < last && c->depth % LANES; col++) {
      pool_window w = window_at(c->g, &row, col);
      if (apart && w.rows == 3 && w.cols == 3) act(c, &w, 3, 3, 1);
      else act(c, &w, w.rows, w.cols, 1);
    }
    index += last - first;
  }
}

#define EACH_VECTOR(j) \
  for (int64_t j = is_rest ? c->depth / LANES : 0, n = c->depth / LANES + is_rest; j < n; j++)
#define TAPS                         \
  for (int64_t a = 0; a < rows; a++) \
    for (int64_t b = 0; b < cols; b++)
#define OFFSET (w->in + a * c->down + b * c->across)

/* Adds a gradient to dx, or writes it if no window before did. */
INLINE void F(pool_add)(const F(channels) * k, float *to, int is_first, F(vec) v) {
  if (!is_first || k->repeats) {
    F(vec) before = F(load_channels)(k, to);
    if (!is_first) v += before;
    if (k->repeats) v = F(selected)(k->fresh, v, before);
  }
  F(store_channels)(k, to, v);
}
#define IS_FIRST (a >= w->new_row && b >= w->new_col)

/* NaN stays NaN, as in np.maximum; of equal values the first one stays. */
INLINE void F(max_window)(const F(pool_job) * c, const pool_window *w, int64_t rows, int64_t cols,
                          int is_rest) {
  EACH_VECTOR(j) {
    F(channels) k = F(channels_at)(j, c->depth, is_rest);
    F(vec) max = F(broadcast)(-INFINITY);
    F(bits) is_nan = {0};
    TAPS {
      F(vec) v = F(load_channels)(&k, c->x + OFFSET);
      max = F(most)(v, max), is_nan |= v != v;
    }
    F(store_channels)(&k, c->to + w->out, F(selected)(is_nan, F(broadcast)(NAN), max));
  }
}

INLINE void F(max_back_window)(const F(pool_job) * c, const pool_window *w, int64_t rows,
                               int64_t cols, int is_rest) {
  EACH_VECTOR(j) {
    F(channels) k = F(channels_at)(j, c->depth, is_rest);
    F(vec) max = F(load_channels)(&k, c->y + w->out), left = F(load_channels)(&k, c->dy + w->out);
    if (c->relu_mask) left = F(relu_masked)(left, max, c->lo, c->hi);
    TAPS {
      F(bits) is_max = F(load_channels)(&k, c->x + OFFSET) == max;
      F(pool_add)(&k, c->to + OFFSET, IS_FIRST, F(masked)(is_max, left));
      left = F(masked)(~is_max, left);
    }
  }
}

INLINE void F(argmax_window)(const F(pool_job) * c, const pool_window *w, int64_t rows,
                             int64_t cols, int is_rest) {
  EACH_VECTOR(j) {
    F(channels) k = F(channels_at)(j, c->depth, is_rest);
    F(vec) max = F(load_channels)(&k, c->y + w->out);
    F(bits) first_tap = (F(bits)){0} + (int32_t)c->none, pending = (F(bits)){0} - 1;
    TAPS {
      F(bits) is_max = pending & (F(load_channels)(&k, c->x + OFFSET) == max);
      first_tap = (is_max & (int32_t)(w->tap + a * c->g->taps_w + b)) | (~is_max & first_tap);
      pending &= ~is_max;
    }
    for (int64_t l = 0; l < (k.few ? k.few : LANES); l++)
      c->argmax[w->out + k.first + l] = (uint8_t)first_tap[l];
  }
}

INLINE void F(argmax_back_window)(const F(pool_job) * c, const pool_window *w, int64_t rows,
                                  int64_t cols, int is_rest) {
  EACH_VECTOR(j) {
    F(channels) k = F(channels_at)(j, c->depth, is_rest);
    F(vec) dy = F(load_channels)(&k, c->dy + w->out);
    F(bits) tap = {0};
    for (int64_t l = 0; l < (k.few ? k.few : LANES); l++) tap[l] = c->argmax[w->out + k.first + l];
    TAPS {
      F(bits) is_max = tap == (int32_t)(w->tap + a * c->g->taps_w + b);
      F(pool_add)(&k, c->to + OFFSET, IS_FIRST, F(masked)(is_max, dy));
    }
  }
}

/* Padding does not count. */
INLINE void F(average_window)(const F(pool_job) * c, const pool_window *w, int64_t rows,
                              int64_t cols, int is_rest) {
  EACH_VECTOR(j) {
    F(channels) k = F(channels_at)(j, c->depth, is_rest);
    F(vec) sum = {0};
    TAPS sum += F(load_channels)(&k, c->x + OFFSET);
    F(store_channels)(&k, c->to + w->out, sum * (1 / (float)(rows * cols)));
  }
}

INLINE void F(average_back_window)(const F(pool_job) * c, const pool_window *w, int64_t rows,
                                   int64_t cols, int is_rest) {
  EACH_VECTOR(j) {
    F(channels) k = F(channels_at)(j, c->depth, is_rest);
    F(vec) dy = F(load_channels)(&k, c->dy + w->out) * (1 / (float)(rows * cols));
    TAPS F(pool_add)(&k, c->to + OFFSET, IS_FIRST, dy);
  }
}

#undef EACH_VECTOR
#undef TAPS
#undef OFFSET
#undef IS_FIRST

#define POOL_PART(name, at_once, apart)                                         \
  static void F(name##_part)(void *job, int part, int parts) {                  \
    F(pool_job) c = *(const F(pool_job) *)job;                                  \
    c.depth = c.g->depth, c.down = c.g->row_stride, c.across = c.g->col_stride; \
    int64_t begin = part_begin(c.g, at_once, part, parts);                      \
    int64_t end = part_begin(c.g, at_once, part + 1, parts);                    \
    F(pool_range)(&c, begin, end, apart, F(name##_window));                     \
  }
POOL_PART(max, 1, APART)
POOL_PART(max_back, windows_at_once(c.g), APART)
POOL_PART(argmax, 1, 0)
POOL_PART(argmax_back, windows_at_once(c.g), 0)
POOL_PART(average, 1, 0)
POOL_PART(average_back, windows_at_once(c.g), 0)
#undef POOL_PART

static int F(pool_parts)(const window_walk *g) {
  int64_t taps = g->images * g->rows * g->cols * g->taps_h * g->taps_w * g->depth;
  return parallel_parts(IS_FEW(g->depth) ? taps * 10 : taps / LANES * LOADED_PRODUCT);
}

void F(max_pool)(const float *x, float *y, const window_walk *g) {
  IF_FEW(max_pool, x, y, g)
  F(pool_job) c = {.x = x, .to = y, .g = g};
  parallel_for(F(max_part), &c, F(pool_parts)(g));
}

/* dx += dy where x is the first maximum of the window and, with relu_mask, lo < x < hi. */
void F(max_pool_back)(const float *dy, const float *x, const float *y, float *dx,
                      const window_walk *g, int64_t relu_mask, float lo, float hi) {
  IF_FEW(max_pool_back, dy, x, y, dx, g, relu_mask, lo, hi)
  F(pool_job) c = {.x = x, .y = y, .dy = dy, .to = dx, .g = g};
  c.relu_mask = relu_mask, c.lo = lo, c.hi = hi;
  clear_gaps(dx, g);
  parallel_for(F(max_back_part), &c, F(pool_parts)(g));
}

/* argmax: the tap of each window's first maximum, or `none`. */
void F(max_pool_argmax)(const float *x, const float *y, uint8_t *argmax, const window_walk *g,
                        int64_t none) {
  IF_FEW(max_pool_argmax, x, y, argmax, g, none)
  F(pool_job) c = {.x = x, .y = y, .argmax = argmax, .g = g, .none = none};
  parallel_for(F(argmax_part), &c, F(pool_parts)(g));
}

/* dx += dy at the argmax. */
void F(max_pool_argmax_back)(const float *dy, const uint8_t *argmax, float *dx,
                             const window_walk *g) {
  IF_FEW(max_pool_argmax_back, dy, argmax, dx, g)
  F(pool_job) c = {.dy = dy, .to = dx, .argmax = (uint8_t *)argmax, .g = g};
  clear_gaps(dx, g);
  parallel_for(F(argmax_back_part), &c, F(pool_parts)(g));
}

void F(average_pool)(const float *x, float *y, const window_walk *g) {
  IF_FEW(average_pool, x, y, g)
  F(pool_job) c = {.x = x, .to = y, .g = g};
  parallel_for(F(average_part), &c, F(pool_parts)(g));
}

void F(average_pool_back)(const float *dy, float *dx, const window_walk *g) {
  IF_FEW(average_pool_back, dy, dx, g)
  F(pool_job) c = {.dy = dy, .to = dx, .g = g};
  clear_gaps(dx, g);
  parallel_for(F(average_back_part), &c, F(pool_parts)(g));
}

#undef IS_FEW
#undef IF_FEW
