/* Loops over all elements that are over before memory has answered: sums and updates. */

#include <math.h>

#include "team.h"

#define BODY "elementwise_body.h"
#include "each_isa.h"
