/* Convolution as sums of products over windows.

   correlate: y = Σ window(x) w, for the windows and weights that the window_walk describes, with
   bias, clamp or ReLU mask as an epilogue in registers: forward pass and input gradient.
   filter_sums: dw = Σ dy window(x) and db = Σ dy: filter and bias gradient. */

#include "window_blocks.h"

#define WIDE_BAND 1024 /* results of a band: borders of many rows together fill tiles */

#define BODY "convolution_body.h"
#include "each_isa.h"
