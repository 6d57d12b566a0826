/* Threads that wait for a share of a call. They watch for work for some microseconds, since the
   next call of a step follows at once, and then sleep. */

#include "team.h"

#define LEAST 60000 /* work in a part: about two microseconds */

static int threads = 1; /* for a call */

#ifdef _WIN32

__declspec(dllexport) void set_threads(int n) { (void)n; }
int parts_of(int64_t work) { return (void)work, 1; }
void share(share_function f, void *job, int parts) {
  for (int k = 0; k < parts; k++) f(job, k, parts);
}

#else

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define WATCH 4000 /* looks before a thread sleeps */

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* one call at a time is shared */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static int started = 1; /* threads there are, with the one that calls */
static atomic_uint calls, left, asleep;
static share_function function;
static void *argument;
static int shares;

static inline void pause_a_little(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void *wait_for_calls(void *number) {
  int part = (int)(intptr_t)number;
  unsigned seen = 0;
  for (;;) {
    for (int k = 0; k < WATCH && atomic_load(&calls) == seen; k++) pause_a_little();
    if (atomic_load(&calls) == seen) {
      pthread_mutex_lock(&lock);
      atomic_fetch_add(&asleep, 1);
      while (atomic_load(&calls) == seen) pthread_cond_wait(&called, &lock);
      atomic_fetch_sub(&asleep, 1);
      pthread_mutex_unlock(&lock);
    }
    seen = atomic_load(&calls);
    if (part < shares) {
      function(argument, part, shares);
      atomic_fetch_sub(&left, 1);
    }
  }
  return 0;
}

/* A child process has none of its parent's threads. */
static void forget(void) {
  started = 1;
  atomic_store(&asleep, 0);
  pthread_mutex_init(&busy, 0);
  pthread_mutex_init(&lock, 0);
  pthread_cond_init(&called, 0);
}

static void start(int parts) {
  static int asked;
  if (!asked++) pthread_atfork(0, 0, forget);
  if (started == 1) atomic_store(&calls, 0);
  while (started < parts) {
    pthread_t thread;
    if (pthread_create(&thread, 0, wait_for_calls, (void *)(intptr_t)started)) return;
    pthread_detach(thread);
    started++;
  }
}

void set_threads(int n) { threads = n < 1 ? 1 : n > TEAM ? TEAM : n; }

int parts_of(int64_t work) {
  int64_t most = work / LEAST;
  return most < 2 || threads < 2 ? 1 : most < threads ? (int)most : threads;
}

void share(share_function f, void *job, int parts) {
  if (parts < 2 || pthread_mutex_trylock(&busy)) {
    for (int k = 0; k < parts; k++) f(job, k, parts);
    return;
  }
  if (started < parts) start(parts);
  int there = started < parts ? started : parts;
  if (there < 2) {
    pthread_mutex_unlock(&busy);
    for (int k = 0; k < parts; k++) f(job, k, parts);
    return;
  }
  function = f, argument = job, shares = there;
  atomic_store(&left, there - 1);
  pthread_mutex_lock(&lock);
  atomic_fetch_add(&calls, 1);
  if (atomic_load(&asleep)) pthread_cond_broadcast(&called);
  pthread_mutex_unlock(&lock);
  f(job, 0, there);
  for (int k = 0; atomic_load(&left); k++) k < WATCH ? pause_a_little() : (void)sched_yield();
  pthread_mutex_unlock(&busy);
}

#endif
