/* Whether subnormal numbers are zero, operands and results alike, in the calling thread. A
   multiplication with a subnormal number takes some hundred cycles on many processors. */

#ifndef FLOAT_MODE_H
#define FLOAT_MODE_H

#include <stdint.h>

#if defined(__x86_64__)
#define FLUSH (1 << 15 | 1 << 6) /* FTZ and DAZ of MXCSR */
static inline uint32_t get_float_mode(void) { return __builtin_ia32_stmxcsr(); }
static inline void set_float_mode(uint32_t mode) { __builtin_ia32_ldmxcsr(mode); }
#elif defined(__aarch64__)
#define FLUSH (1 << 24) /* FZ of FPCR */
static inline uint32_t get_float_mode(void) {
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return (uint32_t)mode;
}
static inline void set_float_mode(uint32_t mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
}
#elif defined(__arm__) && defined(__ARM_FP)
#define FLUSH (1 << 24) /* FZ of FPSCR */
static inline uint32_t get_float_mode(void) {
  uint32_t mode;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(mode));
  return mode;
}
/* Not inlined: FPSCR also holds the result of a comparison, which a caller may still need. */
static __attribute__((noinline, unused)) void set_float_mode(uint32_t mode) {
  __asm__ volatile("vmsr fpscr, %0" : : "r"(mode));
}
#else                   /* this processor has no such mode */
#define FLUSH 0
static inline uint32_t get_float_mode(void) { return 0; }
static inline void set_float_mode(uint32_t mode) { (void)mode; }
#endif

#endif
