/* One instruction set's version of scatter.c; the compiler makes the vectors. */

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
