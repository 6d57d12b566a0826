/* Weights as files store them: of 2 and 4 bits, of which a byte holds several, and in blocks. */

#include "loops.h"
#include "stored_weights.h"
#include "team.h"

#define BODY "packed_body.h"
#include "each_isa.h"
