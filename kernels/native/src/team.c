/* Thread pool. Idle threads poll for about half a millisecond, because the next call of a step
   usually follows immediately, and then sleep. A thread without a core of its own makes the others
   wait, and polling takes the core from other processes: then calls are not divided for a while. */

#include "team.h"

#include "float_mode.h"

int flush_subnormals(void) {
  uint32_t before = get_float_mode();
  set_float_mode(before | FLUSH);
  return (int)before;
}

void restore_float_mode(int mode) { set_float_mode((uint32_t)mode); }

#define SPINS 40000        /* polls before a thread sleeps: about half a millisecond */
#define WAITING_SPINS 8000 /* the same for the end of a call, or in a meeting */

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

#else

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define PART_WORK 10000       /* of a part, at least: a third of a microsecond */
#define EXCHANGE 250          /* the same for a nanosecond of an exchange: eight times as long */
#define FAR 400               /* nanoseconds of an exchange between sockets or chiplets, at least */
#define FAR_PART_WORK 1000000 /* 33 us, since such cores read each other's results slowly */
#define MEASURED 1024         /* calls after which it is measured again, as threads move */
#define LINE 128              /* bytes of two cache lines, which are fetched together */
#define MIN_WAKE_WORK 600000  /* about twenty microseconds: waking a thread takes fifteen */
#define MILLISECOND INT64_C(1000000)
#define WATCHED (2 * MILLISECOND)    /* after which a polling thread compares its clocks */
#define OWN_CORE 0.8                 /* of the time that a thread runs on a core of its own */
#define MIN_PAUSE (10 * MILLISECOND) /* in which calls are not divided; doubled each time */
#define MAX_PAUSE (800 * MILLISECOND)

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* one call at a time runs in parts */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static atomic_int caller_sleeps; /* until no part is unfinished */
static atomic_int waiting;       /* for a meeting, asleep */
static atomic_int threads = 1;   /* for a call; may change during calls of other trainers */
static int started = 1;          /* threads, including the caller's */
static atomic_int asleep;        /* sleeping threads */
static _Atomic int64_t missed;   /* work of calls that might have been divided meanwhile */
static _Atomic int64_t min_part_work = PART_WORK; /* as measured */
static atomic_uint dividable;     /* calls that were long enough for neighboring cores */
static uint64_t shared_parts;     /* parts that were left to any thread, of all calls */
static _Atomic int64_t pause_end; /* time until which calls are not divided, or 0 */
static _Atomic int64_t next_pause = MIN_PAUSE;
static _Thread_local int in_part; /* whether the thread runs a part, which is not divided again */

/* Cores exchange a cache line in 50 to 700 ns, so that a call needs few exchanges: the caller
   writes one line, which the others poll, and they write the other, which the caller polls. */
static struct {
  _Alignas(LINE) _Atomic uint64_t remaining; /* parts not taken; upper half: number of the call */
  _Atomic(part_function) function;
  _Atomic(void *) argument;
  atomic_int parts;
  _Atomic uint32_t mode;                 /* the caller's; every thread computes alike */
  _Alignas(LINE) _Atomic uint64_t ended; /* parts that have ended, of all calls */
} job;

static void run_part(part_function f, void *argument, int part, int parts) {
  int before = in_part;
  in_part = 1;
  f(argument, part, parts);
  in_part = before;
}

/* Takes a part and runs it; returns 0 if no part remains. Threads and the caller take parts when
   they are free, so that a thread without a core delays nothing. */
static int take_part(void) {
  uint64_t current = atomic_load_explicit(&job.remaining, memory_order_acquire);
  while ((uint32_t)current) {
    part_function f = atomic_load_explicit(&job.function, memory_order_relaxed);
    void *argument = atomic_load_explicit(&job.argument, memory_order_relaxed);
    int parts = atomic_load_explicit(&job.parts, memory_order_relaxed);
    uint32_t mode = atomic_load_explicit(&job.mode, memory_order_relaxed);
    if (!atomic_compare_exchange_weak(&job.remaining, &current, current - 1)) continue;
    /* all of these belong to this call: its number did not change */
    set_float_mode(mode);
    run_part(f, argument, (int)(uint32_t)current - 1, parts);
    atomic_fetch_add(&job.ended, 1);
    if (atomic_load(&caller_sleeps)) {
      pthread_mutex_lock(&lock);
      pthread_cond_signal(&ended);
      pthread_mutex_unlock(&lock);
    }
    return 1;
  }
  return 0;
}

static int64_t nanoseconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000 * MILLISECOND + t.tv_nsec;
}

/* The clocks of a thread that polls or computes, when they were compared. */
typedef struct {
  int64_t wall, running;
} thread_clocks;

