/* One instruction set's version of pool.c. */

#include "vectors.h"

typedef struct {
  const float *x, *y, *dy;
  float *to; /* y, or dx */
  uint8_t *argmax;
  const window_walk *g;
  int64_t apart; /* windows do not overlap */
  int64_t relu_mask, none;
  float lo, hi;
} F(pool_job);

/* Channels that do not fill a vector are left to narrower ones; the narrowest take several windows
   at once. */
#ifdef NARROWER
#define IS_FEW(depth) 0
#define IF_FEW(kernel, ...)        \
  if (g->depth < LANES) {          \
    NARROWER(kernel)(__VA_ARGS__); \
    return;                        \
  }
#else
#define IS_FEW(depth) ((depth) < LANES)
#define IF_FEW(kernel, ...)
#endif

/* Some channels of a window, or, if these do not fill a vector, all channels of several windows,
   side by side. */
typedef struct {
  tap_loops taps;
  const int64_t *in, *out; /* offsets of the first tap inside the image, and of the result */
  int64_t channel, tap, width;
  int64_t windows, channels;
  int64_t repeats; /* the last vector overlaps the one before */
  F(bits) fresh;   /* -1 for channels that it does not repeat */
} F(pool_window);

/* For each window i and channel k: lane l. */
#define EACH_LANE(w)                                \
  for (int64_t i = 0, l = 0; i < (w)->windows; i++) \
    for (int64_t k = 0; k < (w)->channels; k++, l++)

/* The values at a[at[i]] for each window. */
INLINE F(vec) F(load_lanes)(const F(pool_window) * w, const float *a, const int64_t *at) {
  if (!IS_FEW(w->channels)) return F(load)(a + at[0] + w->channel);
  float v[LANES] = {0};
  EACH_LANE(w) v[l] = a[at[i] + k];
  return F(load)(v);
}

INLINE void F(store_lanes)(const F(pool_window) * w, float *a, const int64_t *at, F(vec) v) {
  if (!IS_FEW(w->channels)) F(store)(a + at[0] + w->channel, v);
  else EACH_LANE(w) a[at[i] + k] = v[l];
}

/* Runs `act` for the channels of all windows of a part. Windows of 2 × 2 and whole vectors are
   compiled apart, without loops, if `apart`. */
INLINE void F(pool_part)(const F(pool_job) * c, int part, int parts, const float *base, int apart,
                         void (*act)(const F(pool_job) *, const F(pool_window) *)) {
  const window_walk *g = c->g;
  const float *x[PIXELS];
  int64_t in[PIXELS], out[PIXELS], few = IS_FEW(g->depth), group = few ? LANES / g->depth : 1;
  F(bits) lane;
  for (int l = 0; l < LANES; l++) lane[l] = l;
  walk_cursor cursor = walk_begin(g, BAND, part, parts);
  for (int pixels; (pixels = next_tile(g, &cursor, base, PIXELS, 0, x, out));) {
    F(pool_window) w = {.taps = taps_inside(g, &cursor, 0), .width = g->taps_w};
    w.tap = cursor.row.tap * g->taps_w + cursor.col.tap;
    w.channels = few ? g->depth : LANES;
    for (int p = 0; p < pixels; p++) in[p] = x[p] - base;
    for (int64_t k = 0; k < g->depth; k += LANES) {
      w.channel = few ? 0 : F(vector_start)(k / LANES, g->depth);
      w.repeats = k > w.channel, w.fresh = lane >= (int32_t)(k - w.channel);
      if (apart && w.taps.rows == 2 && w.taps.cols == 2 && !few && !w.repeats) {
        F(pool_window) full = w;
        full.taps.rows = full.taps.cols = 2, full.windows = 1, full.channels = LANES;
        full.repeats = 0, full.fresh = (F(bits)){0} - 1;
        for (int p = 0; p < pixels; p++) {
          full.in = in + p, full.out = out + p;
          act(c, &full);
        }
        continue;
      }
      for (int64_t p = 0; p < pixels; p += group) {
        w.in = in + p, w.out = out + p, w.windows = pixels - p < group ? pixels - p : group;
        act(c, &w);
      }
    }
  }
}

