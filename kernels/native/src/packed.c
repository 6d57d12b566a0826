/* Weights of 2 and 4 bits, of which a byte holds several. */

#include "loops.h"
#include "team.h"

#define BODY "packed_body.h"
#include "each_isa.h"
