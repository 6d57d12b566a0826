/* instruction_sets(): those that the processor has and this library was compiled for, separated by
   spaces, the best last. The processor is asked itself: some compilers' functions for this are
   empty. */

#include "abi.h"
#include "bf16.h"
#include "integer.h"
#include "target.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <string.h>

/* What the operating system saves of the registers when it switches threads. */
static uint32_t saved_state(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

static int has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

const char *instruction_sets(void) {
  const uint32_t fma = 1 << 12, xgetbv = 1 << 27, avx2 = 1 << 5;             /* of leaves 1 and 7 */
  const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;         /* F, DQ, BW, VL */
  const uint32_t vectors = 1 << 1 | 1 << 2, wide = 1 << 5 | 1 << 6 | 1 << 7; /* of xgetbv */
  uint32_t a, b, c, d, saved;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, fma | xgetbv)) return "base";
  saved = saved_state();
  if (!has(saved, vectors) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, avx2))
    return "base";
  return has(saved, wide) && has(b, avx512) ? "base avx2 avx512" : "base avx2";
}

int has_vnni(void) {
  static int known = -1; /* the processor takes long to answer where it is emulated */
  if (known < 0) {
    uint32_t a, b, c, d;
    known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && has(c, 1 << 11);
  }
  return known;
}

#elif HAS_NEON_BESIDE_BASE && defined(__linux__)

#include <sys/auxv.h>

const char *instruction_sets(void) { return getauxval(AT_HWCAP) & 1 << 12 ? "base neon" : "base"; }

#else

const char *instruction_sets(void) { return "base"; }

#endif

#if HAS_BF16

int has_bf16(void) {
  uint32_t a, b, c, d;
  return strstr(instruction_sets(), "avx512") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
         has(a, 1 << 5);
}

int has_fast_bf16(void) {
  uint32_t a, b, c, d;
  return !__get_cpuid(0, &a, &b, &c, &d) || b != signature_INTEL_ebx;
}

#else

int has_bf16(void) { return 0; }
void use_bf16_pairs(int use) { (void)use; }

#endif

#if HAS_DOTPROD_BESIDE_BASE

#if defined(__ARM_FEATURE_DOTPROD) /* on macOS, for one */

int has_dotprod(void) { return 1; }

#elif defined(__linux__)

#include <sys/auxv.h>

int has_dotprod(void) { return getauxval(AT_HWCAP) >> 20 & 1; }

#elif defined(_WIN32)

#include <windows.h>

int has_dotprod(void) { return IsProcessorFeaturePresent(43 /* PF_ARM_V82_DP_… */); }

#else

int has_dotprod(void) { return 0; }

#endif

#endif
