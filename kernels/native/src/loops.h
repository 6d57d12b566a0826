/* What loops over elements share. */

#ifndef LOOPS_H
#define LOOPS_H

#define CHUNK 256 /* elements that are computed aside at once */

/* Before a loop whose elements do not depend on each other. */
#ifdef __clang__
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

#endif
