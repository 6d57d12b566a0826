/* One instruction set's version of updates.c; the compiler makes the vectors. */

void F(accumulate)(float *total, const float *gradient, int64_t n, const int64_t *adds) {
  if (!*adds) {
    memcpy(total, gradient, (size_t)n * sizeof *total);
    return;
  }
  IVDEP
  for (int64_t i = 0; i < n; i++) total[i] += gradient[i];
}

void F(meet)(int64_t *state, int64_t all, const bound_call *calls, int64_t count) {
  meet_others(state, all, calls, count);
}

void F(side_by_side)(const call_list *lists, int64_t count) { run_side_by_side(lists, count, 1); }

typedef struct {
  float *p, *m, *v;
  const float *g, *numbers;
  int64_t n;
} F(adam_job);

static void F(adam_part)(void *job, int part, int parts) {
  F(adam_job) a = *(const F(adam_job) *)job;
  float alpha = a.numbers[0], rate_m = a.numbers[1], rate_v = a.numbers[2];
  float epsilon = a.numbers[3], scale = a.numbers[4];
  float decay = a.numbers[5], p_scale = a.numbers[6];
  IVDEP
  for (int64_t i = chunk_begin(a.n, part, parts); i < chunk_begin(a.n, part + 1, parts); i++) {
    float g = a.g[i] + decay * a.p[i];
    float m = a.m[i] + rate_m * (g - a.m[i]), v = a.v[i] + rate_v * (g * g - a.v[i]);
    a.m[i] = m, a.v[i] = v;
    a.p[i] = a.p[i] * p_scale - alpha * m / (sqrtf(v) * scale + epsilon);
  }
}

/* Adam with the denominator √v · scale + ε. Weight decay: `decay` · p is added to the gradient, and
   p is first multiplied by `p_scale`. */
void F(adam)(float *p, const float *g, float *m, float *v, int64_t n, const float *numbers) {
  F(adam_job) a = {p, m, v, g, numbers, n};
  parallel_for(F(adam_part), &a, parallel_parts(n * 4));
}

void F(sgd)(float *p, const float *g, int64_t n, const float *numbers) {
  float learning_rate = numbers[0], decay = numbers[1];
  IVDEP
  for (int64_t i = 0; i < n; i++) p[i] -= learning_rate * (g[i] + decay * p[i]);
}

void F(momentum)(float *p, const float *g, float *m, int64_t n, const float *numbers) {
  float learning_rate = numbers[0], decay = numbers[1], momentum = numbers[2];
  int nesterov = numbers[3] > 0;
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    float mi = m[i] * momentum + gi;
    m[i] = mi;
    p[i] -= learning_rate * (nesterov ? gi + momentum * mi : mi);
  }
}

/* RMSprop and Adagrad: v = keep · v + add · g²; the gradient is divided by √v + ε. */
void F(root_scaled)(float *p, const float *g, float *v, int64_t n, const float *numbers) {
  float learning_rate = numbers[0], decay = numbers[1], keep = numbers[2], add = numbers[3],
        epsilon = numbers[4];
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    v[i] = v[i] * keep + gi * gi * add;
    p[i] -= learning_rate * gi / (sqrtf(v[i]) + epsilon);
  }
}

void F(root_scaled_momentum)(float *p, const float *g, float *v, float *m, int64_t n,
                             const float *numbers) {
  float learning_rate = numbers[0], decay = numbers[1], keep = numbers[2], add = numbers[3],
        epsilon = numbers[4], momentum = numbers[5];
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] + decay * p[i];
    v[i] = v[i] * keep + gi * gi * add;
    m[i] = m[i] * momentum + gi / (sqrtf(v[i]) + epsilon);
    p[i] -= learning_rate * m[i];
  }
}

/* The sign of NaN is NaN, as in np.sign. */
void F(lion)(float *p, const float *g, float *m, int64_t n, const float *numbers) {
  float learning_rate = numbers[0], kept = numbers[1], beta = numbers[2], rate = numbers[3];
  IVDEP
  for (int64_t i = 0; i < n; i++) {
    float away = m[i] - g[i], u = away * beta + g[i];
    p[i] = p[i] * kept - learning_rate * (u > 0 ? 1 : u < 0 ? -1 : u);
    m[i] -= rate * away;
  }
}
