/* Whether bf16.c is compiled: for x86-64, by a compiler that knows AVX512_BF16. */

#ifndef BF16_H
#define BF16_H

#include "abi.h"
#include "target.h"

#if HAS_AVX_BESIDE_BASE && defined(__has_include)
#if __has_include(<avx512bf16intrin.h>)
#define HAS_BF16 1
#endif
#endif
#ifndef HAS_BF16
#define HAS_BF16 0
#endif

/* Whether dot products of bfloat16 are faster than multiply-adds of floats: on Intel's processors
   they take four times as long (Emerald Rapids: 0.6 and 0.15 ns), for twice the products. */
int has_fast_bf16(void);

#endif