#define TAPS(w)                                \
  for (int64_t a = 0; a < (w)->taps.rows; a++) \
    for (int64_t b = 0; b < (w)->taps.cols; b++)
#define TAP(w) (a * (w)->taps.x_row + b * (w)->taps.x_col)

/* Adds a gradient, of fresh channels, to dx, or writes it if no other window does. */
INLINE void F(pool_add)(const F(pool_job) * c, const F(pool_window) * w, int64_t tap, F(vec) v) {
  float *to = c->to + tap;
  if (!c->apart) v += F(load_lanes)(w, to, w->in);
  else if (w->repeats) v = F(selected)(w->fresh, v, F(load_lanes)(w, to, w->in));
  F(store_lanes)(w, to, w->in, v);
}

/* NaN stays NaN, as in np.maximum. */
INLINE void F(max_window)(const F(pool_job) * c, const F(pool_window) * w) {
  F(vec) max = F(broadcast)(-INFINITY);
  TAPS(w) {
    F(vec) v = F(load_lanes)(w, c->x + TAP(w), w->in);
    max = F(selected)((v <= max) | (max != max), max, v);
  }
  F(store_lanes)(w, c->to, w->out, max);
}

INLINE void F(max_back_window)(const F(pool_job) * c, const F(pool_window) * w) {
  F(vec) max = F(load_lanes)(w, c->y, w->out), dy = F(load_lanes)(w, c->dy, w->out);
  F(bits) pending = w->fresh;
  if (c->relu_mask) pending &= (max > F(broadcast)(c->lo)) & (max < F(broadcast)(c->hi));
  TAPS(w) {
    F(bits) is_max = pending & (F(load_lanes)(w, c->x + TAP(w), w->in) == max);
    F(pool_add)(c, w, TAP(w), F(masked)(is_max, dy));
    pending &= ~is_max;
  }
}

INLINE void F(argmax_window)(const F(pool_job) * c, const F(pool_window) * w) {
  F(vec) max = F(load_lanes)(w, c->y, w->out);
  F(bits) first_tap = (F(bits)){0} + (int32_t)c->none, pending = (F(bits)){0} - 1;
  TAPS(w) {
    F(bits) is_max = pending & (F(load_lanes)(w, c->x + TAP(w), w->in) == max);
    first_tap = (is_max & (int32_t)(w->tap + a * w->width + b)) | (~is_max & first_tap);
    pending &= ~is_max;
  }
  EACH_LANE(w) c->argmax[w->out[i] + w->channel + k] = (uint8_t)first_tap[l];
}

INLINE void F(argmax_back_window)(const F(pool_job) * c, const F(pool_window) * w) {
  F(vec) dy = F(load_lanes)(w, c->dy, w->out);
  F(bits) tap = {0};
  EACH_LANE(w) tap[l] = c->argmax[w->out[i] + w->channel + k];
  TAPS(w) {
    F(bits) is_max = w->fresh & (tap == (int32_t)(w->tap + a * w->width + b));
    F(pool_add)(c, w, TAP(w), F(masked)(is_max, dy));
  }
}

/* Padding does not count. */
INLINE void F(average_window)(const F(pool_job) * c, const F(pool_window) * w) {
  F(vec) sum = {0};
  TAPS(w) sum += F(load_lanes)(w, c->x + TAP(w), w->in);
  F(store_lanes)(w, c->to, w->out, sum * (1 / (float)(w->taps.rows * w->taps.cols)));
}

INLINE void F(average_back_window)(const F(pool_job) * c, const F(pool_window) * w) {
  F(vec) dy = F(load_lanes)(w, c->dy, w->out);
  dy = F(masked)(w->fresh, dy * (1 / (float)(w->taps.rows * w->taps.cols)));
  TAPS(w) F(pool_add)(c, w, TAP(w), dy);
}

