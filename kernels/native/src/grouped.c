/* Convolution of groups of 2, 4 or 8 channels, each of which has as many units.

   grouped_correlate, grouped_filter_sums: as in convolution.c, for walks whose depth is that of a
   group, of at most LANES channels. All units together fill whole vectors.

   A vector of x multiplies, in one product for each rotation r, the weights of the units that are r
   further in the groups of its channels. The sums of a rotation belong to these units: they are
   rotated back after all taps. So no vector is shuffled for a product. */

#include <string.h>

#include "loops.h"
#include "window_blocks.h"

#define WIDE_BAND 1024 /* as in convolution.c */

#define BODY "grouped_body.h"
#include "each_isa.h"
