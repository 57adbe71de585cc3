// The fork epoch: a number that differs between a process and its children.
//
// It is in `epoch_word`, on a page that is wiped in a child: the child's first access reads 0 and begins a new epoch.
// The kernel wipes this page and that of the chains of waiting threads (MADV_WIPEONFORK); where it does not, a fork
// handler does: forget_parent(). madvise() comes before the epoch word is written, so that no child inherits the word.
// last_epoch is copied by fork and also written before the epoch word: a child of that very moment continues above it.
// Of several threads that begin an epoch, the first to write the word decides; the others take its epoch.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/platform/native/state.hpp"

namespace usher::inline v1::native_detail {

inline std::int32_t gettid_now() {
  return std::int32_t(syscall(SYS_gettid));
}

struct forks {
  /// A number that differs between a process and its children, never 0. Threads that held a lock or waited for it in
  /// another epoch do not exist in this process.
  static std::uint32_t fork_epoch() {
    const std::uint64_t epoch_word = usher_process_state.epoch_word.load(std::memory_order_acquire);
    if (epoch_word == 0) [[unlikely]]
      return begin_epoch();
    return std::uint32_t(epoch_word >> 32);
  }

  /// The same by one load, or 0 before the epoch has begun.
  static std::uint32_t epoch_so_far() {
    constexpr bool little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    using half [[gnu::may_alias]] = std::uint32_t;
    const auto* halves = reinterpret_cast<const half*>(&usher_process_state.epoch_word);
    return __atomic_load_n(halves + (little_endian ? 1 : 0), __ATOMIC_ACQUIRE);
  }

  /// In a child, for kernels that do not wipe the parent's pages. Runs between other fork handlers.
  static void forget_parent() {
    auto& s = usher_process_state;
    if (s.unwiped.load(std::memory_order_relaxed) == 0) return;
    sigset_t all, before;  // no signal handler may lock in the middle of this
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s.epoch_word.store(0, std::memory_order_relaxed);
    s.wiped_pool.list.store(0, std::memory_order_relaxed);
    s.wiped_pool.from.store(0, std::memory_order_relaxed);
    s.wiped_pool.made.store(0, std::memory_order_relaxed);
    for (auto& c : s.chain_array) c.store(no_node, std::memory_order_relaxed);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

 private:
  /// First use in this process, or first use after a fork.
  [[gnu::cold, gnu::noinline]] static std::uint32_t begin_epoch() {
    auto& s = usher_process_state;
    const int saved = errno;
    // Before the epoch word is written, so that no child inherits it; and before there is a node that could be in a
    // chain.
    if (madvise(&s.epoch_word, 4096, MADV_WIPEONFORK) != 0 ||
        madvise(s.chain_array, sizeof s.chain_array, MADV_WIPEONFORK) != 0) {
      s.unwiped.store(1, std::memory_order_relaxed);
      // Linux before 4.14, some emulators, some sandboxes.
      if (s.told_of_forks.exchange(1, std::memory_order_relaxed) == 0) pthread_atfork(nullptr, nullptr, forget_parent);
    }
    const std::int32_t pid = getpid();
    s.pid.store(pid, std::memory_order_relaxed);
    // An epoch that no ancestor has used: last_epoch is copied by fork. It is written before the epoch word, so that a
    // child of this very moment continues above it.
    const std::uint32_t epoch = s.last_epoch.fetch_add(1, std::memory_order_relaxed) + 1;
    std::uint64_t epoch_word = 0;
    if (!s.epoch_word.compare_exchange_strong(epoch_word, std::uint64_t{epoch} << 32 | 4, std::memory_order_acq_rel,
                                              std::memory_order_acquire)) {
      errno = saved;
      return std::uint32_t(epoch_word >> 32);
    }
    // If this is the thread that forked, every other record belongs to a thread that this process does not have. Only
    // if that thread has one record: shared objects that embed locks may each have given it one, which only they know.
    const std::int32_t tid = gettid_now();
    if (tid == pid && s.orphaned_are_free.load(std::memory_order_relaxed) != 0) {
      const std::uint32_t made = s.made.load(std::memory_order_relaxed);
      for (std::uint32_t i = 1; i <= made; i++) {
        auto& r = record(i);
        std::uint64_t owner = r.owner.load(std::memory_order_relaxed);
        if (&r != current.record && std::uint32_t(owner >> 32) != epoch)
          r.owner.compare_exchange_strong(owner, 0, std::memory_order_relaxed);
      }
    }
    errno = saved;
    return epoch;
  }
};

}  // namespace usher::inline v1::native_detail
