/* One instruction set's version of typed.c; the compiler makes the vectors. */

/* The first of the values from `first` on, of a type. */
INLINE const void *F(value_at)(const void *x, int64_t first, int64_t type) {
  int64_t size = type == FLOATS ? 4 : type == TRUTHS ? 1 : type < 0 ? -type : type;
  return (const char *)x + first * size;
}

#define READ(T)                                    \
  {                                                \
    const T *x = from;                             \
    IVDEP                                          \
    for (i = 0; i < n; i++) to[i] = x[i * stride]; \
    break;                                         \
  }

/* Reads integers or bools; the stride is in elements and may be 0. */
static void F(read_integers)(int64_t *to, const void *from, int64_t n, int64_t stride,
                             int64_t type) {
  int64_t i;
  switch (type) {
  case 1:
    READ(int8_t)
  case 2:
    READ(int16_t)
  case 4:
    READ(int32_t)
  case 8:
    READ(int64_t)
  case -2:
    READ(uint16_t)
  case -4:
    READ(uint32_t)
  default:
    READ(uint8_t)
  }
}

#define WRITE(T)                               \
  {                                            \
    T *y = to;                                 \
    IVDEP                                      \
    for (i = 0; i < n; i++) y[i] = (T)from[i]; \
    break;                                     \
  }

/* Writes integers as values of a type; integers lose their highest bits. */
static void F(write_integers)(void *to, const int64_t *from, int64_t n, int64_t type) {
  int64_t i;
  switch (type) {
  case FLOATS:
    WRITE(float)
  case TRUTHS: {
    uint8_t *y = to;
    IVDEP
    for (i = 0; i < n; i++) y[i] = from[i] != 0;
    break;
  }
  case 2:
  case -2:
    WRITE(int16_t)
  case 4:
  case -4:
    WRITE(int32_t)
  case 8:
    WRITE(int64_t)
  default:
    WRITE(int8_t)
  }
}

/* Rounds floats towards 0, limited to the range of an integer type; NaN becomes the largest
   integer. A bool is x ≠ 0. */
static void F(truncate)(int64_t *to, const float *x, int64_t n, int64_t type) {
  if (type == TRUTHS) {
    IVDEP
    for (int64_t i = 0; i < n; i++) to[i] = x[i] != 0;
    return;
  }
  int64_t bits = 8 * (type < 0 ? -type : type) - (type > 0); /* of the largest integer */
  int64_t most = (int64_t)(~(uint64_t)0 >> (64 - bits)), least = type < 0 ? 0 : -most - 1;
  float end = 2 * (float)((int64_t)1 << (bits - 1)), low = (float)least;
  IVDEP
  for (int64_t i = 0; i < n; i++)
    to[i] = !(x[i] < end) ? most : x[i] <= low ? least : (int64_t)x[i];
}

void F(cast)(const void *x, void *y, int64_t n, int64_t from, int64_t to) {
  int64_t values[PART];
  for (int64_t at = 0, count; at < n; at += count) {
    count = n - at < PART ? n - at : PART;
    const void *part = F(value_at)(x, at, from);
    if (from == FLOATS) F(truncate)(values, part, count, to);
    else F(read_integers)(values, part, count, 1, from);
    F(write_integers)((void *)F(value_at)(y, at, to), values, count, to);
  }
}

#define RELATE(relation)                               \
  {                                                    \
    IVDEP                                              \
    for (int64_t i = 0; i < n; i++) y[i] = (relation); \
    break;                                             \
  }
#define RELATIONS        \
  switch (relation) {    \
  case 0:                \
    RELATE(a[i] == b[i]) \
  case 1:                \
    RELATE(a[i] != b[i]) \
  case 2:                \
    RELATE(a[i] < b[i])  \
  case 3:                \
    RELATE(a[i] <= b[i]) \
  case 4:                \
    RELATE(a[i] && b[i]) \
  default:               \
    RELATE(a[i] || b[i]) \
  }

