/* Pooling: the greatest or the mean value of windows, and their gradients. */

#include <math.h>

#include "window_walk.h"

static const float border[1]; /* marks what lies outside; it is never read */

#define BODY "pool_body.h"
#include "each_isa.h"
