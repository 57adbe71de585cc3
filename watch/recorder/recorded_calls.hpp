// The functions (recorded_calls, recorded_rwlocks) to which the exported functions jump while `usher stat` records.
// recorder.hpp describes the course of a recording.
//
// Each function calls that of the selected lock or of the C library. A function that may wait first tries without
// waiting, which costs a few instructions more than an unrecorded call. Only if that fails does it read the clock,
// publish that the thread waits, take its call chain, and wait. Two operations inside the C library's functions are
// not visible: how a thread waits, and the lock of the mutex within pthread_cond_wait.
#pragma once

#include "library/preload/calls.hpp"
#include "library/preload/rwlock_table.hpp"
#include "watch/recorder/recorder.hpp"

namespace usher::preload {

extern const calls recorded_calls;
extern const rwlock_calls recorded_rwlocks;

int recorded_lock(pthread_mutex_t*);
int recorded_trylock(pthread_mutex_t*);
int recorded_unlock(pthread_mutex_t*);
int recorded_timedlock(pthread_mutex_t*, const timespec*);
int recorded_clocklock(pthread_mutex_t*, clockid_t, const timespec*);
int recorded_mutex_init(pthread_mutex_t*, const pthread_mutexattr_t*);
int recorded_mutex_destroy(pthread_mutex_t*);

int recorded_cond_init(pthread_cond_t*, const pthread_condattr_t*);
int recorded_cond_destroy(pthread_cond_t*);
int recorded_cond_wait(pthread_cond_t*, pthread_mutex_t*);
int recorded_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*);
int recorded_cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
int recorded_cond_signal(pthread_cond_t*);
int recorded_cond_broadcast(pthread_cond_t*);

int recorded_sem_init(sem_t*, int, unsigned);
int recorded_sem_destroy(sem_t*);
int recorded_sem_wait(sem_t*);
int recorded_sem_trywait(sem_t*);
int recorded_sem_timedwait(sem_t*, const timespec*);
int recorded_sem_clockwait(sem_t*, clockid_t, const timespec*);
int recorded_sem_post(sem_t*);

/// The return address of the exported function. That function has jumped, so this is also the return address of the
/// function that contains the macro.
#define USHER_CALLER reinterpret_cast<std::uint64_t>(__builtin_return_address(0))

}  // namespace usher::preload
