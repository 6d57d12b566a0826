/* Fully connected layers, forward: y = x wᵀ. Their gradients are sums over windows of one pixel, in
   convolution.c. */

#include "team.h"

#define BODY "dense_body.h"
#include "each_isa.h"
