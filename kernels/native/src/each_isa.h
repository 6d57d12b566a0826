/* Compiles BODY once for each instruction set that the compiler knows. The names of its functions
   end in the name of the instruction set; Python selects those that the processor supports, see
   instruction_sets.c.

   For the body: F(name) is the name with that suffix, NARROWER(name) that of the set before, if
   there is one, and LANES the number of floats in a vector register. MR × NR and ROWS × UNITS are
   the accumulators of a product, which must fit into registers together with NR or ROWS vectors of
   one operand and one of the other. */

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "abi.h"
#include "target.h"

#define F(name) name##_base
#define LANES 4
#if defined(__aarch64__) /* 32 vector registers; the rows of a tile take MR of them, too */
#define MR 8
#define NR 2
#define ROWS 2
#define UNITS 4
#elif defined(__SSE__) || defined(__ARM_NEON) || defined(__wasm_simd128__) /* 16 vector registers */
#define MR 4
#define NR 2
#define ROWS 2
#define UNITS 4
#else /* no vector registers, but 32 of one float */
#define MR 2
#define NR 2
#define ROWS 2
#define UNITS 2
#endif
#include "each_isa_begin.h"
#include BODY
#include "each_isa_end.h"

#if HAS_AVX_BESIDE_BASE

BEGIN_TARGET("avx2,fma")
#define F(name) name##_avx2
#define NARROWER(name) name##_base
#define LANES 8
#define MR 4
#define NR 3
#define ROWS 3
#define UNITS 4
#include "each_isa_begin.h"
#include BODY
#include "each_isa_end.h"
END_TARGET

#ifdef __clang__ /* it uses the widest vectors without being told */
BEGIN_TARGET("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")
#else
BEGIN_TARGET("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,prefer-vector-width=512")
#endif
#define F(name) name##_avx512
#define NARROWER(name) name##_avx2
#define LANES 16
#define MR 8
#define NR 3
#define ROWS 4
#define UNITS 4
#include "each_isa_begin.h"
#include BODY
#include "each_isa_end.h"
END_TARGET

#elif HAS_NEON_BESIDE_BASE

BEGIN_TARGET("neon")
#define F(name) name##_neon
#define NARROWER(name) name##_base
#define LANES 4
#define MR 4
#define NR 2
#define ROWS 2
#define UNITS 4
#include "each_isa_begin.h"
#include BODY
#include "each_isa_end.h"
END_TARGET

#endif