#undef TAPS
#undef TAP
#undef EACH_LANE

#define POOL_PART(name, base, apart)                                \
  static void F(name##_part)(void *job, int part, int parts) {      \
    F(pool_job) c = *(const F(pool_job) *)job;                      \
    F(pool_part)(&c, part, parts, c.base, apart, F(name##_window)); \
  }
POOL_PART(max, x, 1)
POOL_PART(max_back, x, 1)
POOL_PART(argmax, x, 0)
POOL_PART(argmax_back, to, 0)
POOL_PART(average, x, 0)
POOL_PART(average_back, to, 0)
#undef POOL_PART

static int F(pool_parts)(const window_walk *g) {
  int64_t taps = result_count(g) * g->taps_h * g->taps_w * g->depth;
  return parallel_parts(IS_FEW(g->depth) ? taps * 100 : taps / LANES * LOADED_PRODUCT);
}

/* Computes dx, of `size` values. Windows that overlap write to the same values, one at a time. */
static void F(pool_back)(F(pool_job) * c, int64_t size, part_function part) {
  const window_walk *g = c->g;
  c->apart = g->stride_h >= g->taps_h && g->stride_w >= g->taps_w;
  int covers = c->apart && !g->start_h && !g->start_w && g->rows * g->taps_h == g->height &&
               g->cols * g->taps_w == g->width;
  if (!covers) memset(c->to, 0, sizeof(float) * (size_t)size);
  parallel_for(part, c, c->apart ? F(pool_parts)(g) : 1);
}

void F(max_pool)(const float *x, float *y, const window_walk *g) {
  IF_FEW(max_pool, x, y, g)
  F(pool_job) c = {.x = x, .to = y, .g = g};
  parallel_for(F(max_part), &c, F(pool_parts)(g));
}

/* dx += dy where x is the first maximum of the window and, with relu_mask, lo < x < hi. */
void F(max_pool_back)(const float *dy, const float *x, const float *y, float *dx, int64_t size,
                      const window_walk *g, int64_t relu_mask, float lo, float hi) {
  IF_FEW(max_pool_back, dy, x, y, dx, size, g, relu_mask, lo, hi)
  F(pool_job) c = {.x = x, .y = y, .dy = dy, .to = dx, .g = g};
  c.relu_mask = relu_mask, c.lo = lo, c.hi = hi;
  F(pool_back)(&c, size, F(max_back_part));
}

/* argmax: the tap of each window's first maximum, or `none`. */
void F(max_pool_argmax)(const float *x, const float *y, uint8_t *argmax, const window_walk *g,
                        int64_t none) {
  IF_FEW(max_pool_argmax, x, y, argmax, g, none)
  F(pool_job) c = {.x = x, .y = y, .argmax = argmax, .g = g, .none = none};
  parallel_for(F(argmax_part), &c, F(pool_parts)(g));
}

/* dx += dy at the argmax. */
void F(max_pool_argmax_back)(const float *dy, const uint8_t *argmax, float *dx, int64_t size,
                             const window_walk *g) {
  IF_FEW(max_pool_argmax_back, dy, argmax, dx, size, g)
  F(pool_job) c = {.dy = dy, .to = dx, .argmax = (uint8_t *)argmax, .g = g};
  F(pool_back)(&c, size, F(argmax_back_part));
}

void F(average_pool)(const float *x, float *y, const window_walk *g) {
  IF_FEW(average_pool, x, y, g)
  F(pool_job) c = {.x = x, .to = y, .g = g};
  parallel_for(F(average_part), &c, F(pool_parts)(g));
}

void F(average_pool_back)(const float *dy, float *dx, int64_t size, const window_walk *g) {
  IF_FEW(average_pool_back, dy, dx, size, g)
  F(pool_job) c = {.dy = dy, .to = dx, .g = g};
  F(pool_back)(&c, size, F(average_back_part));
}

#undef IS_FEW
#undef IF_FEW
