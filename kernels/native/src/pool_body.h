/* One instruction set's version of pool.c; the compiler makes the vectors. */

/* NaN stays NaN, as in np.maximum. */
void F(max_pool)(const float *x, float *y, const window_walk *g) {
  const float *in[MAX_TAPS * PIXELS];
  int64_t out[PIXELS], taps = g->taps_h * g->taps_w;
  walk_cursor cursor = walk_begin(g, 0, 1);
  for (int pixels; (pixels = next_tile(g, &cursor, x, border, 1, in, out));)
    for (int p = 0; p < pixels; p++) {
      float *to = y + out[p];
      for (int64_t k = 0; k < g->depth; k++) to[k] = -INFINITY;
      for (int64_t t = 0; t < taps; t++) {
        const float *from = in[t * PIXELS + p];
        if (from == border) continue;
        for (int64_t k = 0; k < g->depth; k++) to[k] = from[k] <= to[k] ? to[k] : from[k];
      }
    }
}

/* dx += dy where x is the first maximum of the window and, with relu_mask, lo < x < hi. */
void F(max_pool_back)(const float *dy, const float *x, const float *y, float *dx, int64_t size,
                      const window_walk *g, int64_t relu_mask, float lo, float hi) {
  const float *in[MAX_TAPS * PIXELS];
  int64_t out[PIXELS], taps = g->taps_h * g->taps_w;
  int32_t pending[MAX_DEPTH];
  for (int64_t i = 0; i < size; i++) dx[i] = 0;
  walk_cursor cursor = walk_begin(g, 0, 1);
  for (int pixels; (pixels = next_tile(g, &cursor, x, border, 1, in, out));)
    for (int p = 0; p < pixels; p++) {
      const float *grad = dy + out[p], *max = y + out[p];
      for (int64_t k = 0; k < g->depth; k++)
        pending[k] = !relu_mask || (max[k] > lo && max[k] < hi) ? -1 : 0;
      for (int64_t t = 0; t < taps; t++) {
        const float *from = in[t * PIXELS + p];
        if (from == border) continue;
        float *to = dx + (from - x);
        for (int64_t k = 0; k < g->depth; k++) {
          int32_t is_max = pending[k] & -(from[k] == max[k]);
          to[k] += is_max ? grad[k] : 0;
          pending[k] &= ~is_max;
        }
      }
    }
}

/* argmax: the tap of each window's first maximum, or `none`. */
void F(max_pool_argmax)(const float *x, const float *y, uint8_t *argmax, const window_walk *g,
                        int64_t none) {
  const float *in[MAX_TAPS * PIXELS];
  int64_t out[PIXELS], taps = g->taps_h * g->taps_w;
  walk_cursor cursor = walk_begin(g, 0, 1);
  for (int pixels; (pixels = next_tile(g, &cursor, x, border, 1, in, out));)
    for (int p = 0; p < pixels; p++) {
      const float *max = y + out[p];
      uint8_t *tap = argmax + out[p];
      for (int64_t k = 0; k < g->depth; k++) tap[k] = (uint8_t)none;
      for (int64_t t = taps - 1; t >= 0; t--) { /* the first of equal values is written last */
        const float *from = in[t * PIXELS + p];
        for (int64_t k = 0; k < g->depth && from != border; k++)
          tap[k] = from[k] == max[k] ? (uint8_t)t : tap[k];
      }
    }
}

/* dx += dy at the argmax. */
void F(max_pool_argmax_back)(const float *dy, const uint8_t *argmax, float *dx, int64_t size,
                             const window_walk *g) {
  const float *in[MAX_TAPS * PIXELS];
  int64_t out[PIXELS], taps = g->taps_h * g->taps_w;
  for (int64_t i = 0; i < size; i++) dx[i] = 0;
  walk_cursor cursor = walk_begin(g, 0, 1);
  for (int pixels; (pixels = next_tile(g, &cursor, dx, border, 1, in, out));)
    for (int p = 0; p < pixels; p++) {
      const float *grad = dy + out[p];
      const uint8_t *tap = argmax + out[p];
      for (int64_t t = 0; t < taps; t++) {
        const float *from = in[t * PIXELS + p];
        float *to = dx + (from - dx);
        for (int64_t k = 0; k < g->depth && from != border; k++) to[k] += tap[k] == t ? grad[k] : 0;
      }
    }
}

/* inverse_counts: 1 / the number of inputs in each window; padding does not count. */
void F(average_pool)(const float *x, const float *inverse_counts, float *y, const window_walk *g) {
  const float *in[MAX_TAPS * PIXELS];
  int64_t out[PIXELS], taps = g->taps_h * g->taps_w, at = 0, windows = g->rows * g->cols;
  walk_cursor cursor = walk_begin(g, 0, 1);
  for (int pixels; (pixels = next_tile(g, &cursor, x, border, 1, in, out));)
    for (int p = 0; p < pixels; p++, at++) {
      float *to = y + out[p], inverse_count = inverse_counts[at % windows];
      for (int64_t k = 0; k < g->depth; k++) to[k] = 0;
      for (int64_t t = 0; t < taps; t++) {
        const float *from = in[t * PIXELS + p];
        for (int64_t k = 0; k < g->depth && from != border; k++) to[k] += from[k];
      }
      for (int64_t k = 0; k < g->depth; k++) to[k] *= inverse_count;
    }
}

void F(average_pool_back)(const float *dy, const float *inverse_counts, float *dx, int64_t size,
                          const window_walk *g) {
  const float *in[MAX_TAPS * PIXELS];
  int64_t out[PIXELS], taps = g->taps_h * g->taps_w, at = 0, windows = g->rows * g->cols;
  for (int64_t i = 0; i < size; i++) dx[i] = 0;
  walk_cursor cursor = walk_begin(g, 0, 1);
  for (int pixels; (pixels = next_tile(g, &cursor, dx, border, 1, in, out));)
    for (int p = 0; p < pixels; p++, at++) {
      const float *grad = dy + out[p];
      float inverse_count = inverse_counts[at % windows];
      for (int64_t t = 0; t < taps; t++) {
        const float *from = in[t * PIXELS + p];
        if (from == border) continue;
        float *to = dx + (from - dx);
        for (int64_t k = 0; k < g->depth; k++) to[k] += grad[k] * inverse_count;
      }
    }
}
