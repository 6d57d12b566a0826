/* Sums of gradients, and optimizer updates of a parameter. */

#include <math.h>
#include <string.h>

#include "loops.h"
#include "philox.h"
#include "team.h"

#define SQUARE_SUMS 8  /* sums of squares side by side, as in native/updates.py */
#define INTEGERS 32    /* of a weight, which are updated at once */
#define STRETCH 512    /* values of a table without gradients, which are updated at most at once */
#define PIECE 64       /* of these, which rest together if their state is 0 */
#define SIDE_BY_SIDE 4 /* vectors whose minima and maxima are separate */
#define AHEAD 1024     /* values of a weight: the distance of reads ahead, a page */

/* The updates of weights that are integers, and of tables, in the order of native/updates.py. */
enum { SGD, MOMENTUM, ADAM, ROOT_SCALED, ROOT_SCALED_MOMENTUM, LION };
/* The rows of a table that an update changes, in the order of rows/updatedef.py. */
enum { ALL, WITH_STATE, LISTED };

#define BODY "updates_body.h"
#include "each_isa.h"
