/* Depthwise convolution: each channel by itself, so vectors lie along the channels. */

#include "window_walk.h"

static float zero_border[MAX_DEPTH];

#define BODY "depthwise_body.h"
#include "each_isa.h"
