/* Axes in another order: a copy of elements of four bytes. */

#include <string.h>

#include "team.h"

#define BODY "transpose_body.h"
#include "each_isa.h"
