/* Declares the kernels for one instruction set, and checks its sizes against the limits. */

_Static_assert(LANES <= MAX_LANES && NR <= MAX_NR, "workspace is planned for the limits in abi.h");
_Static_assert(PIXELS % (2 * MR) == 0, "register tiles must divide a tile of windows");

#define KERNEL(name, arguments) void F(name) arguments;
#include "exported.h"
#undef KERNEL