/* Compares at most PART values of an axis. */
static void F(compare_part)(uint8_t *y, const void *left, const void *right, int64_t n,
                            int64_t left_stride, int64_t right_stride, int64_t type,
                            int64_t relation) {
  if (type == FLOATS) {
    const float *a = left, *b = right;
    float copies[2][PART];
    if (!left_stride) {
      for (int64_t i = 0; i < n; i++) copies[0][i] = *a;
      a = copies[0];
    }
    if (!right_stride) {
      for (int64_t i = 0; i < n; i++) copies[1][i] = *b;
      b = copies[1];
    }
    RELATIONS
  } else {
    int64_t a[PART], b[PART];
    F(read_integers)(a, left, n, left_stride, type);
    F(read_integers)(b, right, n, right_stride, type);
    RELATIONS
  }
}

/* y = a ∘ b, broadcast; the relations are =, ≠, <, ≤, and, or. */
void F(compare)(const elementwise_shape *m, uint8_t *y, const void *a, const void *b, int64_t type,
                int64_t relation) {
  int64_t last = m->rank - 1, n = m->sizes[last];
  int64_t of_a = m->inputs[0][last], of_b = m->inputs[1][last];
  row_walk w = {0};
  do
    for (int64_t i = 0, count; i < n; i += count, y += count) {
      count = n - i < PART ? n - i : PART;
      F(compare_part)(y, F(value_at)(a, w.inputs[0] + i * of_a, type),
                      F(value_at)(b, w.inputs[1] + i * of_b, type), count, of_a, of_b, type,
                      relation);
    }
  while (next_row(m, &w));
}

