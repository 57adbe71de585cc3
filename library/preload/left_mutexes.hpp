// Mutexes of our kinds that are left to the C library because its functions have locked them.
//
// A program reaches these functions past libusher.so by RTLD_DEEPBIND, dlvsym() or dlmopen(). In a plugin opened with
// RTLD_DEEPBIND this is the normal case: its inlined std::mutex::lock() is bound to the C library, but
// std::condition_variable::wait() lies in libstdc++, which is bound to libusher.so. So a call of ours may receive a
// mutex that the C library holds. Where it is recognised, a bit of its kind is set that the C library does not read.
// From then on the mutex is not ours (layout.hpp), and all calls of ours pass it on.
//
// How a held mutex of the C library differs from one of ours:
//
//     epoch 0             its lock word is not 0. Our functions write the epoch of a mutex before its lock
//     any other epoch     on kinds without an owner, word 4 (the C library's count) is 0 and word 8 (its owner) is not.
//                         In ours, in the layout of one-word locks, word 8 is 0; in that of larger ones both words are
//                         the address of a waiter, whose lower half is not 0
//
// An adaptive mutex of the C library may have any epoch, since `__spins` is there.
//
// A mutex of the C library's that is free looks as a new one, so our lock call makes it ours. What the C library then
// does to it is not seen in time: it may take the lock from its owner, and wakes none of our queue. Where this is found
// later, by the thread that unlocks or waits, the mutex is left to the C library, and one line on stderr says so.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "library/preload/layout.hpp"

namespace usher::preload {

/// Whether the C library holds a mutex of one of our kinds with this kind and epoch. The answer is certain if the kind
/// and the epoch have not changed when the call returns.
inline bool is_held_by_c_library(pthread_mutex_t* m, std::uint64_t kind_and_epoch) {
  if (field<std::atomic<std::uint32_t>>(m, 0).load(std::memory_order_relaxed) == 0) return false;
  if (epoch_of(kind_and_epoch) == 0) return true;
  if (has_owner(kind_of(kind_and_epoch))) return false;
  // Words 4 and 8 are loaded at once, as the address of a waiter is stored. Else the owner of one of our mutexes could
  // store it between two loads, and its upper half would be taken for an owner's id.
  std::uint64_t count_and_owner;
  std::memcpy(&count_and_owner, reinterpret_cast<unsigned char*>(m) + large_layout::requeued, sizeof count_and_owner);
  return std::uint32_t(count_and_owner) == 0 && count_and_owner >> 32 != 0;
}

/// Leaves the mutex to the C library if the C library holds it. Called for mutexes that are not valid in the current
/// fork epoch, by any thread.
void leave_if_held_by_c_library(pthread_mutex_t* m);

/// Leaves the mutex to the C library if the calling thread has locked it there. Called by threads that unlock a mutex or
/// wait with it, for mutexes of any epoch. Returns whether the mutex is one of the C library's by now.
bool leave_if_locked_in_c_library(pthread_mutex_t* m);

}  // namespace usher::preload
