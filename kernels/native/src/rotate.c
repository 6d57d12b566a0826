/* Rotary position embedding. */

#include "loops.h"
#include "team.h"

#define BODY "rotate_body.h"
#include "each_isa.h"
