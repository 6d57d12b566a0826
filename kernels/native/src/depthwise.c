/* Depthwise convolution: each channel by itself, so vectors lie along the channels. */

#include "walk.h"

static float nothing[DEPTH];

#define BODY "depthwise_body.h"
#include "each_isa.h"
