/* The boundary with Python: limits, structs and what every kernel that exported.h lists takes.
   module.c makes a table of them. native/library.py holds it against native/structs.py when it
   loads the library, and takes limits and types of arguments from it. */

#ifndef ABI_H
#define ABI_H

#include <stdint.h>

/* Limits. */
#define MAX_LANES 16     /* floats of the widest vector */
#define MAX_NR 3         /* vectors of a register tile */
#define PIXELS 128       /* of a tile of windows: a multiple of every MR */
#define MAX_TAPS 64      /* of a window */
#define MAX_DEPTH 8192   /* channels of a window */
#define GATHER_PARTS 4   /* parts of a call that have room for gathered windows */
#define PANEL_PARTS 4    /* parts of a call that have room for a packed panel */
#define MAX_RANK 6       /* axes of an elementwise kernel */
#define MAX_INPUTS 3     /* inputs of an elementwise kernel */
#define MAX_OUTER_AXES 4 /* axes around the matrices of a transpose */
#define MAX_LSTM_UNITS 1024

/* Windows of images, and where their results go. Result (n, r, c) reads the input rows
   start_h + r·stride_h + row_taps[a], and columns likewise; what lies outside of height × width is
   the border. The weights of tap (a, b) begin at row_weights[a] + col_weights[b]. Strides in
   floats. */
typedef struct {
  int64_t images, rows, cols, depth, units;
  int64_t image_stride, row_stride, col_stride;
  int64_t height, width;
  int64_t start_h, stride_h, start_w, stride_w;
  int64_t out_start, out_image, out_row, out_col;
  int64_t depth_stride, unit_stride; /* of the weights */
  int64_t taps_h, taps_w;
  const int64_t *row_taps, *row_weights, *col_taps, *col_weights; /* (taps_h), (taps_w) */
} window_walk;

/* Arrays that are stretched to one shape: the strides of what is stretched are 0. In elements; the
   last axis of each array has stride 1 or 0. Where y's is 0, results add up. */
typedef struct {
  int64_t rank, sizes[MAX_RANK], y[MAX_RANK], inputs[MAX_INPUTS][MAX_RANK];
} elementwise_shape;

/* y[m] = left[m] right[m] for `count` matrices m of rows × depth and depth × columns. Strides in
   floats; those from matrix to matrix are 0 where one is for all. */
typedef struct {
  int64_t count, rows, depth, columns;
  int64_t left_matrix_stride, left_row_stride, left_depth_stride;
  int64_t right_matrix_stride, right_depth_stride, right_column_stride;
} matmul_shape;

/* Matrices of `lines` × `length` lie along the outer axes of x and of y. Element k of line l of y
   is at l·y_line_stride + k, in x at l·x_line_stride + k·x_stride; one of the latter is 1. Strides
   in elements. */
typedef struct {
  int64_t rank, sizes[MAX_OUTER_AXES], x[MAX_OUTER_AXES], y[MAX_OUTER_AXES];
  int64_t lines, length, x_line_stride, x_stride, y_line_stride;
} transpose_shape;

/* N samples, T steps of I values, O units; strides from sample to sample and from step to step, in
   rows. */
typedef struct {
  int64_t samples, steps, depth, units, sample_stride, step_stride;
  float clip; /* the cell stays within ± clip */
} lstm_shape;

/* What every elementwise kernel takes; a, b and c may be null. */
#define MAP_ARGUMENTS                                                                             \
  (const elementwise_shape *m, float *y, const float *a, const float *b, const float *c, float p, \
   float q)

/* Functions of the whole process. */
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif

EXPORT int instruction_set(void);
EXPORT void set_threads(int count);

#endif
