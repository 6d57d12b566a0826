/* What optimizers do to parameters, each in one loop over all of them. */

#include <math.h>

#include "team.h"

#define BODY "updates_body.h"
#include "each_isa.h"
