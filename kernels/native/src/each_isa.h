/* Compiles BODY once for each instruction set. The names of its functions end in the name of the
   instruction set; Python selects those that the processor supports.

   For the body: F(name) is the name with that suffix, LANES the number of floats in a vector
   register. MR × NR and ROWS × UNITS are the accumulators of a product, which must fit into
   registers together with NR or UNITS vectors of weights and one of x. */

#include "abi.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,prefer-vector-width=512")
#define F(name) name##_avx512
#define LANES 16
#define MR 8
#define NR 3
#define ROWS 4
#define UNITS 6
#include "each_isa_begin.h"
#include BODY
#include "each_isa_end.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define F(name) name##_avx2
#define LANES 8
#define MR 4
#define NR 3
#define ROWS 3
#define UNITS 4
#include "each_isa_begin.h"
#include BODY
#include "each_isa_end.h"
#pragma GCC pop_options

#endif

#define F(name) name##_base
#define LANES 4
#ifdef __aarch64__ /* 32 registers, else 16 */
#define MR 8
#define NR 3
#else
#define MR 4
#define NR 2
#endif
#define ROWS 2
#define UNITS 4
#include "each_isa_begin.h"
#include BODY
#include "each_isa_end.h"
