// The fork epoch: a number that differs between a process and its children.
//
// The epoch is in `epoch_word`, on a page that is wiped in a child: the child's first access reads 0 and begins a new
// epoch. The kernel wipes the page (MADV_WIPEONFORK), on which are also the chains of waiting threads; where the kernel
// cannot, a fork handler does: forget_parent(). madvise() comes before the epoch word is written, so that no child
// inherits the word. last_epoch is copied by fork, and is also written before the epoch word, so that a child forked
// between these writes begins a greater epoch. Of several threads that begin an epoch, the first to write the word
// decides; the others take its epoch.
//
// A thread's id comes from the C library, which keeps it in the thread's own memory. So no lock makes a system call for
// the id, and a system-call filter cannot give all threads the same id. The kernel's answer differs in two cases:
//
// - in a child of vfork(), which uses the memory and the thread-local storage of a thread of the parent; that thread
//   does not run meanwhile. The right id is that thread's, which the C library returns;
// - in a child process that a raw clone() made without the C library. The right id is the kernel's.
//
// The wiped page tells these two cases apart: it is not wiped for a child of vfork(), so no epoch begins there. If the
// process's first thread has begun an epoch, and its ids from the C library and from the kernel are equal, then the C
// library's ids are right for every thread of the epoch, since the C library creates the other threads. In any other
// epoch the kernel is asked.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/platform/native/state.hpp"
#include "usher/platform/native/system_call.h"

