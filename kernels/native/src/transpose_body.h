/* One instruction set's version of transpose.c. */

#include "turn.h"

/* Up to LANES lines of y, from `line` on. */
static void F(turn_strip)(const transposition *t, const int32_t *x, int32_t *y, int64_t line) {
  int64_t n = t->lines - line < LANES ? t->lines - line : LANES;
  if (t->lines < LANES || t->length < LANES) {
    x += line, y += line * t->y_line;
    for (int64_t k = 0; k < t->length; k++)
      for (int64_t i = 0; i < n; i++) y[i * t->y_line + k] = x[k * t->x_step + i];
    return;
  }
  x += line + n - LANES, y += (line + n - LANES) * t->y_line;
  for (int64_t j = 0; j * LANES < t->length; j++) {
    int64_t k = F(start)(j, t->length);
    if (n == LANES) F(turn)(x + k * t->x_step, t->x_step, y + k, t->y_line, 0);
    else F(turn)(x + k * t->x_step, t->x_step, y + k, t->y_line, (int)(LANES - n));
  }
}

static void F(copy_strip)(const transposition *t, const int32_t *x, int32_t *y, int64_t line) {
  int64_t end = line + LANES < t->lines ? line + LANES : t->lines;
  for (; line < end; line++) {
    const int32_t *from = x + line * t->x_line;
    int32_t *to = y + line * t->y_line;
    if (t->length < LANES)
      for (int64_t k = 0; k < t->length; k++) to[k] = from[k];
    else memcpy(to, from, t->length * sizeof *to);
  }
}

typedef struct {
  const transposition *t;
  const int32_t *x;
  int32_t *y;
} F(transposing);

static void F(transpose_part)(void *job, int part, int parts) {
  const F(transposing) *c = job;
  const transposition *t = c->t;
  int64_t strips = (t->lines + LANES - 1) / LANES, all = strips;
  for (int64_t d = 0; d < t->rank; d++) all *= t->sizes[d];
  int64_t end = cut(all, part + 1, parts);
  for (int64_t s = cut(all, part, parts); s < end; s++) {
    const int32_t *x = c->x;
    int32_t *y = c->y;
    int64_t line = s % strips * LANES, rest = s / strips;
    for (int64_t d = t->rank - 1; d >= 0; rest /= t->sizes[d--]) {
      int64_t at = rest % t->sizes[d];
      x += at * t->x[d], y += at * t->y[d];
    }
    if (t->x_step == 1) F(copy_strip)(t, x, y, line);
    else F(turn_strip)(t, x, y, line);
  }
}

void F(transpose)(const transposition *t, const int32_t *x, int32_t *y) {
  F(transposing) c = {t, x, y};
  int64_t work = t->lines * t->length;
  for (int64_t d = 0; d < t->rank; d++) work *= t->sizes[d];
  share(F(transpose_part), &c, parts_of(work * 4));
}
