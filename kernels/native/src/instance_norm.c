/* Instance normalization: each channel of each image gets mean 0 and variance 1. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define CHANNELS 64    /* of a block, at most */
#define SUMMED_ROWS 64 /* summed on their own, so that long sums stay exact */

#define BODY "instance_norm_body.h"
#include "each_isa.h"