namespace usher::inline v2::native_detail {

/// Returns the calling thread's id as the C library has it. No function returns it directly, but the id of the thread's
/// CPU clock contains it: in the kernel's encoding, the inverted thread id is above three other bits.
inline std::int32_t id_in_libc() {
#if defined(USHER_WEAK_THREAD_FUNCTIONS)  // libusher.so: see library/preload/thread_functions.h
#pragma weak pthread_getcpuclockid
  if (pthread_getcpuclockid == nullptr) return 0;
#endif
  clockid_t clock = 0;
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

/// Returns the calling thread's id from the kernel, or the C library's if the system call fails.
inline std::int32_t id_in_kernel() {
  const auto id = std::int32_t(system_call(SYS_gettid));
  return id > 0 ? id : id_in_libc();
}

struct forks {
  /// Returns a number that differs between a process and its children, never 0 (core/platform.hpp).
  static std::uint32_t fork_epoch() {
    const std::uint64_t epoch_word = usher_process_state.epoch_word.load(std::memory_order_acquire);
    if (epoch_word == 0) [[unlikely]]
      return begin_epoch();
    return std::uint32_t(epoch_word >> 32);
  }

  /// Returns fork_epoch() by one load, or 0 if the epoch has not begun.
  static std::uint32_t epoch_so_far() {
    constexpr bool little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    using half [[gnu::may_alias]] = std::uint32_t;
    const auto* halves = reinterpret_cast<const half*>(&usher_process_state.epoch_word);
    return __atomic_load_n(halves + (little_endian ? 1 : 0), __ATOMIC_ACQUIRE);
  }

  /// Returns the id of the calling thread: constant as long as the thread lives, and unique in the process.
  static std::int32_t own_id(std::uint32_t epoch) {
    return usher_process_state.ids_as_in_libc.load(std::memory_order_relaxed) == epoch ? id_in_libc() : id_in_kernel();
  }

  /// Returns whether the calling thread is one of this process, not of a child of vfork() that uses its memory.
  static bool is_of_this_process(std::uint32_t epoch) {
    auto& s = usher_process_state;
    if (s.ids_as_in_libc.load(std::memory_order_relaxed) == epoch)
      return true;  // in such an epoch a child of vfork() counts as its parent
    const auto pid = std::int32_t(system_call(SYS_getpid));
    if (s.pid.load(std::memory_order_relaxed) == pid) return true;
    const std::int32_t id = id_in_libc();
    if (id != id_in_kernel()) return false;
    know_process(epoch, pid, id);  // a child of vfork() has begun the epoch
    return true;
  }

  /// Fork handler in the child, for kernels that do not wipe pages: clears what the kernel would wipe. Other fork
  /// handlers may run before and after it.
  static void forget_parent() {
    auto& s = usher_process_state;
    if (s.unwiped.load(std::memory_order_relaxed) == 0) return;
    // No signal handler may lock meanwhile, so all signals are blocked. The kernel's set of signals has 64 bits.
    const std::uint64_t all = ~std::uint64_t{0};
    std::uint64_t before = 0;
    const bool blocked = system_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all) == 0;
    s.epoch_word.store(0, std::memory_order_relaxed);
    s.wiped_pool.list.store(0, std::memory_order_relaxed);
    s.wiped_pool.from.store(0, std::memory_order_relaxed);
    s.wiped_pool.made.store(0, std::memory_order_relaxed);
    for (auto& c : s.chain_array) c.store(no_node, std::memory_order_relaxed);
    if (blocked) system_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
  }

 private:
  /// Records the process's id, and whether the C library's ids are right for all threads. Several threads may write the
  /// same values. `id`: the calling thread's id if the C library and the kernel agree on it, otherwise 0.
  static void know_process(std::uint32_t epoch, std::int32_t pid, std::int32_t id) {
    auto& s = usher_process_state;
    s.pid.store(pid, std::memory_order_relaxed);
    if (id == pid) s.ids_as_in_libc.store(epoch, std::memory_order_relaxed);
  }

  /// Begins an epoch, at the first use in this process or the first use after a fork.
  [[gnu::cold, gnu::noinline]] static std::uint32_t begin_epoch() {
    auto& s = usher_process_state;
    // madvise() comes before the epoch word is written, and before any node could be in a chain. Children inherit it.
    const bool wiped = s.last_epoch.load(std::memory_order_relaxed) != 0 ||
                       system_call(SYS_madvise, &s, wiped_bytes, MADV_WIPEONFORK) == 0;
    if (!wiped) {
      s.unwiped.store(1, std::memory_order_relaxed);
      // Linux before 4.14, some emulators and some sandboxes refuse MADV_WIPEONFORK: a fork handler replaces it.
      if (s.told_of_forks.exchange(1, std::memory_order_relaxed) == 0) pthread_atfork(nullptr, nullptr, forget_parent);
    }
    // An epoch that no ancestor has used. The opening comment explains why last_epoch is written before the epoch word.
    const std::uint32_t epoch = s.last_epoch.fetch_add(1, std::memory_order_relaxed) + 1;
    const auto pid = std::int32_t(system_call(SYS_getpid));
    const std::int32_t tid = id_in_kernel(), id = id_in_libc();
    // In the first epoch, different ids mean that this is a child of vfork(): then the process's id is not recorded.
    // Without the C library's id (libusher.so without libpthread.so.0), libusher.so's constructor begins this epoch.
    if (id == tid || id == 0 || epoch != 1) know_process(epoch, pid, id == tid ? id : 0);
    std::uint64_t epoch_word = 0;
    if (!s.epoch_word.compare_exchange_strong(epoch_word, std::uint64_t{epoch} << 32 | 4, std::memory_order_acq_rel,
                                              std::memory_order_acquire))
      return std::uint32_t(epoch_word >> 32);
    // The thread that forked frees the records of all other threads, because these threads do not exist in this
    // process. This requires that the thread has only one record. So it is not done for shared objects that embed
    // locks: each of them may have given the thread a record that the others do not know.
    if (tid == pid && s.orphaned_are_free.load(std::memory_order_relaxed) != 0) {
      const std::uint32_t made = s.made.load(std::memory_order_relaxed);
      for (std::uint32_t i = 1; i <= made; i++) {
        auto& r = record(i);
        std::uint64_t owner = r.owner.load(std::memory_order_relaxed);
        if (&r != current.record && std::uint32_t(owner >> 32) != epoch)
          r.owner.compare_exchange_strong(owner, 0, std::memory_order_relaxed);
      }
    }
    return epoch;
  }
};

}  // namespace usher::inline v2::native_detail
