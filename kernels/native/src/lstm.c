/* A long short-term memory of four gates, forward and back through time. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define GATES 4   /* forget, cell, output, input, side by side */
#define SAMPLES 4 /* that a part computes together */

#define BODY "lstm_body.h"
#include "each_isa.h"
