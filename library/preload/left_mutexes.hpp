// Mutexes of the kinds that Usher serves (layout.hpp), left to the C library because its functions have locked them.
//
// A program reaches the C library's functions past libusher.so by RTLD_DEEPBIND, dlvsym() or dlmopen(). In a plugin
// opened with RTLD_DEEPBIND this is the normal case. Its inlined std::mutex::lock() is bound to the C library, but
// std::condition_variable::wait() is code of libstdc++, which is bound to libusher.so. So a function of Usher's may
// receive a mutex that was locked through the C library. If it recognises this, it sets a bit of the mutex's kind that
// the C library does not read. From then on all functions of Usher's pass the mutex on.
//
// A mutex that is locked through the C library differs as follows from one that is locked through Usher:
//
//     epoch 0             its lock word is not 0. Usher's functions write a mutex's epoch before they lock it
//     any other epoch     on kinds without an owner, the word at offset 4 (the C library's count) is 0, and that at 8
//                         (its owner) is not. If Usher has locked the mutex, the word at 8 is 0 in the layout of
//                         one-word locks. In that of larger locks the two words are 0, or the address of a waiter,
//                         whose lower half is not 0
//
// An adaptive mutex that the C library has used may seem to have any epoch, since the C library's `__spins` is there.
//
// A mutex that was used through the C library and is free looks like a new one, so Usher's lock function takes it over.
// If the C library's functions then use the mutex, Usher does not notice it in time: they may take the lock from its
// owner, and wake none of Usher's waiters. A later unlock or wait that finds this leaves the mutex to the C library,
// and writes one line to stderr.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "library/preload/layout.hpp"

namespace usher::preload {

/// Whether a thread has locked the mutex, of a kind that Usher serves, through the C library. `kind_and_epoch` is the
/// mutex's word; the result is certain only if the word is still the same after the call.
inline bool is_held_by_c_library(pthread_mutex_t* m, std::uint64_t kind_and_epoch) {
  if (field<std::atomic<std::uint32_t>>(m, 0).load(std::memory_order_relaxed) == 0) return false;
  if (epoch_of(kind_and_epoch) == 0) return true;
  if (has_owner(kind_of(kind_and_epoch))) return false;
  // One load reads the words at 4 and 8, as one store writes a waiter's address. With two loads, a store by the owner
  // between them could make the address's upper half look like an owner's id.
  std::uint64_t count_and_owner;
  std::memcpy(&count_and_owner, reinterpret_cast<unsigned char*>(m) + large_layout::requeued, sizeof count_and_owner);
  return std::uint32_t(count_and_owner) == 0 && count_and_owner >> 32 != 0;
}

/// Leaves the mutex to the C library if a thread has locked it there. For mutexes not valid in the current fork epoch.
void leave_if_held_by_c_library(pthread_mutex_t* m);

/// Leaves the mutex to the C library if the calling thread has locked it there. Called by threads that unlock a mutex
/// or wait with it, whatever its epoch. Returns whether the mutex is now one of the C library's.
bool leave_if_locked_in_c_library(pthread_mutex_t* m);

}  // namespace usher::preload
