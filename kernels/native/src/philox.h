/* The random numbers of NumPy's Philox-4x64-10: Salmon et al., Parallel Random Numbers: As Easy as
   1, 2, 3 (2011). They can begin at any number of a sequence. */

#ifndef PHILOX_H
#define PHILOX_H

#include <stdint.h>

#include "target.h"

#define NUMBERS 8 /* for each value of the counter: two of each of its words */

/* What selects a sequence: the key, and the higher half of the counter. */
typedef struct {
  uint64_t key[2], counter[2];
} random_sequence;

/* Returns the product of two words; *high is its higher word. */
INLINE uint64_t wide_product(uint64_t a, uint64_t b, uint64_t *high) {
#if defined(__SIZEOF_INT128__) && !defined(__wasm__) /* which calls a function for it */
  *high = (uint64_t)((unsigned __int128)a * b >> 64);
#else
  uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
  uint64_t cross = a_high * b_low + (a_low * b_low >> 32), other = a_low * b_high;
  *high = a_high * b_high + (cross >> 32) + (((uint32_t)cross + other) >> 32);
#endif
  return a * b;
}

/* Computes the words for a value of the counter's lower half. */
INLINE void random_words(const random_sequence *s, uint64_t value, uint64_t *words) {
  uint64_t key[2] = {s->key[0], s->key[1]}, high[2];
  words[0] = value, words[1] = 0, words[2] = s->counter[0], words[3] = s->counter[1];
  for (int round = 0; round < 10; round++) {
    uint64_t low[2] = {wide_product(words[0], 0xD2E7470EE14C6C93u, &high[0]),
                       wide_product(words[2], 0xCA5A826395121157u, &high[1])};
    words[0] = high[1] ^ words[1] ^ key[0], words[1] = low[1];
    words[2] = high[0] ^ words[3] ^ key[1], words[3] = low[0];
    key[0] += 0x9E3779B97F4A7C15u, key[1] += 0xBB67AE8584CAA73Bu;
  }
}

/* Computes n numbers from 0 to below 1, of which the first is number `first` of the sequence. */
static void draw_uniform(const random_sequence *s, int64_t first, int64_t n, float *u) {
  for (int64_t i = 0; i < n;) {
    int64_t value = (first + i) / NUMBERS, at = (first + i) % NUMBERS;
    uint64_t words[NUMBERS / 2];
    float numbers[NUMBERS];
    random_words(s, (uint64_t)value + 1, words); /* NumPy increments the counter before */
    for (int k = 0; k < NUMBERS; k++) {
      uint32_t bits = (uint32_t)(words[k / 2] >> 32 * (k % 2));
      numbers[k] = (float)(int32_t)(bits >> 8) * 0x1p-24f;
    }
    for (; at < NUMBERS && i < n; at++, i++) u[i] = numbers[at];
  }
}

#endif
