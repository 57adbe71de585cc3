// For the programs that measure what uncontended calls cost.
#pragma once

#include <pthread.h>

#include "options.hpp"

namespace workloads {

/// The C library leaves out atomics in a process that never had a second thread, and a program that cares for its locks is
/// not one of those: so a thread comes and goes.
inline void stop_being_alone() {
  pthread_t thread;
  const auto nothing = [](void*) -> void* { return nullptr; };
  if (pthread_create(&thread, nullptr, nothing, nullptr) != 0 || pthread_join(thread, nullptr) != 0)
    fail("cannot start a thread");
}

}  // namespace workloads
