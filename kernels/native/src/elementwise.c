/* Elementwise kernels on arrays that are broadcast to one shape; gradients are summed over the
   broadcast axes. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "team.h"

#define CACHED (1 << 22) /* values of a matrix that may be in a cache */

/* The loop of a kernel. y and an input either do not overlap, or are the same array; n is a
   multiple of the lanes. */
typedef void map_loop(float *y, const float *a, const float *b, const float *c, int64_t n, float p,
                      float q);

/* What is compiled for an instruction set beside the loops. */
typedef struct {
  int64_t lanes;
  map_loop *scale;
  void (*gather_rows)(float *to, const float *from, int64_t rows, int64_t n, int64_t row_stride,
                      int64_t stride);
  float (*row_sum)(const float *a, int64_t n);
  void (*add_column_sums)(const float *rows, int64_t count, int64_t stride, int64_t begin,
                          int64_t end, float *sums);
} map_set;

typedef struct {
  const map_set *set;
  map_loop *loop;
  const elementwise_shape *shape;
  float *y;
  const float *inputs[MAX_INPUTS];
  float p, q;
} map_job;

/* Computes n values. Those that do not fill a vector are computed in a vector of their own, so that
   loops have no scalar rest. */
static void run_loop(const map_job *j, float *y, const float *const *from, int64_t n) {
  int64_t lanes = j->set->lanes, rest = n & (lanes - 1), full = n - rest;
  if (full) j->loop(y, from[0], from[1], from[2], full, j->p, j->q);
  if (!rest) return;
  float inputs[MAX_INPUTS][MAX_LANES] = {{0}}, results[MAX_LANES];
  for (int k = 0; k < MAX_INPUTS; k++)
    if (from[k]) memcpy(inputs[k], from[k] + full, sizeof(float) * (size_t)rest);
  j->loop(results, inputs[0], inputs[1], inputs[2], lanes, j->p, j->q);
  memcpy(y + full, results, sizeof(float) * (size_t)rest);
}

/* Copies values of rows of n, from number `first` on. */
static void copy_values(float *to, const float *from, int64_t first, int64_t count, int64_t n,
                        int64_t step, int64_t stride) {
  int64_t row = first / n, col = first % n;
  for (int64_t i = 0; i < count; i++) {
    to[i] = from[row * step + col * stride];
    if (++col == n) col = 0, row++;
  }
}

/* Computes the last two axes, short rows several at a time. An input that is broadcast is copied to
   a buffer, so that the loop has one kind of input. Results that are summed are computed in a
   buffer; is_first says whether they are the first ones. */
