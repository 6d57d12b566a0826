/* Included by integer_body.h: sums of two tensors, conversions and resizing, byte by byte. */

/* Loops over bytes have no form of their own for AVX-512. */
#if LANES == 16
#define BYTES_PART(name) name##_avx2
#else
#define BYTES_PART F
#endif

#if LANES < 16

/* The first of LANES elements from i on; the last vector may overlap the one before. */
INLINE int64_t F(within)(int64_t i, int64_t end) { return i + LANES <= end ? i : end - LANES; }

static void F(integer_sum_part)(void *job, int part, int parts) {
  const sum_job c = *(const sum_job *)job;
  int64_t end = chunk_begin(c.size, part + 1, parts);
  F(bits) lo = (F(bits)){0} + c.lo, hi = (F(bits)){0} + c.hi;
  for (int64_t k = chunk_begin(c.size, part, parts); k < end; k += LANES) {
    int64_t i = F(within)(k, end);
    F(words) s = F(widened_bytes)(c.a + i, c.flip) * c.of_a + c.start;
    s += F(widened_bytes)(c.b + i, c.flip) * c.of_b;
    F(bits) v = ((F(bits))s >> c.shift) + c.zero;
    v = (v & (v > lo)) | (lo & (v <= lo));
    v = (v & (v < hi)) | (hi & (v >= hi));
    F(store_bytes)(c.y + i, v);
  }
}

#endif

void F(integer_sum)(const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t size, int64_t flip,
                    int64_t start, int64_t of_a, int64_t of_b, int64_t shift, int64_t zero,
                    int64_t lo, int64_t hi) {
  sum_job c = {a,
               b,
               y,
               size,
               (uint8_t)flip,
               (uint32_t)start,
               (uint32_t)of_a,
               (uint32_t)of_b,
               (int32_t)shift,
               (int32_t)zero,
               (int32_t)lo,
               (int32_t)hi};
  parallel_for(BYTES_PART(integer_sum_part), &c, parallel_parts(size / LANES));
}

#if LANES < 16

static void F(integer_quantize_part)(void *job, int part, int parts) {
  const conversion_job c = *(const conversion_job *)job;
  int64_t end = chunk_begin(c.size, part + 1, parts);
  float lo = (float)(c.lo - c.zero), hi = (float)(c.hi - c.zero);
  for (int64_t k = chunk_begin(c.size, part, parts); k < end; k += LANES) {
    int64_t i = F(within)(k, end);
    F(vec) v = F(load)((const float *)c.x + i) * c.factor;
    F(store_rounded)((uint8_t *)c.y + i, v, lo, hi, c.zero);
  }
}

static void F(integer_dequantize_part)(void *job, int part, int parts) {
  const conversion_job c = *(const conversion_job *)job;
  int64_t end = chunk_begin(c.size, part + 1, parts);
  for (int64_t k = chunk_begin(c.size, part, parts); k < end; k += LANES) {
    int64_t i = F(within)(k, end);
    F(bits) q = (F(bits))F(widened_bytes)((const uint8_t *)c.x + i, c.flip) - c.zero;
    F(store)((float *)c.y + i, __builtin_convertvector(q, F(vec)) * c.factor);
  }
}

#endif

void F(integer_quantize)(const float *x, uint8_t *y, int64_t size, float factor, int64_t zero,
                         int64_t lo, int64_t hi) {
  conversion_job c = {x, y, size, factor, 0, (int32_t)zero, (int32_t)lo, (int32_t)hi};
  parallel_for(BYTES_PART(integer_quantize_part), &c, parallel_parts(size / LANES * PRODUCT));
}

void F(integer_dequantize)(const uint8_t *x, float *y, int64_t size, float factor, int64_t flip,
                           int64_t zero) {
  conversion_job c = {x, y, size, factor, (uint8_t)flip, (int32_t)(zero + flip), 0, 0};
  parallel_for(BYTES_PART(integer_dequantize_part), &c, parallel_parts(size / LANES * PRODUCT));
}

void F(integer_dequantize_units)(const uint8_t *x, float *y, const float *scale, const float *zero,
                                 int64_t outer, int64_t units, int64_t inner, int64_t flip) {
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t u = 0; u < units && inner == 1; u++)
      y[u] = ((float)((x[u] ^ (int32_t)flip) - (int32_t)flip) - zero[u]) * scale[u];
    for (int64_t u = 0; u < units && inner != 1; u++)
      for (int64_t i = u * inner; i < (u + 1) * inner; i++)
        y[i] = ((float)((x[i] ^ (int32_t)flip) - (int32_t)flip) - zero[u]) * scale[u];
    x += units * inner, y += units * inner;
  }
}

void F(integer_resize)(const uint8_t *x, uint8_t *y, const int32_t *rows, const int32_t *cols,
                       int64_t images, int64_t height, int64_t width, int64_t channels,
                       int64_t out_h, int64_t out_w, int64_t flip) {
  resize_job c = {x, y, rows, cols, images, height, width, channels, out_h, out_w, (uint8_t)flip};
  int parts = parallel_parts(images * out_h * out_w * channels * PRODUCT);
  parallel_for(resize_part, &c, images * out_h < parts ? (int)(images * out_h) : parts);
}
#undef BYTES_PART
