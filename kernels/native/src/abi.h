/* The interface to Python: limits, structs and the arguments of elementwise kernels. module.c makes
   a table of them and of the kernels in exported.h. native/library.py compares the table with
   native/structs.py when it loads the library, and reads limits and argument types from it. */

#ifndef ABI_H
#define ABI_H

#include <stdint.h>

/* Limits that set the size of scratch memory and of frames. Programs for small devices are compiled
   with others, which are in native/target.py. */
#ifndef MAX_LANES
#define MAX_LANES 16 /* floats of the widest vector */
#endif
#ifndef PIXELS
#define PIXELS 128 /* windows in a tile: a multiple of every MR */
#endif
#ifndef LISTED_VALUES
#define LISTED_VALUES 128 /* values of a window whose offsets a convolution lists */
#endif
#ifndef STRIP_ROWS
#define STRIP_ROWS 256 /* rows of results that a depthwise convolution lists at once */
#endif
#ifndef MAX_WALKS
#define MAX_WALKS 16 /* walks of a call */
#endif
#ifndef TILES
#define TILES 32 /* tiles of 2×2 results that are computed at once, in all parts */
#endif
#ifndef FILTER_TILES
#define FILTER_TILES 64 /* the same for filter gradients */
#endif
#ifndef PANEL_PARTS
#define PANEL_PARTS 4 /* parts of a call that have scratch for a packed panel */
#endif
#ifndef DEPTH_BLOCK
#define DEPTH_BLOCK 256 /* most of the depth of a product that is computed at once */
#endif
#ifndef ROW_BLOCK
#define ROW_BLOCK 128 /* rows of a block of a product: a multiple of every MR */
#endif
#ifndef RECURRENT_PARTS
#define RECURRENT_PARTS 4 /* parts of a call that have scratch for RECURRENT_ROWS */
#endif
#ifndef COPIES
#define COPIES 256 /* elements of an input that an elementwise kernel copies at once */
#endif
#ifndef TILE_BYTES
#define TILE_BYTES 32768 /* of gathered windows of bytes; windows are at most so long */
#endif

#ifndef HAS_VOLUMES
#define HAS_VOLUMES 1 /* images may be volumes; C programs without have 0, for less code */
#endif
#ifndef HAS_SUMS
#define HAS_SUMS 1 /* products may have the clamp ADDS; C programs without have 0 */
#endif

/* Other limits. */
#define MAX_NR 3 /* vectors of a register tile */
#define BAND 256 /* results of a band of windows, unless an image row has more */
#ifdef __aarch64__
#define BASE_IN_TILES 1 /* whether the base computes in tiles, which narrow vectors leave out */
#else
#define BASE_IN_TILES 0
#endif
#define BF16_DEPTH 256   /* most of the depth of a product of bfloat16 that is computed at once */
#define BF16_COLUMNS 256 /* columns of a block of such a product: a multiple of a tile's */
/* Scratch of a part of such a product: rows, which may become floats, and columns. */
#define BF16_LEFT (ROW_BLOCK * (BF16_DEPTH + MAX_LANES))
#define BF16_SCRATCH (BF16_LEFT + BF16_COLUMNS * BF16_DEPTH / 2)
#define MAX_TAPS 64       /* taps of a window */
#define MAX_RANK 6        /* axes of an elementwise kernel */
#define MAX_INPUTS 3      /* inputs of an elementwise kernel */
#define MAX_OUTER_AXES 4  /* axes around the matrices of a transpose */
#define RECURRENT_ROWS 64 /* samples × steps that an RNN or LSTM computes at once */
#define PACKS 1           /* a call that only packs weights into a panel */
#define PACKED 2          /* a call whose panel holds packed weights */
#define ADDS 2            /* for `clamp`: relu_mask is an array that is added to the result */

/* Windows of images, and the offsets of their results. Result (n, r, c) reads the input rows
   start_h + r·stride_h + row_taps[a] and the columns start_w + c·stride_w + col_taps[b]; positions
   outside height × width are the border. The weights of tap (a, b) begin at row_weights[a] +
   col_weights[b]. Strides are in floats.

   Images may be volumes of several planes, along which windows have taps, too: only the kernels of
   convolution.c read these. */
