/* Winograd's F(2×2, 3×3): a tile of 2×2 results of windows of 3×3, by the products of values of x
   and of weights at 16 points, where its windows have 36 products. Source: Lavin and Gray, Fast
   Algorithms for Convolutional Neural Networks, 2015, section 4.1. Depth and units fill vectors. */

/* Bᵀ d of four values at a distance. */
INLINE void F(input_points)(F(vec) * d, int step) {
  F(vec) a = d[0], b = d[step], c = d[2 * step];
  d[0] = a - c, d[step] = b + c, d[2 * step] = c - b, d[3 * step] = b - d[3 * step];
}

/* Stores the results Aᵀ m A of a tile, those beyond an edge before the one that is there. */
INLINE void F(store_tile)(const float *m, int64_t step, float *y, const int64_t *out, int64_t unit,
                          const F(epilogue) * e) {
  F(tile) sums;
  F(vec) s[8];
  UNROLL(j, 4, F(vec) b = F(load)(m + (4 + j) * step), c = F(load)(m + (8 + j) * step);
         s[j] = F(load)(m + j * step) + b + c; s[4 + j] = b - c - F(load)(m + (12 + j) * step));
  UNROLL(i, 2, sums[3 - 2 * i][0] = s[4 * i] + s[4 * i + 1] + s[4 * i + 2];
         sums[2 - 2 * i][0] = s[4 * i + 1] - s[4 * i + 2] - s[4 * i + 3]);
  for (int i = 0; i < 4; i++) F(store_results)(sums + i, y, out + i, &unit, e, 1, 1);
}

/* One part: a range of the tiles. */
static inline void F(correlate_tiles_part)(void *job, int part, int parts) {
  const F(correlate_job) *c = job;
  const window_walk *g = c->g;
  /* Whole register tiles, because all rows of the last one are stored. */
  int64_t most = TILES / parts / ROWS_OF(1) * ROWS_OF(1);
  int64_t depth = TAPS_D(g) * g->depth, vectors = g->units / LANES, tiles = tile_count(g),
          end = chunk_begin(tiles, part + 1, parts), v_step = most * depth + LANES,
          m_step = (most * NR + 1) * LANES;
  float *zeros = c->panel + g->units * POINTS * depth + part * (depth + POINTS * (v_step + m_step)),
        *v = zeros + depth, *m = v + POINTS * v_step;
  int64_t to[TILES + MAX_MR], at[MAX_NR], unit[MAX_NR];
  const float *in[TILES + MAX_MR];
  const F(epilogue) none = {0};
  tap_loops taps = {.rows = 1, .cols = 1, .depth = depth};
#if WALKS_VOLUMES
  taps.planes = 1;
#endif
  result_tile tile[TILES];
  memset(zeros, 0, sizeof(float) * depth);
  for (int i = 0; i < MAX_NR; i++) unit[i] = i * LANES;
  for (int i = 0; i < TILES + MAX_MR; i++) to[i] = i * NR * LANES;
  for (int64_t first = chunk_begin(tiles, part, parts), count; first < end; first += count) {
    count = end - first < most ? end - first : most;
    for (int64_t tap = 0; tap < TAPS_D(g); tap++) {
      list_tiles(g, c->x, zeros, tap, first, count, tile);
      for (int64_t t = 0; t < count; t++)
        for (int64_t k = 0; k < g->depth; k += LANES) {
          F(vec) d[POINTS];
          UNROLL(i, 4, UNROLL(j, 4, d[4 * i + j] = F(load)(tile[t].from[4 * i + j] + k)));
          UNROLL(i, 4, F(input_points)(d + i, 4));
          float *point = v + t * depth + tap * g->depth + k;
          for (int i = 0; i < 4; i++) {
            F(input_points)(d + 4 * i, 1);
            UNROLL(j, 4, F(store)(point, d[4 * i + j]); point += v_step);
          }
        }
    }
    for (int64_t j = 0, n; j < vectors; j += n) {
      n = F(vector_group)(vectors - j);
      for (int p = 0; p < POINTS; p++) {
        for (int i = 0; i < n; i++) at[i] = ((j + i) * POINTS + p) * depth * LANES;
        for (int64_t t = 0; t < count + MAX_MR; t++)
          in[t] = v + p * v_step + (t < count ? t : count - 1) * depth;
        F(correlate_pixels)(&taps, in, c->panel, LANES, at, n, m + p * m_step, to, unit, LANES,
                            &none, (int)count);
      }
      for (int64_t t = 0; t < count; t++)
        for (int i = 0; i < n; i++)
          F(store_tile)(m + to[t] + unit[i], m_step, c->y, tile[t].out, (j + i) * LANES,
                        &c->epilogue);
    }
  }
}

/* The filter gradient, from sums of products of x and of A dy Aᵀ at the points. A part computes
   some of the four rows of points. */
