/* Convolutions and fully connected layers: sums of products over windows.

   correlate: y = Σ window(x) w, and what a walk says of where both lie; with bias, clamp or gate
   applied while the result is in registers. It is the forward pass, and the gradient by x.
   connect: y = x wᵀ for whole rows, the forward pass of a fully connected layer.
   filter_sums: dw = Σ dy window(x), and db = Σ dy: the gradient by the filters. */

#include "walk.h"

static float nothing[DEPTH]; /* the border */

#define BODY "product_body.h"
#include "each_isa.h"
