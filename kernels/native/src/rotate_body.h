/* One instruction set's version of rotate.c; the compiler makes the vectors. */

typedef struct {
  const float *x, *sin, *cos;
  float *y;
  int64_t rows, places, half, back;
} F(rotate_job);

static void F(rotate_part)(void *job, int part, int parts) {
  const F(rotate_job) *j = job;
  int64_t half = j->half, end = chunk_begin(j->rows, part + 1, parts);
  for (int64_t r = chunk_begin(j->rows, part, parts); r < end; r++) {
    const float *x0 = j->x + r * 2 * half, *x1 = x0 + half;
    const float *sin0 = j->sin + r % j->places * 2 * half, *sin1 = sin0 + half;
    const float *cos0 = j->cos + r % j->places * 2 * half, *cos1 = cos0 + half;
    float *y0 = j->y + r * 2 * half, *y1 = y0 + half;
    if (j->back) {
      IVDEP
      for (int64_t k = 0; k < half; k++) {
        y0[k] = x0[k] * cos0[k] + x1[k] * sin1[k];
        y1[k] = x1[k] * cos1[k] - x0[k] * sin0[k];
      }
    } else {
      IVDEP
      for (int64_t k = 0; k < half; k++) {
        y0[k] = x0[k] * cos0[k] - x1[k] * sin0[k];
        y1[k] = x1[k] * cos1[k] + x0[k] * sin1[k];
      }
    }
  }
}

/* Rotates the pairs of values x[k], x[half + k] of each row r by the angles of place r % places; if
   `back`, by the transposed matrix, for gradients. */
void F(rotate)(const float *x, const float *sin, const float *cos, float *y, int64_t rows,
               int64_t places, int64_t half, int64_t back) {
  F(rotate_job) j = {x, sin, cos, y, rows, places, half, back};
  parallel_for(F(rotate_part), &j, parallel_parts(rows * half * 16));
}
