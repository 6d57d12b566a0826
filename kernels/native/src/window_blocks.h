/* Iterates over the results of a window_walk, a tile at a time, in blocks whose windows have the
   same taps inside the image. Taps outside are never read. */

#ifndef WINDOW_BLOCKS_H
#define WINDOW_BLOCKS_H

#include "target.h"
#include "team.h"

/* A file defines this as HAS_VOLUMES if images may be volumes of several planes for its kernels. */
#ifndef WALKS_VOLUMES
#define WALKS_VOLUMES 0
#endif
#if WALKS_VOLUMES
#define OF_VOLUME(value, of_image) (value)
#else
#define OF_VOLUME(value, of_image) (of_image)
#endif

/* Results first to end along one axis, and the taps that their windows have inside the image. */
typedef struct {
  int64_t first, end, tap, taps;
} window_span;

/* Returns the span that begins with result `first`: results whose windows have the same taps
   inside, which is from 0 to size − 1. Result k has its taps at start + k · stride + taps; taps
   ascend, and stride is above 0. */
static LEAF window_span span_from(int64_t first, int64_t end, int64_t start, int64_t stride,
                                  const int64_t *taps, int64_t count, int64_t size) {
  int64_t at = start + first * stride, a = 0, b = count;
  while (a < count && at + taps[a] < 0) a++;
  while (b > a && at + taps[b - 1] >= size) b--;
  window_span s = {first, first + 1, a < b ? a : 0, b - a};
  for (at += stride; s.end < end; s.end++, at += stride)
    if ((a && at + taps[a - 1] >= 0) || (b && at + taps[b - 1] >= size)) break;
  return s;
}

/* The block at hand, and what is left of a part's rows of all images and of its columns. */
typedef struct {
  int64_t next_row, end_row, first_col, end_col, band_end;
  int64_t image, images; /* of the band */
  int64_t index;         /* of the next result of the block */
  window_span row, col;
#if WALKS_VOLUMES
  window_span plane; /* of the band */
#endif
  int64_t band; /* about so many results are a band: rows of one image, or whole images */
} walk_cursor;

/* Images of results: each plane of a volume is one. */
static inline int64_t image_count(const window_walk *g) {
  return g->images * OF_VOLUME(g->planes_out, 1);
}
static inline int64_t result_count(const window_walk *g) {
  return image_count(g) * g->rows * g->cols;
}
static inline int64_t tap_count(const window_walk *g) {
  return OF_VOLUME(g->taps_d, 1) * g->taps_h * g->taps_w;
}

/* The offset of the first result of an image. */
static inline int64_t image_offset(const window_walk *g, int64_t image) {
  int64_t planes = OF_VOLUME(g->planes_out, 1), plane = image % planes;
  return g->out_start + image / planes * g->out_image + OF_VOLUME(plane * g->out_plane, plane);
}

/* The plane that a tap reads for an image of results, and its offset. */
static inline int64_t plane_read(const window_walk *g, int64_t image, int64_t tap) {
#if WALKS_VOLUMES
  int64_t plane = g->start_d + image % g->planes_out * g->stride_d;
  return g->taps_d ? plane + g->plane_taps[tap] : plane;
#else
  return (void)g, (void)image, (void)tap, 0;
#endif
}
static inline int64_t plane_offset(const window_walk *g, int64_t image, int64_t tap) {
#if WALKS_VOLUMES
  return image / g->planes_out * g->image_stride + plane_read(g, image, tap) * g->plane_stride;
#else
  return (void)tap, image * g->image_stride;
#endif
}

#if WALKS_VOLUMES
/* The span that begins with the plane of an image of results. */
static inline window_span plane_span(const window_walk *g, int64_t image) {
  return span_from(image % g->planes_out, g->planes_out, g->start_d, g->stride_d, g->plane_taps,
                   g->taps_d, g->planes);
}
#endif

/* Whether there are enough results for the parts. */
#define MANY_RESULTS(g, parts) (result_count(g) >= 256 * (parts))

