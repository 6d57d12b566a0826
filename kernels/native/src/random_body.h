/* One instruction set's version of random.c. */

/* The mask of dropout of a layer's input: 1 / keep with probability `keep`, else 0. The numbers of
   sample j of a step begin at j · n; `origin` holds the seed, the number of the step, and the first
   sample. `use` counts the layers with the same weights. */
void F(dropout_mask)(float *mask, int64_t size, int64_t n, int64_t weight, int64_t use, float keep,
                     const uint64_t *origin) {
  random_sequence s = {{origin[0], (uint64_t)weight}, {(uint64_t)use, origin[1]}};
  float inverse = 1 / keep;
  draw_uniform(&s, (int64_t)origin[2] * n, size, mask);
  IVDEP
  for (int64_t i = 0; i < size; i++) mask[i] = (float)(int32_t)(mask[i] + keep) * inverse;
}
