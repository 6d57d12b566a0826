/* Normalization of rows by their L2 norm or root mean square. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define BODY "normalization_body.h"
#include "each_isa.h"
