/* Convolutions and fully connected layers: sums of products over windows.

   correlate: y = Σ window(x) w, and what a walk says of where both lie; with bias, clamp or relu_mask
   applied while the result is in registers. It is the forward pass, and the gradient by x.
   dense: y = x wᵀ for whole rows, the forward pass of a fully connected layer.
   filter_sums: dw = Σ dy window(x), and db = Σ dy: the gradient by the filters. */

#include "window_walk.h"

static float zero_border[MAX_DEPTH]; /* the border */

#define BODY "convolution_body.h"
#include "each_isa.h"
