// The layout of Usher's read-write locks in a pthread_rwlock_t. Usher serves all that are not process-shared, except
// those that are left to the C library (is_left()).
//
//     offset
//          0   in, out, queued, timed, inhibit   core/read_write_words.hpp
//         20   validity    the inverted fork epoch in which the lock is valid; 0: it was never used (the C library
//                          initialises this word to 0, and does not use it); 1: left to the C library
//         24   writer      the id of the thread that holds the lock for writing, at the C library's offset; else 0
//         28   shared      the C library's: not 0 if the lock is process-shared
//         32   writers     the lock on which writers queue: 16 bytes
//         48   kind        the C library's: whether waiting writers come before new readers
//
// A writer stores its id in `writer` after it has locked, and clears it before it unlocks. So a correct call of
// pthread_rwlock_unlock() that finds 0 is a reader's, any other is the writer's. A thread that finds its own id must
// not wait for the lock (EDEADLK).
//
// In the child of a fork, the first call finds another epoch and renews the lock: it is held for writing if `writer` is
// set, else by as many readers as in the parent. Readers and a writer that exist only in the parent never unlock, as in
// the C library. Waiting writers are removed.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "usher/platform/native.hpp"

namespace usher::preload::rwlock_at {

inline constexpr std::size_t words = 0, validity = 20, writer = 24, shared = 28, writers = 32, kind = 48;
inline constexpr std::size_t most_writers = 16;
#if defined(__GLIBC__)
static_assert(offsetof(pthread_rwlock_t, __data.__cur_writer) == writer &&
              offsetof(pthread_rwlock_t, __data.__shared) == shared &&
              offsetof(pthread_rwlock_t, __data.__flags) == kind &&
              offsetof(pthread_rwlock_t, __data.__pad4) == validity);
#endif
static_assert(sizeof(pthread_rwlock_t) == 56 && writers + most_writers <= kind);

template <class T>
T& field(pthread_rwlock_t* l, std::size_t offset) {
  return *std::launder(reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(l) + offset));
}

inline std::atomic<std::uint32_t>& validity_of(pthread_rwlock_t* l) {
  return field<std::atomic<std::uint32_t>>(l, validity);
}
inline std::atomic<std::uint32_t>& writer_of(pthread_rwlock_t* l) {
  return field<std::atomic<std::uint32_t>>(l, writer);
}
inline bool is_shared(pthread_rwlock_t* l) {
  return field<int>(l, shared) != 0;
}
/// Whether the lock is left to the C library for good, because the C library's functions have used it
/// (left_mutexes.hpp). If so, marks it. Usher's functions make a lock valid before they write to its other words.
inline bool is_left(pthread_rwlock_t* l) {
  constexpr std::uint32_t left = 1;  // differs from every inverted epoch
  std::uint32_t seen = validity_of(l).load(std::memory_order_acquire);
  if (seen != 0) return seen == left;
  std::uint32_t used = 0;
  for (const std::size_t at : {0, 4, 8, 12})  // the C library's counts and futexes
    used |= field<std::atomic<std::uint32_t>>(l, words + at).load(std::memory_order_relaxed);
  if (used == 0) return false;
  return validity_of(l).compare_exchange_strong(seen, left, std::memory_order_seq_cst) || seen == left;
}
/// Whether waiting writers come before new readers: for one kind only, as in the C library.
inline bool prefers_writers(pthread_rwlock_t* l) {
  return field<int>(l, kind) == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

/// Whether the lock is Usher's and valid in the current fork epoch. The lock has the epoch inverted: before an epoch
/// has begun the epoch word is 0, and a lock that was never used must not match it. Acquire: pairs with the store by
/// which another thread has made the lock valid.
inline bool is_valid(pthread_rwlock_t* l, std::memory_order order = std::memory_order_acquire) {
  return validity_of(l).load(order) == ~native::epoch_so_far();
}

}  // namespace usher::preload::rwlock_at
