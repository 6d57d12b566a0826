/* Sizes of the layout of weights, and the job that integer kernels share. */

#ifndef INTEGER_H
#define INTEGER_H

#include "abi.h"

#define GROUP 16     /* units side by side */
#define QUAD 4       /* values of the depth side by side */
#define SHORT_RUN 16 /* bytes that are copied at once, also where fewer are needed */
#define SLACK 64     /* bytes that vectors may read and write after a buffer */
#define DEPTHWISE_BYTES (3 * TILE_BYTES) /* of tables and lines of a depthwise convolution */
#define TABLE_HEAD 8 /* bytes for each result in a table before the weights: start and m */
#define MERGED 640   /* results with tables of their own, at most, unless it has more channels */

typedef struct {
  const uint8_t *x;
  const int8_t *w;
  const int32_t *start;
  const float *m;
  uint8_t *y;
  const window_walk *g;
  const int32_t *weight_zeros; /* or null */
  int64_t window;              /* values that it reads */
  int64_t depth;               /* the same in whole quads */
  int64_t border, flip, zero, lo, hi;
  int is_whole; /* whether the windows are the pixels of x in order */
} product_job;

/* y = clip(rint(x factor) + zero) of floats, or y = (x − zero) factor of bytes. */
typedef struct {
  const void *x;
  void *y;
  int64_t size;
  float factor;
  uint8_t flip;
  int32_t zero, lo, hi;
} conversion_job;

/* A depthwise convolution. columns: results of a row whose lines fit into the scratch; bytes of the
   tables of a vector and of a period, of which the weights repeat, and of a line. */
typedef struct {
  int64_t period, quads, columns, block, tables, line;
} depthwise_layout;

/* What vectors of an instruction set compute of it: the order of a table, and a row. */
typedef struct {
  int64_t width, weight; /* bytes of a vector and of a weight */
  int32_t less;          /* what bytes of x are less than unsigned ones: 128 if they are signed */
  void (*order_weights)(uint8_t *table, int64_t quads);
  void (*row)(const product_job *c, const depthwise_layout *l, const uint8_t *tables,
              const uint8_t *const *x, uint8_t *y, int64_t size);
} depthwise_form;

typedef struct {
  const product_job *products;
  const depthwise_form *form;
  depthwise_layout layout;
} depthwise_job;

/* y = clip(((start + a of_a + b of_b) >> shift) + zero), modulo 2³² until the shift. */
typedef struct {
  const uint8_t *a, *b;
  uint8_t *y;
  int64_t size;
  uint8_t flip;
  uint32_t start, of_a, of_b;
  int32_t shift, zero, lo, hi;
} sum_job;

/* Bilinear interpolation with weights of RESIZE_BITS bits. rows, cols: the first of two inputs of
   an output, and the weight of the second. */
#define RESIZE_BITS 11
typedef struct {
  const uint8_t *x;
  uint8_t *y;
  const int32_t *rows, *cols;
  int64_t images, height, width, channels, out_h, out_w;
  uint8_t flip;
} resize_job;

/* Whether the processor multiplies bytes and adds four products to a sum. */
int has_vnni(void); /* AVX-512 VNNI */
int has_dotprod(void);

#endif