static inline void F(filter_points_part)(void *job, int part, int parts) {
  const F(filter_job) *c = job;
  const window_walk *g = c->g;
  int64_t depth = TAPS_D(g) * g->depth, units = g->units, tiles = tile_count(g),
          most = FILTER_TILES / parts, x_step = most * depth + LANES,
          dy_step = most * units + LANES, to[FILTER_TILES];
  const float *zeros = c->scratch, *in[FILTER_TILES];
  float *sums = c->scratch + depth + units,
        *v = sums + POINTS * units * depth + part * 4 * (x_step + dy_step), *u = v + 4 * x_step;
  result_tile tile[FILTER_TILES];
  for (int64_t t = 0; t < most; t++) to[t] = t * units;
  if (c->db)
    F(add_column_sums)(c->dy, result_count(g), units, chunk_begin(units, part, parts),
                       chunk_begin(units, part + 1, parts), c->db);
  for (int64_t first = 0, count; first < tiles; first += count) {
    count = tiles - first < most ? tiles - first : most;
    for (int64_t a = chunk_begin(4, part, parts); a < chunk_begin(4, part + 1, parts); a++) {
      /* Row a of Bᵀ d is one row of d plus or minus another, that of A dy likewise. */
      int64_t one = a == 0 ? 0 : a == 2 ? 8 : 4, other = a == 3 ? 12 : a == 2 ? 4 : 8;
      float sign = a == 1 ? 1 : -1, upper = a < 3, lower = a == 0 ? 0 : sign;
      for (int64_t tap = 0; tap < TAPS_D(g); tap++) {
        list_tiles(g, c->x, zeros, tap, first, count, tile);
        for (int64_t t = 0; t < count; t++) {
          const float *const *from = tile[t].from;
          float *row = v + t * depth + tap * g->depth;
          for (int64_t k = 0; k < g->depth; k += LANES) {
            F(vec) d[4];
            UNROLL(j, 4, d[j] = F(load)(from[one + j] + k) + sign * F(load)(from[other + j] + k));
            F(input_points)(d, 1);
            UNROLL(j, 4, F(store)(row + j * x_step + k, d[j]));
          }
        }
      }
      for (int64_t t = 0; t < count; t++) {
        const float *dy[4];
        for (int q = 0; q < 4; q++)
          dy[q] = q < 3 && tile[t].out[q] == tile[t].out[3] ? zeros : c->dy + tile[t].out[q];
        for (int64_t k = 0; k < units; k += LANES) {
          F(vec) d[2];
          UNROLL(j, 2, d[j] = upper * F(load)(dy[3 - j] + k) + lower * F(load)(dy[1 - j] + k));
          float *first_point = u + t * units + k;
          F(store)(first_point, d[0]), F(store)(first_point + dy_step, d[0] + d[1]);
          F(store)(first_point + 2 * dy_step, d[0] - d[1]);
          F(store)(first_point + 3 * dy_step, -d[1]);
        }
      }
      for (int b = 0; b < 4; b++) {
        for (int64_t t = 0; t < count; t++) in[t] = v + b * x_step + t * depth;
        F(add_filter_tiles)((int)count, in, u + b * dy_step, to, 0, 0, units, depth,
                            sums + (4 * a + b) * units * depth, depth, first == 0);
      }
    }
  }
}

/* Gᵀ s of four values at a distance. */
INLINE void F(four_to_three)(F(vec) * s, int step) {
  F(vec) plus = (s[step] + s[2 * step]) * 0.5f;
  s[step] = (s[step] - s[2 * step]) * 0.5f, s[0] += plus, s[2 * step] = plus + s[3 * step];
}

/* Adds Gᵀ s G of the sums of a part of the units to dw, or to 0. */
static inline void F(filter_end_part)(void *job, int part, int parts) {
  const F(filter_job) *c = job;
  int64_t depth = TAPS_D(c->g) * c->g->depth, units = c->g->units,
          end = chunk_begin(units, part + 1, parts) * depth;
  int64_t begin = chunk_begin(units, part, parts) * depth;
  if (!c->adds) memset(c->dw + 9 * begin, 0, sizeof(float) * 9 * (end - begin));
  for (int64_t k = begin; k < end; k += LANES) {
    const float *sums = c->scratch + depth + units + k;
    float *dw = c->dw + k / depth * 9 * depth + k % depth;
    F(vec) s[POINTS];
    for (int i = 0; i < POINTS; i++) s[i] = F(load)(sums + i * units * depth);
    for (int i = 0; i < 4; i++) F(four_to_three)(s + i, 4);
    for (int i = 0; i < 3; i++) F(four_to_three)(s + 4 * i, 1);
    for (int i = 0; i < 9; i++)
      F(store)(dw + i * depth, F(load)(dw + i * depth) + s[i / 3 * 4 + i % 3]);
  }
}
