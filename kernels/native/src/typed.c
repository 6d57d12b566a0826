/* Values of several types: casts, comparisons, positions and selections of rows. */

/* Many loops, all bound by memory: -O3 would make seven times as much code, which is no faster. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2")
#endif

#include <string.h>

#include "loops.h"
#include "team.h"

#define PART 64 /* values of a buffer of int64 */

/* Types of values: 0 for float, 3 for bool, else the bytes of an integer, negative if it has no
   sign; see native/typed.py. */
enum { FLOATS = 0, TRUTHS = 3 };

/* The rows of arrays that are broadcast: offsets of the inputs in elements, and the position. */
typedef struct {
  int64_t inputs[MAX_INPUTS], at[MAX_RANK];
} row_walk;

/* Moves to the next row; returns 0 after the last one. */
static int next_row(const elementwise_shape *m, row_walk *w) {
  for (int64_t d = m->rank - 2; d >= 0; d--) {
    int64_t steps = ++w->at[d] < m->sizes[d] ? 1 : 1 - m->sizes[d];
    for (int k = 0; k < MAX_INPUTS; k++) w->inputs[k] += steps * m->inputs[k][d];
    if (steps == 1) return 1;
    w->at[d] = 0;
  }
  return 0;
}

#define BODY "typed_body.h"
#include "each_isa.h"
