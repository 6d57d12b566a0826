#ifndef MATMUL_JOB_H
#define MATMUL_JOB_H

#include "abi.h"

/* A range of a product's depth: the result is stored, or added to that of the ranges before. */
typedef struct {
  matmul_shape g;
  const float *left, *right;
  float *y, *panel;
  int side; /* whether the panel is of rows of `left` */
  int adds;
} matmul_job;

#endif
