/* Sums of gradients, and optimizer updates of a parameter. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "team.h"

#define SQUARE_SUMS 8 /* sums of squares side by side, as in native/updates.py */

#define BODY "updates_body.h"
#include "each_isa.h"
