/* Iterates over the windows of a window_walk, a tile of PIXELS results at a time. */

#include "team.h"

/* Whether there are enough tiles for the parts. */
#define MANY_TILES(g, parts) (result_count(g) >= 2 * PIXELS * (parts))

/* An iterator over windows. */
typedef struct {
  int64_t image, row, col, left;
  int64_t inner_h, inner_w; /* the farthest taps */
  int64_t first_h, first_w; /* the nearest taps */
  int64_t offsets[MAX_TAPS];
} walk_cursor;

static inline int64_t smallest(const int64_t *a, int64_t n) {
  int64_t best = n ? a[0] : 0;
  for (int64_t i = 1; i < n; i++)
    if (a[i] < best) best = a[i];
  return best;
}

static inline int64_t largest(const int64_t *a, int64_t n) {
  int64_t best = n ? a[0] : 0;
  for (int64_t i = 1; i < n; i++)
    if (a[i] > best) best = a[i];
  return best;
}

static inline int64_t result_count(const window_walk *g) { return g->images * g->rows * g->cols; }

/* Returns the iterator at the first tile of a part. */
static inline walk_cursor walk_begin(const window_walk *g, int part, int parts) {
  int64_t all = result_count(g), tiles = (all + PIXELS - 1) / PIXELS;
  int64_t first = chunk_begin(tiles, part, parts) * PIXELS,
          end = chunk_begin(tiles, part + 1, parts) * PIXELS;
  walk_cursor at = {0};
  at.image = first / (g->rows * g->cols);
  at.row = first / g->cols % g->rows, at.col = first % g->cols;
  at.left = (end < all ? end : all) - first;
  at.inner_h = largest(g->row_taps, g->taps_h), at.first_h = smallest(g->row_taps, g->taps_h);
  at.inner_w = largest(g->col_taps, g->taps_w), at.first_w = smallest(g->col_taps, g->taps_w);
  for (int64_t a = 0; a < g->taps_h; a++)
    for (int64_t b = 0; b < g->taps_w; b++)
      at.offsets[a * g->taps_w + b] =
          g->row_taps[a] * g->row_stride + g->col_taps[b] * g->col_stride;
  return at;
}

/* Advances by a tile and returns its number of pixels. For tap t and pixel p, in[t·PIXELS + p] is
   set to the channels to read, or to `border`, and out[p] to the offset of the result. Entries up
   to the next multiple of `fill` repeat the last pixel. */
static inline int next_tile(const window_walk *g, walk_cursor *at, const float *x,
                            const float *border, int fill, const float **in, int64_t *out) {
  int count = 0;
  for (; count < PIXELS && at->left; count++, at->left--) {
    int64_t h = g->start_h + at->row * g->stride_h, w = g->start_w + at->col * g->stride_w;
    int64_t base = at->image * g->image_stride + h * g->row_stride + w * g->col_stride;
    int all_inside = h + at->first_h >= 0 && h + at->inner_h < g->height && w + at->first_w >= 0 &&
                     w + at->inner_w < g->width;
    out[count] =
        g->out_start + at->image * g->out_image + at->row * g->out_row + at->col * g->out_col;
    for (int64_t a = 0, t = 0; a < g->taps_h; a++) {
      int64_t i = h + g->row_taps[a];
      for (int64_t b = 0; b < g->taps_w; b++, t++) {
        int64_t j = w + g->col_taps[b];
        int is_inside = all_inside || (i >= 0 && i < g->height && j >= 0 && j < g->width);
        in[t * PIXELS + count] = is_inside ? x + base + at->offsets[t] : border;
      }
    }
    if (++at->col == g->cols) {
      at->col = 0;
      if (++at->row == g->rows) at->row = 0, at->image++;
    }
  }
  for (int p = count; count && p % fill; p++) {
    out[p] = out[count - 1];
    for (int64_t t = 0; t < g->taps_h * g->taps_w; t++)
      in[t * PIXELS + p] = in[t * PIXELS + count - 1];
  }
  return count;
}
