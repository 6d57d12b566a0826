/* Macros for loops over elements. */

#ifndef LOOPS_H
#define LOOPS_H

#define CHUNK 256 /* elements of a buffer for intermediate results */

/* Before a loop whose iterations are independent. */
#ifdef __clang__
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

#endif