static void read_clocks(thread_clocks *c) {
  c->wall = nanoseconds(CLOCK_MONOTONIC);
  c->running = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

/* Begins a pause if the thread has waited for a core meanwhile. Pauses are short at first, because
   another process may need the core for a moment. */
static void watch_core(thread_clocks *clocks) {
  thread_clocks before = *clocks;
  if (nanoseconds(CLOCK_MONOTONIC) - before.wall < WATCHED) return;
  read_clocks(clocks);
  int64_t pause = atomic_load(&next_pause), wall = clocks->wall - before.wall;
  if (clocks->running - before.running >= OWN_CORE * wall) {
    if (pause > MIN_PAUSE) atomic_store(&next_pause, pause - pause / 16);
  } else {
    atomic_store(&pause_end, clocks->wall + pause);
    atomic_store(&next_pause, pause < MAX_PAUSE ? 2 * pause : pause);
  }
}

static int is_paused(void) {
  int64_t end = atomic_load_explicit(&pause_end, memory_order_relaxed);
  if (!end || nanoseconds(CLOCK_MONOTONIC) < end) return end != 0;
  atomic_compare_exchange_strong(&pause_end, &end, 0);
  return 0;
}

static void *wait_for_calls(void *unused) {
  thread_clocks clocks;
  for (;;) {
    read_clocks(&clocks);
    for (int k = 0; k < (atomic_load(&pause_end) ? 1 : SPINS); k++) {
      if (take_part()) k = 0;
      if (k % 64 == 0) watch_core(&clocks);
      cpu_pause();
    }
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&asleep, 1);
    while (!(uint32_t)atomic_load(&job.remaining)) pthread_cond_wait(&called, &lock);
    atomic_fetch_sub(&asleep, 1);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

/* A forked process has none of its parent's threads. */
static void reset_after_fork(void) {
  started = 1;
  atomic_store(&asleep, 0), atomic_store(&waiting, 0);
  atomic_store(&job.remaining, 0), atomic_store(&job.ended, shared_parts);
  pthread_mutex_init(&busy, 0);
  pthread_mutex_init(&lock, 0);
  pthread_cond_init(&called, 0);
  pthread_cond_init(&met, 0);
  pthread_cond_init(&ended, 0);
  atomic_store(&caller_sleeps, 0);
  atomic_store(&pause_end, 0);
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

/* Waits for the parts that other threads have taken. A caller that polled on would take the core
   from them, or from another process that has displaced them. */
static void wait_for_end(void) {
  for (int k = 0; k < WAITING_SPINS && atomic_load(&job.ended) != shared_parts; k++) cpu_pause();
  if (atomic_load(&job.ended) == shared_parts) return;
  pthread_mutex_lock(&lock);
  atomic_store(&caller_sleeps, 1);
  while (atomic_load(&job.ended) != shared_parts) pthread_cond_wait(&ended, &lock);
  atomic_store(&caller_sleeps, 0);
  pthread_mutex_unlock(&lock);
}

#define SET(field, value) atomic_store_explicit(&job.field, value, memory_order_relaxed)

/* Leaves all parts but the last one to any thread. */
static void give(part_function f, void *argument, int parts) {
  if (started < parts) start(parts);
  static uint64_t calls;
  shared_parts += (uint64_t)parts - 1;
  SET(function, f), SET(argument, argument), SET(parts, parts), SET(mode, get_float_mode());
  atomic_store(&job.remaining, ++calls << 32 | (uint64_t)(parts - 1));
  if (!atomic_load(&asleep)) return;
  atomic_store(&missed, 0);
  pthread_mutex_lock(&lock);
  pthread_cond_broadcast(&called);
  pthread_mutex_unlock(&lock);
}

static void do_nothing(void *argument, int part, int parts) {
  (void)argument, (void)part, (void)parts;
}

/* Neighboring cores exchange a cache line in 100 ns, those of a mesh in 330, those of two sockets
   or chiplets in 500 and more. The latter read each other's results at a fraction of the rate:
   sharing calls in shorter parts took 1.2 to 1.4 of the time then. */
static void measure_exchange(void) {
  if (pthread_mutex_trylock(&busy)) return;
  start(2);
  int64_t least = INT64_MAX;
  for (int k = 0; k < 8 && started > 1; k++) {
    int64_t begin = nanoseconds(CLOCK_MONOTONIC);
    give(do_nothing, 0, 2);
    wait_for_end();
    int64_t duration = nanoseconds(CLOCK_MONOTONIC) - begin;
    if (duration < least) least = duration;
  }
  least = least < FAR ? least * EXCHANGE : FAR_PART_WORK;
  atomic_store(&min_part_work, least < PART_WORK ? PART_WORK : least);
  pthread_mutex_unlock(&busy);
}

int parallel_parts(int64_t work) {
  int64_t all = atomic_load(&threads);
  if (work < 2 * PART_WORK || all < 2 || in_part || is_paused()) return 1;
  if (atomic_load(&asleep) && atomic_fetch_add(&missed, work) + work < MIN_WAKE_WORK) return 1;
  if (!(atomic_fetch_add(&dividable, 1) % MEASURED)) measure_exchange();
  int64_t max_parts = work / atomic_load(&min_part_work);
  return max_parts < 2 ? 1 : (int)(max_parts < all ? max_parts : all);
}

void parallel_for(part_function f, void *argument, int parts) {
  if (parts < 2 || pthread_mutex_trylock(&busy)) {
    for (int k = 0; k < parts; k++) f(argument, k, parts);
    return;
  }
  give(f, argument, parts);
  run_part(f, argument, parts - 1, parts);
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

typedef struct {
  const call_list *lists;
  int64_t each;
} side_job;

static void run_lists(void *job, int part, int parts) {
  const side_job *side = job;
  (void)parts;
  for (int64_t k = 0; k < side->each; k++) {
    const call_list *list = side->lists + part * side->each + k;
    run_calls(list->calls, list->count);
  }
}

void run_side_by_side(const call_list *lists, int64_t count, int64_t each) {
  side_job job = {lists, each};
  parallel_for(run_lists, &job, (int)count);
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