/* ⌊a / b⌋ and a − ⌊a / b⌋ b; 0 if b is 0. */
INLINE int64_t F(floor_quotient)(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
INLINE int64_t F(floor_rest)(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
}

#define COMBINE(value)                                       \
  {                                                          \
    for (int64_t i = 0; i < n; i++) a[i] = (int64_t)(value); \
    break;                                                   \
  }

/* Computes at most PART integers in a, without a limit, as two's complement does. */
static void F(combine_part)(int64_t *a, const int64_t *b, int64_t n, int64_t operation) {
  switch (operation) {
  case 0:
    COMBINE((uint64_t)a[i] + (uint64_t)b[i])
  case 1:
    COMBINE((uint64_t)a[i] - (uint64_t)b[i])
  case 2:
    COMBINE((uint64_t)a[i] * (uint64_t)b[i])
  case 3:
    COMBINE(a[i] < b[i] ? a[i] : b[i])
  case 4:
    COMBINE(a[i] > b[i] ? a[i] : b[i])
  case 5:
    COMBINE(F(floor_quotient)(a[i], b[i]))
  default:
    COMBINE(F(floor_rest)(a[i], b[i]))
  }
}

/* y = a ∘ b of integers, broadcast; the operations are +, −, ·, min, max, ⌊/⌋, and its rest. */
void F(combine)(const elementwise_shape *m, void *y, const void *a, const void *b, int64_t type,
                int64_t operation) {
  int64_t last = m->rank - 1, n = m->sizes[last], left[PART], right[PART], done = 0;
  int64_t of_a = m->inputs[0][last], of_b = m->inputs[1][last];
  row_walk w = {0};
  do
    for (int64_t i = 0, count; i < n; i += count, done += count) {
      count = n - i < PART ? n - i : PART;
      F(read_integers)(left, F(value_at)(a, w.inputs[0] + i * of_a, type), count, of_a, type);
      F(read_integers)(right, F(value_at)(b, w.inputs[1] + i * of_b, type), count, of_b, type);
      F(combine_part)(left, right, count, operation);
      F(write_integers)((void *)F(value_at)(y, done, type), left, count, type);
    }
  while (next_row(m, &w));
}

#define CHOOSE(T)                                                                                  \
  {                                                                                                \
    T *to = y;                                                                                     \
    const T *from_a = a, *from_b = b;                                                              \
    do {                                                                                           \
      const T *x = from_a + w.inputs[0], *other = from_b + w.inputs[1];                            \
      const uint8_t *condition = c + w.inputs[2];                                                  \
      for (int64_t i = 0; i < n; i++) *to++ = condition[i * of_c] ? x[i * of_a] : other[i * of_b]; \
    } while (next_row(m, &w));                                                                     \
    break;                                                                                         \
  }

/* y = a where c is true, else b, broadcast; their values have `size` bytes. */
void F(choose)(const elementwise_shape *m, void *y, const void *a, const void *b, const uint8_t *c,
               int64_t size) {
  int64_t last = m->rank - 1, n = m->sizes[last];
  int64_t of_a = m->inputs[0][last], of_b = m->inputs[1][last], of_c = m->inputs[2][last];
  row_walk w = {0};
  switch (size) {
  case 1:
    CHOOSE(uint8_t)
  case 2:
    CHOOSE(uint16_t)
  case 4:
    CHOOSE(uint32_t)
  default:
    CHOOSE(uint64_t)
  }
}

#define BETTER (is_min ? x[i] < best[i] : x[i] > best[i])

/* Positions of the largest or smallest of `count` values along an axis, for at most PART columns;
   the first of equal values. NaN is never larger or smaller. */
static void F(arg_extreme_part)(const void *values, int64_t *y, int64_t count, int64_t inner,
                                int64_t n, int64_t is_min, int64_t type) {
  float floats[PART];
  int64_t integers[2][PART];
  for (int64_t i = 0; i < n; i++) y[i] = 0;
  if (type == FLOATS) memcpy(floats, values, sizeof(float) * (size_t)n);
  else F(read_integers)(integers[1], values, n, 1, type);
  for (int64_t k = 1; k < count; k++) {
    const void *row = F(value_at)(values, k * inner, type);
    if (type == FLOATS) {
      const float *x = row;
      float *best = floats;
      IVDEP
      for (int64_t i = 0; i < n; i++) {
        int better = BETTER;
        y[i] = better ? k : y[i], best[i] = better ? x[i] : best[i];
      }
    } else {
      int64_t *x = integers[0], *best = integers[1];
      F(read_integers)(x, row, n, 1, type);
      IVDEP
      for (int64_t i = 0; i < n; i++) {
        int better = BETTER;
        y[i] = better ? k : y[i], best[i] = better ? x[i] : best[i];
      }
    }
  }
}

void F(arg_extreme)(const void *x, void *y, int64_t outer, int64_t count, int64_t inner,
                    int64_t is_min, int64_t type, int64_t y_type) {
  int64_t places[PART];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0, n; i < inner; i += n) {
      n = inner - i < PART ? inner - i : PART;
      const void *values = F(value_at)(x, o * count * inner + i, type);
      F(arg_extreme_part)(values, places, count, inner, n, is_min, type);
      F(write_integers)((void *)F(value_at)(y, o * inner + i, y_type), places, n, y_type);
    }
}

#define SELECT(T)                                                             \
  {                                                                           \
    T *to = y;                                                                \
    const T *hit = on, *miss = off;                                           \
    for (int64_t k = 0; k < depth; k++)                                       \
      for (i = 0; i < n; i++) to[k * inner + i] = *(at[i] == k ? hit : miss); \
    break;                                                                    \
  }

/* y (outer, depth, inner) = on where the index is the position along the axis, else off; their
   values have `size` bytes. */
