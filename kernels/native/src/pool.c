/* Max and average pooling, and their gradients. */

#include <math.h>

#include "window_walk.h"

static const float border[1]; /* marks taps outside the image by its address; never read */

#define BODY "pool_body.h"
#include "each_isa.h"
