/* Handles SIGBUS, which is raised when a mapped file was truncated and bytes beyond its new end are
   read. The handler maps zeros there and sets the flag of the file, which its reader checks. */

#ifndef _WIN32

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_FILES 1024 /* maximum number of watched files */
#define TAKEN 1        /* `begin` of an entry that is being filled */

typedef struct {
  atomic_int lost; /* the first field: its address is the entry's */
  _Atomic uintptr_t begin, end;
} watched;

static watched files[MAX_FILES];
static uintptr_t page;
static struct sigaction before;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void pass_on(int number, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    signal(number, SIG_DFL);
    raise(number); /* delivered when this handler returns */
  }
}

static void fill_hole(int number, siginfo_t *info, void *context) {
  uintptr_t at = (uintptr_t)info->si_addr, first = at & ~(page - 1), last = 0;
  int error = errno;
  for (watched *f = files; f < files + MAX_FILES; f++) {
    uintptr_t end = atomic_load(&f->end);
    if (at < atomic_load(&f->begin) || at >= end) continue;
    atomic_store(&f->lost, 1);
    if (last < end) last = end;
  }
  /* The pages after it are beyond the end of the file, too. */
  if (!last || mmap((void *)first, last - first, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                    -1, 0) == MAP_FAILED)
    pass_on(number, info, context);
  errno = error;
}

static void install(void) {
  struct sigaction ours = {.sa_sigaction = fill_hole, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&ours.sa_mask);
  page = (uintptr_t)sysconf(_SC_PAGESIZE);
  sigaction(SIGBUS, &ours, &before);
}

/* Watches the pages of a mapped file; returns its flag, or null if there are too many files. */
atomic_int *watch_mapped(void *begin, int64_t bytes) {
  pthread_once(&once, install);
  for (watched *f = files; f < files + MAX_FILES; f++) {
    uintptr_t free_entry = 0;
    if (!atomic_compare_exchange_strong(&f->begin, &free_entry, TAKEN)) continue;
    atomic_store(&f->lost, 0);
    atomic_store(&f->begin, (uintptr_t)begin);
    atomic_store(&f->end, ((uintptr_t)begin + (uintptr_t)bytes + page - 1) & ~(page - 1));
    return &f->lost;
  }
  return 0;
}

/* Ends the watch; call it before the pages are unmapped. */
void forget_mapped(atomic_int *mark) {
  watched *f = (watched *)mark;
  atomic_store(&f->end, 0);
  atomic_store(&f->begin, 0);
}

#endif
