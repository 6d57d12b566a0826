/* Functions of math.h in WebAssembly: instructions, and functions of JavaScript's Math. */

#ifndef ODT_WEB_MATH_H
#define ODT_WEB_MATH_H

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

#define copysignf __builtin_copysignf
#define fabsf __builtin_fabsf
#define floor __builtin_floor
#define rint __builtin_rint
#define sqrt __builtin_sqrt
#define sqrtf __builtin_sqrtf

#define FROM_JAVASCRIPT(name) __attribute__((import_module("Math"), import_name(#name)))
FROM_JAVASCRIPT(cos) double cos(double x);
FROM_JAVASCRIPT(log) double log(double x);
FROM_JAVASCRIPT(pow) double pow(double x, double y);
FROM_JAVASCRIPT(sin) double sin(double x);

/* The operator % of JavaScript, which is exact. */
__attribute__((import_module("odt"), import_name("remainder"))) double fmod(double x, double y);

static inline float fmodf(float x, float y) { return (float)fmod((double)x, (double)y); }
static inline float logf(float x) { return (float)log((double)x); }

#endif
