/* Depthwise products with vectors of WIDTH bytes, by AVX2 or AVX-512 VNNI: see integer.c.

   The input rows of a window are copied into lines with their border, so that a vector of a line
   holds the same tap of consecutive results: channels, and those of the next pixels where windows
   are a pixel apart. The weights repeat after `period` bytes. Four taps are interleaved, so that
   four bytes side by side belong to one result. */

static depthwise_layout NAME(layout_of)(const window_walk *g) {
  int64_t depth = g->depth, low = depth & -depth, merged = WIDTH / (low < WIDTH ? low : WIDTH);
  if (g->stride_w > 1 || depth * merged > MERGED) merged = 1;
  depthwise_layout l = {depth * merged, (g->taps_h * g->taps_w + QUAD - 1) / QUAD, 0, 0, 0, 0};
  int64_t reach = g->col_taps[g->taps_w - 1] + 1;
  l.block = WIDTH * (QUAD * WEIGHT_BYTES * l.quads + 8);
  l.tables = (l.period + WIDTH - 1) / WIDTH * l.block;
  l.columns = (DEPTHWISE_BYTES - l.tables) / g->taps_h - WIDTH - reach * depth;
  l.columns = l.columns < 0 ? 0 : l.columns / (g->stride_w * depth) + 1;
  if (l.columns > g->cols) l.columns = g->cols;
  l.line = ((l.columns - 1) * g->stride_w + reach) * depth + WIDTH;
  return l;
}

static inline void NAME(interleave)(const VECTOR *v, VECTOR *to) {
  VECTOR a = V(unpacklo_epi8)(v[0], v[1]), b = V(unpacklo_epi8)(v[2], v[3]);
  VECTOR c = V(unpackhi_epi8)(v[0], v[1]), d = V(unpackhi_epi8)(v[2], v[3]);
  to[0] = V(unpacklo_epi16)(a, b);
  to[1] = V(unpackhi_epi16)(a, b);
  to[2] = V(unpacklo_epi16)(c, d);
  to[3] = V(unpackhi_epi16)(c, d);
}

/* Writes start, m and weights of each vector of a period in the order of the sums. */
static void NAME(fill_tables)(const product_job *c, const depthwise_layout *l, uint8_t *to) {
  int64_t depth = c->g->depth, taps = c->g->taps_h * c->g->taps_w;
  for (int64_t p = 0; p < l->period; p += WIDTH) {
    int32_t *start = (int32_t *)to;
    float *m = (float *)to + WIDTH;
    for (int64_t k = 0, u = p % depth; k < WIDTH; k++, u = u + 1 < depth ? u + 1 : 0) {
      int64_t at = k % 16 / 4 * (WIDTH / 4) + k / 16 * 4 + k % 4;
      start[at] = c->start[u];
      m[at] = c->m[u];
    }
    to += 8 * WIDTH;
    for (int64_t t = 0; t < l->quads * QUAD; t += QUAD) {
      VECTOR rows[QUAD], sides[QUAD];
      for (int64_t k = 0; k < QUAD; k++) {
        int8_t bytes[WIDTH] = {0};
        const int8_t *w = c->w + (t + k) * depth;
        for (int64_t i = 0, u = p % depth, run; i < WIDTH && t + k < taps; i += run, u = 0) {
          run = depth - u < WIDTH - i ? depth - u : WIDTH - i;
          memcpy(bytes + i, w + u, run);
        }
        rows[k] = LOAD(bytes);
      }
      NAME(interleave)(rows, sides);
      for (int k = 0; k < QUAD; k++, to += WIDTH * WEIGHT_BYTES) STORE_WEIGHTS(to, sides[k]);
    }
  }
}

/* Copies the columns from w on of row h of an image, and border outside. */
static void NAME(fill_line)(const product_job *c, const uint8_t *x, int64_t h, int64_t w,
                            int64_t columns, uint8_t *to) {
  const window_walk *g = c->g;
  int64_t depth = g->depth, end = w + columns < g->width ? w + columns : g->width;
  int64_t first = w < 0 ? 0 : w, inside = h < 0 || h >= g->height ? 0 : end - first;
  int border = (uint8_t)(c->border ^ c->flip);
  if (inside <= 0) {
    memset(to, border, columns * depth);
    return;
  }
  uint8_t *from = to + (first - w) * depth;
  memset(to, border, from - to);
  memcpy(from, x + h * g->row_stride + first * depth, inside * depth);
  for (int64_t k = 0; k < inside * depth && c->flip; k += WIDTH)
    STORE(from + k, XOR(LOAD(from + k), V(set1_epi8)((char)c->flip)));
  memset(from + inside * depth, border, (columns - inside) * depth - (from - to));
}

