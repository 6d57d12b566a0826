/* Calls that are shared among threads, from two threads at once, while a third sets how many may. */

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "team.h"

#define CALLS 2000
#define SIZE 4096

void set_threads(int n);

typedef struct {
  int64_t in[SIZE], out[SIZE];
} numbers;

static atomic_int done;

static void add_one(void *job, int part, int parts) {
  numbers *n = job;
  int64_t end = chunk_begin(SIZE, part + 1, parts);
  for (int64_t k = chunk_begin(SIZE, part, parts); k < end; k++) n->out[k] = n->in[k] + 1;
}

static void *call(void *unused) {
  numbers *n = calloc(1, sizeof *n);
  for (int64_t c = 1; c <= CALLS; c++) {
    parallel_for(add_one, n, parallel_parts(1000000));
    for (int k = 0; k < SIZE; k++) {
      assert(n->out[k] == c);
      n->in[k] = n->out[k];
    }
    if (c % 500 == 0) usleep(2000); /* the others fall asleep */
  }
  free(n);
  return unused;
}

static void *change(void *unused) {
  for (int k = 0; !atomic_load(&done); k++) {
    set_threads(1 + k % 4);
    usleep(100);
  }
  return unused;
}

int main(void) {
  pthread_t callers[2], changer;
  set_threads(4);
  pthread_create(&changer, 0, change, 0);
  for (int k = 0; k < 2; k++) pthread_create(&callers[k], 0, call, 0);
  for (int k = 0; k < 2; k++) pthread_join(callers[k], 0);
  atomic_store(&done, 1);
  pthread_join(changer, 0);
  return 0;
}
