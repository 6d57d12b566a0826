/* Rows that are selected by indices: their sums, and sums into them. */

#include "loops.h"
#include "team.h"

#define BODY "gather_body.h"
#include "each_isa.h"