static void map_rows(const map_job *j, float *y, const float *const *inputs, int is_first) {
  const elementwise_shape *m = j->shape;
  int64_t last = m->rank - 1, n = m->sizes[last], rows = last ? m->sizes[last - 1] : 1;
  int64_t y_row = last ? m->y[last - 1] : 0, y_stride = m->y[last];
  int64_t group = rows > 1 && 2 * n <= CHUNK ? CHUNK / n : 1, most = group * n, steps[MAX_INPUTS];
  float copies[MAX_INPUTS][COPIES], part[CHUNK];
  int buffered = !y_stride || (!y_row && rows > 1) || !is_first, copied[MAX_INPUTS], copies_any = 0;
  for (int k = 0; k < MAX_INPUTS; k++) {
    steps[k] = inputs[k] && last ? m->inputs[k][last - 1] : 0;
    copied[k] = inputs[k] && (!m->inputs[k][last] || (group > 1 && steps[k] != n));
    if ((copied[k] || buffered) && most > CHUNK) most = CHUNK;
    copies_any |= copied[k];
  }
  for (int64_t r = 0, some; r < rows; r += some, y += some * y_row) {
    some = rows - r < group ? rows - r : group;
    int64_t row = n < most ? n : most; /* of the buffers */
    int first = is_first && (y_row || !r);
    const float *from[MAX_INPUTS], *values[MAX_INPUTS];
    for (int k = 0; k < MAX_INPUTS; k++) {
      values[k] = inputs[k] ? inputs[k] + r * steps[k] : 0;
      if (copied[k] && COPIES == CHUNK && (steps[k] || !r))
        j->set->gather_rows(copies[k], values[k], some, row, steps[k], m->inputs[k][last]);
      from[k] = copied[k] ? copies[k] : values[k];
    }
    for (int64_t at = 0, count; at < some * n; at += count) {
      count = some * n - at < most ? some * n - at : most;
      for (int64_t q = 0, size; q < count; q += size) {
        size = copies_any && count - q > COPIES ? COPIES : count - q;
        for (int k = 0; k < MAX_INPUTS; k++)
          if (copied[k] && COPIES < CHUNK)
            copy_values(copies[k], values[k], at + q, size, n, steps[k], m->inputs[k][last]);
        run_loop(j, (buffered ? part : y + at) + q, from, size);
        for (int k = 0; k < MAX_INPUTS; k++)
          if (inputs[k] && !copied[k]) from[k] += size;
      }
      if (!buffered) continue;
      int64_t values = group > 1 ? n : count, summed = y_row && group > 1 ? 1 : some;
      if (!y_stride)
        for (int64_t i = 0; i < some; i++) {
          float *sum = y + i * y_row, total = j->set->row_sum(part + i * values, values);
          *sum = first && !at && (y_row || !i) ? total : *sum + total;
        }
      else {
        if (summed < some) values = count; /* rows that are side by side in y, too */
        if (first)
          for (int64_t i = 0; i < values; i++) y[at + i] = 0;
        j->set->add_column_sums(part, summed, values, 0, values, y + at);
      }
    }
  }
}

/* Whether the last two axes, both short, can be computed as one row: no array is broadcast along
   them only, but along the axis before as well. */
static int is_foldable(const elementwise_shape *m) {
  int64_t d = m->rank - 3;
  if (d < 0 || m->sizes[d + 1] * m->sizes[d + 2] > CHUNK) return 0;
  for (int k = -1; k < MAX_INPUTS; k++) {
    const int64_t *stride = (k < 0 ? m->y : m->inputs[k]) + d;
    int full = stride[1] == m->sizes[d + 2] && stride[2] == 1;
    if (stride[0] && !(full && stride[0] == m->sizes[d + 1] * stride[1])) return 0;
  }
  return 1;
}

/* Computes the last three axes as rows of the last two, some columns at a time: those of an array
   that is the same in all rows are copied to one row, or summed from it. */
static void map_folded(const map_job *j, float *y, const float *const *inputs, int is_first) {
  const elementwise_shape *m = j->shape;
  int64_t d = m->rank - 3, n = m->sizes[d + 2], all = m->sizes[d + 1] * n, size;
  float copies[MAX_INPUTS][COPIES], sums[COPIES];
  for (int64_t at = 0; at < all; at += size) {
    size = all - at < COPIES ? all - at : COPIES;
    elementwise_shape flat = {.rank = 2, .sizes = {m->sizes[d], size}, .y = {m->y[d], 1}};
    map_job flat_job = {j->set, j->loop, &flat, 0, {0}, j->p, j->q};
    const float *from[MAX_INPUTS];
    for (int k = 0; k < MAX_INPUTS; k++) {
      const int64_t *stride = m->inputs[k] + d;
      flat.inputs[k][0] = stride[0], flat.inputs[k][1] = 1, from[k] = inputs[k];
      if (!inputs[k]) continue;
      if (stride[0]) from[k] += at;
      else if (size < all) copy_values(copies[k], inputs[k], at, size, n, stride[1], stride[2]);
      else j->set->gather_rows(copies[k], inputs[k], all / n, n, stride[1], stride[2]);
      if (!stride[0]) from[k] = copies[k];
    }
    map_rows(&flat_job, m->y[d] ? y + at : sums, from, is_first || !m->y[d]);
    for (int64_t e = at; !m->y[d] && e < at + size; e++) {
      int64_t r = e / n, i = e % n;
      float *sum = y + r * m->y[d + 1] + i * m->y[d + 2];
      int first = is_first && (m->y[d + 1] || !r) && (m->y[d + 2] || !i);
      *sum = first ? sums[e - at] : *sum + sums[e - at];
    }
  }
}

