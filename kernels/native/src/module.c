/* A Python extension module in name only, so that a wheel's build compiles it: it is loaded with
   ctypes, which lets go of the interpreter lock during a call. No Python header is needed. */

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif

EXPORT void *PyInit__kernels(void) { return 0; } /* linkers want it; nobody imports this */

/* The best instruction set that this processor has and this library was compiled for: 0 base,
   1 AVX2, 2 AVX-512. */
EXPORT int instruction_set(void) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
    return 2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
  return 0;
}
