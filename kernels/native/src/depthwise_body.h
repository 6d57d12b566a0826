/* One instruction set's version of depthwise.c. */

#include "vectors.h"

INLINE void F(depthwise_pixel)(int64_t count, int64_t depth, const float *const *in,
                               const int64_t *taps, const float *w, const float *bias,
                               const float *relu_mask, float *y, int clamp, float lo, float hi) {
  int64_t vectors = (depth + LANES - 1) / LANES;
  for (int64_t j = 0; j < vectors; j++) {
    int64_t at = F(vector_start)(j, depth);
    F(vec) v = bias ? F(load)(bias + at) : (F(vec)){0};
#pragma GCC unroll 9
    for (int64_t t = 0; t < count; t++)
      v += F(load)(in[t * PIXELS] + at) * F(load)(w + taps[t] + at);
    if (clamp) v = F(clamp)(v, lo, hi);
    if (relu_mask) v = F(relu_masked)(v, F(load)(relu_mask + at), lo, hi);
    F(store)(y + at, v);
  }
}

static void F(depthwise_narrow_pixel)(int64_t count, int64_t depth, const float *const *in,
                                      const int64_t *taps, const float *w, const float *bias,
                                      const float *relu_mask, float *y, int64_t clamp, float lo,
                                      float hi) {
  for (int64_t k = 0; k < depth; k++) {
    float v = bias ? bias[k] : 0;
    for (int64_t t = 0; t < count; t++) v += in[t * PIXELS][k] * w[taps[t] + k];
    if (clamp) v = v < lo ? lo : v > hi ? hi : v;
    if (relu_mask && !(relu_mask[k] > lo && relu_mask[k] < hi)) v = 0;
    y[k] = v;
  }
}

typedef struct {
  const float *x, *w, *bias, *relu_mask;
  float *y;
  const window_walk *g;
  int64_t clamp;
  float lo, hi;
} F(depthwise_job);

static void F(depthwise_part)(void *job, int part, int parts) {
  const F(depthwise_job) *c = job;
  const window_walk *g = c->g;
  const float *in[MAX_TAPS * PIXELS];
  int64_t out[PIXELS], taps[MAX_TAPS], count = g->taps_h * g->taps_w;
  for (int64_t a = 0, t = 0; a < g->taps_h; a++)
    for (int64_t b = 0; b < g->taps_w; b++, t++) taps[t] = g->row_weights[a] + g->col_weights[b];
  walk_cursor cursor = walk_begin(g, part, parts);
  for (int pixels; (pixels = next_tile(g, &cursor, c->x, zero_border, 1, in, out));)
    for (int p = 0; p < pixels; p++) {
      const float *mask = c->relu_mask ? c->relu_mask + out[p] : 0;
#define RUN(name, n) \
  F(name)(n, g->depth, in + p, taps, c->w, c->bias, mask, c->y + out[p], c->clamp, c->lo, c->hi)
      if (g->depth < LANES) RUN(depthwise_narrow_pixel, count);
      else if (count == 9) RUN(depthwise_pixel, 9);
      else RUN(depthwise_pixel, count);
#undef RUN
    }
}

void F(depthwise)(const float *x, const float *w, const float *bias, const float *relu_mask,
                  float *y, const window_walk *g, int64_t clamp, float lo, float hi) {
  F(depthwise_job) c = {x, w, bias, relu_mask, y, g, clamp, lo, hi};
  int parts = parallel_parts(result_count(g) * g->taps_h * g->taps_w * g->depth / LANES);
  parallel_for(F(depthwise_part), &c, MANY_TILES(g, parts) ? parts : 1);
}

/* dw of n taps for one vector of channels. */
INLINE void F(depthwise_filter_taps)(int pixels, int n, const float *const *in, const float *dy,
                                     int64_t depth, int64_t at, float *const *dw, int first) {
  F(vec) acc[16];
  UNROLL(t, n, acc[t] = first ? (F(vec)){0} : F(load)(dw[t]));
  for (int p = 0; p < pixels; p++) {
    F(vec) d = F(load)(dy + p * depth + at);
    UNROLL(t, n, acc[t] += d * F(load)(in[t * PIXELS + p] + at));
  }
  UNROLL(t, n, F(store)(dw[t], acc[t]));
}

