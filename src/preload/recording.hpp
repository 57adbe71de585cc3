// The exported functions as they are while `usher stat` records: what they do, and what is booked of it.
//
// Each tries first, which costs a few instructions more than not to record, and shows whether it had to wait; only then does it
// take the time, publish that it waits, take its chain of calls, and wait. What the C library does inside its own calls is not
// seen: how it waits, and that it locks the mutex again within pthread_cond_wait.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <cstdint>

#include "preload/cond_call.hpp"
#include "preload/recorder.hpp"

namespace usher::preload {

int recorded_lock(pthread_mutex_t* m);
int recorded_trylock(pthread_mutex_t* m);
int recorded_unlock(pthread_mutex_t* m);
int recorded_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until, std::uint64_t caller);
/// After it was initialised. Condition variables and semaphores: begin_initialised().
void record_init(pthread_mutex_t* m);

int recorded_cond_wait(cond_call& call, std::uint64_t caller);
int recorded_cond_signal(pthread_cond_t* c, bool all, int (*plain)(pthread_cond_t*), std::uint64_t caller);

/// One of the three functions that wait for a credit, with its arguments; and what they do without a record.
struct sem_call {
  enum class how { wait, timed, clock } which;
  sem_t* semaphore;
  clockid_t clock;
  const timespec* until;
  int (*try_unrecorded)(sem_t*);
  int (*wait_unrecorded)(const sem_call&);
};
int recorded_sem_wait(const sem_call& call, std::uint64_t caller);
int recorded_sem_trywait(sem_t* s, int (*plain)(sem_t*), std::uint64_t caller);
int recorded_sem_post(sem_t* s, int (*plain)(sem_t*), std::uint64_t caller);

/// The return address of the exported function in which this stands, or of one that jumped there.
#define USHER_CALLER reinterpret_cast<std::uint64_t>(__builtin_return_address(0))

}  // namespace usher::preload
