// How a lock of ours lies in a pthread_mutex_t, and which mutexes are ours.
//
//     offset  0   held        0 when free, else the holder's thread_mark(), or 1 if nobody knows whose it is. The C
//                             library's own trylock, reached behind our back (dlvsym, dlmopen), reads this word as its
//                             lock word and fails safely.
//             4   count       recursion depth, recursive kind, as the C library has it
//             8   owner       thread id, recursive and error-checking kinds
//            4…11 moved       other kinds: threads that a condition variable has moved here, a chain whose first is
//                             granted when the mutex is unlocked. Only the holder looks at it, if `timed` says so.
//            12   timed       timed waiters standing aside; threads that wait for a condition with this mutex; whether
//                             threads were moved here: timed.hpp
//            16   kind        as the C library has it
//            20   stamp       the fork stamp under which the state is valid; 0: never used
//            24…39 state      the lock: 16 bytes, all zero when free
//
// kind and stamp are read as one word: for a mutex of the normal kind whose stamp is current it equals
// `process mark − 4` (the mark is stamp << 32 | 4). While the mark is 0, before the first use of the process and in
// a fresh child, `0 − 4` is the word of no mutex of ours.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "usher/platform/native.hpp"

namespace usher::preload {

struct mutex_layout {
  std::atomic<std::uint32_t> held;
  std::uint32_t count;
  std::atomic<std::uint32_t> owner;
  std::atomic<std::uint32_t> timed;
  std::atomic<std::uint64_t> kind_and_stamp;
  alignas(8) unsigned char state[16];
};
static_assert(sizeof(mutex_layout) <= sizeof(pthread_mutex_t));
static_assert(alignof(mutex_layout) <= alignof(pthread_mutex_t));
static_assert(offsetof(mutex_layout, kind_and_stamp) == 16 && offsetof(mutex_layout, state) == 24);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "kind is the lower half of kind_and_stamp");
#if defined(__GLIBC__)
static_assert(offsetof(pthread_mutex_t, __data.__kind) == 16);
#endif

inline mutex_layout& layout(pthread_mutex_t* m) {
  return *reinterpret_cast<mutex_layout*>(m);
}

inline int kind_of(std::uint64_t kind_and_stamp) {
  return int(std::uint32_t(kind_and_stamp));
}
inline std::uint32_t stamp_of(std::uint64_t kind_and_stamp) {
  return std::uint32_t(kind_and_stamp >> 32);
}

/// Kinds 0–3 with the C library's elision bits (0x100, 0x200) are ours. Robust, inheriting, protecting, process-shared
/// and destroyed mutexes are the C library's.
inline bool is_ours(int kind) {
  return (kind & ~0x303) == 0;
}
inline int type_of(int kind) {
  return kind & 3;
}
inline bool has_owner(int kind) {
  return type_of(kind) == PTHREAD_MUTEX_RECURSIVE || type_of(kind) == PTHREAD_MUTEX_ERRORCHECK;
}

/// The kind_and_stamp of a normal mutex that is valid now. Matches nothing as long as the process is not stamped.
inline std::uint64_t valid_normal() {
  return usher_process_state.mark.load(std::memory_order_acquire) - 4;
}

}  // namespace usher::preload
