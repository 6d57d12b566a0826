/* The gradient of a convolution's filter: tiles of sums over the pixels. */

/* sums[o][vector] += Σ over pixels of dy[out[p] + o] x[p][vector], for m values of o, n vectors. */
#define FILTER_TILE(name, m, n)                                                                   \
  static __attribute__((noinline)) void F(name##n)(                                               \
      int pixels, const float *const *in, const float *dy, const int64_t *out, const int64_t *at, \
      float *sums, int64_t step, const int64_t *to, int first) {                                  \
    F(tile) acc;                                                                                  \
    if (first) F(tile_clear)(acc, m, n);                                                          \
    else F(tile_load)(acc, sums, step, to, m, n);                                                 \
    F(tile_add_outer_products)(acc, dy, out, in, at, pixels, m, n);                               \
    F(tile_store)(acc, sums, step, to, m, n);                                                     \
  }
FILTER_TILE(filter_wide, WIDE_MR, 1)
FILTER_TILE(filter_rows, MR, 1)
FILTER_TILE(filter_rows, MR, 2)
FILTER_TILE(filter_row, 1, 1)
FILTER_TILE(filter_row, 1, 2)
#undef WIDE2
#undef ROWS3
#undef ROW3
#if MR < 8 && NR == 3
FILTER_TILE(filter_wide, ROWS_OF(2), 2)
#define WIDE2 F(filter_wide2)
#else
#define WIDE2 F(filter_rows2)
#endif
#if NR == 3
FILTER_TILE(filter_rows, MR, 3)
FILTER_TILE(filter_row, 1, 3)
#define ROWS3 F(filter_rows3)
#define ROW3 F(filter_row3)
#else
#define ROWS3 F(filter_rows2)
#define ROW3 F(filter_row2)
#endif
#undef FILTER_TILE

#if USES_BLOCKS
/* The same for two vectors, and for every MR of `units` units, from pixels in runs of even steps,
   whose addresses need no loads. */
static __attribute__((noinline)) void F(filter_runs)(const pixel_run *runs, const float *const *in,
                                                     const float *dy, const int64_t *out,
                                                     const int64_t *at, float *sums, int64_t step,
                                                     const int64_t *to, int64_t units, int first) {
  const pixel_run one = runs[0];
  const float *x = in[0];
  int64_t from = out[0];
  for (; units >= MR; units -= MR, dy += MR, sums += MR * step) {
    F(tile) acc;
    const pixel_run *run = runs;
    const float *a = dy + from, *b[2] = {x + at[0], x + at[1]};
    int64_t x_step = one.x_step, dy_step = one.y_step;
    int count = one.count;
    if (first) F(tile_clear)(acc, MR, 2);
    else F(tile_load)(acc, sums, step, to, MR, 2);
    for (;;) {
      FOUR_BLOCKS(u, count, , TILE_ADD_PRODUCT(acc, MR, 2, a[i], b[j]); ADVANCE(a, dy_step);
                  UNROLL(j, 2, ADVANCE(b[j], x_step)));
      if (!(count = (++run)->count)) break;
      x_step = run->x_step, dy_step = run->y_step, a = dy + out[run->first];
      UNROLL(j, 2, b[j] = in[run->first] + at[j]);
    }
    F(tile_store)(acc, sums, step, to, MR, 2);
  }
}
#endif

/* Copies n vectors of each row. */
static void F(copy_rows)(near_rows *to, const float *const *from, int count, int64_t at,
                         int64_t n) {
  float *row = to->values;
  for (int p = 0; p < count; p++, row += NR * LANES) {
    const float *x = from[p] + at;
    UNROLL(i, NR, if (i < n) F(store)(row + i * LANES, F(load)(x + i * LANES)));
  }
}

/* Adds a tile of pixels to the sums of `size` values for every unit from begin_at to end_at. The
   last two vectors may overlap: they are of one group, loaded before either is stored. */
