/* Max and average pooling, and their gradients. */

#include <math.h>

#include "window_walk.h"

static const float border[1]; /* its address marks taps outside the image; never read */

#define BODY "pool_body.h"
#include "each_isa.h"
