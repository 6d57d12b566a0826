/* Maxima and minima of rows and columns, and their gradients. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "team.h"

#define WIDE 1024 /* columns that are read at once: a page */

#define BODY "extremes_body.h"
#include "each_isa.h"
