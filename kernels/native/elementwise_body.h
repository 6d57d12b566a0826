/* One instruction set's version of elementwise.c; the compiler makes the vectors. */

/* NaN stays NaN, as in np.clip. */
void F(clamp)(const float *x, float *y, int64_t n, float lo, float hi) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] < lo ? lo : x[i];
    y[i] = v > hi ? hi : v;
  }
}

void F(gate)(const float *dy, const float *y, float *dx, int64_t n, float lo, float hi) {
  for (int64_t i = 0; i < n; i++) dx[i] = y[i] > lo && y[i] < hi ? dy[i] : 0;
}

void F(add)(const float *a, const float *b, float *y, int64_t n, float lo, float hi) {
  for (int64_t i = 0; i < n; i++) {
    float v = a[i] + b[i];
    v = v < lo ? lo : v;
    y[i] = v > hi ? hi : v;
  }
}

/* db[c] = Σ over rows of dy[row][c]. */
void F(column_sums)(const float *dy, float *db, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; c++) db[c] = 0;
  for (int64_t r = 0; r < rows; r++, dy += columns)
    for (int64_t c = 0; c < columns; c++) db[c] += dy[c];
}

void F(adam)(float *p, const float *g, float *m, float *v, int64_t n, float alpha, float beta_1,
             float beta_2, float epsilon, float decay) {
  float a = 1 - beta_1, b = 1 - beta_2;
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    float mi = m[i] + a * (gi - m[i]), vi = v[i] + b * (gi * gi - v[i]);
    m[i] = mi, v[i] = vi;
    p[i] -= alpha * mi / (sqrtf(vi) + epsilon);
  }
}

void F(sgd)(float *p, const float *g, int64_t n, float learning_rate, float decay) {
  for (int64_t i = 0; i < n; i++) p[i] -= learning_rate * (g[i] + decay * p[i]);
}
