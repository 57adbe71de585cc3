// One of the three functions that wait for a condition, with its arguments.
#pragma once

#include <pthread.h>
#include <time.h>

namespace usher::preload {

struct cond_call {
  enum class how { wait, timed, clock } which;
  pthread_cond_t* condition;
  pthread_mutex_t* mutex;
  clockid_t clock;
  const timespec* until;
};

/// Performs the call, without recording it.
int wait_unrecorded(const cond_call& call);

}  // namespace usher::preload
