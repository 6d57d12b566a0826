/* TRANSPOSE of four-byte elements. */

#include <string.h>

#include "loops.h"
#include "team.h"

#define BODY "transpose_body.h"
#include "each_isa.h"
