// Memory that processes share, as a platform, so that locks work between processes. Programs include
// usher/shared_memory.hpp.
//
// Source: Wang, Chabbi & Kimura, "Be My Guest" (PPoPP 2016), §2.2, "Inter-Process Uses": a node is named by a process
// and an offset, because a pointer has no meaning in another process.
//
// All that processes share is in one region, which each process maps at an address of its own. A region has a header,
// *shares* of nodes (groups of 64, one or more for each process), and the program's data. It contains no pointer. The
// address of the mapping and the numbers of the process's shares are in the process's own memory.
//
//     a handle      bits 6–13  the share: 1 … 255, so that handles below 64 never name a node
//                   bits 0–5   which of the share's 64 nodes
//                   bits 14–31 0, free for marks
//
// Each process takes nodes from its own shares. A node is returned to its share, whichever process returns it. Each
// node has a word that says whether it is free. So there is no list that a dying process could break. Two processes may
// take nodes from one share: a process and its new program after an exec, or a parent and its child.
//
// Differences from the native platform: a wake-up finds the sleepers of all processes (the futexes are not private);
// salt() is an offset. Only cached_node() uses thread-local storage; its callers are the locks `k42-tls` and `clh-tls`.
// Tables, inflated states and objects on stacks are missing, so locks that need them do not compile.
//
// The type `Name` identifies a region within a process: a process may join one region for each such type. All shared
// objects of the process that use the region should see one definition of the type and export the instances of this
// template. Otherwise each of them joins the region separately, which is harmless.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"
#include "usher/platform/native.hpp"

namespace usher::inline v2 {

namespace shared_memory_detail {

struct words {
  template <class T>
  using atomic = std::atomic<T>;
  template <class T>
  using plain = native::plain<T>;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

struct alignas(64) node_slot {
  queue_node<words> node;
  std::atomic<std::uint32_t> used;  ///< 0: free; else the number of its share
};
static_assert(sizeof(node_slot) == 64);

inline constexpr std::uint32_t nodes_a_share = 64, most_shares = 256, most_own_shares = 16;

struct alignas(64) share {
  std::atomic<std::uint64_t> owner;        ///< the process, as by identify(); 0: free
  std::atomic<std::uint32_t> search_from;  ///< index of a node that was free recently
};

struct layout {
  static constexpr std::uint64_t ready_mark = 0x32'30'72'65'68'73'75ull;  ///< "usher02": has the layout's version

