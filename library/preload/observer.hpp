// The interface of a recorder, for `usher stat`, that may be linked into libusher.so (watch/recorder/observer.cpp).
// This part of the library includes no recorder's header, and works without a recorder.
//
// While a recorder records, the exported functions jump to the recorder's functions, which call those of `unrecorded()`
// and `unrecorded_rwlocks`. The recorder calls connect() after it has begun or ended a recording.
#pragma once

#include <cstdint>

#include "library/preload/rwlock_table.hpp"

namespace usher::preload {

/// The tables of functions to which the exported functions jump; null: those of the selected lock.
struct observed_calls {
  const calls* mutexes = nullptr;  ///< also condition variables and semaphores
  const rwlock_calls* rwlocks = nullptr;
};

/// A recorder's functions. Several threads may call them at the same time. They lock no mutex.
struct observer {
  /// Begins the recordings that the environment requests. Called once in a process, before connect() sets the pointers.
  void (*begin)();
  /// Whether another process has requested a recording that has not begun.
  bool (*is_requested)();
  void (*begin_requested)();
  /// A number that changes whenever a recording begins or ends; 0: no recording.
  std::uint64_t (*state)();
  /// For a state that state() has returned: connects the calls that do not pass through the exported functions, those
  /// of embedded locks and of the recorder's own libraries. Returns the tables for the exported functions.
  observed_calls (*connect)(std::uint64_t state);
};

}  // namespace usher::preload

/// Defined by the recorder. Null if the library is linked without one.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const usher::preload::observer usher_observer;
