// The hardware as a platform: std::atomic, PAUSE, futex, thread records.
//
// All process-wide state is one object, `usher_process_state`, found under one name by everything in the process:
// two shared objects that were loaded with RTLD_LOCAL must agree on the waiting array and on what a node handle
// means, or a waiter in one of them would never hear of an unlock in the other. An inline variable is not enough,
// for clang does not make it unique; so the object is defined by an assembler directive that either compiler emits
// alike.
//
// Thread records live in one mapped region that is never unmapped. A record is owned by a living thread id in one
// incarnation of the process (its fork stamp); there is no destructor and no key: a thread that needs a record takes
// over one whose owner no longer exists. Thread-local storage holds one pointer.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
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

#include "usher/platform.hpp"
#include "usher/platform/monitor.hpp"
#include "usher/queue_node.hpp"

// glibc has these since 2.35; other C libraries do not.
extern "C" {
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace usher {

struct native;

namespace native_detail {

/// One queue node with its own in-use mark, alone in its cache line.
struct alignas(64) node_slot {
  queue_node<native>* queue() { return reinterpret_cast<queue_node<native>*>(this); }
  unsigned char raw[32];
  std::atomic<std::uint32_t> used;  ///< 0: free; else the fork stamp of the process that took it
};

/// A thread's record: 64 bytes of its own and 15 nodes. A thread that holds more locks chains further records.
struct alignas(64) thread_record {
  std::atomic<std::uint64_t> owner;  ///< fork stamp << 32 | thread id; 0: nobody's
  // The rest is the owner's alone; atomic only because a dead owner's last writes are ordered by the kernel, which
  // thread sanitizers do not see.
  std::atomic<std::uint64_t> random;  ///< xorshift state, never 0
  std::atomic<node_handle> hint;      ///< a node of mine that was free not long ago
  std::atomic<std::uint32_t> more;    ///< index of a further record of mine, 0: none
  std::atomic<std::uint32_t> place;   ///< NUMA node, and above bit 16 how often it is still taken for true
  std::atomic<std::uint64_t> kept;  ///< fork stamp << 32 | a node kept for the next acquisition, perhaps not mine; or 0
  node_slot nodes[15];

  std::uint32_t stamp() const { return std::uint32_t(owner.load(std::memory_order_relaxed) >> 32); }
};
static_assert(sizeof(thread_record) == 1024 && offsetof(thread_record, nodes) == 64);

/// Where a thread learns which NUMA node it runs on.
enum numa_source : std::uint32_t {
  numa_rseq = 1,    ///< the kernel writes it into the thread's restartable-sequences area: Linux 6.3, glibc 2.35
  numa_getcpu = 2,  ///< a system call, now and then
  numa_fake = 16,   ///< + n: USHER_FAKE_NODES=n divides the CPUs among n nodes that the machine does not have
};

inline constexpr std::uint32_t slots_a_record = sizeof(thread_record) / sizeof(node_slot);
inline constexpr std::uint32_t table_size = 4096;

/// One place of the pool of large locks' states. What has been in it stays, for the next of the same type.
struct annex_slot {
  static constexpr std::size_t size = 65536, room = size - 128;
  std::atomic<std::uint32_t> next_free;
  std::atomic<const void*> type;  ///< of what lies in `bytes`; null: zeros
  alignas(128) unsigned char bytes[room];
};
static_assert(sizeof(annex_slot) == annex_slot::size);

/// All zero at first. `mark` has a page of its own, which the kernel wipes in a child (MADV_WIPEONFORK).
struct process_state {
  /// fork stamp << 32 | 4 once stamped, else 0. (The 4: see preload/layout.hpp, which compares in one operation.)
  alignas(4096) std::atomic<std::uint64_t> mark;
  alignas(4096) std::atomic<std::uint32_t> last_stamp;  ///< of this process or an ancestor; survives a fork
  std::atomic<std::int32_t> pid;
  /// The region. Record 0 is nobody's, so small handles are free for marks; its `more` is the number of records.
  std::atomic<thread_record*> records;
  std::atomic<std::uint32_t> made;                ///< records 1 … made have been handed out at least once
  std::atomic<std::uint32_t> cursor;              ///< where to look next for a dead thread's record
  std::atomic<std::uint32_t> spin, yield, sleep;  ///< wait limits + 1; 0: not yet known
  std::atomic<std::uint32_t> cpus;                ///< 0: nobody has asked yet
  std::atomic<std::uint32_t> seed;
  std::atomic<std::uint32_t> monitor;  ///< what the processor has to wait with: monitor.hpp; 0: not yet known
  std::atomic<std::uint32_t> numa;     ///< how numa_node() asks: native_detail::numa_source; 0: not yet known
  /// Whoever resets locks that were held or queued on across a fork sets this: nodes of ghosts are then free again.
  std::atomic<std::uint32_t> ghosts_are_free;
  std::atomic<annex_slot*> annexes;         ///< slot 0 is nobody's
  std::atomic<std::uint64_t> free_annexes;  ///< changes << 32 | first of a list, 0: none
  std::atomic<std::uint32_t> annexes_made;  ///< slots 1 … made have been handed out at least once
  std::atomic<std::uint32_t> nice_ranks;    ///< priority() is told by niceness: set_priorities_by_nice()
  alignas(4096) std::atomic<std::uint32_t> waiting_array[table_size];
  std::atomic<std::uint32_t> id_array[table_size];
  std::atomic<std::uint32_t> chain_array[table_size];  ///< empty in a child: its pages, too, are wiped
  thread_record reserve[16];                           ///< the region where none can be mapped: enough for 14 threads
};
static_assert(sizeof(process_state) == 73728);

}  // namespace native_detail

extern "C" native_detail::process_state usher_process_state __attribute__((visibility("default")));
__asm__(
    ".pushsection .bss.usher_process_state,\"awG\",%nobits,usher_process_state,comdat\n"
    ".globl usher_process_state\n"
    ".type usher_process_state, %gnu_unique_object\n"
    ".size usher_process_state, 73728\n"
    ".balign 4096\n"
    "usher_process_state:\n"
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

  /// The calling thread's record, or null if no more can be had.
  static thread_record* self() {
    thread_record* r = current_;
    if (r == nullptr || r->stamp() != fork_stamp()) [[unlikely]]
      return find_record();
    return r;
  }

  /// The kernel's id of the calling thread.
  static std::int32_t thread_id() {
    if (thread_record* r = self()) [[likely]]
      return std::int32_t(std::uint32_t(r->owner.load(std::memory_order_relaxed)));
    return gettid_now();
  }

  /// A small number of the calling thread's own; 0 if it has no record.
  static std::uint32_t thread_index() {
    const thread_record* r = self();
    return r != nullptr ? std::uint32_t(r - usher_process_state.records.load(std::memory_order_relaxed)) : 0;
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
    const auto stamp = std::uint32_t(usher_process_state.mark.load(std::memory_order_acquire) >> 32);
    if (r != nullptr && r->stamp() == stamp) [[likely]] {
      const node_handle h = r->hint.load(std::memory_order_relaxed);
      auto& used = slot(h).used;
      // (n1) acquire: pairs with (n2), the end of the node's use by whoever gave it back.
      if (used.load(std::memory_order_acquire) == 0) [[likely]] {
        used.store(stamp, std::memory_order_relaxed);  // only the owner of a record takes nodes from it
        return h;
      }
    }
    return search_node();
  }

  static void give_node(node_handle h) {
    thread_record* r = current_;
    // Read before the node is free: its record may then change owners.
    const bool mine = r != nullptr && (record_of(h) == r || record_of(h)->owner.load(std::memory_order_relaxed) ==
                                                                r->owner.load(std::memory_order_relaxed));
    slot(h).used.store(0, std::memory_order_release);  // (n2)
    if (mine) r->hint.store(h, std::memory_order_relaxed);
  }

  /// What is kept stays with the record when its thread dies: whoever takes the record over has it.
  static node_handle borrow_node() {
    if (thread_record* r = self()) [[likely]] {
      const std::uint64_t kept = r->kept.load(std::memory_order_relaxed);
      if (kept >> 32 == r->stamp()) [[likely]] {
        r->kept.store(0, std::memory_order_relaxed);
        return node_handle(kept);
      }
    }
    return take_node();
  }

  static void keep_node(node_handle h) {
    thread_record* r = self();
    if (r == nullptr || r->kept.load(std::memory_order_relaxed) >> 32 == r->stamp()) return give_node(h);
    r->kept.store(std::uint64_t{r->stamp()} << 32 | h, std::memory_order_relaxed);
  }

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

  static native_detail::node_slot& slot(node_handle h) {
    auto* base = usher_process_state.records.load(std::memory_order_relaxed);
    return reinterpret_cast<native_detail::node_slot*>(base)[h];
  }
  static thread_record* record_of(node_handle h) {
    return usher_process_state.records.load(std::memory_order_relaxed) + h / native_detail::slots_a_record;
  }
  static node_handle handle_of(const thread_record* r, unsigned i) {
    const auto index = std::uint32_t(r - usher_process_state.records.load(std::memory_order_relaxed));
    return index * native_detail::slots_a_record + 1 + i;
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
    madvise(&s.mark, 4096, MADV_WIPEONFORK);  // before the mark is written, or a child could inherit it
    madvise(s.chain_array, sizeof s.chain_array, MADV_WIPEONFORK);  // before there is a node that could be in a chain
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
        auto& r = s.records.load(std::memory_order_relaxed)[i];
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
      // I am the thread that forked; nobody takes over a record with an old stamp, so it is still mine. The records
      // chained to it may have been freed by stamp_process(): leave them, and the hint that may point into one.
      if (r->stamp() != stamp) {
        r->owner.store(me, std::memory_order_relaxed);
        r->more.store(0, std::memory_order_relaxed);
        r->hint.store(handle_of(r, 0), std::memory_order_relaxed);
        // A node that was kept is in nobody's use, but only its record's owner may say so.
        const auto kept = node_handle(r->kept.exchange(0, std::memory_order_relaxed));
        if (kept != no_node && record_of(kept) == r) slot(kept).used.store(0, std::memory_order_relaxed);
      }
      return r;
    }
    thread_record* r = claim_record(me);
    // Not in a child that shares our memory (vfork): its thread-local storage is the suspended parent's.
    if (r != nullptr && getpid() == usher_process_state.pid.load(std::memory_order_relaxed)) current_ = r;
    return r;
  }

  /// A record that becomes mine: a dead thread's if one is found by a short look, else a new one.
  static thread_record* claim_record(std::uint64_t me) {
    auto& s = usher_process_state;
    thread_record* base = region();
    const std::uint32_t made = s.made.load(std::memory_order_acquire);
    for (unsigned tries = 0; tries < 4 && made > 0; tries++) {
      const std::uint32_t i = 1 + s.cursor.fetch_add(1, std::memory_order_relaxed) % made;
      if (take_over(base[i], me)) return &base[i];
    }
    const std::uint32_t capacity = base->more.load(std::memory_order_relaxed);
    std::uint32_t last = made;
    while (last + 2 < capacity) {  // the last record is for those who find none
      // Between this and take_over, another thread may see the new record, unowned, and be quicker.
      if (s.made.compare_exchange_weak(last, last + 1, std::memory_order_acq_rel, std::memory_order_acquire) &&
          take_over(base[++last], me))
        return &base[last];
    }
    for (std::uint32_t i = 1; i <= last; i++)
      if (take_over(base[i], me)) return &base[i];
    return nullptr;
  }

  static bool take_over(thread_record& r, std::uint64_t me) {
    std::uint64_t owner = r.owner.load(std::memory_order_acquire);
    if (owner == me) {
      // This thread's id, but perhaps not this thread's: its thread is dead and the id was given out again, unless
      // the record is in my own chain.
      for (thread_record* c = current_; c != nullptr; c = more(*c))
        if (c == &r) return false;
    } else if (owner != 0) {
      // A record of another incarnation may belong to the thread that forked.
      if (owner >> 32 != me >> 32) return false;
      // Ids of another process's threads say nothing: a child that shares our memory cannot tell who is alive.
      if (getpid() != usher_process_state.pid.load(std::memory_order_relaxed)) return false;
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
    r.hint.store(handle_of(&r, 0), std::memory_order_relaxed);
    r.more.store(0, std::memory_order_relaxed);
    return true;
  }

  static thread_record* more(const thread_record& r) {
    const std::uint32_t i = r.more.load(std::memory_order_relaxed);
    return i != 0 ? usher_process_state.records.load(std::memory_order_relaxed) + i : nullptr;
  }

  /// The region of records: 64 MiB of addresses, touched as needed; less where the process may not have so much.
  static thread_record* region() {
    auto& s = usher_process_state;
    if (auto* base = s.records.load(std::memory_order_acquire)) return base;
    const int saved = errno;
    std::uint32_t n = 65536;
    void* fresh = MAP_FAILED;
    for (; n >= 64 && fresh == MAP_FAILED; n /= 2)
      fresh = mmap(nullptr, n * sizeof(thread_record), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    n *= 2;
    const bool mapped = fresh != MAP_FAILED;
    if (mapped) madvise(fresh, n * sizeof(thread_record), MADV_NOHUGEPAGE);
    thread_record* mine = mapped ? static_cast<thread_record*>(fresh) : s.reserve;
    mine->more.store(mapped ? n : std::uint32_t(std::size(s.reserve)), std::memory_order_relaxed);
    thread_record* base = nullptr;
    if (s.records.compare_exchange_strong(base, mine, std::memory_order_acq_rel, std::memory_order_acquire))
      base = mine;
    else if (mapped)
      munmap(fresh, n * sizeof(thread_record));
    errno = saved;
    return base;
  }

  /// The hint was wrong: looks through my records, then chains another.
  [[gnu::cold, gnu::noinline]] static node_handle search_node() {
    thread_record* r = self();
    const std::uint32_t stamp = fork_stamp();
    if (r == nullptr) return shared_node(stamp);
    const bool reuse = usher_process_state.ghosts_are_free.load(std::memory_order_relaxed) != 0;
    for (thread_record* from = r;;) {
      thread_record* last = from;
      for (thread_record* c = from; c != nullptr; last = c, c = more(*c)) {
        for (unsigned i = 0; i < 15; i++) {
          auto& used = c->nodes[i].used;
          const std::uint32_t u = used.load(std::memory_order_acquire);  // pairs with (n2)
          if (u == 0 || (reuse && u != stamp)) {
            used.store(stamp, std::memory_order_relaxed);
            const node_handle h = handle_of(c, i);
            r->hint.store(h, std::memory_order_relaxed);
            return h;
          }
        }
      }
      // A dead thread's record may have no free node (locks that it took and never released): then once more.
      thread_record* fresh = claim_record(r->owner.load(std::memory_order_relaxed));
      if (fresh == nullptr) return no_node;
      last->more.store(std::uint32_t(fresh - usher_process_state.records.load(std::memory_order_relaxed)),
                       std::memory_order_relaxed);
      from = fresh;  // all before it are full
    }
  }

  /// A thread that can have no record takes one of the last record's nodes, which nobody owns: no_node if all are in use.
  static node_handle shared_node(std::uint32_t stamp) {
    thread_record* base = region();
    thread_record& shared = base[base->more.load(std::memory_order_relaxed) - 1];
    for (unsigned i = 0; i < std::size(shared.nodes); i++) {
      std::uint32_t free = 0;
      if (shared.nodes[i].used.compare_exchange_strong(free, stamp, std::memory_order_acq_rel,
                                                       std::memory_order_relaxed))
        return handle_of(&shared, i);
    }
    return no_node;
  }

  static inline constinit thread_local thread_record* current_ = nullptr;
};

static_assert(sizeof(queue_node<native>) <= sizeof(native_detail::node_slot::raw));
static_assert(platform<native>);

}  // namespace usher