  std::atomic<std::uint64_t> ready;  ///< written last by create()
  std::uint64_t bytes, data;         ///< the size of the region; the offset of the program's data
  std::uint32_t nodes_each, shares_in_all;
  share shares[most_shares];  ///< share 0 is not used
  node_slot nodes[most_shares * nodes_a_share];
};
static_assert(sizeof(layout) == 64 + most_shares * 64 + most_shares * nodes_a_share * 64);

/// Reads the beginning of a file below /proc as text. Returns its length, or a negative error number.
inline ssize_t read_proc(const char* name, char* text, std::size_t size) {
  const int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  const ssize_t n = read(fd, text, size - 1);
  const int error = errno;
  close(fd);
  if (n < 0) return -error;
  text[n] = '\0';
  return n;
}

/// Returns the time at which a process began, in the kernel's ticks. 0: it has ended, even if its parent has not waited
/// for it. `unknown`: no file descriptor or memory is free, permission is denied, or there is no /proc.
inline constexpr std::uint64_t unknown = ~std::uint64_t{0};
inline std::uint64_t began(std::int32_t pid) {
  char name[32], text[1024];
  std::snprintf(name, sizeof name, "/proc/%d/stat", int(pid));
  const ssize_t n = read_proc(name, text, sizeof text);
  if (n == -ESRCH) return 0;
  if (n == -ENOENT) return access("/proc/self/stat", F_OK) == 0 ? 0 : unknown;
  if (n <= 0) return unknown;
  const char* p = std::strrchr(text, ')');  // the command may contain any character
  if (p == nullptr || p[1] == '\0') return unknown;
  const char state = p[2];
  unsigned long threads = 0;
  for (unsigned field = 2; (p = std::strchr(p + 1, ' ')) != nullptr;) {
    field++;
    if (field == 20) threads = strtoul(p, nullptr, 10);
    if (field == 22) return state == 'Z' && threads <= 1 ? 0 : strtoull(p, nullptr, 10);
  }
  return unknown;
}

/// Identifies a process until the machine is restarted: by its start time, 0 if that is unknown, and its 22-bit id.
inline constexpr unsigned pid_bits = 22;
inline std::int32_t pid_of(std::uint64_t owner) {
  return std::int32_t(owner & ((1u << pid_bits) - 1));
}
inline std::uint64_t identify(std::int32_t pid) {
  const std::uint64_t begin = began(pid);
  return (begin != unknown ? begin << pid_bits : 0) | std::uint32_t(pid);
}

/// Returns false only if the process has certainly ended. The ids of another PID namespace name other processes, so all
/// processes that share a region must be in one PID namespace.
inline bool is_alive(std::uint64_t owner) {
  const std::int32_t pid = pid_of(owner);
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  if (owner >> pid_bits == 0) return true;
  const std::uint64_t begin = began(pid);
  return begin == unknown || owner == (begin << pid_bits | std::uint32_t(pid));
}

}  // namespace shared_memory_detail

template <class Name>
struct shared_memory : native {
  using layout = shared_memory_detail::layout;
  using words = shared_memory_detail::words;

  // ---- sleeping

  static void park(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask) {
    futex(key_of(word).word, FUTEX_WAIT_BITSET, expected, nullptr, mask);
  }
  static void park(const std::atomic<std::uint64_t>& word, std::uint64_t expected, std::uint32_t mask) {
    futex(key_of(word).word, FUTEX_WAIT_BITSET, std::uint32_t(expected >> 32), nullptr, mask);
  }
  static void park_for(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask,
                       std::uint64_t ns) {
    const std::uint64_t end = now() + ns;
    const timespec t{time_t(end / 1000000000u), long(end % 1000000000u)};
    futex(key_of(word).word, FUTEX_WAIT_BITSET, expected, &t, mask);
  }
  static void park_until() = delete;  // native::park_until() uses private futexes
  static void nap(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask, std::uint64_t ns,
                  std::uint32_t) {
    park_for(word, expected, mask, ns);
  }
  static void wake(wake_key key, std::uint32_t mask, int most) {
    futex(key.word, FUTEX_WAKE_BITSET, std::uint32_t(most), nullptr, mask);
  }
  static bool fence_heavy() { return false; }  // membarrier() affects only the threads of one process

  // ---- nodes

  static queue_node<words>& node(node_handle h) { return base()->nodes[h].node; }

  static node_handle take_node() {
    if (here_.epoch.load(std::memory_order_relaxed) != fork_epoch_of_process()) [[unlikely]]
      join_as_child();
    const std::uint32_t own = own_shares();
    for (std::uint32_t i = 0; i < own; i++)
      if (const node_handle h = take_from(here_.shares[i].load(std::memory_order_relaxed))) return h;
    return take_from(add_share());
  }

  static void give_node(node_handle h) {
    auto& slot = base()->nodes[h];
    slot.used.store(0, std::memory_order_release);  // (n2)
    base()->shares[h / nodes_a_share].search_from.store(h % nodes_a_share, std::memory_order_relaxed);
  }

  static node_handle cached_node() {
    node_cache& k = node_cache_;
    return k.valid() ? std::exchange(k.handle, no_node) : take_node();
  }
  static void cache_node(node_handle h) {
    node_cache& k = node_cache_;
    if (k.valid()) return give_node(h);
    k.handle = h;
    k.epoch = here_.epoch.load(std::memory_order_relaxed);
    k.joined = here_.joined.load(std::memory_order_relaxed);
  }

