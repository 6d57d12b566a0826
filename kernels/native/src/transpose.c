/* Axes in another order: a copy of elements of four bytes. */

#include <string.h>

#include "team.h"

#define OUTER 4 /* axes around the matrices, at most */

/* Matrices of `lines` × `length` lie along the outer axes of x and of y. Element k of line l of y is
   at l·y_line_stride + k, in x at l·x_line_stride + k·x_stride; one of the latter is 1. Strides in elements. */
typedef struct {
  int64_t rank, sizes[OUTER], x[OUTER], y[OUTER];
  int64_t lines, length, x_line_stride, x_stride, y_line_stride;
} transpose_shape;

#define BODY "transpose_body.h"
#include "each_isa.h"
