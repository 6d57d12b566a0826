/* A long short-term memory of four gates, forward and back through time. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define GATES 4   /* f g o i, side by side */
#define SAMPLES 4 /* that go through time together */

#define BODY "lstm_body.h"
#include "each_isa.h"
