// The exported functions while `usher stat` records. recorder.hpp has the course of a recording.
//
// Each function tries first, which costs a few instructions more than an unrecorded call. Only if that fails does it
// read the clock, publish that the thread waits, take its call chain, and wait. What the C library does inside its own
// calls is not seen: how it waits, and that it locks the mutex again within pthread_cond_wait.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <cstdint>

#include "preload/cond_call.hpp"
#include "record/recorder.hpp"

namespace usher::preload {

int recorded_lock(pthread_mutex_t* m);
int recorded_trylock(pthread_mutex_t* m);
int recorded_unlock(pthread_mutex_t* m);
int recorded_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until, std::uint64_t caller);
/// After the mutex is initialised. For condition variables and semaphores: begin_initialised().
void record_init(pthread_mutex_t* m);

int recorded_cond_wait(cond_call& call, std::uint64_t caller);
int recorded_cond_signal(pthread_cond_t* c, bool all, int (*plain)(pthread_cond_t*), std::uint64_t caller);

/// One of the three functions that wait for a credit, with its arguments; and the functions that wait and try
/// unrecorded.
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

/// The return address of the exported function that contains this, or that has jumped to the function that does.
#define USHER_CALLER reinterpret_cast<std::uint64_t>(__builtin_return_address(0))

}  // namespace usher::preload
