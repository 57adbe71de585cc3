// How a lock of ours lies in a pthread_mutex_t, which bytes it may own on which kinds, and which mutexes are ours.
//
// A lock of one 32-bit word (with zero_iff_free) lies at offset 0, beside the owner tag. The two are on one cache line
// at every alignment of the mutex, so a hand-over between two threads moves one line; the other fields are written in
// slow paths and by kinds with a recursion count. A larger lock that can be *spread* (its type has a member template
// spread<Bytes>) has its first word at offset 0, too, and its other words, of up to 8 bytes, at offset 24. Any other
// lock, of up to 16 bytes, lies at offset 24.
//
//     offset   lock of one word, or spread                   larger lock
//          0   lock       not 0 while held                   owner tag
//          4   owner tag  and count, on kinds with an owner  count     recursive kind   ┐ requeued, on other kinds
//          8   owner      on kinds with one; free on others  owner     kinds with one   ┘ (not aligned)
//         12   timed                                         timed
//         16   kind                                          kind
//         20   epoch                                         epoch
//         24   slow path                                     lock      16 bytes, zero at first
//         32   requeued                                      …
//
// lock, owner tag   Offset 0 is the C library's lock word. A program that reaches the C library's own trylock (dlvsym,
//                   dlmopen) has it read a value that is not 0 while the mutex is held, so it fails safely
// owner tag         wait_morphing.hpp. A thread's tag is odd; its bits 7–31 name the thread's record, bits 1–6 are 0,
//                   reserved for the number of the CPU that the holder ran on
// count, owner      recursion depth and thread id, where the C library has them, so that debuggers and its own trylock
//                   find them. In the layout of one-word locks the depth is also the owner tag: for these kinds the tag
//                   need only be not 0 while the mutex is held, and 0 before an unlock does anything else
// timed             the numbers of timed waiters and of threads that wait for a condition with this mutex, and the bit
//                   that threads are requeued here: timed_waiters.hpp
// requeued          the first of the threads that a condition variable has requeued here. Only the holder reads it, if
//                   the bit of `timed` is set. Nothing is requeued to kinds with an owner
// kind              the C library's, bits 0–9. Bit 10: left to the C library (left_mutexes.hpp). Bits 16–23 are 0,
//                   reserved for the number of a lock that is selected for this mutex alone; the fast path compares
//                   them with the rest of the word
// epoch             the fork epoch in which the mutex is valid, a number that differs between a process and its
//                   children; 0: the mutex was never used. The first call in the child of a fork resets the mutex
//                   (morphing_mutex::renew), because the threads that waited for it do not exist there: to held if the
//                   owner tag is set, else free
// slow path         the other words of a spread lock: at most 8 bytes, on all kinds
//
// A mutex that stays the C library's (see is_ours()) keeps the C library's layout, with `__kind` at 16 and `__spins`
// at 20.
//
// kind and epoch are read as one word, and one subtraction says whether the epoch is current and which kind it is: the
// process's epoch word is epoch << 32 | 4, so the word of a valid mutex is the epoch word − 4 + the kind's type. While
// the epoch word is 0, before the process's first use and in a new child, these would be −4 to −1, which no mutex of
// ours has.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "usher/platform/native.hpp"

namespace usher::preload {

/// Offsets in a pthread_mutex_t that are the same in both layouts.
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
static_assert(one_word_layout::lock == 0 && large_layout::owner_tag == 0, "offset 0 is the C library's lock word");
static_assert(one_word_layout::requeued % alignof(void*) == 0 && one_word_layout::requeued + 8 <= 40 &&
              large_layout::lock + large_layout::most <= 40);
static_assert(sizeof(pthread_mutex_t) >= 40);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "kind is the lower half of kind_and_epoch");
#if defined(__GLIBC__)
static_assert(offsetof(pthread_mutex_t, __data.__kind) == at::kind_and_epoch);
#endif

/// Whether the lock is one word that is 0 if and only if the lock is free. Such a lock lies at the C library's lock
/// word.
template <class Lock>
constexpr bool is_one_word() {
  if constexpr (requires { Lock::zero_iff_free; })
    return sizeof(Lock) == 4 && Lock::zero_iff_free;
  else
    return false;
}

/// Whether the lock can be spread: its first word at offset 0, its other words where larger locks begin.
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
inline int kind_of(pthread_mutex_t* m) {
  return kind_of(kind_and_epoch(m).load(std::memory_order_relaxed));
}
inline std::uint32_t epoch_of(std::uint64_t kind_and_epoch) {
  return std::uint32_t(kind_and_epoch >> 32);
}