typedef struct {
  const float *dy, *x;
  float *scratch;
  const window_walk *g;
} F(depthwise_filter_job);

/* One part: a range of channels. */
static void F(depthwise_filter_part)(void *job, int part, int parts) {
  const F(depthwise_filter_job) *c = job;
  const window_walk *g = c->g;
  const float *in[MAX_TAPS * PIXELS];
  int64_t out[PIXELS], count = g->taps_h * g->taps_w, depth = g->depth;
  int64_t vectors = (depth + LANES - 1) / LANES, padded = vectors * LANES;
  float *scratch = c->scratch;
  walk_cursor cursor = walk_begin(g, 0, 1);
  int first = 1;
  for (int pixels; (pixels = next_tile(g, &cursor, c->x, zero_border, 1, in, out)); first = 0) {
    const float *here = c->dy + out[0];
    if (depth < LANES) {
      for (int64_t t = 0; t <= count; t++)
        for (int64_t k = 0; k < depth; k++) {
          float acc = first ? 0 : scratch[t * padded + k];
          for (int p = 0; p < pixels; p++)
            acc += here[p * depth + k] * (t < count ? in[t * PIXELS + p][k] : 1);
          scratch[t * padded + k] = acc;
        }
      continue;
    }
    for (int64_t j = chunk_begin(vectors, part, parts); j < chunk_begin(vectors, part + 1, parts);
         j++) {
      int64_t at = F(vector_start)(j, depth), t = 0;
      float *to[9];
      for (; t < count; t += count - t >= 9 ? 9 : 1) {
        for (int i = 0; i < 9; i++) to[i] = scratch + (t + i) * padded + j * LANES;
        const float *const *rows = in + t * PIXELS;
        if (count - t >= 9) F(depthwise_filter_taps)(pixels, 9, rows, here, depth, at, to, first);
        else F(depthwise_filter_taps)(pixels, 1, rows, here, depth, at, to, first);
      }
      float *last = scratch + count * padded + j * LANES;
      F(vec) acc = first ? (F(vec)){0} : F(load)(last);
      for (int p = 0; p < pixels; p++) acc += F(load)(here + p * depth + at);
      F(store)(last, acc);
    }
  }
}

/* Computes dw, and db if it is not null; sums are collected in scratch first. */
void F(depthwise_filter_sums)(const float *dy, const float *x, float *dw, float *db, float *scratch,
                              const window_walk *g) {
  F(depthwise_filter_job) c = {dy, x, scratch, g};
  int64_t depth = g->depth, vectors = (depth + LANES - 1) / LANES, padded = vectors * LANES;
  int parts = parallel_parts(result_count(g) * g->taps_h * g->taps_w * depth / LANES);
  parallel_for(F(depthwise_filter_part), &c, parts < vectors ? parts : (int)vectors);
  for (int64_t a = 0, t = 0; a <= g->taps_h; a++)
    for (int64_t b = 0; b < (a < g->taps_h ? g->taps_w : 1); b++, t++) {
      float *to = a < g->taps_h ? dw + g->row_weights[a] + g->col_weights[b] : db;
      for (int64_t k = 0; k < depth && to && depth < LANES; k++) to[k] = scratch[t * padded + k];
      for (int64_t j = 0; j < vectors && to && depth >= LANES; j++)
        F(store)(to + F(vector_start)(j, depth), F(load)(scratch + t * padded + j * LANES));
    }
}

/* Each value `times` times, side by side: a depth multiplier as channels of their own. */
void F(repeat_channels)(const float *x, float *y, int64_t n, int64_t times) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < times; k++) y[i * times + k] = x[i];
}

/* The gradient of repeat_channels. */
void F(sum_repeated)(const float *y, float *x, int64_t n, int64_t times) {
  for (int64_t i = 0; i < n; i++) {
    x[i] = y[i * times];
    for (int64_t k = 1; k < times; k++) x[i] += y[i * times + k];
  }
}