static __attribute__((noinline)) void F(add_filter_tiles)(int pixels, const float *const *in,
                                                          const float *dy, const int64_t *out,
                                                          int64_t offset, int64_t begin_at,
                                                          int64_t end_at, int64_t size, float *sums,
                                                          int64_t step, int first) {
  int64_t vectors = (size + LANES - 1) / LANES;
  near_rows near;
  const float *const *from = in;
  /* A few rows fit into the ways of a cache. Small tiles are for processors with little or none. */
  int copies = FASTER_FORMS && PIXELS > 16 && collide(in, pixels) && size % LANES == 0 &&
               end_at - begin_at >= 8 * MR;
  if (copies) {
    for (int p = 0; p < pixels; p++) near.rows[p] = near.values + p * NR * LANES;
    from = near.rows;
  }
#if USES_BLOCKS
  pixel_run runs[PIXELS + 1];
  list_runs(from, out, pixels, runs);
#endif
  for (int64_t j = 0, n; j < vectors; j += n) {
    int64_t at[NR], to[NR];
    n = F(vector_group)(vectors - j);
    UNROLL(i, NR, to[i] = F(vector_start)(j + i, size); at[i] = offset + to[i]);
    if (copies) {
      F(copy_rows)(&near, in, pixels, at[0], n);
      UNROLL(i, NR, at[i] = i * LANES);
    }
    int64_t o = begin_at;
#if USES_BLOCKS
    if (n == 2) {
      F(filter_runs)(runs, from, dy + o, out, at, sums + o * step, step, to, end_at - o, first);
      o = end_at - (end_at - o) % MR;
    }
#endif
    while (o < end_at) {
      int64_t left = end_at - o, most = n == 1 ? WIDE_MR : n == 2 ? ROWS_OF(2) : MR;
      int split = left / MR == 2 && left % MR < 2; /* two tiles of MR rows leave fewest rows */
      int64_t rows = left >= MR ? MR : 1;
      if (left >= most && (most == WIDE_MR || !split)) rows = most;
      for (int64_t i = o + rows; PIXELS > 16 && i < o + 2 * rows && i < end_at; i++)
        for (int v = 0; v < n; v++) __builtin_prefetch(sums + i * step + to[v]);
      /* Where there are blocks, two vectors have fewer rows than MR left. */
#define RUN(name) name(pixels, from, dy + o, out, at, sums + o * step, step, to, first)
      if (rows == 1) n == 1 ? RUN(F(filter_row1)) : n == 2 ? RUN(F(filter_row2)) : RUN(ROW3);
      else if (rows == MR)
        n == 1 || USES_BLOCKS ? RUN(F(filter_rows1)) : n == 2 ? RUN(F(filter_rows2)) : RUN(ROWS3);
      else n == 1 || USES_BLOCKS ? RUN(F(filter_wide1)) : RUN(WIDE2);
#undef RUN
      o += rows;
    }
  }
}

typedef struct {
  const float *dy, *x;
  float *dw, *db, *scratch;
  const window_walk *g;
  int adds; /* to dw */
} F(filter_job);

/* Adds the bias gradient of a band, for the units of a part. */
static void F(add_bias_band)(const F(filter_job) * c, const walk_cursor *at, int part, int parts) {
  const window_walk *g = c->g;
  if (c->db)
    F(add_column_sums)(c->dy + band_start(g, at), band_count(g, at), g->units,
                       chunk_begin(g->units, part, parts), chunk_begin(g->units, part + 1, parts),
                       c->db);
}

/* Whether each tap has a walk of its own, over all results whose window has it inside, because the
   depth fills several vectors and the taps of a row need not be merged. */
static int F(walks_by_tap)(const window_walk *g) { return g->depth >= 2 * LANES && g->units >= MR; }

/* The values of a filter gradient are divided into groups: MR units of a row of taps, in any plane,
   or of a tap with a walk of its own. */
static int64_t F(groups_of_units)(const window_walk *g) { return (g->units + MR - 1) / MR; }
static int64_t F(filter_groups)(const window_walk *g) {
  return TAPS_D(g) * g->taps_h * (F(walks_by_tap)(g) ? g->taps_w : 1) * F(groups_of_units)(g);
}

/* Adds the band's gradients of the taps of `g`, all or one, for a range of groups. */
static void F(add_filter_band)(const F(filter_job) * c, const window_walk *g, walk_cursor at,
                               int64_t begin, int64_t end, float *dw, int first) {
  const float *in[PIXELS];
  int64_t out[PIXELS], step = tap_count(c->g) * c->g->depth, groups = F(groups_of_units)(g);
  if (end <= 0 || begin >= TAPS_D(g) * g->taps_h * groups) return;
  for (int pixels; (pixels = next_tile(g, &at, c->x, PIXELS, 0, in, out)); first = 0) {
    tap_loops t = taps_inside(g, &at, 1);
    int64_t plane = OF_VOLUME(at.plane.tap, 0);
    for (int64_t p = 0; p < PLANES(&t); p++)
      for (int64_t a = 0; a < t.rows; a++) {
        int64_t before = ((plane + p) * g->taps_h + at.row.tap + a) * groups;
        int64_t from = begin > before ? (begin - before) * MR : 0,
                to = end < before + groups ? (end - before) * MR : g->units;
        for (int64_t b = 0; from < to && b < t.cols; b++)
          F(add_filter_tiles)(pixels, in, c->dy, out, x_offset(&t, p, a, b), from, to, t.depth,
                              dw + t.w_first + w_offset(&t, p, a, b), step, first);
      }
  }
}

/* Clears the gradients of a range of groups. A row is a row of taps, or a tap with a walk of its
   own; there, unit o belongs to group row · groups + o / MR. So the rows of a unit in the range are
   side by side, `length` values each. */