  // ---- the rest

  /// A constant, so that no list of waiters in the region counts as left behind by a fork: each thread that waits in a
  /// region exists, in one of the region's processes.
  static std::uint32_t fork_epoch() { return 1; }

  static std::uint32_t thread_index() {
    return here_.shares[0].load(std::memory_order_relaxed) << 16 | native::thread_index();
  }

  static std::uint32_t salt(const void* lock) {
    return std::uint32_t((reinterpret_cast<std::uintptr_t>(lock) - reinterpret_cast<std::uintptr_t>(base())) >> 3);
  }

  static std::uint32_t random() {
    std::uint32_t x = here_.seed.fetch_add(0x9e3779b9u, std::memory_order_relaxed) ^ std::uint32_t(now());
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
  }
  static bool bernoulli(std::uint32_t n) { return n != 0 && random() % n == 0; }

  template <class T>
  class local;
  template <class T>
  static std::uint32_t take_inflated() = delete;
  template <class Tag>
  static std::atomic<std::uint32_t>* table() = delete;
  template <class Tag>
  static constexpr std::uint32_t table_size() = delete;
  static std::atomic<std::uint64_t>* visible_readers() = delete;

  // ---- called by shared_region

  static layout* base() { return here_.base.load(std::memory_order_relaxed); }

  /// Called when the process has mapped the region. Returns false if it has already joined one of this Name.
  static bool attach(layout* at) {
    layout* none = nullptr;
    if (!here_.base.compare_exchange_strong(none, at, std::memory_order_release, std::memory_order_relaxed))
      return false;
    here_.joined.fetch_add(1, std::memory_order_relaxed);
    here_.seed.store(std::uint32_t(identify_self() * 0x9e3779b97f4a7c15u >> 32), std::memory_order_relaxed);
    here_.epoch.store(fork_epoch_of_process(), std::memory_order_relaxed);
    return true;
  }

  /// Takes the process's first share. Returns false if all shares belong to living processes.
  static bool add_first_share() { return add_share() != 0; }

