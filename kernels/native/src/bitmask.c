/* What backward needs of a clamp in one bit an element. */

#include "abi.h"

#define BODY "bitmask_body.h"
#include "each_isa.h"
