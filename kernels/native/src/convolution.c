/* Convolutions as sums of products over windows.

   correlate: y = Σ window(x) w, where the walk says how both lie, with bias, clamp or ReLU mask
   as an epilogue in registers. It is the forward pass, and the gradient by x.
   filter_sums: dw = Σ dy window(x), and db = Σ dy: the gradient by the filters. */

#include "window_walk.h"

static float zero_border[MAX_DEPTH];

#define BODY "convolution_body.h"
#include "each_isa.h"
