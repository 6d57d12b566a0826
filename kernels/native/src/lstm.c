/* A long short-term memory of four gates, forward and back through time. */

#include <math.h>

#include "elementwise.h"
#include "team.h"

#define GATES 4   /* f g o i, side by side */
#define SAMPLES 4 /* that go through time together */
#define MAX_UNITS 1024

/* N samples, T steps of I values, O units; where the rows of step and sample lie, in rows. */
typedef struct {
  int64_t samples, steps, depth, units, sample_stride, step_stride;
  float clip; /* the cell stays within ± clip */
} lstm_shape;

#define BODY "lstm_body.h"
#include "each_isa.h"
