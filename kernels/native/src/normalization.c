/* Rows, or the channels of images, divided by a norm of theirs. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define BODY "normalization_body.h"
#include "each_isa.h"
