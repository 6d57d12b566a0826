/* LSTM with four gates, forward and backward through time. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define GATES 4 /* forget, cell, output, input, side by side */

#define BODY "lstm_body.h"
#include "each_isa.h"
