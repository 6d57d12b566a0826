/* A long short-term memory of four gates, forward and back through time. */

#include <math.h>

#include "maps.h"
#include "team.h"

#define GATES 4   /* f g o i, side by side */
#define SAMPLES 4 /* that go through time together */
#define UNITS_MOST 1024

/* N samples, T steps of I values, O units; where the rows of step and sample lie, in rows. */
typedef struct {
  int64_t samples, steps, depth, units, sample_row, step_row;
  float clip; /* the cell stays within ± clip */
} sequence;

#define BODY "lstm_body.h"
#include "each_isa.h"
