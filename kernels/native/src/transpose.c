/* TRANSPOSE: copies four-byte elements with the axes in another order. */

#include <string.h>

#include "team.h"

#define BODY "transpose_body.h"
#include "each_isa.h"
