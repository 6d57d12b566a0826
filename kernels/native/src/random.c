/* Random masks. */

#include "loops.h"
#include "philox.h"

#define BODY "random_body.h"
#include "each_isa.h"
