/* The instruction sets beside the base, by gcc and by clang.

   BEGIN_TARGET("avx2,fma") … END_TARGET: the functions between are compiled for these features. */

#ifndef TARGET_H
#define TARGET_H

/* Also where a compiler was told not to inline: loops with calls have no vectors. */
#define INLINE static inline __attribute__((always_inline))

/* Not inlined in programs for one device, so that a caller's frame does not hold its variables. */
#ifdef ODT_EMBEDDED
#define LEAF __attribute__((noinline))
#else
#define LEAF
#endif

#define PRAGMA(...) _Pragma(#__VA_ARGS__)
#ifdef __clang__
#define BEGIN_TARGET(features) \
  PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define END_TARGET PRAGMA(clang attribute pop)
#else
#define BEGIN_TARGET(features) PRAGMA(GCC push_options) PRAGMA(GCC target(features))
#define END_TARGET PRAGMA(GCC pop_options)
#endif

/* AVX2 and AVX-512; a program for one device has the set that its compiler is told. */
#if defined(__x86_64__) && !defined(ODT_EMBEDDED)
#define HAS_AVX_BESIDE_BASE 1
#else
#define HAS_AVX_BESIDE_BASE 0
#endif

/* NEON on 32-bit ARM; gcc uses it for floats only where their rounding may change. */
#if defined(__arm__) && __ARM_ARCH >= 7 && defined(__clang__) && !defined(__ARM_NEON) && \
    !defined(ODT_EMBEDDED)
#define HAS_NEON_BESIDE_BASE 1
#else
#define HAS_NEON_BESIDE_BASE 0
#endif

/* Dot products of bytes on 64-bit ARM; older versions of clang hide them without an option. */
#if defined(__aarch64__) && (!defined(__clang__) || __clang_major__ >= 16) && !defined(ODT_EMBEDDED)
#define HAS_DOTPROD_BESIDE_BASE 1
#else
#define HAS_DOTPROD_BESIDE_BASE 0
#endif
#ifdef __clang__
#define DOTPROD "dotprod"
#else
#define DOTPROD "arch=armv8.2-a+dotprod"
#endif

#endif
