/* Depthwise products with vectors of WIDTH bytes, by AVX2, VNNI or ARM dot products: see integer.c.

   The input rows of a window are copied into lines with their border, so that a vector of a line
   holds the same tap of consecutive results: channels, and those of the next pixels where windows
   are a pixel apart. The weights repeat after `period` bytes. Four taps are interleaved, so that
   four bytes side by side belong to one result. */

static inline __attribute__((always_inline)) void NAME(interleave)(const VECTOR *v, VECTOR *to) {
  VECTOR a = V(unpacklo_epi8)(v[0], v[1]), b = V(unpacklo_epi8)(v[2], v[3]);
  VECTOR c = V(unpackhi_epi8)(v[0], v[1]), d = V(unpackhi_epi8)(v[2], v[3]);
  to[0] = V(unpacklo_epi16)(a, b);
  to[1] = V(unpackhi_epi16)(a, b);
  to[2] = V(unpacklo_epi16)(c, d);
  to[3] = V(unpackhi_epi16)(c, d);
}

/* Interleaves the weights of a table, so that those of four taps of a result are side by side. */
static void NAME(order_weights)(uint8_t *to, int64_t quads) {
  for (; quads; quads--) {
    VECTOR rows[QUAD], sides[QUAD];
    for (int k = 0; k < QUAD; k++) rows[k] = LOAD(to + k * WIDTH);
    NAME(interleave)(rows, sides);
    for (int k = 0; k < QUAD; k++, to += WIDTH * WEIGHT_BYTES) STORE_WEIGHTS(to, sides[k]);
  }
}

/* WIDTH results: x[t] + at is the vector of tap t. */
static inline __attribute__((always_inline)) VECTOR NAME(results)(const uint8_t *const *x,
                                                                  int64_t at, const uint8_t *table,
                                                                  int64_t quads,
                                                                  FLOATS hi_less_zero,
                                                                  VECTOR zero_less_lo, VECTOR lo) {
  const uint8_t *w = table + TABLE_HEAD * WIDTH;
  const float *m = (const float *)table + WIDTH;
  VECTOR s[QUAD], v[QUAD], sides[QUAD];
  for (int j = 0; j < QUAD; j++) s[j] = LOAD(table + j * WIDTH);
  for (; quads; quads--, x += QUAD) {
    for (int k = 0; k < QUAD; k++) v[k] = LOAD(x[k] + at);
    NAME(interleave)(v, sides);
    for (int j = 0; j < QUAD; j++, w += WIDTH * WEIGHT_BYTES) s[j] = ADD_QUADS(s[j], sides[j], w);
  }
  for (int j = 0; j < QUAD; j++, m += WIDTH / 4) /* products above hi could overflow */
    s[j] = V(cvtps_epi32)(V(min_ps)(V(mul_ps)(V(cvtepi32_ps)(s[j]), V(loadu_ps)(m)), hi_less_zero));
  VECTOR low = V(adds_epi16)(V(packs_epi32)(s[0], s[1]), zero_less_lo);
  VECTOR high = V(adds_epi16)(V(packs_epi32)(s[2], s[3]), zero_less_lo);
  return V(add_epi8)(V(packus_epi16)(low, high), lo); /* packing raises what is below 0 */
}

/* `size` bytes of a row of results: x[t] is where the first result reads the line of tap t. */
static void NAME(result_row)(const product_job *c, const depthwise_layout *l, const uint8_t *tables,
                             const uint8_t *const *x, uint8_t *y, int64_t size) {
  FLOATS hi_less_zero = V(set1_ps)((float)(c->hi - c->zero));
  VECTOR zero_less_lo = V(set1_epi16)((short)(c->zero - c->lo));
  VECTOR lo = V(set1_epi8)((char)c->lo), rest;
  int64_t stride = c->g->stride_w, period = l->period, block = l->block, quads = l->quads;
  for (int64_t e = 0; e < size; e += period) {
    const uint8_t *table = tables;
    for (int64_t k = 0; k < period && e + k < size; k += WIDTH, table += block) {
      VECTOR r = NAME(results)(x, e * stride + k, table, quads, hi_less_zero, zero_less_lo, lo);
      if (e + k + WIDTH <= size) STORE(y + e + k, r); /* the next results replace the rest */
      else rest = r, memcpy(y + e + k, &rest, size - e - k);
    }
  }
}

static const depthwise_form NAME(form) = {WIDTH, WEIGHT_BYTES, LESS, NAME(order_weights),
                                          NAME(result_row)};

#undef NAME
#undef WIDTH
#undef LESS
#undef VECTOR
#undef FLOATS
#undef V
#undef LOAD
#undef STORE
#undef WEIGHT_BYTES
#undef STORE_WEIGHTS
#undef ADD_QUADS
