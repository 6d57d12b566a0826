/* Depthwise convolution, with vectors along the channels. */

#include "loops.h"
#include "window_walk.h"

static float zero_border[MAX_DEPTH];

#define BODY "depthwise_body.h"
#include "each_isa.h"
