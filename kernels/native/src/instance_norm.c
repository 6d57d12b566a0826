/* The channels of each image brought to mean 0 and variance 1. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define CHANNELS 64    /* that are worked on at once, at most */
#define SUMMED_ROWS 64 /* rows that are summed apart, so that long sums stay exact */

#define BODY "instance_norm_body.h"
#include "each_isa.h"
