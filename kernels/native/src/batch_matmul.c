/* BATCH_MATMUL: products of many small matrices. */

#include <string.h>

#include "team.h"

#define BODY "batch_matmul_body.h"
#include "each_isa.h"
