/* Cumulative sums, products and sines. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "team.h"

#define BODY "scans_body.h"
#include "each_isa.h"
