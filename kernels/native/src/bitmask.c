/* Bitmasks: one bit an element tells backward where a clamp passes the gradient. */

#include "abi.h"

#define BODY "bitmask_body.h"
#include "each_isa.h"