/* WIDTH results: x[t] + at is the vector of tap t. The numbers are hi − zero, zero − lo and lo. */
static inline VECTOR NAME(results)(const uint8_t *const *x, int64_t at, const uint8_t *table,
                                   int64_t quads, FLOATS most, VECTOR zero, VECTOR lo) {
  const uint8_t *w = table + 8 * WIDTH;
  const float *m = (const float *)table + WIDTH;
  VECTOR s[QUAD], v[QUAD], sides[QUAD];
  for (int j = 0; j < QUAD; j++) s[j] = LOAD(table + j * WIDTH);
  for (; quads; quads--, x += QUAD) {
    for (int k = 0; k < QUAD; k++) v[k] = LOAD(x[k] + at);
    NAME(interleave)(v, sides);
    for (int j = 0; j < QUAD; j++, w += WIDTH * WEIGHT_BYTES) s[j] = ADD_QUADS(s[j], sides[j], w);
  }
  for (int j = 0; j < QUAD; j++, m += WIDTH / 4) /* products above hi could overflow */
    s[j] = V(cvtps_epi32)(V(min_ps)(V(mul_ps)(V(cvtepi32_ps)(s[j]), V(loadu_ps)(m)), most));
  VECTOR low = V(adds_epi16)(V(packs_epi32)(s[0], s[1]), zero);
  VECTOR high = V(adds_epi16)(V(packs_epi32)(s[2], s[3]), zero);
  return V(add_epi8)(V(packus_epi16)(low, high), lo); /* packing raises what is below 0 */
}

static void NAME(depthwise_part)(void *job, int part, int parts) {
  const product_job *c = job;
  const window_walk *g = c->g;
  uint8_t scratch[DEPTHWISE_BYTES];
  const uint8_t *x[MAX_TAPS + QUAD];
  int64_t loaded[MAX_TAPS], depth = g->depth, stride = g->stride_w,
                            step = g->taps_h > 1 ? g->row_taps[1] : 1;
  depthwise_layout l = NAME(layout_of)(g);
  int64_t all = g->images * g->rows, end = chunk_begin(all, part + 1, parts);
  FLOATS most = V(set1_ps)((float)(c->hi - c->zero));
  VECTOR zero = V(set1_epi16)((short)(c->zero - c->lo)), lo = V(set1_epi8)((char)c->lo);
  NAME(fill_tables)(c, &l, scratch);
  for (int64_t col = 0; col < g->cols; col += l.columns) {
    int64_t count = g->cols - col < l.columns ? g->cols - col : l.columns;
    int64_t size = count * depth, read = (l.line - WIDTH) / depth - (l.columns - count) * stride;
    for (int64_t line = chunk_begin(all, part, parts), image = -1; line < end; line++) {
      int is_new = line / g->rows != image;
      image = line / g->rows;
      for (int64_t a = 0, t = 0; a < g->taps_h; a++) {
        int64_t h = g->start_h + (line - image * g->rows) * g->stride_h + g->row_taps[a];
        int64_t slot = (h - g->start_h) / step % g->taps_h;
        uint8_t *to = scratch + l.tables + slot * l.line;
        if (is_new || loaded[slot] != h)
          NAME(fill_line)(c, c->x + image * g->image_stride, h, g->start_w + col * stride, read,
                          to);
        loaded[slot] = h;
        for (int64_t b = 0; b < g->taps_w; b++) x[t++] = to + g->col_taps[b] * depth;
      }
      for (int64_t t = g->taps_h * g->taps_w; t < l.quads * QUAD; t++) x[t] = x[0];
      uint8_t *y = c->y + (line * g->cols + col) * depth;
      for (int64_t e = 0; e < size; e += l.period)
        for (int64_t k = 0; k < l.period && e + k < size; k += WIDTH) {
          const uint8_t *table = scratch + k / WIDTH * l.block;
          VECTOR r = NAME(results)(x, e * stride + k, table, l.quads, most, zero, lo), rest;
          if (e + k + WIDTH <= size) STORE(y + e + k, r); /* the next results replace the rest */
          else rest = r, memcpy(y + e + k, &rest, size - e - k);
        }
    }
  }
}

#undef NAME
#undef WIDTH
#undef VECTOR
#undef FLOATS
#undef V
#undef LOAD
#undef STORE
#undef XOR
#undef WEIGHT_BYTES
#undef STORE_WEIGHTS
#undef ADD_QUADS
