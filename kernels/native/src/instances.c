/* The channels of each image brought to mean 0 and variance 1. */

#include <math.h>

#include "maps.h"
#include "team.h"

#define CHANNELS 64 /* that are worked on at once, at most */
#define SPAN 64     /* rows that are summed apart, so that long sums stay exact */

#define BODY "instances_body.h"
#include "each_isa.h"