/* Returns the iterator at the first results of a part: a range of rows, or of columns. */
static inline walk_cursor walk_begin(const window_walk *g, int64_t band, int part, int parts) {
  int64_t rows = image_count(g) * g->rows;
  walk_cursor at = {.end_row = rows, .end_col = g->cols, .band = band};
  if (rows >= g->cols || rows >= 8 * parts)
    at.next_row = chunk_begin(rows, part, parts), at.end_row = chunk_begin(rows, part + 1, parts);
  else
    at.first_col = chunk_begin(g->cols, part, parts),
    at.end_col = chunk_begin(g->cols, part + 1, parts);
  at.col.end = at.end_col;
  return at;
}

/* Advances to the next band. What a band reads should fit into the cache. */
static LEAF int next_band(const window_walk *g, walk_cursor *at) {
  int64_t rows = at->end_row - at->next_row, cols = at->end_col - at->first_col;
  if (rows <= 0 || cols <= 0) return 0;
  int64_t many = cols < at->band ? at->band / cols : 1, first = at->next_row % g->rows;
  int64_t left = g->rows - first < rows ? g->rows - first : rows;
  if (many > rows) many = rows;
  at->image = at->next_row / g->rows;
  at->images = left == g->rows && many >= left ? many / left : 1;
#if WALKS_VOLUMES
  at->plane = plane_span(g, at->image);
  int64_t same = at->plane.end - at->plane.first; /* images of one volume, with the same taps */
  if (g->planes_out > 1 && at->images > same) at->images = same;
#endif
  at->row.end = first, at->band_end = first + (many < left ? many : left);
  at->next_row += at->images * (at->band_end - first);
  at->col.first = at->col.end = at->end_col, at->index = 0; /* no block yet */
  return 1;
}

/* The blocks of the band at hand alone. */
static inline walk_cursor band_blocks(const walk_cursor *at) {
  walk_cursor blocks = *at;
  blocks.next_row = blocks.end_row;
  return blocks;
}

/* The offset of the first result of the band at hand, of whole rows, and the number of results.
   Valid after next_band until the first block of the band. */
static inline int64_t band_start(const window_walk *g, const walk_cursor *at) {
  return image_offset(g, at->image) + at->row.end * g->out_row;
}
static inline int64_t band_count(const window_walk *g, const walk_cursor *at) {
  return at->images * (at->band_end - at->row.end) * g->cols;
}

/* Advances to the next block of the band, or of the next band. */
static inline int next_block(const window_walk *g, walk_cursor *at) {
  if (at->col.end == at->end_col) {
    if (at->row.end == at->band_end && !next_band(g, at)) return 0;
    at->row = span_from(at->row.end, at->band_end, g->start_h, g->stride_h, g->row_taps, g->taps_h,
                        g->height);
    at->col.end = at->first_col;
  }
  at->col = span_from(at->col.end, at->end_col, g->start_w, g->stride_w, g->col_taps, g->taps_w,
                      g->width);
  at->index = 0;
  return 1;
}

/* Advances by a tile of at most `most` results, and returns their number. in[p] is the first tap
   inside the image, out[p] the offset of the result. `fill` more entries repeat the last one. */
static inline int next_tile(const window_walk *g, walk_cursor *at, const float *x, int most,
                            int fill, const float **in, int64_t *out) {
  int64_t rows = at->row.end - at->row.first, cols = at->col.end - at->col.first;
  if (at->index == at->images * rows * cols) {
    if (!next_block(g, at)) return 0;
    rows = at->row.end - at->row.first, cols = at->col.end - at->col.first;
  }
  int64_t image = at->image + at->index / cols / rows,
          row = at->row.first + at->index / cols % rows, col = at->col.first + at->index % cols,
          end = at->image + at->images;
  int64_t down = at->row.taps ? g->row_taps[at->row.tap] : 0,
          across = at->col.taps ? g->col_taps[at->col.tap] : 0;
  int count = 0;
  for (; count < most && image < end; image++, row = at->row.first) {
    const float *x_image = x + plane_offset(g, image, OF_VOLUME(at->plane.tap, 0));
    int64_t y_image = image_offset(g, image);
    for (; count < most && row < at->row.end; row++, col = at->col.first) {
      int64_t h = g->start_h + row * g->stride_h + down,
              w = g->start_w + col * g->stride_w + across;
      const float *from = x_image + h * g->row_stride + w * g->col_stride;
      int64_t to = y_image + row * g->out_row + col * g->out_col;
      for (; count < most && col < at->col.end; count++, col++) {
        in[count] = from, out[count] = to;
        from += g->stride_w * g->col_stride, to += g->out_col;
      }
    }
  }
  at->index += count;
  for (int p = count; p < count + fill; p++) in[p] = in[count - 1], out[p] = out[count - 1];
  return count;
}