/// The bit of `kind` of a mutex that is left to the C library because its functions have locked it: left_mutexes.hpp. The
/// C library compares kinds without this bit.
inline constexpr int left_to_c_library = 0x400;

/// Whether a mutex of this kind is ours: kinds 0–3, with or without the C library's elision bits (0x100, 0x200).
/// Robust, priority-inheriting, priority-protected, process-shared and destroyed mutexes are the C library's, as are those
/// that are left to it.
inline bool is_ours(int kind) {
  return (kind & ~0x303) == 0;
}
/// Process-shared.
inline bool is_shared(int kind) {
  return (kind & 0x80) != 0;
}
/// Robust. A lock call of such a mutex must not begin with a trylock: if the mutex is not recoverable, glibc's fails and
/// leaves it locked (seen in 2.36).
inline bool is_robust(int kind) {
  return (kind & 0x10) != 0;
}
/// Whether a thread has this robust mutex of the C library, and has not died with it. In glibc the first word is the
/// owner's id and two flags.
inline bool has_living_owner(const pthread_mutex_t* robust) {
#if defined(__GLIBC__)
  return (__atomic_load_n(&robust->__data.__lock, __ATOMIC_RELAXED) & 0x3fffffff) != 0;
#else
  static_cast<void>(robust);
  return true;
#endif
}
inline int type_of(int kind) {
  return kind & 3;
}
inline bool has_owner(int kind) {
  return type_of(kind) == PTHREAD_MUTEX_RECURSIVE || type_of(kind) == PTHREAD_MUTEX_ERRORCHECK;
}

/// The difference of kind_and_epoch and the process's epoch word. The values below say that a mutex is ours and valid
/// in the current fork epoch; any other value, that it is the C library's or not valid yet.
enum class validity : std::uint64_t {
  normal = std::uint64_t{0} - 4,
  recursive = normal + PTHREAD_MUTEX_RECURSIVE,
  errorcheck = normal + PTHREAD_MUTEX_ERRORCHECK,
  adaptive = normal + PTHREAD_MUTEX_ADAPTIVE_NP
};
inline validity validity_by(std::uint64_t kind_and_epoch) {
  return validity(kind_and_epoch - usher_process_state.epoch_word.load(std::memory_order_relaxed));
}

/// The validity, for a lock. All accesses to the mutex through `m`, which is set to the same address, come after the
/// load of its epoch. That pairs with the store by which another thread has made the mutex valid (morphing_mutex::renew).
/// What a lock needs besides the mutex's words is not ordered by this: an embedded lock has no epoch. The epoch word is
/// loaded relaxed: if the two agree, the thread that made the mutex valid had loaded this epoch.
///
/// AArch64: an access to an address that was computed from a loaded value comes after the load, also if the value does
/// not matter, as here. So no load has to acquire. C++ calls this consume, but compilers make acquire of it, and would
/// see that the sum does not depend on the value: hence the assembly. A branch on the value would not suffice: it orders
/// later writes, not reads (tests/litmus/renew.litmus, renew-ticket.litmus).
inline validity validity_for_lock(pthread_mutex_t*& m) {
#if defined(__aarch64__)
  std::uint64_t seen;
  std::uintptr_t zero;
  __asm__ volatile("ldr %0, [%2, %3]\n\teor %1, %0, %0"
                   : "=&r"(seen), "=&r"(zero)
                   : "r"(m), "i"(at::kind_and_epoch)
                   : "memory");
  m = reinterpret_cast<pthread_mutex_t*>(reinterpret_cast<std::uintptr_t>(m) + zero);
  return validity_by(seen);
#else
  return validity_by(kind_and_epoch(m).load(std::memory_order_acquire));
#endif
}

/// The validity, for an unlock. Relaxed, because its thread has locked the mutex, or comes after the lock by the
/// program's own order.
inline validity validity_for_unlock(pthread_mutex_t* m) {
#if defined(__aarch64__)  // gcc 12 would compute the address by an instruction of its own
  std::uint64_t seen;
  __asm__ volatile("ldr %0, [%1, %2]" : "=r"(seen) : "r"(m), "i"(at::kind_and_epoch) : "memory");
  return validity_by(seen);
#else
  return validity_by(kind_and_epoch(m).load(std::memory_order_relaxed));
#endif
}

/// Whether the mutex is valid and of a kind whose owner is recorded (recursive, error-checking).
inline bool has_owner(validity v) {
  return v == validity::recursive || v == validity::errorcheck;
}

}  // namespace usher::preload
