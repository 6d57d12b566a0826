/* Fake quantization, and bitmasks of clamps: one bit per element, set where the gradient passes. */

#include "abi.h"
#include "loops.h"

#define BODY "bitmask_body.h"
#include "each_isa.h"
