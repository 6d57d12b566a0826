/* Elementwise kernels on arrays that are stretched to one shape; their gradients sum over the
   stretched axes. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define BODY "elementwise_body.h"
#include "each_isa.h"
