/* Products with weights as files store them. They are decoded a panel at a time, and each thread
   decodes what it multiplies, since real numbers of all would not fit into a core's cache. */

#include <string.h>

#include "loops.h"
#include "stored_weights.h"
#include "team.h"

#define TILED 192 /* columns: whole steps, and whole tiles of every instruction set */

#define BODY "stored_products_body.h"
#include "each_isa.h"
