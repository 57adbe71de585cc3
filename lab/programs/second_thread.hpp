#pragma once

#include <pthread.h>

#include "options.hpp"

namespace workloads {

/// Starts and joins a thread. The C library uses no atomic operations in a process that has never had a second thread.
/// But a program in which the cost of locks matters has more than one thread.
inline void stop_being_alone() {
  pthread_t thread;
  const auto nothing = [](void*) -> void* { return nullptr; };
  if (pthread_create(&thread, nullptr, nothing, nullptr) != 0 || pthread_join(thread, nullptr) != 0)
    fail("cannot start a thread");
}

}  // namespace workloads
