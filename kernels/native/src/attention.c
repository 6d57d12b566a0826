/* Attention of rows to keys of which a mask hides some: two products, and a softmax between them,
   block of rows by block of rows, so that only the scores of a block exist, and only up to the last
   key that one of its rows sees. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "matmul_job.h"
#include "team.h"

#define ATTENTION_ROWS (ROW_BLOCK / 2) /* of a block */

/* Floats of a matrix whose rows have a gap between them, which keeps them out of one cache set. */
#define GAPPED(rows, columns) ((rows) * ((columns) + MAX_LANES))

#define BODY "attention_body.h"
#include "each_isa.h"
