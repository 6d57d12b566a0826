/* Calls kernels of the Windows library, for windows.py: call_kernels LIBRARY.

   Reads calls from standard input and writes the memory after each to standard output; all numbers
   are int64_t. A call is

     name (64 bytes), count of regions, count of pointers,
     sizes of the regions in bytes, the regions, and
     for each pointer: region and offset where it is, region and offset that it points to.

   Region 0 holds the ARGUMENTS arguments, 8 bytes each. First of all it writes the length of the
   text that instruction_sets returns, and the text. */

#include <fcntl.h>
#include <io.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define ARGUMENTS 20
#define MAX_REGIONS 64

/* A variadic call passes the first four arguments in general and in vector registers, so that it
   serves integers, pointers and floats alike; the others are on the stack. */
typedef void (*kernel)(double, ...);

static void stop(const char *why, const char *what) {
  fprintf(stderr, "%s %s\n", why, what);
  exit(1);
}

static int take(void *to, size_t size) { return fread(to, 1, size, stdin) == size; }

static void give(const void *from, size_t size) {
  if (fwrite(from, 1, size, stdout) != size) stop("cannot write", "results");
}

int main(int count, char **arguments) {
  char name[64], *regions[MAX_REGIONS];
  int64_t counts[2], sizes[MAX_REGIONS], place[4];
  HMODULE library = count == 2 ? LoadLibraryA(arguments[1]) : 0;
  if (!library) stop("cannot load", count == 2 ? arguments[1] : "nothing");
  _setmode(_fileno(stdin), _O_BINARY);
  _setmode(_fileno(stdout), _O_BINARY);
  const char *sets =
      ((const char *(*)(void))(void *)GetProcAddress(library, "instruction_sets"))();
  int64_t length = (int64_t)strlen(sets);
  give(&length, sizeof length);
  give(sets, (size_t)length);
  fflush(stdout);
  while (take(name, sizeof name)) {
    kernel call = (kernel)(void *)GetProcAddress(library, name);
    if (!call) stop("no kernel", name);
    if (!take(counts, sizeof counts) || counts[0] > MAX_REGIONS) stop("too many regions", name);
    take(sizes, (size_t)counts[0] * sizeof *sizes);
    for (int64_t k = 0; k < counts[0]; k++) {
      regions[k] = _aligned_malloc((size_t)sizes[k] + 64, 64);
      take(regions[k], (size_t)sizes[k]);
    }
    for (int64_t k = 0; k < counts[1] && take(place, sizeof place); k++) {
      char *to = regions[place[2]] + place[3];
      memcpy(regions[place[0]] + place[1], &to, sizeof to);
    }
    double a[ARGUMENTS];
    memcpy(a, regions[0], sizeof a);
    call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13],
         a[14], a[15], a[16], a[17], a[18], a[19]);
    for (int64_t k = 0; k < counts[0]; k++) {
      give(regions[k], (size_t)sizes[k]);
      _aligned_free(regions[k]);
    }
    fflush(stdout);
  }
  return 0;
}
