/* Forward pass of fully connected layers: y = x wᵀ. The gradients are those of a 1×1 convolution,
   in convolution.c. */

#include <string.h>

#include "team.h"

#define BODY "dense_body.h"
#include "each_isa.h"