/* The taps of a block as loops, with offsets in floats. Taps of a row that lie side by side in x
   and in the weights are one tap of more depth. */
typedef struct {
  int64_t rows, cols, depth, x_row, x_col, w_first, w_row, w_col;
#if WALKS_VOLUMES
  int64_t planes, x_plane, w_plane;
#endif
} tap_loops;
#define PLANES(t) OF_VOLUME((t)->planes, 1)

/* The offsets of a tap, in x and in the weights after the first one inside. */
static inline int64_t x_offset(const tap_loops *t, int64_t p, int64_t a, int64_t b) {
  return OF_VOLUME(p * t->x_plane, 0 * p) + a * t->x_row + b * t->x_col;
}
static inline int64_t w_offset(const tap_loops *t, int64_t p, int64_t a, int64_t b) {
  return OF_VOLUME(p * t->w_plane, 0 * p) + a * t->w_row + b * t->w_col;
}

static inline int64_t pitch(const int64_t *offsets, int64_t count) {
  return count > 1 ? offsets[1] - offsets[0] : 0;
}

/* step: floats from one value of the depth to the next in packed weights, (taps, depth) in the
   order of the walk; 0 if weights are not packed. */
static inline tap_loops taps_inside(const window_walk *g, const walk_cursor *at, int64_t step) {
  tap_loops t = {.rows = at->row.taps, .cols = at->col.taps, .depth = g->depth};
  t.x_row = pitch(g->row_taps, g->taps_h) * g->row_stride;
  t.x_col = pitch(g->col_taps, g->taps_w) * g->col_stride;
  t.w_row = step ? g->taps_w * g->depth * step : pitch(g->row_weights, g->taps_h);
  t.w_col = step ? g->depth * step : pitch(g->col_weights, g->taps_w);
  t.w_first = at->row.tap * t.w_row + at->col.tap * t.w_col;
#if WALKS_VOLUMES
  t.planes = at->plane.taps;
  t.x_plane = pitch(g->plane_taps, g->taps_d) * g->plane_stride;
  t.w_plane = step ? g->taps_h * t.w_row : pitch(g->plane_weights, g->taps_d);
  t.w_first += at->plane.tap * t.w_plane;
  if (!t.planes) t.rows = 0;
#endif
  if (!step && t.rows && t.cols)
    t.w_first += OF_VOLUME(g->plane_weights[0], 0) + g->row_weights[0] + g->col_weights[0];
  if (step && t.x_col == t.depth) t.depth *= t.cols, t.cols = t.cols > 0;
  return t;
}

/* The values of a window: their offsets in x, from its first tap inside, and in packed weights. */
typedef struct {
  int64_t x, w;
} value_offsets;
typedef struct {
  value_offsets values[LISTED_VALUES];
  int64_t count;
} value_list;

/* Lists the values if there are few and the depth is so small that a loop for it costs more than
   its products; else returns 0. w_step: the `step` of taps_inside. */
static inline int list_values(const tap_loops *t, int64_t w_step, value_list *list) {
  value_offsets *v = list->values;
  int64_t taps = PLANES(t) * t->rows * t->cols;
  if (t->depth >= 16 || taps < 2 || taps * t->depth > LISTED_VALUES) return 0;
  for (int64_t p = 0; p < PLANES(t); p++)
    for (int64_t a = 0; a < t->rows; a++)
      for (int64_t b = 0; b < t->cols; b++)
        for (int64_t k = 0; k < t->depth; k++)
          *v++ = (value_offsets){x_offset(t, p, a, b) + k, w_offset(t, p, a, b) + k * w_step};
  list->count = v - list->values;
  return 1;
}

#endif
