/* Functions of string.h in WebAssembly, which has instructions that copy and fill memory. */

#ifndef ODT_WEB_STRING_H
#define ODT_WEB_STRING_H

#include <stddef.h>

#define memcpy __builtin_memcpy
#define memset __builtin_memset

static inline int memcmp(const void *a, const void *b, size_t size) {
  const unsigned char *x = a, *y = b;
  for (size_t k = 0; k < size; k++)
    if (x[k] != y[k]) return x[k] < y[k] ? -1 : 1;
  return 0;
}

#endif
