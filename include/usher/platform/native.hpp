// The hardware as a platform: std::atomic, PAUSE, futex, thread records.
//
// All process-wide state is one object, `usher_process_state`, found under one name by everything in the process that was
// built from this layout: two shared objects that were loaded with RTLD_LOCAL must agree on the waiting array and on what a
// node handle means, or a waiter in one of them would never hear of an unlock in the other. An inline variable is not enough,
// for clang does not make it unique; so the object is defined by an assembler directive that either compiler emits alike.
//
// Thread records and queue nodes live in one mapped region that is never unmapped. A record is owned by a living thread id
// in one incarnation of the process (its fork stamp); there is no destructor and no key: a thread that needs a record takes
// over one whose owner no longer exists. Thread-local storage holds one pointer.
//
// A node belongs to whoever has it at hand, and nodes have no home: a thread gives a node to its own record, which keeps a
// few, and what is too much or missing there is exchanged with a list that all share. So taking and giving a node cost the
// same however many nodes the thread holds, whoever took them, and however its threads have ended. Signal handlers that
// lock, and forks, are at `thread_record` and `node_pool`.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"
#include "usher/platform/monitor.hpp"

// glibc has these since 2.35; other C libraries do not.
extern "C" {
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace usher::inline v1 {

struct native;

namespace native_detail {

/// One queue node, alone in its cache line.
struct alignas(64) node_slot {
  queue_node<native>* queue() { return reinterpret_cast<queue_node<native>*>(this); }
  unsigned char raw[32];
  std::atomic<node_handle> next;  ///< in a list of the pool's. Beside the node, so that it is a handle at any time
};

/// A thread's record. All of it is the owner's alone; atomic only because a dead owner's last writes are ordered by the
/// kernel, which thread sanitizers do not see.
///
/// Handlers. The thread's signal handlers may lock, too, at any point of what is done with free[] and top, and return
/// while they hold the lock. So the owner says in `ready` that it is at it:
///
///     (s1) ready is compared with the stamp    equal, or nothing is done here
///     (s2) ready = busy
///     (s3) top and free[] are read and written
///     (s4) ready = the stamp
///
/// A handler that comes before (s2) has done with the record when it returns, and (s3) reads what it has left. One that
/// comes between (s2) and (s4) finds `busy` and takes its nodes from the pool, and gives them there; the pool's operations
/// are compare-and-swaps, which any number may interrupt. One that comes after (s4) finds all done. Whoever jumps out of a
/// handler leaves the record busy: it is then not used any more as long as the thread lives. In (s3) the order is such
/// that a thread which ends there, in a handler, leaves no node in two places.
///
/// Forks. In the child of a fork in a handler the stamp of (s4) is of the parent's incarnation: the record's nodes are then
/// of unknown origin, and dropped where the pool began anew (`node_pool`). So are those of other threads that the child
/// does not have.
struct alignas(64) thread_record {
  static constexpr std::uint32_t most = 14, batch = most / 2;
  static constexpr std::uint32_t busy = ~std::uint32_t{0};  ///< no stamp
  std::atomic<std::uint64_t> owner;                         ///< fork stamp << 32 | thread id; 0: nobody's
  /// Points into free[]: what follows free[0] up to here are nodes that the thread has at hand. Null: never used yet.
  std::atomic<std::atomic<node_handle>*> top;
  std::atomic<std::uint32_t> ready;         ///< the stamp for which the nodes are good, or busy
  std::atomic<std::uint64_t> random;        ///< xorshift state, never 0
  std::atomic<std::uint32_t> place;         ///< NUMA node, and above bit 16 how often it is still taken for true
  std::atomic<node_handle> free[1 + most];  ///< the first is no_node for ever

  std::uint32_t stamp() const { return std::uint32_t(owner.load(std::memory_order_relaxed) >> 32); }
  std::atomic<node_handle>* at(std::uint32_t i) { return &free[i]; }
};
static_assert(sizeof(thread_record) == 128);

/// The nodes that no thread has at hand: a list, and those that have not been in use. Each of its words is changed by
/// compare-and-swap only, so threads, handlers and threads that never come back may interrupt each other anywhere in it: what
/// is lost then is what they had in hand.
///
/// Where locks are reset in a child (ghosts_are_free) it lies on the page that a fork wipes: nodes that ghosts hold,
/// wait with or had at hand cost the child nothing, for its pool is a new one. It begins behind all nodes that an ancestor
/// has made and goes round from there. So a node that the thread which forked still has in hand, because it did so in a
/// handler that interrupted an operation on a lock, is not handed out once more, whatever the operation goes on to do with
/// it; unless the child has made a million others by then. Elsewhere locks may stay in use across a fork, and the child goes
/// on with a copy of the pool.
struct node_pool {
  /// Changes << 24 | the first of a list, or no_node. 0: not yet open. The changes begin elsewhere in each incarnation, so
  /// that nothing which was begun in the parent succeeds in its child by accident.
  std::atomic<std::uint64_t> list;
  std::atomic<std::uint64_t> from;  ///< 1 + how many had been made when it began. 0: not yet open
  /// The same, and how many it has made since. 0: not yet open. It goes on rising in children, for the reason above.
  std::atomic<std::uint64_t> made;
};

/// Lies where the handles below first_node would have their nodes.
struct region_head {
  std::atomic<std::uint32_t> records, slots;  ///< how many there can be
};

/// Where a thread learns which NUMA node it runs on.
enum numa_source : std::uint32_t {
  numa_rseq = 1,    ///< the kernel writes it into the thread's restartable-sequences area: Linux 6.3, glibc 2.35
  numa_getcpu = 2,  ///< a system call, now and then
  numa_fake = 16,   ///< + n: USHER_FAKE_NODES=n divides the CPUs among n nodes that the machine does not have
};

/// Slots for each record that there can be: more than a record keeps, so that no thread goes without a node because others
/// have some at hand.
inline constexpr std::uint32_t slots_a_record = 16;
static_assert(slots_a_record > thread_record::most + 1);
/// How many bytes n records take with their nodes. The records come first, in descending order, and the nodes after them:
/// both are found from the address between, which is slot 0.
constexpr std::size_t bytes_for(std::uint32_t n) {
  return n * (sizeof(thread_record) + slots_a_record * sizeof(node_slot));
}
inline constexpr std::uint32_t most_records = 65536, reserved_records = 14;
inline constexpr std::uint32_t table_size = 4096;

/// One place of the pool of large locks' states. What has been in it stays, for the next of the same type.
struct annex_slot {
  static constexpr std::size_t size = 65536, room = size - 128;
  std::atomic<std::uint32_t> next_free;
  std::atomic<const void*> type;  ///< of what lies in `bytes`; null: zeros
  alignas(128) unsigned char bytes[room];
};
static_assert(sizeof(annex_slot) == annex_slot::size);

/// All zero at first. The first page is wiped in a child: by the kernel (MADV_WIPEONFORK), or by forget_parent().
struct process_state {
  /// fork stamp << 32 | 4 once stamped, else 0. (The 4: see preload/layout.hpp, which compares in one operation.)
  alignas(4096) std::atomic<std::uint64_t> mark;
  alignas(128) node_pool wiped_pool;                    ///< where ghosts_are_free
  alignas(4096) std::atomic<std::uint32_t> last_stamp;  ///< of this process or an ancestor; survives a fork
  std::atomic<std::int32_t> pid;
  std::atomic<node_slot*> nodes;                  ///< slot 0 of the region
  std::atomic<std::uint32_t> made;                ///< records 1 … made have been handed out at least once
  std::atomic<std::uint32_t> cursor;              ///< where to look next for a dead thread's record
  std::atomic<std::uint32_t> spin, yield, sleep;  ///< wait limits + 1; 0: not yet known
  std::atomic<std::uint32_t> cpus;                ///< 0: nobody has asked yet
  std::atomic<std::uint32_t> seed;
  std::atomic<std::uint32_t> monitor;  ///< what the processor has to wait with: monitor.hpp; 0: not yet known
  std::atomic<std::uint32_t> numa;     ///< how numa_node() asks: native_detail::numa_source; 0: not yet known
  /// Whoever resets locks that were held or queued on across a fork sets this: nodes of ghosts are then free again.
  std::atomic<std::uint32_t> ghosts_are_free;
  std::atomic<annex_slot*> annexes;          ///< slot 0 is nobody's
  std::atomic<std::uint64_t> free_annexes;   ///< changes << 32 | first of a list, 0: none
  std::atomic<std::uint32_t> annexes_made;   ///< slots 1 … made have been handed out at least once
  std::atomic<std::uint32_t> unwiped;        ///< 1: the kernel does not wipe in children; forget_parent() does
  std::atomic<std::uint32_t> told_of_forks;  ///< 1: somebody calls forget_parent() in children
  std::atomic<std::uint32_t> nice_ranks;     ///< priority() is told by niceness: set_priorities_by_nice()
  alignas(128) node_pool pool;               ///< where locks may be in use across a fork
  std::atomic<std::uint64_t> ever_made;      ///< how many nodes this process and its ancestors have made, or a few more
  alignas(4096) std::atomic<std::uint32_t> waiting_array[table_size];
  std::atomic<std::uint32_t> id_array[table_size];
  std::atomic<std::uint32_t> chain_array[table_size];              ///< empty in a child: its pages, too, are wiped
  alignas(64) unsigned char reserve[bytes_for(reserved_records)];  ///< the region where none can be mapped
};
static_assert(sizeof(process_state) == 73728);

}  // namespace native_detail

// The symbol's version is the inline namespace's: both change when the layout of process_state, of what it points to, or
// of a lock changes, so that objects built from different releases share neither state nor code.
extern native_detail::process_state usher_process_state __asm__("usher_process_state_v1")
    __attribute__((visibility("default")));
__asm__(
    ".pushsection .bss.usher_process_state_v1,\"awG\",%nobits,usher_process_state_v1,comdat\n"
    ".globl usher_process_state_v1\n"
    ".type usher_process_state_v1, %gnu_unique_object\n"
    ".size usher_process_state_v1, 73728\n"
    ".balign 4096\n"
    "usher_process_state_v1:\n"
    ".zero 73728\n"
    ".popsection\n");

struct native {
  template <class T>
  using atomic = std::atomic<T>;

  template <class T>
  class plain {
   public:
    T get() const { return value_; }
    void set(T v) { value_ = v; }

   private:
    T value_{};
  };

  template <class T>
  class local {
   public:
    T& operator*() { return object_; }
    T* operator->() { return &object_; }

   private:
    T object_;
  };

  // ---- time and waiting -------------------------------------------------------------------------------------

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
  }

  static std::uint64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::uint64_t(t.tv_sec) * 1000000000u + std::uint64_t(t.tv_nsec);
  }

  template <class Word, class Pred>
  static auto await(const Word& word, Pred pred, std::memory_order order) {
    for (;;) {
      const auto v = word.load(order);
      if (pred(v)) return v;
      pause();
    }
  }

  /// After about a microsecond it polls politely: it offers its CPU to others between looks, for whoever is waited for
  /// may be the one who needs it. A yield that nobody takes costs about as much as a few pauses.
  template <class Word, class Pred>
  static auto await_for(const Word& word, Pred pred, std::memory_order order, std::uint64_t ns)
      -> std::optional<decltype(word.load())> {
    return await_until(word, pred, order, ns, [](unsigned i) { i < polite_from ? pause() : void(sched_yield()); });
  }

  template <class Word, class Pred>
  static auto await_yielding_for(const Word& word, Pred pred, std::memory_order order, std::uint64_t ns)
      -> std::optional<decltype(word.load())> {
    return await_until(word, pred, order, ns, [](unsigned) { sched_yield(); });
  }

  /// Polls, then yields, then sleeps for a little between looks: with real-time priorities, yielding alone may not
  /// let the awaited thread run.
  template <class Word, class Pred>
  static auto await_yielding(const Word& word, Pred pred, std::memory_order order) {
    if (auto v = await_for(word, pred, order, 1000)) return *v;
    if (auto v = await_yielding_for(word, pred, order, 100000)) return *v;
    for (;;) {
      backoff(sleep_from);
      const auto v = word.load(order);
      if (pred(v)) return v;
    }
  }

  template <class Word, class Pred>
  static auto await_sleeping(const Word& word, Pred pred, std::memory_order order, std::uint64_t ns) {
    for (;; sleep_for(ns)) {
      const auto v = word.load(order);
      if (pred(v)) return v;
    }
  }

  /// The processor is asked once what it can do.
  template <class Word, class Pred>
  static auto await_monitoring_for(const Word& word, Pred pred, std::memory_order order, std::uint64_t ns)
      -> std::optional<decltype(word.load())> {
    using namespace native_detail;
    auto& known = usher_process_state.monitor;
    std::uint32_t can = known.load(std::memory_order_relaxed);
    if (can == 0) [[unlikely]]
      known.store(can = find_monitor(), std::memory_order_relaxed);
    switch (can) {
#if defined(__x86_64__)
      case monitor_umwait:
        return await_by_monitor<umwait>(word, pred, order, ns, now);
      case monitor_mwaitx:
        return await_by_monitor<mwaitx>(word, pred, order, ns, now);
#elif defined(__aarch64__)
      case monitor_wfet:
        return await_by_monitor<wfet>(word, pred, order, ns, now);
#endif
      default:
        return await_for(word, pred, order, ns);
    }
  }

  static void backoff(std::uint32_t ns) {
    if (ns >= sleep_from) return sleep_for(ns);
    const std::uint64_t end = now() + ns;
    do pause();
    while (now() < end);
  }

  static wait_limits limits() {
    auto& s = usher_process_state;
    const std::uint32_t spin = s.spin.load(std::memory_order_relaxed);
    const std::uint32_t yield = s.yield.load(std::memory_order_relaxed);
    const std::uint32_t sleep = s.sleep.load(std::memory_order_relaxed);
    if (spin == 0 || yield == 0 || sleep == 0) [[unlikely]]
      return first_limits();
    return {spin - 1, yield - 1, sleep - 1};
  }

  /// Sets the limits of the whole process. At most one second each.
  static void set_limits(wait_limits l) {
    constexpr std::uint32_t most = 1000000000;
    usher_process_state.spin.store((l.spin < most ? l.spin : most) + 1, std::memory_order_relaxed);
    usher_process_state.yield.store((l.yield < most ? l.yield : most) + 1, std::memory_order_relaxed);
    usher_process_state.sleep.store((l.sleep < most ? l.sleep : most) + 1, std::memory_order_relaxed);
  }

  // ---- sleeping ---------------------------------------------------------------------------------------------

  static void park(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask) {
    futex(key_of(word).word, FUTEX_WAIT_BITSET_PRIVATE, expected, nullptr, mask);
  }

  /// A word of 64 bits is watched by its upper half.
  static void park(const std::atomic<std::uint64_t>& word, std::uint64_t expected, std::uint32_t mask) {
    futex(key_of(word).word, FUTEX_WAIT_BITSET_PRIVATE, std::uint32_t(expected >> 32), nullptr, mask);
  }

  static void park_for(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask,
                       std::uint64_t ns) {
    const std::uint64_t end = now() + ns;  // FUTEX_WAIT_BITSET takes an absolute time
    const timespec t{time_t(end / 1000000000u), long(end % 1000000000u)};
    futex(key_of(word).word, FUTEX_WAIT_BITSET_PRIVATE, expected, &t, mask);
  }

  static void nap(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t mask,
                  std::uint64_t ns) {
    park_for(word, expected, mask, ns);
  }

  static wake_key key_of(const std::atomic<std::uint32_t>& word) {
    return {const_cast<void*>(static_cast<const void*>(&word))};
  }

  static wake_key key_of(const std::atomic<std::uint64_t>& word) {
    constexpr bool little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    auto* bytes = const_cast<char*>(static_cast<const char*>(static_cast<const void*>(&word)));
    return {bytes + (little_endian ? 4 : 0)};
  }

  static void wake(wake_key key, std::uint32_t mask, int most) {
    futex(key.word, FUTEX_WAKE_BITSET_PRIVATE, std::uint32_t(most), nullptr, mask);
  }

  // ---- asymmetric fences ------------------------------------------------------------------------------------

  /// For the compiler alone: the heavy side makes every other thread pass a real one.
  static void fence_light() { std::atomic_signal_fence(std::memory_order_seq_cst); }

  /// Every thread of the process that runs passes a full memory barrier during the call, between two of its
  /// instructions; one that does not run has passed one. Linux 4.14; false where the system refuses it.
  static bool fence_heavy() {
    const int saved = errno;
    bool done = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    // EPERM: this process has not said yet that it will use it.
    if (!done && errno == EPERM) done = prepare_heavy_fences() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    errno = saved;
    return done;
  }

  /// Cheap while the process has one thread, milliseconds later: best called early by those who need heavy fences.
  static bool prepare_heavy_fences() {
    const int saved = errno;
    const bool done = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    errno = saved;
    return done;
  }

  // ---- threads and nodes ------------------------------------------------------------------------------------

  using thread_record = native_detail::thread_record;

  /// A number that differs between a process and its children: what it was when a lock was last used tells whether
  /// threads that hold it or wait for it exist here. Never 0.
  static std::uint32_t fork_stamp() {
    const std::uint64_t mark = usher_process_state.mark.load(std::memory_order_acquire);
    if (mark == 0) [[unlikely]]
      return stamp_process();
    return std::uint32_t(mark >> 32);
  }

  /// The same, or 0 if there is none yet, by one load.
  static std::uint32_t stamp_so_far() {
    constexpr bool little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    using half [[gnu::may_alias]] = std::uint32_t;
    const auto* halves = reinterpret_cast<const half*>(&usher_process_state.mark);
    return __atomic_load_n(halves + (little_endian ? 1 : 0), __ATOMIC_ACQUIRE);
  }

  /// In a child, for kernels that do not wipe there what is of the parent: between the handlers' first and last lines.
  static void forget_parent() {
    auto& s = usher_process_state;
    if (s.unwiped.load(std::memory_order_relaxed) == 0) return;
    sigset_t all, before;  // no handler may lock halfway
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s.mark.store(0, std::memory_order_relaxed);
    s.wiped_pool.list.store(0, std::memory_order_relaxed);
    s.wiped_pool.from.store(0, std::memory_order_relaxed);
    s.wiped_pool.made.store(0, std::memory_order_relaxed);
    for (auto& c : s.chain_array) c.store(no_node, std::memory_order_relaxed);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  /// The calling thread's record, or null if no more can be had.
  static thread_record* self() {
    thread_record* r = current_;
    if (r == nullptr || r->stamp() != fork_stamp()) [[unlikely]]
      return find_record();
    return r;
  }

  /// The kernel's id of the calling thread.
  [[gnu::always_inline]] static std::int32_t thread_id() {
    if (thread_record* r = self()) [[likely]]
      return std::int32_t(std::uint32_t(r->owner.load(std::memory_order_relaxed)));
    return gettid_now();
  }

  /// A small number of the calling thread's own; 0 if it has no record.
  static std::uint32_t thread_index() {
    const thread_record* r = self();
    return r != nullptr ? std::uint32_t(reinterpret_cast<const thread_record*>(slot_base()) - r) : 0;
  }

  static constexpr std::uint32_t most_numa_nodes = 16;

  static std::uint32_t numa_node() {
    if (usher_process_state.numa.load(std::memory_order_relaxed) == native_detail::numa_rseq) [[likely]]
      return rseq_node_id() % most_numa_nodes;
    return ask_numa_node();
  }

  /// What tells the calling thread from all others that live: never 0, and 1 if the thread has no record (yet). One
  /// load from thread-local storage.
  static std::uint32_t thread_mark() { return std::uint32_t(reinterpret_cast<std::uintptr_t>(current_)) | 1; }

  static node_handle take_node() {
    thread_record* r = current_;
    const std::uint32_t stamp = stamp_so_far();
    if (r == nullptr || r->ready.load(std::memory_order_relaxed) != stamp) [[unlikely]]  // (s1)
      return take_slowly();
    return take_from(*r, stamp);
  }

  static void give_node(node_handle h) {
    thread_record* r = current_;
    const std::uint32_t stamp = stamp_so_far();
    if (r == nullptr || r->ready.load(std::memory_order_relaxed) != stamp) [[unlikely]]  // (s1)
      return give_slowly(h);
    give_to(*r, stamp, h);
  }

  /// The node that was given last is the next that is taken, whoever took it before: all nodes wander, and none needs to be
  /// kept beside the others.
  static node_handle borrow_node() { return take_node(); }
  static void keep_node(node_handle h) { give_node(h); }

  static queue_node<native>& node(node_handle h) { return *slot(h).queue(); }

  // ---- states of large locks --------------------------------------------------------------------------------

  // A fork loses those that are attached at that moment to the child, where nobody returns them; not to the parent.

  template <class T>
  static std::uint32_t take_annex() {
    static_assert(sizeof(annexed<native, T>) <= native_detail::annex_slot::room);
    const std::uint32_t h = take_annex_slot();
    if (h == 0) return 0;
    auto& slot = annex_slots()[h];
    // Two shared objects may differ in what they take for the type: then the bytes are cleared once too often.
    if (slot.type.load(std::memory_order_relaxed) != &type_tag<T>) {
      std::memset(static_cast<void*>(&annex<T>(h).lock), 0, sizeof(T));
      slot.type.store(&type_tag<T>, std::memory_order_relaxed);
    }
    return h;
  }

  template <class T>
  static void give_annex(std::uint32_t h) {
    auto& s = usher_process_state;
    std::uint64_t head = s.free_annexes.load(std::memory_order_relaxed);
    for (;;) {
      annex_slots()[h].next_free.store(std::uint32_t(head), std::memory_order_relaxed);
      // (a2) release: pairs with (a1), the state as it was left.
      if (s.free_annexes.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | h, std::memory_order_release,
                                               std::memory_order_relaxed))
        return;
      pause();
    }
  }

  template <class T>
  static annexed<native, T>& annex(std::uint32_t h) {
    return *std::launder(reinterpret_cast<annexed<native, T>*>(annex_slots()[h].bytes));
  }

  // ---- the rest ---------------------------------------------------------------------------------------------

  template <class Tag>
  static std::atomic<std::uint32_t>* table() {
    static_assert(Tag::size == native_detail::table_size);
    constexpr table_kind kind = Tag::kind;
    if constexpr (kind == table_kind::counts)
      return usher_process_state.waiting_array;
    else if constexpr (kind == table_kind::identities)
      return usher_process_state.id_array;
    else
      return usher_process_state.chain_array;
  }

  template <class Tag>
  static constexpr std::uint32_t table_size() {
    return Tag::size;
  }

  static std::uint32_t cpus() {
    const std::uint32_t n = usher_process_state.cpus.load(std::memory_order_relaxed);
    if (n == 0) [[unlikely]]
      return count_cpus();
    return n;
  }

  static std::uint32_t salt(const void* lock) { return std::uint32_t(reinterpret_cast<std::uintptr_t>(lock) >> 3); }

  static std::uint32_t random() {
    thread_record* r = self();
    if (r == nullptr) [[unlikely]]
      return usher_process_state.seed.fetch_add(0x9e3779b9u, std::memory_order_relaxed) * 0x85ebca6bu;
    std::uint64_t x =
        r->random.load(std::memory_order_relaxed);  // Marsaglia's xorshift, as the Malthusian paper's §4 uses
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    r->random.store(x, std::memory_order_relaxed);
    return std::uint32_t(x >> 16);
  }

  static bool bernoulli(std::uint32_t n) { return n != 0 && random() % n == 0; }

  static void doorway(const void*) {}
  static void admitted(const void*) {}

  /// SCHED_FIFO and SCHED_RR: 1 … 99, as the kernel has it; SCHED_DEADLINE, which goes before them: 100; all others 0. Asked
  /// each time, for another thread or process may change it at any time. `thread` 0: the caller's. errno is the program's.
  static std::uint32_t priority(std::int32_t thread = 0) {
    constexpr long deadline = 6, reset_on_fork = 0x40000000;  // SCHED_DEADLINE, SCHED_RESET_ON_FORK
    const int saved = errno;
    long p = 0;
    if (usher_process_state.nice_ranks.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      p = syscall(SYS_getpriority, 0, thread) - 1;  // the kernel answers 20 - nice
    } else if (const long policy = syscall(SYS_sched_getscheduler, thread) & ~reset_on_fork; policy == deadline) {
      p = 100;
    } else if (policy == SCHED_FIFO || policy == SCHED_RR) {
      sched_param parameters{};
      if (syscall(SYS_sched_getparam, thread, &parameters) == 0) p = parameters.sched_priority;
    }
    errno = saved;
    return p > 0 ? std::uint32_t(p) : 0;
  }

  /// For tests, where the machine gives no real-time priorities: a thread's priority is 19 less its nice value, 0 … 39.
  static void set_priorities_by_nice(bool on) {
    usher_process_state.nice_ranks.store(on ? 1 : 0, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned polite_from = 32;         // looks
  static constexpr std::uint32_t sleep_from = 50000;  // ns: below, a sleep costs more than it saves

  static void sleep_for(std::uint64_t ns) {
    // Not nanosleep(): it is a cancellation point, and taking a lock must not be one.
    std::atomic<std::uint32_t> nothing{0};
    park_for(nothing, 0u, every_sleeper, ns);
  }

  template <class Word, class Pred, class Pause>
  static auto await_until(const Word& word, Pred pred, std::memory_order order, std::uint64_t ns, Pause relax)
      -> std::optional<decltype(word.load())> {
    std::uint64_t end = 0;
    for (unsigned i = 0;; i++) {
      const auto v = word.load(order);
      if (pred(v)) return v;
      if (i % 8 == 0) {  // a look at the clock costs about as much as eight looks at the word
        const std::uint64_t t = ns != 0 ? now() : 0;
        if (i == 0) end = t + ns;
        if (t >= end) return std::nullopt;
      }
      relax(i);
    }
  }

  /// Of a thread that could not be registered it is 0.
  static std::uint32_t rseq_node_id() {
    constexpr std::ptrdiff_t node_id = 20;  // struct rseq
    auto* area = static_cast<const char*>(__builtin_thread_pointer()) + __rseq_offset;
    return *reinterpret_cast<const volatile std::uint32_t*>(area + node_id);
  }

  [[gnu::cold, gnu::noinline]] static std::uint32_t ask_numa_node() {
    auto& s = usher_process_state;
    if (s.numa.load(std::memory_order_relaxed) == 0) s.numa.store(find_numa_source(), std::memory_order_relaxed);
    const std::uint32_t source = s.numa.load(std::memory_order_relaxed);
    if (source == native_detail::numa_rseq) return rseq_node_id() % most_numa_nodes;
    if (source > native_detail::numa_fake) return std::uint32_t(sched_getcpu()) % (source - native_detail::numa_fake);
    thread_record* r = self();
    std::uint32_t place = r != nullptr ? r->place.load(std::memory_order_relaxed) : 0;
    if (place >> 16 == 0) {
      constexpr std::uint32_t trusted = 256;  // chosen, not measured
      const int saved = errno;
      unsigned cpu = 0, node = 0;
      syscall(SYS_getcpu, &cpu, &node, nullptr);
      errno = saved;
      place = trusted << 16 | node % most_numa_nodes;
    }
    if (r != nullptr) r->place.store(place - (1u << 16), std::memory_order_relaxed);
    return place & 0xffff;
  }

  static std::uint32_t find_numa_source() {
    if (const char* fake = getenv("USHER_FAKE_NODES")) {
      const unsigned long n = strtoul(fake, nullptr, 10);
      if (n >= 1 && n <= most_numa_nodes) return native_detail::numa_fake + std::uint32_t(n);
    }
    constexpr unsigned long feature_size = 27, enough = 24;  // AT_RSEQ_FEATURE_SIZE; up to and with node_id
    if (&__rseq_size != nullptr && __rseq_size != 0 && getauxval(feature_size) >= enough)
      return native_detail::numa_rseq;
    return native_detail::numa_getcpu;
  }

  /// errno is the program's: a lock does not change it.
  static void futex(void* word, int op, std::uint32_t value, const timespec* timeout, std::uint32_t mask) {
    const int saved = errno;
    syscall(SYS_futex, word, op, value, timeout, nullptr, mask);
    errno = saved;
  }

  static bool membarrier(int command) { return syscall(SYS_membarrier, command, 0) == 0; }

  static std::int32_t gettid_now() { return std::int32_t(syscall(SYS_gettid)); }

  template <class T>
  static inline constexpr char type_tag = 0;
  static constexpr std::uint32_t most_annexes = 1024;

  static native_detail::annex_slot* annex_slots() {
    return usher_process_state.annexes.load(std::memory_order_relaxed);
  }

  static std::uint32_t take_annex_slot() {
    auto& s = usher_process_state;
    // (a1) acquire: pairs with (a2). The upper half counts changes, so that a list which looks the same is the same.
    std::uint64_t head = s.free_annexes.load(std::memory_order_acquire);
    while (std::uint32_t(head) != 0) {
      const std::uint32_t next = annex_slots()[std::uint32_t(head)].next_free.load(std::memory_order_relaxed);
      if (s.free_annexes.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | next, std::memory_order_acquire,
                                               std::memory_order_acquire))
        return std::uint32_t(head);
      pause();
    }
    if (!map_annexes()) return 0;
    std::uint32_t made = s.annexes_made.load(std::memory_order_relaxed);
    while (made + 1 < most_annexes)
      if (s.annexes_made.compare_exchange_weak(made, made + 1, std::memory_order_relaxed)) return made + 1;
    return 0;
  }

  /// 64 MiB of addresses, touched as needed.
  static bool map_annexes() {
    auto& s = usher_process_state;
    if (s.annexes.load(std::memory_order_acquire) != nullptr) return true;
    constexpr std::size_t bytes = std::size_t{most_annexes} * sizeof(native_detail::annex_slot);
    const int saved = errno;
    void* const fresh =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh != MAP_FAILED) {
      madvise(fresh, bytes, MADV_NOHUGEPAGE);
      native_detail::annex_slot* none = nullptr;
      if (!s.annexes.compare_exchange_strong(none, static_cast<native_detail::annex_slot*>(fresh),
                                             std::memory_order_acq_rel, std::memory_order_acquire))
        munmap(fresh, bytes);
    }
    errno = saved;
    return s.annexes.load(std::memory_order_acquire) != nullptr;
  }

  static native_detail::node_slot* slot_base() { return usher_process_state.nodes.load(std::memory_order_relaxed); }
  static native_detail::node_slot& slot(node_handle h) { return slot_base()[h]; }
  /// From 1 on.
  static thread_record& record(native_detail::node_slot* base, std::uint32_t i) {
    return *(reinterpret_cast<thread_record*>(base) - i);
  }
  static native_detail::region_head& head(native_detail::node_slot* base) {
    return *reinterpret_cast<native_detail::region_head*>(base);
  }

  /// The limits when nobody has set any. Spinning: 20,000 cycles at 3.6 GHz, a context switch's round trip by the
  /// Malthusian paper (§5, the machine of §6); none where there is nobody to wait for but on this CPU. Yielding: chosen, not measured.
  [[gnu::cold, gnu::noinline]] static wait_limits first_limits() {
    cpu_set_t cpus{};
    const int saved = errno;
    unsigned count = 0;  // by hand: CPU_COUNT is a function of one C library
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
      for (int i = 0; i < CPU_SETSIZE; i++) count += CPU_ISSET(i, &cpus) ? 1 : 0;
    const bool one = count == 1;
    errno = saved;
    const wait_limits l{one ? 0u : 5555u, 1000000u};
    set_limits(l);
    return l;
  }

  /// Whoever is first decides for all.
  [[gnu::cold, gnu::noinline]] static std::uint32_t count_cpus() {
    const int saved = errno;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    errno = saved;
    const std::uint32_t mine = online > 0 ? std::uint32_t(online) : 1;
    std::uint32_t n = 0;
    return usher_process_state.cpus.compare_exchange_strong(n, mine, std::memory_order_relaxed) ? mine : n;
  }

  /// First use in this process, or first use after a fork.
  [[gnu::cold, gnu::noinline]] static std::uint32_t stamp_process() {
    auto& s = usher_process_state;
    const int saved = errno;
    // Before the mark is written, or a child could inherit it; and before there is a node that could be in a chain.
    if (madvise(&s.mark, 4096, MADV_WIPEONFORK) != 0 ||
        madvise(s.chain_array, sizeof s.chain_array, MADV_WIPEONFORK) != 0) {
      s.unwiped.store(1, std::memory_order_relaxed);
      // Linux before 4.14, some emulators, some sandboxes.
      if (s.told_of_forks.exchange(1, std::memory_order_relaxed) == 0) pthread_atfork(nullptr, nullptr, forget_parent);
    }
    const std::int32_t pid = getpid();
    s.pid.store(pid, std::memory_order_relaxed);
    // A stamp that no ancestor has used: last_stamp is copied by fork. It is written before the mark, so that a
    // child of this very moment continues above it.
    const std::uint32_t stamp = s.last_stamp.fetch_add(1, std::memory_order_relaxed) + 1;
    std::uint64_t mark = 0;
    if (!s.mark.compare_exchange_strong(mark, std::uint64_t{stamp} << 32 | 4, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      errno = saved;
      return std::uint32_t(mark >> 32);
    }
    // If this is the thread that forked, every other record belongs to a thread that is not here. But only where that
    // thread has one record: shared objects that embed locks may each have given it one, which only they know.
    const std::int32_t tid = gettid_now();
    if (tid == pid && s.ghosts_are_free.load(std::memory_order_relaxed) != 0) {
      const std::uint32_t made = s.made.load(std::memory_order_relaxed);
      for (std::uint32_t i = 1; i <= made; i++) {
        auto& r = record(slot_base(), i);
        std::uint64_t owner = r.owner.load(std::memory_order_relaxed);
        if (&r != current_ && std::uint32_t(owner >> 32) != stamp)
          r.owner.compare_exchange_strong(owner, 0, std::memory_order_relaxed);
      }
    }
    errno = saved;
    return stamp;
  }

  [[gnu::cold, gnu::noinline]] static thread_record* find_record() {
    const std::uint32_t stamp = fork_stamp();
    const std::uint64_t me = std::uint64_t{stamp} << 32 | std::uint32_t(gettid_now());
    if (thread_record* r = current_) {
      // I am the thread that forked; nobody takes over a record with an old stamp, so it is still mine.
      if (r->stamp() != stamp) r->owner.store(me, std::memory_order_relaxed);
      return r;
    }
    // None for a child that shares our memory (vfork): its thread-local storage is the suspended parent's, and ids of another
    // process's threads do not say who is alive.
    if (getpid() != usher_process_state.pid.load(std::memory_order_relaxed)) return nullptr;
    thread_record* r = claim_record(me);
    if (r == nullptr) return nullptr;
    // Has a handler found one meanwhile? (One that comes now leaves a record that stays unused as long as this thread lives.)
    if (thread_record* const theirs = current_) {
      if (r != theirs) r->owner.store(0, std::memory_order_release);
      return theirs;
    }
    current_ = r;
    return r;
  }

  /// A record that becomes mine: a dead thread's if one is found by a short look, else a new one; where there can be no more, by
  /// a longer look. So it takes a bounded time, however many threads there are and have been.
  static thread_record* claim_record(std::uint64_t me) {
    auto& s = usher_process_state;
    native_detail::node_slot* const base = region();
    std::uint32_t made = s.made.load(std::memory_order_acquire);
    for (unsigned tries = 0; tries < 4 && made > 0; tries++) {
      thread_record& r = record(base, 1 + s.cursor.fetch_add(1, std::memory_order_relaxed) % made);
      if (take_over(r, me)) return &r;
    }
    const std::uint32_t capacity = head(base).records.load(std::memory_order_relaxed);
    while (made < capacity) {
      // Between this and take_over, another thread may see the new record, unowned, and be quicker.
      if (s.made.compare_exchange_weak(made, made + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        thread_record& r = record(base, ++made);
        if (take_over(r, me)) return &r;
      }
    }
    for (unsigned tries = 0; tries < 64 && tries < made; tries++) {
      thread_record& r = record(base, 1 + s.cursor.fetch_add(1, std::memory_order_relaxed) % made);
      if (take_over(r, me)) return &r;
    }
    return nullptr;
  }

  static bool take_over(thread_record& r, std::uint64_t me) {
    std::uint64_t owner = r.owner.load(std::memory_order_acquire);
    if (owner == me) {
      // This thread's id, but perhaps not this thread's: its thread is dead and the id was given out again. Or it is this
      // thread's: another shared object's that embeds locks, or one that a handler finds while we are at it here. All of
      // these may share it, unless it is in use right now.
      if (&r == current_ || r.ready.load(std::memory_order_relaxed) == thread_record::busy) return false;
    } else if (owner != 0) {
      // A record of another incarnation may belong to the thread that forked.
      if (owner >> 32 != me >> 32) return false;
      const int saved = errno;
      const bool alive = syscall(SYS_tgkill, usher_process_state.pid.load(std::memory_order_relaxed),
                                 std::int32_t(std::uint32_t(owner)), 0) == 0 ||
                         errno != ESRCH;
      errno = saved;
      if (alive) return false;
    }
    // (r1) acquire: what the dead thread's successors wrote; the thread itself is gone, its writes with it.
    if (!r.owner.compare_exchange_strong(owner, me, std::memory_order_acq_rel, std::memory_order_relaxed)) return false;
    r.random.store((now() ^ me * 0x9e3779b97f4a7c15u) | 1, std::memory_order_relaxed);
    make_ready(r, std::uint32_t(me >> 32));
    return true;
  }

  /// The region of records and nodes: 72 MiB of addresses, touched as needed; less where the process may not have so much.
  static native_detail::node_slot* region() {
    using native_detail::bytes_for;
    auto& s = usher_process_state;
    if (auto* base = s.nodes.load(std::memory_order_acquire)) return base;
    const int saved = errno;
    std::uint32_t n = native_detail::most_records;
    void* fresh = MAP_FAILED;
    for (; n >= 64 && fresh == MAP_FAILED; n /= 2)
      fresh = mmap(nullptr, bytes_for(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    n *= 2;
    const bool mapped = fresh != MAP_FAILED;
    if (mapped)
      madvise(fresh, bytes_for(n), MADV_NOHUGEPAGE);
    else
      n = native_detail::reserved_records;
    void* const begin = mapped ? fresh : s.reserve;
    auto* const mine = reinterpret_cast<native_detail::node_slot*>(static_cast<thread_record*>(begin) + n);
    // shared_memory.hpp wants indices of 16 bits.
    head(mine).records.store(n < 65536 ? n : 65535, std::memory_order_relaxed);
    head(mine).slots.store(n * native_detail::slots_a_record, std::memory_order_relaxed);
    native_detail::node_slot* base = nullptr;
    if (s.nodes.compare_exchange_strong(base, mine, std::memory_order_acq_rel, std::memory_order_acquire))
      base = mine;
    else if (mapped)
      munmap(fresh, bytes_for(n));
    errno = saved;
    return base;
  }

  // What a thread has at hand: thread_record. The fences keep the compiler from moving what is between (s2) and (s4) out of it.

  static void begin(thread_record& r) {
    r.ready.store(thread_record::busy, std::memory_order_relaxed);  // (s2)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  /// Release: pairs with (r2), what this thread did with the nodes.
  static void end(thread_record& r, std::uint32_t stamp) { r.ready.store(stamp, std::memory_order_release); }  // (s4)

  static node_handle take_from(thread_record& r, std::uint32_t stamp) {
    begin(r);
    std::atomic<node_handle>* const top = r.top.load(std::memory_order_relaxed);
    const node_handle h = top->load(std::memory_order_relaxed);
    if (h == no_node) [[unlikely]]
      return refill(r, stamp);
    r.top.store(top - 1, std::memory_order_relaxed);
    end(r, stamp);
    return h;
  }

  static void give_to(thread_record& r, std::uint32_t stamp, node_handle h) {
    begin(r);
    std::atomic<node_handle>* const top = r.top.load(std::memory_order_relaxed);
    if (top == r.at(thread_record::most)) [[unlikely]]
      return overflow(r, stamp, h);
    top[1].store(h, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_release);
    r.top.store(top + 1, std::memory_order_relaxed);
    end(r, stamp);
  }

  /// The nodes become this incarnation's: those of another one are of another pool.
  static void make_ready(thread_record& r, std::uint32_t stamp) {
    if (r.ready.load(std::memory_order_acquire) == stamp) return;  // (r2)
    begin(r);
    if (usher_process_state.ghosts_are_free.load(std::memory_order_relaxed) != 0 ||
        r.top.load(std::memory_order_relaxed) == nullptr)
      r.top.store(r.at(0), std::memory_order_relaxed);
    end(r, stamp);
  }

  /// The calling thread's record, if it may be used; null if it is busy, or there is none.
  static thread_record* ready_record(std::uint32_t stamp) {
    thread_record* const r = self();
    if (r == nullptr || r->ready.load(std::memory_order_relaxed) == thread_record::busy) return nullptr;
    // A handler that comes here does all of the following: then it is done twice, and what the handler has got is lost.
    make_ready(*r, stamp);
    return r;
  }

  /// No record yet, or of another incarnation, or busy.
  [[gnu::cold, gnu::noinline]] static node_handle take_slowly() {
    const std::uint32_t stamp = fork_stamp();
    if (thread_record* const r = ready_record(stamp)) return take_from(*r, stamp);
    region();
    std::atomic<node_handle> one{no_node};
    return acquire_nodes(&one, 1) != 0 ? one.load(std::memory_order_relaxed) : no_node;
  }

  [[gnu::cold, gnu::noinline]] static void give_slowly(node_handle h) {
    const std::uint32_t stamp = fork_stamp();
    thread_record* const r = ready_record(stamp);
    if (r == nullptr) return release_nodes(h, h);
    give_to(*r, stamp, h);
  }

  /// The record is empty, and busy. A batch comes: then as many may be given as taken before the pool is needed again.
  [[gnu::cold, gnu::noinline]] static node_handle refill(thread_record& r, std::uint32_t stamp) {
    const std::uint32_t n = acquire_nodes(r.at(1), thread_record::batch);
    const node_handle h = r.at(n)->load(std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_release);
    if (n != 0) r.top.store(r.at(n - 1), std::memory_order_relaxed);
    end(r, stamp);
    return h;
  }

  /// The record is full, and busy. The half that has been there longest goes to the pool.
  [[gnu::cold, gnu::noinline]] static void overflow(thread_record& r, std::uint32_t stamp, node_handle h) {
    constexpr std::uint32_t half = thread_record::batch;
    const auto at = [&r](std::uint32_t i) { return r.at(i)->load(std::memory_order_relaxed); };
    const node_handle first = at(1), last = at(half);
    for (std::uint32_t i = 1; i < half; i++) slot(at(i)).next.store(at(i + 1), std::memory_order_relaxed);
    r.top.store(r.at(0), std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    for (std::uint32_t i = 1; i <= half; i++) r.at(i)->store(at(half + i), std::memory_order_relaxed);
    r.at(half + 1)->store(h, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    r.top.store(r.at(half + 1), std::memory_order_relaxed);
    release_nodes(first, last);
    end(r, stamp);
  }

  // ---- the pool

  static native_detail::node_pool& pool() {
    auto& s = usher_process_state;
    return s.ghosts_are_free.load(std::memory_order_relaxed) != 0 ? s.wiped_pool : s.pool;
  }
  static constexpr unsigned handle_bits = 24;
  static node_handle first_of(std::uint64_t list) { return node_handle(list & ((1u << handle_bits) - 1)); }
  static std::uint64_t changed(std::uint64_t list, node_handle first) {
    return ((list >> handle_bits) + 1) << handle_bits | first;
  }

  /// First use in this incarnation, or once more.
  static void open(native_detail::node_pool& p) {
    auto& s = usher_process_state;
    std::uint64_t none = 0;
    p.from.compare_exchange_strong(none, 1 + s.ever_made.load(std::memory_order_relaxed), std::memory_order_relaxed);
    none = 0;
    p.made.compare_exchange_strong(none, p.from.load(std::memory_order_relaxed), std::memory_order_release,
                                   std::memory_order_relaxed);  // (m1)
    none = 0;
    const std::uint64_t somewhere = fork_stamp() * 0x9e3779b97f4a7c15u | std::uint64_t{1} << 63;
    p.list.compare_exchange_strong(none, somewhere >> handle_bits << handle_bits, std::memory_order_acq_rel,
                                   std::memory_order_relaxed);
  }

  /// At most so many nodes, from the list or new ones. How many.
  static std::uint32_t acquire_nodes(std::atomic<node_handle>* to, std::uint32_t most) {
    const std::uint32_t n = cut_nodes(to, most);
    return n != 0 ? n : make_nodes(to, most);
  }

  /// Cuts nodes off the front of the list.
  static std::uint32_t cut_nodes(std::atomic<node_handle>* to, std::uint32_t most) {
    auto& p = pool();
    // (l1) acquire: pairs with (l2), the nodes and their links as they were left.
    std::uint64_t list = p.list.load(std::memory_order_acquire);
    for (;;) {
      if (list == 0) {
        open(p);
        list = p.list.load(std::memory_order_acquire);
        continue;
      }
      // The list may change while we go along it. What is read then is some node, for a link is never anything else; and the
      // exchange fails, for the changes are counted.
      std::uint32_t n = 0;
      node_handle h = first_of(list);
      for (; n < most && h != no_node; n++) {
        to[n].store(h, std::memory_order_relaxed);
        h = slot(h).next.load(std::memory_order_relaxed);
      }
      if (n == 0) return 0;
      if (p.list.compare_exchange_weak(list, changed(list, h), std::memory_order_acq_rel, std::memory_order_acquire))
        return n;
      pause();
    }
  }

  /// Makes nodes that have not been in use in this incarnation.
  static std::uint32_t make_nodes(std::atomic<node_handle>* to, std::uint32_t most) {
    auto& s = usher_process_state;
    auto& p = pool();
    const std::uint32_t all = head(slot_base()).slots.load(std::memory_order_relaxed) - first_node;
    std::uint64_t made = p.made.load(std::memory_order_acquire);  // pairs with (m1)
    for (;;) {
      const std::uint64_t from = p.from.load(std::memory_order_relaxed);
      if (made == 0 || from == 0) {  // a fork in a handler, since the list was open or in the middle of open()
        open(p);
        made = p.made.load(std::memory_order_acquire);
        continue;
      }
      const std::uint64_t begin = made - 1;
      const std::uint32_t left = all - std::uint32_t(made - from), n = most < left ? most : left;
      if (n == 0) return 0;
      // Before they are anybody's: a child begins behind them from then on.
      std::uint64_t ever = s.ever_made.load(std::memory_order_relaxed);
      while (ever < begin + n && !s.ever_made.compare_exchange_weak(ever, begin + n, std::memory_order_relaxed)) {
      }
      if (p.made.compare_exchange_weak(made, made + n, std::memory_order_acquire)) {
        for (std::uint32_t i = 0; i < n; i++)
          to[i].store(first_node + node_handle((begin + i) % all), std::memory_order_relaxed);
        return n;
      }
      pause();
    }
  }

  /// Gives a list of nodes, whose links are set up to the last, to all.
  static void release_nodes(node_handle first, node_handle last) {
    auto& p = pool();
    std::uint64_t list = p.list.load(std::memory_order_relaxed);
    for (;;) {
      if (list == 0) {  // a child in which nobody has taken a node yet
        open(p);
        list = p.list.load(std::memory_order_relaxed);
        continue;
      }
      slot(last).next.store(first_of(list), std::memory_order_relaxed);
      // (l2) release: pairs with (l1).
      if (p.list.compare_exchange_weak(list, changed(list, first), std::memory_order_release,
                                       std::memory_order_relaxed))
        return;
      pause();
    }
  }

  static inline constinit thread_local thread_record* current_ = nullptr;
};

static_assert(sizeof(queue_node<native>) <= sizeof(native_detail::node_slot::raw));
static_assert(platform<native>);

}  // namespace usher::inline v1
