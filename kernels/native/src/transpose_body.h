/* One instruction set's version of transpose.c. */

#include "vectors.h"

#include "transpose_tile.h"

/* Transposes up to LANES lines of y, from line `line`. */
static void F(transpose_strip)(const transpose_shape *t, const int32_t *x, int32_t *y,
                               int64_t line) {
  int64_t n = t->lines - line < LANES ? t->lines - line : LANES;
  if (t->lines < LANES || t->length < LANES) {
    x += line, y += line * t->y_line_stride;
    for (int64_t k = 0; k < t->length; k++)
      for (int64_t i = 0; i < n; i++) y[i * t->y_line_stride + k] = x[k * t->x_stride + i];
    return;
  }
  x += line + n - LANES, y += (line + n - LANES) * t->y_line_stride;
  for (int64_t j = 0; j * LANES < t->length; j++) {
    int64_t k = F(vector_start)(j, t->length);
    if (n == LANES) F(transpose_tile)(x + k * t->x_stride, t->x_stride, y + k, t->y_line_stride, 0);
    else
      F(transpose_tile)(x + k * t->x_stride, t->x_stride, y + k, t->y_line_stride,
                        (int)(LANES - n));
  }
}

/* Copies `lines` lines of n to 2 n elements as their first n and their last n, which may overlap.
   The number is a constant: a loop over a line's elements takes twice as long or more. */
#define COPY_ENDS(n)                                            \
  for (int64_t i = 0, last = t->length - (n); i < lines; i++) { \
    int32_t head[n], tail[n];                                   \
    memcpy(head, x + i * t->x_line_stride, sizeof head);        \
    memcpy(tail, x + i * t->x_line_stride + last, sizeof tail); \
    memcpy(y + i * t->y_line_stride, head, sizeof head);        \
    memcpy(y + i * t->y_line_stride + last, tail, sizeof tail); \
  }

#define SHORT_LINE (LANES < 8 ? 8 : LANES) /* elements; memcpy copies longer lines faster */

static void F(copy_short)(const transpose_shape *t, const int32_t *x, int32_t *y, int64_t lines) {
  if (t->length <= 2) COPY_ENDS(1)
  else if (t->length <= 4) COPY_ENDS(2)
  else if (t->length <= 8) COPY_ENDS(4)
  else COPY_ENDS(8)
}

static void F(copy_strip)(const transpose_shape *t, const int32_t *x, int32_t *y, int64_t line) {
  int64_t end = line + LANES < t->lines ? line + LANES : t->lines;
  if (t->x_stride == 1 && t->length <= SHORT_LINE) {
    F(copy_short)(t, x + line * t->x_line_stride, y + line * t->y_line_stride, end - line);
    return;
  }
  for (; line < end; line++) {
    const int32_t *from = x + line * t->x_line_stride;
    int32_t *to = y + line * t->y_line_stride, value = *from;
    if (!t->x_stride)
      for (int64_t k = 0; k < t->length; k++) to[k] = value;
    else if (t->x_stride != 1)
      for (int64_t k = 0; k < t->length; k++) to[k] = from[k * t->x_stride];
    else memcpy(to, from, t->length * sizeof *to);
  }
}

typedef struct {
  const transpose_shape *t;
  const int32_t *x;
  int32_t *y;
} F(transpose_job);

static void F(transpose_part)(void *job, int part, int parts) {
  const F(transpose_job) *c = job;
  const transpose_shape *t = c->t;
  int64_t strips = (t->lines + LANES - 1) / LANES, all = strips;
  for (int64_t d = 0; d < t->rank; d++) all *= t->sizes[d];
  int64_t end = chunk_begin(all, part + 1, parts);
  for (int64_t s = chunk_begin(all, part, parts); s < end; s++) {
    const int32_t *x = c->x;
    int32_t *y = c->y;
    int64_t line = s % strips * LANES, rest = s / strips;
    for (int64_t d = t->rank - 1; d >= 0; rest /= t->sizes[d--]) {
      int64_t at = rest % t->sizes[d];
      x += at * t->x[d], y += at * t->y[d];
    }
    if (t->x_line_stride == 1 && t->x_stride != 1) F(transpose_strip)(t, x, y, line);
    else F(copy_strip)(t, x, y, line);
  }
}

void F(transpose)(const transpose_shape *t, const int32_t *x, int32_t *y) {
  F(transpose_job) c = {t, x, y};
  int64_t work = t->lines * t->length;
  for (int64_t d = 0; d < t->rank; d++) work *= t->sizes[d];
  parallel_for(F(transpose_part), &c, parallel_parts(work * 4));
}
