/* Optimizer updates of a parameter. */

#include <math.h>

#include "team.h"

#define BODY "updates_body.h"
#include "each_isa.h"
