// How a lock of ours lies in a pthread_mutex_t, which bytes it may own on which kinds, and which mutexes are ours.
//
// A lock of one 32-bit word (with zero_iff_free) lies at offset 0, and its owner's tag beside it: the two are on one cache line at every alignment
// of the mutex, so a hand-over between two threads moves one line. The other fields are written in slow paths and by kinds
// that count. A larger lock that can be spread has its first word there, too, and 8 bytes behind the kind. Any other, of up to 16
// bytes, lies behind the kind.
//
//     offset   lock of one word, or spread                       larger lock
//          0   lock      not 0 while it is held                  owner tag
//          4   owner tag; count where there is an owner         count      recursive kind   ┐ requeued: other kinds,
//          8   owner      kinds with one; free: others           owner      kinds with one   ┘ not aligned
//         12   timed                                             timed
//         16   kind                                              kind
//         20   epoch                                             epoch
//         24   slow path                                         lock       16 bytes, zero at first
//         32   requeued                                            …
//
// lock, owner tag   Offset 0 is what the C library takes for its lock word. Its own trylock, reached behind our back (dlvsym,
//                   dlmopen), reads it as not 0 while the mutex is held, and fails safely.
// owner tag         wait_morphing.hpp. A thread's tag is odd; its bits 7–31 name the thread's record, bits 1–6 are 0 and kept
//                   for the number of the CPU that the holder ran on
// count, owner      recursion depth, thread id: where the C library has them, so debuggers and its own trylock find them.
//                   With a lock of one word the depth is the owner tag: not 0 while the mutex is held, and 0 before anything
//                   else of an unlock, which is all that is asked of it for these kinds
// timed             timed waiters, threads that wait for a condition with this mutex, whether threads are requeued here:
//                   timed_waiters.hpp
// requeued          the first of the threads that a condition variable has requeued here. Only the holder looks at it, if
//                   `timed` says so. Kinds that have an owner: none
// kind              as the C library has it: bits 0–9. Bits 16–23 are 0 and kept for the number of a lock that this one mutex
//                   was given; the fast path compares them with the rest of the word
// epoch             the fork epoch under which the mutex is valid; 0: never used
// slow path         what a lock that is spread has besides its first word: 8 bytes for all kinds
//
// The C library's own mutexes keep what they use, `__kind` and `__spins` (20) among it: nothing of this is theirs.
//
// kind and epoch are read as one word, and one subtraction says whether the epoch is current and which kind it is: the process
// mark is epoch << 32 | 4, so a valid word is the mark − 4 + the kind's type. While the mark is 0, before the first use of the
// process and in a fresh child, −4 to −1 is the word of no mutex of ours.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "usher/platform/native.hpp"

namespace usher::preload {

/// Offsets in a pthread_mutex_t. What both layouts have at the same place:
namespace at {
inline constexpr std::size_t timed = 12, kind_and_epoch = 16;
}

struct one_word_layout {
  static constexpr std::size_t lock = 0, most = 4, owner_tag = 4, count = 4, owner = 8, requeued = 32;
};

struct large_layout {
  static constexpr std::size_t lock = 24, most = 16, owner_tag = 0, count = 4, owner = 8, requeued = 4;
};

static_assert(one_word_layout::owner_tag == one_word_layout::lock + 4 && alignof(pthread_mutex_t) >= 8,
              "the lock and the owner tag share a cache line at every alignment");
static_assert(one_word_layout::lock == 0 && large_layout::owner_tag == 0, "what the C library takes for its lock word");
static_assert(one_word_layout::requeued % alignof(void*) == 0 && one_word_layout::requeued + 8 <= 40 &&
              large_layout::lock + large_layout::most <= 40);
static_assert(sizeof(pthread_mutex_t) >= 40);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "kind is the lower half of kind_and_epoch");
#if defined(__GLIBC__)
static_assert(offsetof(pthread_mutex_t, __data.__kind) == at::kind_and_epoch);
#endif

/// A lock of one word lies where the C library has its own, if the word is 0 when the lock is free, and only then.
template <class Lock>
constexpr bool is_one_word() {
  if constexpr (requires { Lock::zero_iff_free; })
    return sizeof(Lock) == 4 && Lock::zero_iff_free;
  else
    return false;
}

/// A lock whose first word may lie alone, with a gap to the rest, which starts where larger locks have theirs.
template <class Lock>
constexpr bool is_spread = requires { typename Lock::template spread<large_layout::lock - 4>; };

template <class Lock, bool Spread = is_spread<Lock>>
struct placed {
  using type = Lock;
};
template <class Lock>
struct placed<Lock, true> {
  using type = typename Lock::template spread<large_layout::lock - 4>;
  static_assert(sizeof(type) <= one_word_layout::requeued);
};

template <class Lock>
using layout_for = std::conditional_t<is_one_word<Lock>() || is_spread<Lock>, one_word_layout, large_layout>;

template <class T>
T& field(pthread_mutex_t* m, std::size_t offset) {
  return *std::launder(reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(m) + offset));
}
inline std::atomic<std::uint64_t>& kind_and_epoch(pthread_mutex_t* m) {
  return field<std::atomic<std::uint64_t>>(m, at::kind_and_epoch);
}
inline std::atomic<std::uint32_t>& timed_of(pthread_mutex_t* m) {
  return field<std::atomic<std::uint32_t>>(m, at::timed);
}

inline int kind_of(std::uint64_t kind_and_epoch) {
  return int(std::uint32_t(kind_and_epoch));
}
inline std::uint32_t epoch_of(std::uint64_t kind_and_epoch) {
  return std::uint32_t(kind_and_epoch >> 32);
}

/// Kinds 0–3 with the C library's elision bits (0x100, 0x200) are ours. Robust, inheriting, protecting, process-shared
/// and destroyed mutexes are the C library's.
inline bool is_ours(int kind) {
  return (kind & ~0x303) == 0;
}
/// By several processes.
inline bool is_shared(int kind) {
  return (kind & 0x80) != 0;
}
inline int type_of(int kind) {
  return kind & 3;
}
inline bool has_owner(int kind) {
  return type_of(kind) == PTHREAD_MUTEX_RECURSIVE || type_of(kind) == PTHREAD_MUTEX_ERRORCHECK;
}

/// kind_and_epoch − process mark: what it is for the mutexes of ours that are valid now. Any other value: a mutex that is not yet
/// valid, or the C library's.
enum class validity : std::uint64_t {
  normal = std::uint64_t{0} - 4,
  recursive = normal + PTHREAD_MUTEX_RECURSIVE,
  errorcheck = normal + PTHREAD_MUTEX_ERRORCHECK,
  adaptive = normal + PTHREAD_MUTEX_ADAPTIVE_NP
};
inline validity validity_of(pthread_mutex_t* m) {
  return validity(kind_and_epoch(m).load(std::memory_order_acquire) -
                  usher_process_state.epoch_word.load(std::memory_order_acquire));
}
/// Valid, and has_owner().
inline bool has_owner(validity v) {
  return v == validity::recursive || v == validity::errorcheck;
}

}  // namespace usher::preload
