/* Thread pool. Idle threads poll for about half a millisecond, because the next call of a step
   usually follows immediately, and then sleep. */

#include "team.h"

#include "float_mode.h"

int flush_subnormals(void) {
  uint32_t before = get_float_mode();
  set_float_mode(before | FLUSH);
  return (int)before;
}

void restore_float_mode(int mode) { set_float_mode((uint32_t)mode); }

#define MIN_PART_WORK 100000 /* about three microseconds */
#define SPINS 40000          /* polls before a thread sleeps: about half a millisecond */
#define WAITING_SPINS 8000   /* the same for the end of a call, or in a meeting */

static inline void cpu_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#ifdef _WIN32

__declspec(dllimport) int __stdcall SwitchToThread(void);

static int has_met(const int64_t *state, int64_t meetings) {
  while (__atomic_load_n(&state[1], __ATOMIC_SEQ_CST) == meetings) {
    if (__atomic_load_n(&state[2], __ATOMIC_SEQ_CST)) return 0;
    SwitchToThread();
  }
  return 1;
}
static void wake(void) {}

void set_threads(int n) { (void)n; }
int parallel_parts(int64_t work) { return (void)work, 1; }
void parallel_for(part_function f, void *job, int parts) {
  for (int k = 0; k < parts; k++) f(job, k, parts);
}

#else

#include <pthread.h>
#include <stdatomic.h>

#define MIN_WAKE_WORK 600000 /* about twenty microseconds: waking a thread takes fifteen */

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* one call at a time runs in parts */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static atomic_int caller_sleeps;   /* until no part is unfinished */
static atomic_int waiting;         /* for a meeting, asleep */
static atomic_int threads = 1;     /* for a call; may change during calls of other trainers */
static int started = 1;            /* threads, including the caller's */
static atomic_int asleep;          /* sleeping threads */
static _Atomic int64_t missed;     /* work of calls that might have been divided meanwhile */
static atomic_int unfinished;      /* parts that have not ended */
static _Atomic uint64_t remaining; /* parts that no thread has taken; upper half: number of call */
static _Atomic(part_function) function;
static _Atomic(void *) argument;
static atomic_int job_parts;
static _Atomic uint32_t job_mode; /* the caller's; every thread computes alike */

/* Takes a part and runs it; returns 0 if no part remains. Threads and the caller take parts when
   they are free, so that a thread without a core delays nothing. */
static int take_part(void) {
  uint64_t current = atomic_load(&remaining);
  while ((uint32_t)current) {
    part_function f = atomic_load(&function);
    void *job = atomic_load(&argument);
    int parts = atomic_load(&job_parts);
    uint32_t mode = atomic_load(&job_mode);
    if (!atomic_compare_exchange_weak(&remaining, &current, current - 1)) continue;
    /* f, job and mode belong to this call: its number did not change */
    set_float_mode(mode);
    f(job, (int)(uint32_t)current - 1, parts);
    if (atomic_fetch_sub(&unfinished, 1) == 1 && atomic_load(&caller_sleeps)) {
      pthread_mutex_lock(&lock);
      pthread_cond_signal(&ended);
      pthread_mutex_unlock(&lock);
    }
    return 1;
  }
  return 0;
}

