/* Sizes of weights as files store them. */

#ifndef STORED_WEIGHTS_H
#define STORED_WEIGHTS_H

#include "abi.h"

#define BLOCK 32 /* values that share a scale */

/* The bytes of a block: one or two halves, and the integers. */
static inline int64_t block_bytes(int64_t bits, int64_t minimum) {
  return (minimum ? 4 : 2) + BLOCK * bits / 8;
}

#endif
