/* Max and average pooling, and their gradients, with vectors along the channels, and of
   several windows if the channels are few. */

#include <math.h>
#include <string.h>

#include "window_blocks.h"

#define BODY "pool_body.h"
#include "each_isa.h"
