/* Instance normalization: each channel of each image gets mean 0 and variance 1. */

#include <math.h>

#include "loops.h"
#include "team.h"

#define CHANNELS 64    /* maximum channels of a block */
#define FULL 16        /* values of which the widest vectors are full */
#define SUMMED_ROWS 64 /* rows of a partial sum; partial sums keep long sums accurate */

/* A block of channels of an image, as rows of values. Rows of few channels are folded: several that
   follow one another become one of `width` values, so that vectors are full. */
typedef struct {
  int64_t at, stride;   /* of the first row in x, and from one to the next */
  int64_t first, stats; /* first channel, and its place in mean and inv */
  int64_t rows, rest;   /* rows of `width` values, and after them those of n channels */
  int n, width;
} channel_block;

static int64_t block_count(int64_t images, int64_t channels) {
  return images * ((channels + CHANNELS - 1) / CHANNELS);
}

/* Returns how many rows of few channels are one: together full vectors, if possible. */
static int64_t folded_rows(int64_t channels) {
  int64_t most = CHANNELS / channels;
  for (int64_t fold = most; fold > 0; fold--)
    if (fold * channels % FULL == 0) return fold;
  return most ? most : 1;
}

static channel_block block_at(int64_t number, int64_t rows, int64_t channels) {
  int64_t blocks = block_count(1, channels), image = number / blocks;
  int64_t first = number % blocks * CHANNELS, left = channels - first;
  int64_t fold = folded_rows(channels), n = left < CHANNELS ? left : CHANNELS;
  return (channel_block){.at = image * rows * channels + first,
                         .stride = fold * channels,
                         .first = first,
                         .stats = image * channels + first,
                         .rows = rows / fold,
                         .rest = rows % fold,
                         .n = (int)n,
                         .width = (int)(fold * n)};
}

/* Fills a row with the values of its channels. */
static void repeat_channels(float *row, const float *values, const channel_block *b) {
  for (int at = 0; at < b->width; at += b->n)
    for (int c = 0; c < b->n; c++) row[at + c] = values[c];
}

#define BODY "instance_norm_body.h"
#include "each_isa.h"
