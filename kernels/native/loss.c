/* Softmax and cross-entropy of logits. */

#include <math.h>

#include "team.h"

#define BODY "loss_body.h"
#include "each_isa.h"
