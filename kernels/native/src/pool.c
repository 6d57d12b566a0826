/* Max and average pooling, and their gradients, with vectors along the channels. */

#include <math.h>

#include "window_blocks.h"

#define BODY "pool_body.h"
#include "each_isa.h"