typedef struct {
  int64_t images, rows, cols, depth, units;
  int64_t image_stride, row_stride, col_stride;
  int64_t height, width;
  int64_t start_h, stride_h, start_w, stride_w;
  int64_t out_start, out_image, out_row, out_col;
  int64_t depth_stride, unit_stride; /* of the weights */
  int64_t taps_h, taps_w;
  int64_t tiled; /* whether winograd.h computes tiles of 2×2 results */
  const int64_t *row_taps, *row_weights, *col_taps, *col_weights; /* (taps_h), (taps_w) */
#if HAS_VOLUMES
  int64_t planes, planes_out; /* of an image, and of its results */
  int64_t plane_stride, start_d, stride_d, out_plane, taps_d;
  const int64_t *plane_taps, *plane_weights; /* (taps_d) */
#endif
} window_walk;

/* Arrays that are broadcast to one shape: the strides of broadcast axes are 0. Strides are in
   elements; the last axis of each array has stride 1 or 0. Axes with stride 0 in y are summed. */
typedef struct {
  int64_t rank, sizes[MAX_RANK], y[MAX_RANK], inputs[MAX_INPUTS][MAX_RANK];
} elementwise_shape;

/* y[m] = left[m] right[m] for `count` matrices m of rows × depth and depth × columns, summed over
   `blocks` of the depth. Strides are in floats; the matrix stride is 0 if one matrix is used for
   all m. */
typedef struct {
  int64_t count, rows, blocks, depth, columns;
  int64_t left_matrix_stride, left_row_stride, left_block_stride, left_depth_stride;
  int64_t right_matrix_stride, right_block_stride, right_depth_stride, right_column_stride;
} matmul_shape;

/* Matrices of `lines` × `length` along the outer axes of x and y. Element k of line l is at
   l·y_line_stride + k in y and at l·x_line_stride + k·x_stride in x; where one of these strides
   is 1, whole vectors are moved. Strides are in elements; those of x may be 0 or negative. */
typedef struct {
  int64_t rank, sizes[MAX_OUTER_AXES], x[MAX_OUTER_AXES], y[MAX_OUTER_AXES];
  int64_t lines, length, x_line_stride, x_stride, y_line_stride;
} transpose_shape;

/* N samples, T steps of I values, O units of one gate (RNN), four (LSTM), or of a GRU four columns
   of products forward and three gates backward; the strides of samples and steps are in rows. */
typedef struct {
  int64_t samples, steps, depth, units, gates, sample_stride, step_stride;
  int64_t is_tanh; /* whether the activation of an RNN is tanh */
  float lo, hi;    /* limits of the results of an RNN, ± ∞ with tanh, or of the cell of an LSTM */
} recurrent_shape;

/* The same of an LSTM on integers, with `out` outputs: the limits of the cell; the bits by which
   the product of input gate and cell gate is shifted to the steps of the cell; the factor m of the
   product of output gate and tanh of the cell, in the form of src/recurrent.c; zero point and
   limits of the result, `hidden`, which is y without a projection; and those of y. */
typedef struct {
  int64_t samples, steps, depth, units, out, gates, sample_stride, step_stride;
  int64_t cell_lo, cell_hi, bits, m[4], hidden_zero, hidden_lo, hidden_hi, zero, lo, hi;
} integer_lstm_shape;

/* A call of a kernel with its arguments, one in each slot; `caller` takes them out. */
typedef union {
  void *p;
  int64_t i;
  float f;
} slot;
typedef void (*any_kernel)(void);
typedef void (*caller)(any_kernel kernel, const slot *slots);
typedef struct {
  caller call;
  any_kernel kernel;
  const slot *slots;
} bound_call;

/* Calls to run in order. */
typedef struct {
  const bound_call *calls;
  int64_t count;
} call_list;

/* Arguments of every elementwise kernel; a, b and c may be null. */
#define MAP_ARGUMENTS                                                                             \
  (const elementwise_shape *m, float *y, const float *a, const float *b, const float *c, float p, \
   float q)

/* Functions that concern the whole process. */
const char *instruction_sets(void);
int has_bf16(void); /* whether the processor and this library have the kernels of bf16.c */
void use_bf16_pairs(int use); /* whether they use dot products, or multiply-adds of floats */
void set_threads(int count);

/* Runs calls in order. */
void run_calls(const bound_call *calls, int64_t count);

/* Runs `count` groups of `each` lists at the same time, each group on a thread of its own if there
   are so many, its lists in order, and waits for all. */
void run_side_by_side(const call_list *lists, int64_t count, int64_t each);

/* Ends the meetings of this state: no thread waits in one, now or later. */
void leave_others(int64_t *state);

/* Functions that concern the calling thread. The first returns the mode that the other restores. */
int flush_subnormals(void);
void restore_float_mode(int mode);

#endif