void F(one_hot)(const void *indices, void *out, const void *on, const void *off, int64_t outer,
                int64_t depth, int64_t inner, int64_t type, int64_t size) {
  int64_t at[PART];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t first = 0, n, i; first < inner; first += n) {
      n = inner - first < PART ? inner - first : PART;
      F(read_integers)(at, F(value_at)(indices, o * inner + first, type), n, 1, type);
      void *y = (char *)out + (o * depth * inner + first) * size;
      switch (size) {
      case 1:
        SELECT(uint8_t)
      case 2:
        SELECT(uint16_t)
      case 4:
        SELECT(uint32_t)
      default:
        SELECT(uint64_t)
      }
    }
}

/* y (outer, inner): whether any x (outer, count, inner) is true, or all. */
void F(any_or_all)(const uint8_t *x, uint8_t *y, int64_t outer, int64_t count, int64_t inner,
                   int64_t all) {
  for (int64_t o = 0; o < outer; o++, y += inner) {
    for (int64_t i = 0; i < inner; i++) y[i] = all != 0;
    for (int64_t k = 0; k < count; k++, x += inner) {
      IVDEP
      for (int64_t i = 0; i < inner; i++) y[i] = all ? y[i] && x[i] : y[i] || x[i];
    }
  }
}

/* Fills `at` with the numbers of the rows that tuples of `axes` indices select from a table of
   these sizes, and `extent` with the least and the most index of each axis. An index outside the
   table selects a row at its border. */
void F(find_rows)(const void *indices, int64_t *at, int64_t *extent, const int64_t *sizes,
                  int64_t count, int64_t axes, int64_t type) {
  for (int64_t r = 0; r < count; r++) at[r] = 0;
  for (int64_t k = 0; k < axes; k++) {
    int64_t least = INT64_MAX, most = INT64_MIN, values[PART];
    for (int64_t r = 0, n; r < count; r += n) {
      n = count - r < PART ? count - r : PART;
      F(read_integers)(values, F(value_at)(indices, r * axes + k, type), n, axes, type);
      for (int64_t i = 0; i < n; i++) {
        int64_t v = values[i];
        least = v < least ? v : least, most = v > most ? v : most;
        v = v < 0 ? 0 : v < sizes[k] ? v : sizes[k] - 1;
        at[r + i] = at[r + i] * sizes[k] + v;
      }
    }
    extent[2 * k] = least, extent[2 * k + 1] = most;
  }
}

/* Copies the extents of axes whose indices are outside of them, and sets *found then. */
void F(note_extent)(const int64_t *extent, const int64_t *sizes, int64_t *noted, int64_t axes,
                    int64_t *found) {
  for (int64_t k = 0; k < axes; k++, extent += 2, noted += 2)
    if (extent[0] < 0 || extent[1] >= sizes[k])
      noted[0] = extent[0], noted[1] = extent[1], *found = 1;
}

/* Fills at (groups, repeats, n) with indices (groups, n) and `entries` more for each repeat, as
   `find_rows` does. */
void F(find_slices)(const void *indices, int64_t *at, int64_t *extent, int64_t groups,
                    int64_t repeats, int64_t n, int64_t entries, int64_t type) {
  int64_t values[PART], least = INT64_MAX, most = INT64_MIN;
  for (int64_t g = 0; g < groups; g++)
    for (int64_t first = 0, count; first < n; first += count) {
      count = n - first < PART ? n - first : PART;
      F(read_integers)(values, F(value_at)(indices, g * n + first, type), count, 1, type);
      for (int64_t i = 0; i < count; i++) {
        int64_t v = values[i];
        least = v < least ? v : least, most = v > most ? v : most;
        v = v < 0 ? 0 : v < entries ? v : entries - 1;
        for (int64_t p = g * repeats; p < (g + 1) * repeats; p++)
          at[p * n + first + i] = p * entries + v;
      }
    }
  extent[0] = least, extent[1] = most;
}

void F(clear)(void *y, int64_t size) { memset(y, 0, (size_t)size); }

#undef READ
#undef WRITE
#undef RELATE
#undef RELATIONS
#undef COMBINE
#undef CHOOSE
#undef BETTER
#undef SELECT
