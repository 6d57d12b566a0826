/* One instruction set's version of transpose.c. */

#include "vectors.h"

/* What of two vectors a and b, of the lines i and i + h of a block, becomes line i, and line i + h. */
#define UPPER(l, h) ((l) & (h) ? LANES + (l) - (h) : (l))
#define LOWER(l, h) ((l) & (h) ? LANES + (l) : (l) + (h))
#define FOUR(m, l, h) m(l, h), m(l + 1, h), m(l + 2, h), m(l + 3, h)
#if LANES == 16
#define EVERY(m, h) FOUR(m, 0, h), FOUR(m, 4, h), FOUR(m, 8, h), FOUR(m, 12, h)
#elif LANES == 8
#define EVERY(m, h) FOUR(m, 0, h), FOUR(m, 4, h)
#else
#define EVERY(m, h) FOUR(m, 0, h)
#endif
#ifdef __clang__
#define MIXED(a, b, m, h) __builtin_shufflevector(a, b, EVERY(m, h))
#else
#define MIXED(a, b, m, h) __builtin_shuffle(a, b, (F(bits)){EVERY(m, h)})
#endif
#define EXCHANGE(h)                                                                                \
  _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) if (!(i & (h))) {                       \
    F(bits) a = v[i], b = v[i + (h)];                                                              \
    v[i] = MIXED(a, b, UPPER, h), v[i + (h)] = MIXED(a, b, LOWER, h);                              \
  }

/* A block of LANES × LANES: halves of it change places, then halves of these. The first `known`
   lines are there already. */
INLINE void F(turn)(const int32_t *x, int64_t x_step, int32_t *y, int64_t y_line, int known) {
  F(bits) v[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) v[i] = *(const F(bits) *)(x + i * x_step);
#if LANES >= 16
  EXCHANGE(8)
#endif
#if LANES >= 8
  EXCHANGE(4)
#endif
  EXCHANGE(2)
  EXCHANGE(1)
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    if (i >= known) *(F(bits) *)(y + i * y_line) = v[i];
}

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

#undef UPPER
#undef LOWER
#undef FOUR
#undef EVERY
#undef MIXED
#undef EXCHANGE
