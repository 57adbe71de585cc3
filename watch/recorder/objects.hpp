// The objects of recorded calls, as the wrappers (wrappers.hpp) pass them to a sink: the kind, the address that
// identifies the object, the verbs, and properties that only this kind has. These properties may be read from the
// object itself, only where a comment permits it.
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include <cerrno>
#include <cstdint>

#include "library/preload/layout.hpp"
#include "watch/contract/verbs.hpp"

namespace usher::recorder {

/// Whether the call has locked the mutex. EOWNERDEAD: it has, and the last owner died.
constexpr bool is_acquired(int result) {
  return result == 0 || result == EOWNERDEAD;
}

/// `Acquires` and `Releases`: the verbs of the calls that acquire and release the object.
template <contract::kind Kind, contract::verb Acquires, contract::verb Releases>
struct object_of_kind {
  static constexpr contract::kind kind = Kind;
  static constexpr contract::verb acquires = Acquires, releases = Releases;
  /// Whether it is a lock of Usher's that the program embeds. Such a lock is never robust or recursive, and any thread
  /// may unlock it.
  static constexpr bool is_embedded = false;

  const void* key;

  static constexpr bool is_robust() { return false; }
  static constexpr bool is_recursive() { return false; }
  static constexpr bool needs_owner_to_unlock() { return false; }
  static constexpr bool has_living_owner() { return true; }
};

using spin_object = object_of_kind<contract::kind::spin, contract::verb::lock, contract::verb::unlock>;
using semaphore_object =
    object_of_kind<contract::kind::semaphore, contract::verb::semaphore_wait, contract::verb::semaphore_post>;
using barrier_object =
    object_of_kind<contract::kind::barrier, contract::verb::barrier_wait, contract::verb::barrier_wait>;
using condition_object = object_of_kind<contract::kind::condition, contract::verb::wait, contract::verb::signal>;
/// The key is the joined thread.
using joined_object = object_of_kind<contract::kind::join, contract::verb::join, contract::verb::join>;
/// A read-write lock for reading, for writing, and where this does not matter.
using read_object =
    object_of_kind<contract::kind::rwlock, contract::verb::read_lock, contract::verb::read_write_unlock>;
using write_object =
    object_of_kind<contract::kind::rwlock, contract::verb::write_lock, contract::verb::read_write_unlock>;
using rwlock_object = write_object;

template <class Object>
struct embedded : Object {
  static constexpr bool is_embedded = true;
};
using embedded_mutex = embedded<object_of_kind<contract::kind::mutex, contract::verb::lock, contract::verb::unlock>>;
using embedded_semaphore = embedded<semaphore_object>;

/// A condition variable with its mutex, which a wait unlocks and locks again.
struct waited_condition : condition_object {
  const void* mutex;  ///< null: an unlock cannot grant the mutex to a waiter of the condition variable
  /// Whether the C library itself unlocks and locks the mutex, without calls that can be recorded.
  bool hides_mutex;
};
using embedded_waited_condition = embedded<waited_condition>;
using embedded_condition = embedded<condition_object>;

/// The functions below read the mutex, so they may not be called after the unlock.
struct mutex_object : object_of_kind<contract::kind::mutex, contract::verb::lock, contract::verb::unlock> {
  explicit mutex_object(pthread_mutex_t* m) : object_of_kind{m} {}

  pthread_mutex_t* get() const { return static_cast<pthread_mutex_t*>(const_cast<void*>(key)); }
  bool is_robust() const { return preload::is_robust(preload::kind_of(get())); }
  bool is_recursive() const { return preload::type_of(preload::kind_of(get())) == PTHREAD_MUTEX_RECURSIVE; }
  bool has_living_owner() const { return preload::has_living_owner(get()); }
  /// Whether the mutex's kind makes an unlock fail if the calling thread is not the owner.
  bool needs_owner_to_unlock() const {
    constexpr int robust_or_inheriting = 0x30;  // flags of the C library
    const int kind = preload::kind_of(get());
    return preload::has_owner(kind) || (kind & robust_or_inheriting) != 0;
  }
};

/// The properties of a call that may wait.
struct wait_call {
  std::uint64_t caller;       ///< the return address of the exported function
  bool has_deadline = false;  ///< the wait ends at a deadline, so it cannot be part of a deadlock
};

}  // namespace usher::recorder
