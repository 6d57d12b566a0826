/* Softmax, log-softmax and cross-entropy of logits. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define BODY "softmax_body.h"
#include "each_isa.h"
