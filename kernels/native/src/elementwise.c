/* Element by element on arrays that are stretched to one shape, and sums over what was stretched. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define BODY "elementwise_body.h"
#include "each_isa.h"