static void *wait_for_calls(void *unused) {
  for (;;) {
    for (int k = 0; k < SPINS; k++) {
      if (take_part()) k = 0;
      cpu_pause();
    }
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&asleep, 1);
    while (!(uint32_t)atomic_load(&remaining)) pthread_cond_wait(&called, &lock);
    atomic_fetch_sub(&asleep, 1);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

/* A forked process has none of its parent's threads. */
static void reset_after_fork(void) {
  started = 1;
  atomic_store(&asleep, 0), atomic_store(&remaining, 0), atomic_store(&waiting, 0);
  pthread_mutex_init(&busy, 0);
  pthread_mutex_init(&lock, 0);
  pthread_cond_init(&called, 0);
  pthread_cond_init(&met, 0);
  pthread_cond_init(&ended, 0);
  atomic_store(&caller_sleeps, 0);
}

static void start(int parts) {
  static int is_registered;
  if (!is_registered++) pthread_atfork(0, 0, reset_after_fork);
  while (started < parts) {
    pthread_t thread;
    if (pthread_create(&thread, 0, wait_for_calls, 0)) return;
    pthread_detach(thread);
    started++;
  }
}

void set_threads(int n) { atomic_store(&threads, n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n); }

int parallel_parts(int64_t work) {
  int64_t max_parts = work / MIN_PART_WORK, all = atomic_load(&threads);
  if (max_parts < 2 || all < 2) return 1;
  if (atomic_load(&asleep) && atomic_fetch_add(&missed, work) + work < MIN_WAKE_WORK) return 1;
  return (int)(max_parts < all ? max_parts : all);
}

/* Waits for the parts that other threads have taken. A caller that polled on would take the core
   from them, or from another process that has displaced them. */
static void wait_for_end(void) {
  for (int k = 0; k < WAITING_SPINS && atomic_load(&unfinished); k++) cpu_pause();
  if (!atomic_load(&unfinished)) return;
  pthread_mutex_lock(&lock);
  atomic_store(&caller_sleeps, 1);
  while (atomic_load(&unfinished)) pthread_cond_wait(&ended, &lock);
  atomic_store(&caller_sleeps, 0);
  pthread_mutex_unlock(&lock);
}

void parallel_for(part_function f, void *job, int parts) {
  if (parts < 2 || pthread_mutex_trylock(&busy)) {
    for (int k = 0; k < parts; k++) f(job, k, parts);
    return;
  }
  if (started < parts) start(parts);
  static uint64_t calls;
  atomic_store(&function, f), atomic_store(&argument, job), atomic_store(&job_parts, parts);
  atomic_store(&job_mode, get_float_mode()), atomic_store(&unfinished, parts);
  atomic_store(&remaining, ++calls << 32 | (uint64_t)parts);
  if (atomic_load(&asleep)) {
    atomic_store(&missed, 0);
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&called);
    pthread_mutex_unlock(&lock);
  }
  while (take_part()) continue;
  wait_for_end();
  pthread_mutex_unlock(&busy);
}

static int is_over(const int64_t *state, int64_t meetings) {
  return __atomic_load_n(&state[1], __ATOMIC_SEQ_CST) != meetings ||
         __atomic_load_n(&state[2], __ATOMIC_SEQ_CST);
}

/* Waits for the end of a meeting; returns 0 if a thread will not come. A thread that polled on
   would keep the core from one that another process has displaced. */
static int has_met(const int64_t *state, int64_t meetings) {
  for (int k = 0; k < WAITING_SPINS && !is_over(state, meetings); k++) cpu_pause();
  if (!is_over(state, meetings)) {
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&waiting, 1);
    while (!is_over(state, meetings)) pthread_cond_wait(&met, &lock);
    atomic_fetch_sub(&waiting, 1);
    pthread_mutex_unlock(&lock);
  }
  return __atomic_load_n(&state[1], __ATOMIC_SEQ_CST) != meetings;
}

static void wake(void) {
  if (!atomic_load(&waiting)) return;
  pthread_mutex_lock(&lock);
  pthread_cond_broadcast(&met);
  pthread_mutex_unlock(&lock);
}

#endif

static void run_list(void *lists, int part, int parts) {
  const call_list *list = (const call_list *)lists + part;
  (void)parts;
  run_calls(list->calls, list->count);
}

void run_side_by_side(const call_list *lists, int64_t count) {
  parallel_for(run_list, (void *)lists, (int)count);
}

/* Waits until all have come; returns 0 if one has left, so that those who have come stay apart. */
static int wait_for_others(int64_t *state, int64_t all) {
  if (__atomic_load_n(&state[2], __ATOMIC_SEQ_CST)) return 0;
  int64_t meetings = __atomic_load_n(&state[1], __ATOMIC_SEQ_CST);
  if (__atomic_add_fetch(&state[0], 1, __ATOMIC_SEQ_CST) < all) return has_met(state, meetings);
  __atomic_store_n(&state[0], 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&state[1], meetings + 1, __ATOMIC_SEQ_CST);
  wake();
  return 1;
}

void meet_others(int64_t *state, int64_t all, const bound_call *calls, int64_t count) {
  if (!wait_for_others(state, all)) return;
  run_calls(calls, count);
  wait_for_others(state, all);
}

void leave_others(int64_t *state) {
  __atomic_store_n(&state[2], 1, __ATOMIC_SEQ_CST);
  wake();
}