/* Whether columns of an unchanged matrix are summed. One that is not in a cache is left to
   map_rows, because whole rows are read faster from memory. */
static int is_sum_of_rows(const map_job *j) {
  const elementwise_shape *m = j->shape;
  return j->loop == j->set->scale && j->p == 1 && m->rank == 2 && !m->y[0] && m->y[1] &&
         m->inputs[0][1] == 1 && m->sizes[0] * m->sizes[1] <= CACHED;
}

/* Whether the arrays are vectors of one length. */
static int is_vectors(const map_job *j) {
  const elementwise_shape *m = j->shape;
  int is_one = m->rank == 1 && m->y[0];
  for (int k = 0; k < MAX_INPUTS; k++) is_one &= !j->inputs[k] || m->inputs[k][0];
  return is_one;
}

/* One part of vectors. */
static void map_vectors(const map_job *j, int part, int parts) {
  int64_t n = j->shape->sizes[0], begin = chunk_begin(n, part, parts);
  const float *from[MAX_INPUTS];
  for (int k = 0; k < MAX_INPUTS; k++) from[k] = j->inputs[k] ? j->inputs[k] + begin : 0;
  run_loop(j, j->y + begin, from, chunk_begin(n, part + 1, parts) - begin);
}

/* One part: a range of the first axis, or of the columns of a matrix whose rows are summed. */
static void map_part(void *job, int part, int parts) {
  map_job j = *(const map_job *)job;
  if (is_vectors(&j)) {
    map_vectors(&j, part, parts);
    return;
  }
  elementwise_shape m = *j.shape;
  int64_t axis = m.rank == 2 && !m.y[0], step = axis ? 2 * MAX_LANES : 1, at[MAX_RANK] = {0};
  int64_t begin = chunk_begin(m.sizes[axis] / step, part, parts) * step;
  if (part + 1 < parts) m.sizes[axis] = chunk_begin(m.sizes[axis] / step, part + 1, parts) * step;
  m.sizes[axis] -= begin;
  if (!m.sizes[axis]) return;
  j.shape = &m;
  j.y += begin * m.y[axis];
  for (int k = 0; k < MAX_INPUTS; k++)
    if (j.inputs[k]) j.inputs[k] += begin * m.inputs[k][axis];
  if (is_sum_of_rows(&j)) {
    for (int64_t i = 0; i < m.sizes[1]; i++) j.y[i] = 0;
    j.set->add_column_sums(j.inputs[0], m.sizes[0], m.inputs[0][0], 0, m.sizes[1], j.y);
    return;
  }
  int64_t folded = is_foldable(&m);
  for (;;) {
    int is_first = 1;
    for (int64_t d = 0; d + 2 + folded < m.rank; d++) is_first &= m.y[d] || !at[d];
    (folded ? map_folded : map_rows)(&j, j.y, j.inputs, is_first);
    int64_t d = m.rank - 3 - folded;
    for (; d >= 0; d--) { /* the next rows */
      int64_t steps = ++at[d] < m.sizes[d] ? 1 : 1 - m.sizes[d];
      j.y += steps * m.y[d];
      for (int k = 0; k < MAX_INPUTS; k++)
        if (j.inputs[k]) j.inputs[k] += steps * m.inputs[k][d];
      if (steps == 1) break;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

static void map_all(map_job *j) {
  const elementwise_shape *m = j->shape;
  int64_t work = 1;
  for (int64_t d = 0; d < m->rank; d++) work *= m->sizes[d];
  int divides = m->y[0] || (m->rank == 2 && m->y[1]);
  parallel_for(map_part, j, divides ? parallel_parts(work * 2) : 1);
}

#define BODY "elementwise_body.h"
#include "each_isa.h"
