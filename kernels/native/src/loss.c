/* Softmax, its logarithm and cross-entropy of logits. */

#include <math.h>

#include "maps.h"
#include "team.h"

#define BODY "loss_body.h"
#include "each_isa.h"
