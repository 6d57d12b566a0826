/* Convolution as sums of products over windows.

   correlate: y = Σ window(x) w, for the windows and weights that the window_walk describes, with
   bias, clamp or ReLU mask as an epilogue in registers: forward pass and input gradient.
   filter_sums: dw = Σ dy window(x) and db = Σ dy: filter and bias gradient. */

#include <string.h>

#include "window_blocks.h"

#define WIDE_BAND 1024 /* results of a band: borders of many rows together fill tiles */

/* Whether there are enough results for the parts. */
#define MANY_RESULTS(g, parts) (result_count(g) >= 2 * PIXELS * (parts))

#define BODY "convolution_body.h"
#include "each_isa.h"
