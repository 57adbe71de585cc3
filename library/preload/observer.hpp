// The place for a recorder in libusher.so. This part of the library includes nothing of a recorder, and works without one: the
// linker puts the recorder's object in (watch/recorder/observer.cpp).
//
// A recorder leads the exported functions to functions of its own, which call `unrecorded()` and `unrecorded_rwlocks`. It
// calls connect() when it has begun or ended.
#pragma once

#include <cstdint>

#include "library/preload/rwlock_table.hpp"

namespace usher::preload {

/// The tables to which the exported functions lead; null: the selected ones.
struct observed_calls {
  const calls* mutexes = nullptr;  ///< also condition variables and semaphores
  const rwlock_calls* rwlocks = nullptr;
};

/// The functions are called by any thread, and by several at the same time. They do not lock.
struct observer {
  /// Begins the recordings that the environment asks for. Called once in a process, before connect() sets the pointers.
  void (*begin)();
  /// Whether another process asks for a recording that has not begun.
  bool (*is_requested)();
  /// Begins it.
  void (*begin_requested)();
  /// Who records: 0 if nobody. It changes whenever a recording begins or ends.
  std::uint64_t (*state)();
  /// Leads what the recorder has beside the exported functions, the calls of embedded locks and of its own libraries, to
  /// where this state wants them. Returns the tables for the exported functions.
  observed_calls (*connect)(std::uint64_t state);
};

}  // namespace usher::preload

/// The recorder's. Missing in a library that is linked without one.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const usher::preload::observer usher_observer;
