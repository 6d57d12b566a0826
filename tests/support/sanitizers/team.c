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

void run_calls(const bound_call *calls, int64_t count) { /* as in module.c */
  for (const bound_call *c = calls; c < calls + count; c++) c->call(c->kernel, c->slots);
}

static void count(any_kernel unused, const slot *counter) {
  (void)unused;
  ++*(int64_t *)counter->p;
}

static void *call(void *unused) {
  numbers *n = calloc(1, sizeof *n);
  int64_t counts[2] = {0};
  slot slots[2] = {{.p = &counts[0]}, {.p = &counts[1]}};
  bound_call calls[2] = {{.call = count, .slots = &slots[0]}, {.call = count, .slots = &slots[1]}};
  call_list lists[2] = {{&calls[0], 1}, {&calls[1], 1}};
  for (int64_t c = 1; c <= CALLS; c++) {
    parallel_for(add_one, n, parallel_parts(10000000)); /* also if cores are far apart */
    for (int k = 0; k < SIZE; k++) {
      assert(n->out[k] == c);
      n->in[k] = n->out[k];
    }
    run_side_by_side(lists, 2, 1);
    assert(counts[0] == c && counts[1] == c);
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

static int64_t meetings[3], given[2], sums[2];

static void add_given(any_kernel unused, const slot *sum) {
  (void)unused;
  *(int64_t *)sum->p += given[0] + given[1];
}

static void *meet(void *number) {
  int64_t k = (int64_t *)number - sums, total = 0;
  slot sum = {.p = &sums[k]};
  bound_call add = {.call = add_given, .slots = &sum};
  for (int64_t c = 1; c <= CALLS; c++) {
    given[k] = c;
    meet_others(meetings, 2, &add, 1);
    assert(sums[k] == (total += 2 * c));
    if (k && c % 500 == 0) usleep(2000); /* the other one falls asleep */
  }
  return 0;
}

int main(void) {
  pthread_t callers[2], changer;
  for (int k = 0; k < 2; k++) pthread_create(&callers[k], 0, meet, &sums[k]);
  for (int k = 0; k < 2; k++) pthread_join(callers[k], 0);
  set_threads(4);
  pthread_create(&changer, 0, change, 0);
  for (int k = 0; k < 2; k++) pthread_create(&callers[k], 0, call, 0);
  for (int k = 0; k < 2; k++) pthread_join(callers[k], 0);
  atomic_store(&done, 1);
  pthread_join(changer, 0);
  return 0;
}
