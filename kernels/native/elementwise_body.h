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

/* Adam with the denominator √v · scale + ε; `decay` is added to the gradient, p shrinks first. */
void F(adam)(float *p, const float *g, float *m, float *v, int64_t n, float alpha, float share_m,
             float share_v, float epsilon, float scale, float decay, float shrink) {
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    float mi = m[i] + share_m * (gi - m[i]), vi = v[i] + share_v * (gi * gi - v[i]);
    m[i] = mi, v[i] = vi;
    p[i] = p[i] * shrink - alpha * mi / (sqrtf(vi) * scale + epsilon);
  }
}

void F(sgd)(float *p, const float *g, int64_t n, float learning_rate, float decay) {
  for (int64_t i = 0; i < n; i++) p[i] -= learning_rate * (g[i] + decay * p[i]);
}

void F(momentum)(float *p, const float *g, float *m, int64_t n, float learning_rate, float decay,
                 float momentum, float nesterov) {
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    float mi = m[i] * momentum + gi;
    m[i] = mi;
    p[i] -= learning_rate * (nesterov > 0 ? gi + momentum * mi : mi);
  }
}