static void F(clear_filter_groups)(const F(filter_job) * c, int64_t begin, int64_t end,
                                   int64_t length) {
  const window_walk *g = c->g;
  int64_t groups = F(groups_of_units)(g), step = tap_count(g) * g->depth;
  for (int64_t o = 0; o < g->units; o++) {
    int64_t round_up = groups - 1 - o / MR;
    int64_t first = (begin + round_up) / groups, last = (end + round_up) / groups;
    memset(c->dw + o * step + first * length, 0, sizeof(float) * (last - first) * length);
  }
}

/* One part: a range of groups. The first tile of pixels overwrites the gradients of a window of one
   tap; those of more taps are cleared before, because a block may lack some of them. */
static void F(filter_sums_part)(void *job, int part, int parts) {
  const F(filter_job) *c = job;
  const window_walk *g = c->g;
  int64_t groups = F(groups_of_units)(g), taps = tap_count(g), step = taps * g->depth,
          begin = chunk_begin(F(filter_groups)(g), part, parts),
          end = chunk_begin(F(filter_groups)(g), part + 1, parts);
  int apart = F(walks_by_tap)(g), clears = !c->adds && step > g->depth, first = !c->adds && !clears;
  int64_t length = apart ? g->depth : g->taps_w * g->depth;
  window_walk one = *g;
  if (apart) one.taps_h = one.taps_w = 1;
#if WALKS_VOLUMES
  if (apart) one.taps_d = 1;
#endif
  if (clears) F(clear_filter_groups)(c, begin, end, length);
  for (walk_cursor at = walk_begin(g, apart ? PIXELS : WIDE_BAND, 0, 1); next_band(g, &at);) {
    F(add_bias_band)(c, &at, part, parts);
    for (int64_t tap = 0; tap < (apart ? taps : 1); tap++) {
      int64_t row = tap / g->taps_w;
      walk_cursor blocks = band_blocks(&at);
#if WALKS_VOLUMES
      one.plane_taps = g->plane_taps + row / g->taps_h, row %= g->taps_h;
      blocks.plane = plane_span(&one, at.image);
#endif
      one.row_taps = g->row_taps + row, one.col_taps = g->col_taps + tap % g->taps_w;
      F(add_filter_band)(c, &one, blocks, begin - tap * groups, end - tap * groups,
                         c->dw + tap * length, first);
    }
    first = 0;
  }
}

/* sums[to[i]][vector] += Σ over pixels of in[p][tap[i]] dy[out[p]][vector], for m values of a
   window, n vectors of units. */
#define TAP_TILE(m, n)                                                                            \
  static __attribute__((noinline)) void F(tap_rows##n)(                                           \
      int pixels, const float *const *in, const float *dy, const int64_t *out, const int64_t *at, \
      const int64_t *tap, float *sums, const int64_t *to) {                                       \
    F(tile) acc;                                                                                  \
    UNROLL(i, m, UNROLL(j, n, acc[i][j] = F(load)(sums + to[i] + j * LANES)));                    \
    for (int p = 0; p < pixels; p++) {                                                            \
      const float *x = in[p], *from = dy + out[p];                                                \
      TILE_ADD_PRODUCT(acc, m, n, x[tap[i]], from + at[j]);                                       \
    }                                                                                             \
    UNROLL(i, m, UNROLL(j, n, F(store)(sums + to[i] + j * LANES, acc[i][j])));                    \
  }
#undef TAP_ROWS
#undef MAX_TAP_ROWS
#define TAP_ROWS (MR == 8 ? 9 : MR)          /* 9 divides the values of windows of 3×3 */
#define MAX_TAP_ROWS (MR == 8 ? 9 : WIDE_MR) /* of one vector, which has fewer accumulators */
TAP_TILE(MAX_TAP_ROWS, 1)
TAP_TILE(TAP_ROWS, 2)
#undef TAP_TILE

#if LANES == 16
/* The same for one vector of units and `count` of RUNS runs of RUN_VALUES values side by side. The
   offsets in a run are constants, so that more accumulators leave registers for addresses. */
#define RUN_VALUES 9 /* of a row of a window, for three taps of three channels */
#define RUNS 3
static
    __attribute__((noinline)) void F(tap_runs1)(int pixels, const float *const *in, const float *dy,
                                                const int64_t *out, int64_t *tap, float *sums,
                                                int64_t *to, int count) {
  F(vec) acc[RUNS][RUN_VALUES];
  for (int r = count; r < RUNS; r++) tap[r] = tap[count - 1], to[r] = to[count - 1];
  UNROLL(r, RUNS, UNROLL(i, RUN_VALUES, acc[r][i] = F(load)(sums + to[r] + i * LANES)));
  for (int p = 0; p < pixels; p++) {
    F(vec) v = F(load)(dy + out[p]);
    UNROLL(r, RUNS, const float *x = in[p] + tap[r];
           UNROLL(i, RUN_VALUES, acc[r][i] += F(broadcast)(x[i]) * v));
  }
  UNROLL(r, RUNS, UNROLL(i, RUN_VALUES, F(store)(sums + to[r] + i * LANES, acc[r][i])));
}
#endif

