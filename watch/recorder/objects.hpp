// The objects of recorded calls, as the wrappers (wrappers.hpp) hand them to a sink: the kind, the address by which the object
// is known, the verbs, and what else the calls of this kind have. Only the last is read of the object itself, and only where a
// comment says so.
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include <cerrno>
#include <cstdint>

#include "library/preload/layout.hpp"
#include "watch/contract/verbs.hpp"

namespace usher::recorder {

/// Whether the call has locked the mutex. EOWNERDEAD says that it has, and that the last owner died.
constexpr bool is_acquired(int result) {
  return result == 0 || result == EOWNERDEAD;
}

/// `Acquires` and `Releases` are the verbs of the calls that take the object and give it back.
template <contract::kind Kind, contract::verb Acquires, contract::verb Releases>
struct object_of_kind {
  static constexpr contract::kind kind = Kind;
  static constexpr contract::verb acquires = Acquires, releases = Releases;
  /// A lock of Usher's that the program embeds; never robust or recursive, and any thread may unlock it.
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
/// The key is the thread that ends.
using joined_object = object_of_kind<contract::kind::join, contract::verb::join, contract::verb::join>;
/// The two sides of a read-write lock, and the lock where the side does not matter.
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

/// A condition in a wait, which unlocks the mutex and locks it again.
struct waited_condition : condition_object {
  const void* mutex;  ///< null: an unlock does not hand it over
  /// Whether the C library waits, so that its unlock and lock of the mutex are invisible.
  bool hides_mutex;
};
using embedded_waited_condition = embedded<waited_condition>;
using embedded_condition = embedded<condition_object>;

/// Reads the mutex. No function may be called after the unlock.
struct mutex_object : object_of_kind<contract::kind::mutex, contract::verb::lock, contract::verb::unlock> {
  explicit mutex_object(pthread_mutex_t* m) : object_of_kind{m} {}

  pthread_mutex_t* get() const { return static_cast<pthread_mutex_t*>(const_cast<void*>(key)); }
  bool is_robust() const { return preload::is_robust(preload::kind_of(get())); }
  bool is_recursive() const { return preload::type_of(preload::kind_of(get())) == PTHREAD_MUTEX_RECURSIVE; }
  bool has_living_owner() const { return preload::has_living_owner(get()); }
  /// Whether the kind of the mutex makes an unlock by a thread that is not its owner fail.
  bool needs_owner_to_unlock() const {
    constexpr int robust_or_inheriting = 0x30;  // the C library's flags
    const int kind = preload::kind_of(get());
    return preload::has_owner(kind) || (kind & robust_or_inheriting) != 0;
  }
};

/// What a sink is told of a call that may wait.
struct wait_call {
  std::uint64_t caller;       ///< the return address of the exported function
  bool has_deadline = false;  ///< the wait ends by itself, so it is in no deadlock
};

}  // namespace usher::recorder
