#pragma once

#include <pthread.h>

#include <cstring>
#include <string>

#include "options.hpp"

namespace workloads {

/// Initialises the mutex as the kind that the command line names. For "normal" it keeps the value
/// PTHREAD_MUTEX_INITIALIZER, which the caller has set.
inline void initialise(pthread_mutex_t& mutex, const std::string& kind) {
  if (kind == "normal") return;
  int type = PTHREAD_MUTEX_NORMAL;
  if (kind == "recursive")
    type = PTHREAD_MUTEX_RECURSIVE;
  else if (kind == "errorcheck")
    type = PTHREAD_MUTEX_ERRORCHECK;
  else if (kind == "adaptive")
    type = PTHREAD_MUTEX_ADAPTIVE_NP;
  else
    fail("unknown kind '" + kind + "': normal, recursive, errorcheck or adaptive", 2);
  pthread_mutexattr_t attributes;
  int error = pthread_mutexattr_init(&attributes);
  if (error == 0) error = pthread_mutexattr_settype(&attributes, type);
  if (error == 0) error = pthread_mutex_init(&mutex, &attributes);
  if (error == 0) error = pthread_mutexattr_destroy(&attributes);
  if (error != 0) fail("cannot make a mutex of kind " + kind + ": " + std::strerror(error));
}

}  // namespace workloads