/* Adds a tile of pixels to `count` values of a window, for all units. If there are fewer than a
   tile has, the last one is computed several times. */
static void F(add_tap_rows)(int pixels, const float *const *in, const float *dy, const int64_t *out,
                            int64_t units, int64_t *tap, float *sums, int64_t *to, int count) {
  int64_t vectors = (units + LANES - 1) / LANES;
  for (int i = count; i < MAX_TAP_ROWS; i++) tap[i] = tap[count - 1], to[i] = to[count - 1];
  for (int64_t j = 0, n; j < vectors; j += n, sums += n * LANES) {
    int64_t at[MAX_NR];
    n = vectors - j > 1 ? 2 : 1;
    for (int i = 0; i < n; i++) at[i] = units < LANES ? 0 : F(vector_start)(j + i, units);
    if (n == 1) F(tap_rows1)(pixels, in, dy, out, at, tap, sums, to);
    else F(tap_rows2)(pixels, in, dy, out, at, tap, sums, to);
  }
}

/* One part if the depth does not fill a vector: a range of the window's values, with vectors along
   the units. The sums of a value are in whole vectors, in scratch. */
static void F(tap_sums_part)(void *job, int part, int parts) {
  const F(filter_job) *c = job;
  const window_walk *g = c->g;
  int64_t size = tap_count(g) * g->depth, begin = chunk_begin(size, part, parts),
          end = chunk_begin(size, part + 1, parts);
  int64_t vectors = (g->units + LANES - 1) / LANES, step = vectors * LANES, out[PIXELS];
  int rows = vectors == 1 ? MAX_TAP_ROWS : TAP_ROWS;
  const float *in[PIXELS], *dy = c->dy;
  float narrow[PIXELS * LANES] = {0};
  memset(c->scratch + begin * step, 0, sizeof(float) * (end - begin) * step);
  for (walk_cursor band = walk_begin(g, WIDE_BAND, 0, 1); next_band(g, &band);) {
    F(add_bias_band)(c, &band, part, parts);
    walk_cursor at = band_blocks(&band);
    for (int pixels; (pixels = next_tile(g, &at, c->x, PIXELS, 0, in, out));) {
      tap_loops t = taps_inside(g, &at, 1);
      int64_t tap[MAX_TAP_ROWS], to[MAX_TAP_ROWS];
      int count = 0;
#if LANES == 16
      int64_t run[RUNS], run_to[RUNS];
      int runs = 0;
#endif
      /* Units that do not fill a vector are copied, and padded with zeros. */
      for (int p = 0; p < pixels && g->units < LANES; p++, dy = narrow) {
        copy_few(narrow + p * LANES, c->dy + out[p], (int)g->units);
        out[p] = p * LANES;
      }
      for (int64_t p = 0; p < PLANES(&t); p++)
        for (int64_t a = 0; a < t.rows; a++)
          for (int64_t b = 0; b < t.cols; b++) {
            int64_t from = x_offset(&t, p, a, b), row = t.w_first + w_offset(&t, p, a, b);
#if LANES == 16
            if (vectors == 1 && t.depth == RUN_VALUES && row >= begin && row + RUN_VALUES <= end) {
              run[runs] = from, run_to[runs++] = row * step;
              if (runs == RUNS)
                F(tap_runs1)(pixels, in, dy, out, run, c->scratch, run_to, runs), runs = 0;
              continue;
            }
#endif
            for (int64_t k = 0; k < t.depth; k++, from++, row++) {
              if (row < begin || row >= end) continue;
              tap[count] = from, to[count++] = row * step;
              if (count < rows) continue;
              F(add_tap_rows)(pixels, in, dy, out, g->units, tap, c->scratch, to, count);
              count = 0;
            }
          }
      if (count) F(add_tap_rows)(pixels, in, dy, out, g->units, tap, c->scratch, to, count);
#if LANES == 16
      if (runs) F(tap_runs1)(pixels, in, dy, out, run, c->scratch, run_to, runs);
#endif
    }
  }
  for (int64_t row = begin; row < end; row++)
    for (int64_t o = 0; o < g->units; o++) {
      int64_t j = o / LANES, first = g->units < LANES ? 0 : F(vector_start)(j, g->units);
      float sum = c->scratch[row * step + j * LANES + o - first], *dw = c->dw + o * size + row;
      *dw = c->adds ? *dw + sum : sum;
    }
}
