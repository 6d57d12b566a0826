/* Softmax, log-softmax and cross-entropy of logits. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "team.h"

#define SUMS 16 /* partial sums of a loss */

#define BODY "softmax_body.h"
#include "each_isa.h"
