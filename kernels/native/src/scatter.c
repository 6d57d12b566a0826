/* Sums of rows that are selected by indices. */

#include <stdint.h>

#include "loops.h"

#define BODY "scatter_body.h"
#include "each_isa.h"
