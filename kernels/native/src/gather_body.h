/* One instruction set's version of gather.c; the compiler makes the vectors. */

#include "half.h"

typedef struct {
  const float *x;
  float *y;
  const int64_t *first, *at;
  const float *weights;
  int64_t images, rows, width, x_rows;
} F(gather_job);

static void F(gather_part)(void *job, int part, int parts) {
  const F(gather_job) *j = job;
  int64_t all = j->images * j->rows, n = j->width, i = chunk_begin(all, part, parts);
  int64_t r = i % j->rows, last = chunk_begin(all, part + 1, parts);
  const float *x = j->x + i / j->rows * j->x_rows * n;
  float *y = j->y + i * n;
  for (; i < last; i++, y += n) {
    int64_t e = j->first ? j->first[r] : r, end = j->first ? j->first[r + 1] : r + 1;
    for (int64_t k = 0; k < n && e == end; k++) y[k] = 0;
    for (int is_first = 1; e < end; is_first = 0) {
      const float *a = x + j->at[e] * n, *b = a;
      float p = j->weights ? j->weights[e] : 1, q = 0;
      if (++e < end) b = x + j->at[e] * n, q = j->weights[e], e++;
      if (b == a) {
        IVDEP
        for (int64_t k = 0; k < n; k++) y[k] = (is_first ? 0 : y[k]) + p * a[k];
      } else {
        IVDEP
        for (int64_t k = 0; k < n; k++) y[k] = (is_first ? 0 : y[k]) + p * a[k] + q * b[k];
      }
    }
    if (++r == j->rows) r = 0, x += j->x_rows * n;
  }
}

/* y[i][r] = Σ over e from first[r] to first[r + 1] of weights[e] x[i][at[e]], for each image i. */
void F(gather)(const float *x, float *y, const int64_t *first, const int64_t *at,
               const float *weights, int64_t images, int64_t rows, int64_t width, int64_t x_rows) {
  F(gather_job) j = {x, y, first, at, weights, images, rows, width, x_rows};
  parallel_for(F(gather_part), &j, parallel_parts(images * rows * width * 4));
}

/* y[r] = table[at[r]]; both have rows of `width`. */
void F(gather_halves)(const uint16_t *table, float *y, const int64_t *at, int64_t count,
                      int64_t width) {
  for (int64_t r = 0; r < count; r++, y += width) {
    const uint16_t *from = table + at[r] * width;
    IVDEP
    for (int64_t k = 0; k < width; k++) y[k] = F(float_of)(from[k]);
  }
}

/* table[at[r]] += rows[r], from 0; both have rows of `width`. */
void F(scatter_add)(const float *rows, const int64_t *at, float *table, int64_t count,
                    int64_t width, int64_t size) {
  for (int64_t i = 0; i < size; i++) table[i] = 0;
  for (int64_t r = 0; r < count; r++) {
    const float *from = rows + r * width;
    float *to = table + at[r] * width;
    IVDEP
    for (int64_t k = 0; k < width; k++) to[k] += from[k];
  }
}

/* Selects the k largest values of each row of x, and their columns, in descending order; of equal
   values the first one comes first. NaN is the largest. */
void F(topk)(const float *x, float *values, int32_t *columns, int64_t rows, int64_t width,
             int64_t k) {
  for (int64_t r = 0; r < rows; r++, x += width, values += k, columns += k)
    for (int64_t c = 0; c < width; c++) {
      float v = x[c];
      int64_t at = c < k ? c : k; /* the number of values that are not smaller */
      while (at && (v > values[at - 1] || (v != v && values[at - 1] == values[at - 1]))) {
        at--;
        if (at + 1 < k) values[at + 1] = values[at], columns[at + 1] = columns[at];
      }
      if (at < k) values[at] = v, columns[at] = (int32_t)c;
    }
}

/* dx = dvalues in the selected columns, else 0. */
void F(topk_back)(const float *dvalues, const int32_t *columns, float *dx, int64_t rows,
                  int64_t width, int64_t k) {
  for (int64_t i = 0; i < rows * width; i++) dx[i] = 0;
  for (int64_t r = 0; r < rows; r++, dx += width)
    for (int64_t j = 0; j < k; j++) dx[*columns++] = *dvalues++;
}
