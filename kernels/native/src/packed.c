/* Weights as files store them: of 2 and 4 bits, of which a byte holds several, and in blocks. */

#include "loops.h"
#include "team.h"

#define BLOCK 32 /* values that share a scale */

#define BODY "packed_body.h"
#include "each_isa.h"
