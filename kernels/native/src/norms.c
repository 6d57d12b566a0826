/* Rows, or the channels of images, divided by a norm of theirs. */

#include <math.h>

#include "maps.h"
#include "team.h"

#define BODY "norms_body.h"
#include "each_isa.h"
