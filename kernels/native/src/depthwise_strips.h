/* Depthwise convolution in strips: windows side by side share the values that they read. */

/* Loads value k of a row that n windows side by side read, if it is inside the image, and runs
   `use` for each tap b that takes it, of result i. */
#undef EACH_VALUE
#define EACH_VALUE(value, use)                                                             \
  UNROLL(                                                                                  \
      k, n + cols - 1, if ((k >= cols / 2 && k < n + cols / 2) || (k >= from && k < to)) { \
        F(vec) read = F(load)(value);                                                      \
        UNROLL(b, cols, int i = k - b; if (i >= 0 && i < n) use);                          \
      } ADVANCE(value, step))

/* Computes `count` strips of n results side by side in each row, from column `first` on. */
INLINE void F(depthwise_strips)(const depthwise_job *job, const strip_rows *s, int64_t at,
                                int64_t first, int64_t count, int n, int cols) {
  depthwise_job c = *job; /* a copy, which stores to y cannot change */
  int64_t step = c.g->col_stride, out_step = c.g->out_col, width = c.g->width;
  int64_t x_row = s->x_row, w_row = s->w_row, w_col = s->w_col, left = s->col;
  const float *w = c.w + c.g->row_weights[0] + c.g->col_weights[0] + at;
  F(vec) bias = {0};
  if (c.bias) bias = F(load)(c.bias + at);
  for (const strip_row *row = s->rows, *last = row + s->count; row < last; row++)
    for (int64_t col = first; col < first + count * n; col += n) {
      int64_t from = -(left + col), to = width + from, out = row->out + col * out_step + at;
      const float *x = c.x + (row->x + col * step + row->tap * x_row + at);
      const float *weights = w + row->tap * w_row;
      F(vec) v[MAX_MR];
      UNROLL(i, n, v[i] = bias);
      for (int64_t a = row->taps; a; a--, x += x_row, weights += w_row) {
        F(vec) t[MAX_MR];
        UNROLL(b, cols, t[b] = F(load)(weights + b * w_col));
        const float *value = x;
        EACH_VALUE(value, v[i % MAX_MR] += t[b] * read);
      }
      if (c.clamp) UNROLL(i, n, v[i] = F(clamp)(v[i], c.lo, c.hi));
      if (c.relu_mask) {
        const float *mask = c.relu_mask + out;
        UNROLL(i, n, v[i] = F(relu_masked)(v[i], F(load)(mask), c.lo, c.hi);
               ADVANCE(mask, out_step));
      }
      float *y = c.y + out;
      UNROLL(i, n, F(store)(y, v[i]); ADVANCE(y, out_step));
    }
}

/* The same for the gradients of at most three rows of taps from `first_tap` on. */
INLINE void F(depthwise_filter_strips)(const depthwise_job *job, const strip_rows *s, int64_t at,
                                       int64_t first, int64_t count, int n, int cols,
                                       int64_t first_tap, float *to_sums) {
  depthwise_job c = *job;
  int64_t step = c.g->col_stride, out_step = c.g->out_col, rows = c.g->taps_h - first_tap;
  F(tile) sums = {0};
  UNROLL(
      a, 3,
      UNROLL(b, cols, if (a < rows) sums[a][b] = F(load)(to_sums + a * s->w_row + b * s->w_col)));
  for (const strip_row *row = s->rows, *last = row + s->count; row < last; row++)
    for (int64_t col = first; col < first + count * n; col += n) {
      int64_t from = -(s->col + col), to = c.g->width + from, low = row->tap - first_tap;
      const float *x = c.x + (row->x + col * step + first_tap * s->x_row + at);
      const float *dy = c.dy + (row->out + col * out_step + at);
      F(vec) d[MAX_MR];
      UNROLL(i, n, d[i] = F(load)(dy); ADVANCE(dy, out_step));
      UNROLL(
          a, 3, if (a >= low && a < low + row->taps) {
            const float *value = x + a * s->x_row;
            EACH_VALUE(value, sums[a][b] += d[i % MAX_MR] * read);
          });
    }
  UNROLL(
      a, 3,
      UNROLL(b, cols, if (a < rows) F(store)(to_sums + a * s->w_row + b * s->w_col, sums[a][b])));
}

/* Results or, if `sums` are given, gradients of all taps. */
#define STRIPS(n, cols)                                                                      \
  static __attribute__((noinline)) void F(strips##n##_##cols)(                               \
      const depthwise_job *c, const strip_rows *s, int64_t at, int64_t first, int64_t count, \
      float *sums) {                                                                         \
    if (!sums) F(depthwise_strips)(c, s, at, first, count, n, cols);                         \
    for (int64_t first_tap = 0; sums && first_tap < c->g->taps_h; first_tap += 3)            \
      F(depthwise_filter_strips)(c, s, at, first, count, n, cols, first_tap,                 \
                                 sums + first_tap * s->w_row);                               \
  }
STRIPS(4, 3)
#if MR == 8
STRIPS(7, 3)
STRIPS(4, 5)
#endif
#undef STRIPS

/* Computes the whole strips of a band, for the vectors from `begin` to `end`; returns the first
   column that is left. Strips have seven results, then four, unless sevens leave more columns. */
static LEAF int64_t F(depthwise_strip_band)(const depthwise_job *job, const window_walk *g,
                                            const walk_cursor *band, int64_t begin, int64_t end) {
  depthwise_job c = *job;
  strip_rows s;
  c.g = g;
  int64_t size = band->end_col - band->first_col, width = (end - begin) * LANES;
  int is_wide = g->taps_w == 5, few = size % 7 % 4 > size % 4 || MR < 8 || is_wide;
  int64_t sevens = few ? 0 : size / 7 * 7, fours = (size - sevens) / 4;
  int64_t next = 0;
  do {
    next = list_rows(g, band, next, &s);
    if (c.sums) s.w_row = s.w_row / g->depth * width, s.w_col = s.w_col / g->depth * width;
    for (int64_t j = begin; j < end; j++) {
      int64_t at = F(vector_start)(j, g->depth);
      float *sums = c.sums ? c.sums + j * LANES : 0;
#if MR == 8
      if (is_wide) F(strips4_5)(&c, &s, at, 0, fours, sums);
      else F(strips7_3)(&c, &s, at, 0, sevens / 7, sums);
#endif
      if (!is_wide) F(strips4_3)(&c, &s, at, sevens, fours, sums);
    }
  } while (next);
  return band->first_col + sevens + fours * 4;
}