  static void detach() {
    node_cache_.give_back();
    for (std::uint32_t i = own_shares(); i-- > 0;) {
      auto& owner = base()->shares[here_.shares[i].exchange(0, std::memory_order_relaxed)].owner;
      std::uint64_t me = owner.load(std::memory_order_relaxed);
      // Compares only the process id, because the start time may be unknown, now or when the share was taken.
      if (shared_memory_detail::pid_of(me) == getpid())
        owner.compare_exchange_strong(me, 0, std::memory_order_release, std::memory_order_relaxed);
    }
    here_.own.store(0, std::memory_order_relaxed);
    here_.base.store(nullptr, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t nodes_a_share = shared_memory_detail::nodes_a_share;

  /// The process's own data about the region.
  struct place {
    std::atomic<layout*> base;
    std::atomic<std::uint32_t> epoch;   ///< the fork epoch in which the process joined; differs in a child
    std::atomic<std::uint32_t> joined;  ///< the number of joins
    std::atomic<std::uint32_t> seed;
    std::atomic<std::uint32_t> own;  ///< the number of elements of shares[]
    std::atomic<std::uint32_t> shares[shared_memory_detail::most_own_shares];
  };
  static inline constinit place here_{};

  /// The node that a thread caches. The destructor releases the node when the thread ends.
  struct node_cache {
    node_handle handle = no_node;
    std::uint32_t epoch = 0, joined = 0;

    bool valid() const {
      return handle != no_node && epoch == fork_epoch_of_process() && base() != nullptr &&
             joined == here_.joined.load(std::memory_order_relaxed);
    }
    void give_back() {
      if (valid()) give_node(std::exchange(handle, no_node));
    }
    ~node_cache() { give_back(); }
  };
  static inline thread_local node_cache node_cache_;

  static std::uint32_t fork_epoch_of_process() { return native::fork_epoch(); }

  static std::uint64_t identify_self() {
    const int saved = errno;
    const std::uint64_t me = shared_memory_detail::identify(getpid());
    errno = saved;
    return me;
  }

  static std::uint32_t own_shares() {
    const std::uint32_t n = here_.own.load(std::memory_order_acquire);
    return n < shared_memory_detail::most_own_shares ? n : shared_memory_detail::most_own_shares;
  }

  static node_handle take_from(std::uint32_t s) {
    if (s == 0) return no_node;
    auto& search_from = base()->shares[s].search_from;
    const std::uint32_t first = search_from.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < nodes_a_share; i++) {
      const node_handle h = s * nodes_a_share + (first + i) % nodes_a_share;
      auto& used = base()->nodes[h].used;
      std::uint32_t none = 0;
      // (n1) acquire: pairs with (n2), by which the previous user of the node ended its use.
      if (used.load(std::memory_order_relaxed) == 0 &&
          used.compare_exchange_strong(none, s, std::memory_order_acquire, std::memory_order_relaxed)) {
        search_from.store((h + 1) % nodes_a_share, std::memory_order_relaxed);
        return h;
      }
    }
    return no_node;
  }

  /// Takes one more share for this process: a free share, or that of a process that has ended. 0: there is none.
  [[gnu::cold, gnu::noinline]] static std::uint32_t add_share() {
    const int saved = errno;
    const std::uint32_t s = find_share(identify_self());
    errno = saved;
    if (s == 0) return 0;
    const std::uint32_t i = here_.own.load(std::memory_order_relaxed);
    if (i >= shared_memory_detail::most_own_shares) return s;  // no room to list this share: used only once
    here_.shares[i].store(s, std::memory_order_relaxed);  // if two threads do this at a time, the process loses a share
    here_.own.store(i + 1, std::memory_order_release);
    return s;
  }

  static std::uint32_t find_share(std::uint64_t me) {
    for (std::uint32_t s = 1; s < shared_memory_detail::most_shares; s++) {
      auto& owner = base()->shares[s].owner;
      std::uint64_t o = owner.load(std::memory_order_relaxed);
      if (o == me ? !is_listed(s) : o == 0 || !shared_memory_detail::is_alive(o))
        if (owner.compare_exchange_strong(o, me, std::memory_order_acq_rel, std::memory_order_relaxed)) return s;
    }
    return 0;
  }

  static bool is_listed(std::uint32_t s) {
    for (std::uint32_t i = 0; i < own_shares(); i++)
      if (here_.shares[i].load(std::memory_order_relaxed) == s) return true;
    return false;
  }

  /// Called in the child of a process that had joined. The child has no shares yet, because the parent keeps its own.
  [[gnu::cold, gnu::noinline]] static void join_as_child() {
    std::uint32_t old = here_.epoch.load(std::memory_order_relaxed);
    const std::uint32_t epoch = fork_epoch_of_process();
    if (old == epoch || !here_.epoch.compare_exchange_strong(old, epoch, std::memory_order_relaxed)) return;
    here_.own.store(0, std::memory_order_relaxed);
    here_.seed.fetch_xor(epoch * 0x9e3779b9u, std::memory_order_relaxed);
  }

  static void futex(void* word, int op, std::uint32_t value, const timespec* timeout, std::uint32_t mask) {
    const int saved = errno;
    syscall(SYS_futex, word, op, value, timeout, nullptr, mask);
    errno = saved;
  }
};

static_assert(platform_with_priorities<shared_memory<void>> && platform_with_asymmetric_fences<shared_memory<void>>);
static_assert(!offers_tables<shared_memory<void>> && !offers_inflation<shared_memory<void>> &&
              !offers_stack_objects<shared_memory<void>> && !offers_visible_readers<shared_memory<void>>);

}  // namespace usher::inline v2
