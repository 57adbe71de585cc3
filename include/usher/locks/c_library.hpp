// The C library's own mutex as a catalogue entry, for comparison in measurements. It runs on the native platform only.
// If it is selected, libusher.so passes each call through to the C library.
#pragma once

#include <pthread.h>

#include "usher/core/waiting.hpp"

namespace usher::inline v2 {

template <platform P, class W>
class c_library {
 public:
  static constexpr lock_traits traits{
      .summary = "the C library's mutex, for measurements",
      .paper = "none",
      .words = sizeof(pthread_mutex_t) / 4,
      .kinds = static_cast<unsigned>(waiting_kind::spin_then_park),
      .native_only = true,
  };

  void lock() { pthread_mutex_lock(&mutex_); }
  bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 protected:
  pthread_mutex_t mutex_;
};

/// glibc's PTHREAD_MUTEX_ADAPTIVE_NP, which spins for a while before it sleeps. Zeroed memory is a mutex of the default
/// kind, so lock() and try_lock() set the kind at each call.
template <platform P, class W>
class c_library_adaptive : c_library<P, W> {
  using base = c_library<P, W>;

 public:
  static constexpr lock_traits traits{
      .summary = "the C library's adaptive mutex, for measurements",
      .paper = "none",
      .words = sizeof(pthread_mutex_t) / 4,
      .kinds = static_cast<unsigned>(waiting_kind::spin_then_park),
      .native_only = true,
  };

  void lock() {
    adapt();
    base::lock();
  }
  bool try_lock() {
    adapt();
    return base::try_lock();
  }
  using base::unlock;

 private:
  void adapt() {
#if defined(__GLIBC__)
    __atomic_store_n(&this->mutex_.__data.__kind, PTHREAD_MUTEX_ADAPTIVE_NP, __ATOMIC_RELAXED);
#endif
  }
};

}  // namespace usher::inline v2
