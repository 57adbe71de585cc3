// The layout of Usher's locks in a pthread_mutex_t, and which mutexes are *ours*: served by Usher's functions. A
// mutex's *kind* is its `__kind` in the C library: the type (normal, recursive, error-checking, adaptive) and flags.
//
// A lock of one 32-bit word that is 0 exactly while the lock is free (zero_iff_free) lies at offset 0, beside the owner
// tag. The two are on one cache line at every alignment of the mutex, so a hand-over between two threads moves one
// line. Only slow paths and kinds with a recursion count write to the other fields. If a larger lock can be *spread*
// (its type has a member template spread<Bytes>), its first word also lies at offset 0, and its other words, up to 8
// bytes, at offset 24. Any other lock, of up to 16 bytes, lies at offset 24.
//
// Kinds with an owner are the recursive and the error-checking one.
//
//     offset   lock of one word, or spread                   larger lock
//          0   lock       not 0 while held                   owner tag
//          4   owner tag  also count, on kinds with an owner count ┐ on kinds with an owner; on the others
//          8   owner      on kinds with an owner; else 0     owner ┘ these 8 bytes are `requeued` (not aligned)
//         12   timed                                         timed
//         16   kind                                          kind
//         20   epoch                                         epoch
//         24   slow path                                     lock      16 bytes, zero at first
//         32   requeued                                      …
//
// lock, owner tag   Offset 0 is the C library's lock word, and is not 0 while the mutex is held. So the C library's own
//                   trylock fails as it should, if a program reaches it (dlvsym, dlmopen)
// owner tag         tells the owner from other threads: wait_morphing.hpp. It is odd; bits 7–31 name the thread's
//                   record, bits 1–6 are 0, reserved for the number of the CPU on which the holder ran
// count, owner      recursion depth and thread id, at the C library's offsets, for debuggers and its trylock. In the
//                   layout of one-word locks the depth is also the owner tag. These kinds only need a tag that is not 0
//                   while the mutex is held, and that the first step of an unlock clears
// timed             the number of waiters with a deadline, the number of threads that wait on a condition variable with
//                   this mutex, and a bit that is set while threads are requeued here: timed_waiters.hpp
// requeued          the first of the threads that a condition variable has requeued to this mutex. Only the holder
//                   reads it, and only if the bit in `timed` is set. No thread is requeued to kinds with an owner
// kind              bits 0–9 are the C library's. Bit 10: the mutex is left to the C library (left_mutexes.hpp). Bits
//                   16–23 are 0, reserved for the number of a lock that is selected for this mutex alone; the fast
//                   path's comparison of the word includes them
// epoch             the fork epoch, a number that differs between a process and its children, in which the mutex is
//                   valid; 0: the mutex was never used. In the child of a fork the mutex's waiters do not exist. So the
//                   first call there resets the mutex (morphing_mutex::renew): to held if the owner tag is set, else to
//                   free
// slow path         the other words of a spread lock: at most 8 bytes, on all kinds
//
// A mutex that stays the C library's (see is_ours()) keeps that layout, with `__kind` at 16 and `__spins` at 20.
//
// The functions read kind and epoch as one 64-bit word. Subtracting the process's epoch word from it tells both whether
// the epoch is current and the mutex's type: the epoch word is epoch << 32 | 4, so a valid mutex's word is the epoch
// word − 4 + the type. Before the process's first use of a mutex, and in a new child, the epoch word is 0. Then only a
// word of −4 to −1 would seem valid, and no mutex of ours has one.
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

/// Whether the lock is one word that is 0 exactly while it is free. It takes the place of the C library's lock word.
template <class Lock>
constexpr bool is_one_word() {
  if constexpr (requires { Lock::zero_iff_free; })
    return sizeof(Lock) == 4 && Lock::zero_iff_free;
  else
    return false;
}

/// Whether the lock can be spread: its first word lies at offset 0, its other words at offset 24.
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

/// This bit of a mutex's kind is set if the mutex is left to the C library because the C library's functions have
/// locked it: left_mutexes.hpp. The C library ignores this bit when it compares kinds.
inline constexpr int left_to_c_library = 0x400;

/// Whether Usher's functions serve a mutex of this kind: kinds 0–3, with or without the C library's elision bits
/// (0x100, 0x200). The C library serves robust, priority-inheriting, priority-protected, process-shared and destroyed
/// mutexes, and those that are left to it.
inline bool is_ours(int kind) {
  return (kind & ~0x303) == 0;
}
inline bool is_shared(int kind) {
  return (kind & 0x80) != 0;
}
/// Whether the kind is robust. A lock function must not begin with a trylock of such a mutex: if the mutex is not
/// recoverable, glibc's trylock fails but leaves the mutex locked (seen in 2.36).
inline bool is_robust(int kind) {
  return (kind & 0x10) != 0;
}
/// Whether a living thread holds this robust mutex, which is the C library's. In glibc the first word contains the
/// owner's thread id and two flags.
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

/// A mutex's kind_and_epoch minus the process's epoch word. With one of the values below the mutex is ours and valid in
/// the current fork epoch. With any other it is the C library's or not valid yet.
enum class validity : std::uint64_t {
  normal = std::uint64_t{0} - 4,
  recursive = normal + PTHREAD_MUTEX_RECURSIVE,
  errorcheck = normal + PTHREAD_MUTEX_ERRORCHECK,
  adaptive = normal + PTHREAD_MUTEX_ADAPTIVE_NP
};
inline validity validity_by(std::uint64_t kind_and_epoch) {
  return validity(kind_and_epoch - usher_process_state.epoch_word.load(std::memory_order_relaxed));
}

/// Returns the validity, for a lock function. All later accesses to the mutex must go through `m`, which is set to the
/// same address: they are ordered after the load of the mutex's epoch. The load pairs with the store by which another
/// thread made the mutex valid (morphing_mutex::renew). It orders only accesses to the mutex's own words: an embedded
/// lock has no epoch, so no lock relies on more. The epoch word is loaded relaxed: if the two agree, the thread that
/// made the mutex valid had loaded this epoch.
///
/// AArch64: an address dependency replaces the acquire. The processor performs an access after the load from which its
/// address was computed, even if, as here, the loaded value does not change the address. C++ calls this consume, but
/// compilers turn consume into acquire, and would find that the sum does not depend on the value: hence the assembly. A
/// branch on the value would not suffice: it orders later writes, not reads (tests/litmus/renew*.litmus).
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

/// Returns the validity, for an unlock function. The load is relaxed: the caller has locked the mutex itself, or the
/// program orders the unlock after the lock.
inline validity validity_for_unlock(pthread_mutex_t* m) {
#if defined(__aarch64__)  // saves an instruction: gcc 12 computes the address of an atomic separately
  std::uint64_t seen;
  __asm__ volatile("ldr %0, [%1, %2]" : "=r"(seen) : "r"(m), "i"(at::kind_and_epoch) : "memory");
  return validity_by(seen);
#else
  return validity_by(kind_and_epoch(m).load(std::memory_order_relaxed));
#endif
}

/// Whether the mutex is valid and of a kind with an owner (recursive, error-checking).
inline bool has_owner(validity v) {
  return v == validity::recursive || v == validity::errorcheck;
}

}  // namespace usher::preload
