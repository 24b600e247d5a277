// A fork waits until no thread holds a lock of AWS-LC.
//
// AWS-LC is not safe to fork: a lock that another thread holds stays locked in the child. The child
// would wait for it for ever, in its first random number or in AWS-LC's destructor at `exit`. Its
// locks are not reachable from outside. But all of them are `pthread_rwlock_t`, no other code of the
// shared object has such locks, and AWS-LC holds them only for moments. So the linker passes the
// calls of these functions to this file (`link.rs`), which counts the threads that hold a lock.
//
// Only the shared objects contain this file. It has no part of their state, and so registers its own
// fork handlers.

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

// Threads have counters of their own, so that they share no cache line. If there are more threads,
// some share a counter.
enum { COUNTERS = 64 };
static struct {
    _Alignas(64) atomic_int threads;
} inside[COUNTERS];
static atomic_uint started;
static _Thread_local atomic_int *own;
// The number of locks that this thread holds or waits for.
static _Thread_local unsigned depth;
// The number of threads that are forking.
static atomic_int forking;

// A fork waits for a second at most. Longer waits have other causes: threads of a process that is in
// `exit` wait for locks that AWS-LC's destructor never releases.
enum { NAPS = 10000 };

static void nap(void) {
    struct timespec time = {.tv_nsec = 100000};
    nanosleep(&time, NULL);
}

static void enter(void) {
    // A thread that holds a lock already must not wait, because the fork waits for it.
    if (depth++ > 0) return;
    if (own == NULL) own = &inside[atomic_fetch_add(&started, 1) % COUNTERS].threads;
    // Sequentially consistent, as in `hold`: either this thread sees the fork, or the fork sees it.
    while (atomic_fetch_add(own, 1), atomic_load(&forking) > 0) {
        atomic_fetch_sub(own, 1);
        nap();
    }
}

static void leave(void) {
    if (--depth == 0) atomic_fetch_sub(own, 1);
}

static int threads_inside(void) {
    int sum = 0;
    for (int i = 0; i < COUNTERS; i++) sum += atomic_load(&inside[i].threads);
    return sum;
}

static void hold(void) {
    atomic_fetch_add(&forking, 1);
    // A signal handler may fork inside a function of AWS-LC.
    for (int naps = 0; threads_inside() > (depth > 0) && naps < NAPS; naps++) nap();
}

static void release(void) {
    atomic_fetch_sub(&forking, 1);
}

// In the child no other thread exists.
static void forget_threads(void) {
    for (int i = 0; i < COUNTERS; i++) atomic_store(&inside[i].threads, 0);
    if (depth > 0) atomic_store(own, 1);
    atomic_store(&forking, 0);
}

// The linker passes calls of NAME to `__wrap_NAME`, and calls of `__real_NAME` to NAME.
#define LOCK(NAME)                                \
    int __real_##NAME(pthread_rwlock_t *);        \
    int __wrap_##NAME(pthread_rwlock_t *lock) {   \
        enter();                                  \
        int failed = __real_##NAME(lock);         \
        if (failed) leave();                      \
        return failed;                            \
    }
LOCK(pthread_rwlock_rdlock)
LOCK(pthread_rwlock_wrlock)
LOCK(pthread_rwlock_tryrdlock)

int __real_pthread_rwlock_unlock(pthread_rwlock_t *);
int __wrap_pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    int failed = __real_pthread_rwlock_unlock(lock);
    leave();
    return failed;
}

// The shared object is never unmapped (`-z nodelete`), so that the handlers stay valid.
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(hold, release, forget_threads);
}
