/* Macros for loops over elements. */

#ifndef LOOPS_H
#define LOOPS_H

#define CHUNK 256 /* elements of a buffer for intermediate results */

/* Adding and subtracting 1.5 · 2²³ rounds a float of at most 2²² to an integer, halves to even. */
#define ROUND(v) (((v) + 12582912.0f) - 12582912.0f)

/* Before a loop whose iterations are independent. Wheels for x86-64 have vectors in these alone,
   and where the source writes them. */
#ifdef __clang__
/* It warns of loops without vectors, as where square roots set errno. */
#if defined(__NO_MATH_ERRNO__) && (defined(__SSE__) || defined(__ARM_NEON) || \
                                   defined(__wasm_simd128__) || defined(__riscv_vector))
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP
#endif
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

/* The same, and WebAssembly computes four vectors at a time: in its engines, addresses and the end
   of a loop take longer than a few operations on a vector. */
#ifdef __wasm_simd128__
#define IVDEP_UNROLLED _Pragma("clang loop vectorize(assume_safety) unroll_count(4)")
#else
#define IVDEP_UNROLLED IVDEP
#endif

/* Writes a statement for each i from 0 to count − 1, at most 15. Unrolls of different names can be
   nested. In a loop the indices of arrays would become constants only when it is unrolled, and
   then clang 14 no longer moves the arrays into registers. */
#define UNROLL(i, count, ...)              \
  do {                                     \
    UNROLL_FOUR(i, 0, count, __VA_ARGS__)  \
    UNROLL_FOUR(i, 4, count, __VA_ARGS__)  \
    UNROLL_FOUR(i, 8, count, __VA_ARGS__)  \
    UNROLL_FOUR(i, 12, count, __VA_ARGS__) \
  } while (0)
#define UNROLL_FOUR(i, first, count, ...)       \
  UNROLL_CASE(i, first, count, __VA_ARGS__)     \
  UNROLL_CASE(i, first + 1, count, __VA_ARGS__) \
  UNROLL_CASE(i, first + 2, count, __VA_ARGS__) \
  UNROLL_CASE(i, first + 3, count, __VA_ARGS__)
#define UNROLL_CASE(i, index, count, ...) \
  if ((count) > index) {                  \
    enum { i = index };                   \
    __VA_ARGS__;                          \
  }

/* Advances a pointer by a step, and hides its value from the compiler, which would otherwise keep
   multiples of the step in registers, or compute an address for each access. */
#define ADVANCE(p, step) \
  do {                   \
    (p) += (step);       \
    HIDE(p);             \
  } while (0)

/* Hides the value of a variable from the compiler. */
#define HIDE(v) __asm__("" : "+r"(v))

/* Runs statements `count` times, for u = 0 to 3 in turn, and `advance` after each four. Each run is
   a basic block, because it may be the last one: the engines of browsers move the loads of a block
   before its arithmetic, and only the vectors of one run fit into their registers. With gcc for
   SSE, this saves a tenth of a step, too. The base in wheels stays smaller without it. */
#define FOUR_BLOCKS(u, count, advance, ...)                    \
  for (int32_t left = (int32_t)(count); left > 0; left -= 4) { \
    UNROLL(u, 4, __VA_ARGS__; if (left == u + 1) break);       \
    advance;                                                   \
  }
#if defined(__wasm__) || (defined(__x86_64__) && defined(ODT_EMBEDDED))
#define USES_BLOCKS 1
#else
#define USES_BLOCKS 0
#endif

#endif
