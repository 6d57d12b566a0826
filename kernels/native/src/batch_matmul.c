/* BATCH_MATMUL: products of many small matrices. */

#include "team.h"

#define ROW_BLOCK 128 /* rows of a block: a multiple of every MR */

#define BODY "batch_matmul_body.h"
#include "each_isa.h"
