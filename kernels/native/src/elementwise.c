/* Elementwise kernels on arrays that are broadcast to one shape; gradients are summed over the
   broadcast axes. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "team.h"

#define BODY "elementwise_body.h"
#include "each_isa.h"
