/* Instance normalization: each channel of each image gets mean 0 and variance 1. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define CHANNELS 64    /* maximum channels of a block */
#define SUMMED_ROWS 64 /* rows of a partial sum; partial sums keep long sums accurate */

#define BODY "instance_norm_body.h"
#include "each_isa.h"
