// The contract between a lock and the machine on which it runs.
//
// A lock is a template over a platform and a way of waiting. The same source is compiled for the hardware
// (`platform/native.hpp`) and for any other machine that keeps this contract, such as a simulator or a model checker.
//
// Every platform provides (T is an integer of 32 or 64 bits):
//
//   atomic<T>          std::atomic's interface, every order written out. Where a store must be ordered before a later
//                      load, use sequentially consistent operations or a read-modify-write, never a fence.
//   plain<T>           data that the lock protects: get() and set(). A checker detects races on it; natively it costs
//                      nothing.
//   await(w, pred, o, policy)   the only way to spin on a word: returns the first value loaded with order o that
//                      satisfies pred. The policy, one of namespace `pacing` below, is the thread's action between two
//                      loads. With a limit, `pacing::polling.within(ns)`, await() returns nullopt after about ns
//                      nanoseconds.
//   backoff(ns)        a bounded pause in a retry loop around a read-modify-write. Every such loop contains it, or
//                      waits in another way in each round.
//   park(w, v, mask)   sleeps while w == v, until a wake() on w whose mask has a bit in common with `mask`. Of a 64-bit
//                      w only the upper half is compared. May return spuriously. park_for(w, v, mask, ns), 32 bits
//                      only: sleeps at most ns nanoseconds. nap(w, v, mask, ns, bits): as park_for, but the thread
//                      needs no wake-up, since the limit ends its sleep. But a thread that sets one of `bits` in w must
//                      wake a sleeper; a checker tests this.
//                      naps_end_in_time(), optional: false while short sleeps have been observed to end late.
//   cost_of_sleep(n)   optional: the cost of a sleep in ns if n is the default limit of polling, otherwise n. The
//                      platform learns the cost from note_wake(ns): one thread's wake-up of another took ns.
//   key_of(w)          names w for wake(). The key is formed *before* the operation that gives the lock away, because
//                      nothing of the lock may be touched after this operation.
//   wake(key, mask, n) wakes at most n sleepers. The word may have been freed and reused by then: the
//                      wake-up then reaches another thread, which is harmless because every park is in a loop.
//   take_node()        takes a queue node for the calling thread. Returns its 32-bit handle, or 0 if no node is left.
//                      Nodes are type-stable: their memory is never unmapped. give_node(h) may be called by any thread.
//   cached_node()      returns the node that the calling thread has cached; if there is none, acts as take_node().
//                      cache_node(h): the calling thread caches node h for its next cached_node(), whichever thread
//                      took h; if it has cached a node already, it gives h back. No thread touches a cached node.
//                      Where nodes belong to no thread (native), these are take_node() and give_node().
//   node(h)            the node of a handle.
//   thread_index()     a small number above 0, different for all running threads; 0 if the thread can have none.
//   numa_node()        the NUMA node on which the calling thread runs, below most_numa_nodes. It may be outdated,
//                      because the thread may migrate at any time. If there are more nodes, several share a number.
//   cpus()             the number of CPUs of the machine at the first call; all later calls return the same number.
//   salt(lock)         a number that a lock hashes in place of its address.
//   random()           32 random bits; bernoulli(n): true with probability 1/n.
//   now()              nanoseconds of a steady clock.
//   fork_epoch()       a number that differs between a process and its children, never 0. If a list of waiting threads
//                      was last used in another epoch, its threads do not exist in this process.
//   count_limit(n)     the limit of a counter of threads whose field has room for n, which is known at compile time:
//                      natively n. A checker returns a smaller number, the same in a whole execution, so that a few
//                      threads reach it.
//   limits()           how long to poll and to yield before sleeping, and how long to sleep between loads: nanoseconds.
//   leader(step)       optional: tells an observer the state of a leader of a group of waiters (locks/mcsg_plus.hpp).
//   doorway(lock), admitted(lock)   hooks by which a test observes arrival and admission; empty natively. lock() begins
//                      with doorway(). A lock with a retry loop before its doorway calls doorway() again right after
//                      the operation that is the doorway: the lock's guarantees count from this call.
//
// Some platforms also provide these groups of operations. Each group has a concept, for the locks that need the group:
//
//   platform_with_tables
//   table<Tag>()       a table of table_size<Tag>() words (atomic<uint32_t>), all zero at first. Each process has one
//                      table for each kind of table. The size is a power of two, Tag::size on real machines. Tag::kind
//                      is the meaning of the words.
//   platform_with_inflation
//   take_inflated<T>() takes an inflated state, with room for a large lock T, from a pool. Returns a handle of at most
//                      31 bits, or 0 if no state is left, or retake_inflated if the call has only enlarged the pool.
//                      This takes time: before the caller calls again, it checks whether it still needs a state.
//                      inflated<T>(h).lock is unlocked, inflated<T>(h).users is as its last use left it. The memory is
//                      never unmapped. give_inflated<T>(h) may be called by any thread, with the lock unlocked.
//   platform_with_priorities
//   thread_id()        identifies the calling thread for priority(id), as long as it lives; not 0.
//   priority()         the calling thread's real-time priority, above 0; 0: it has none. The sleeping thread with the
//                      highest priority is served first. priority(id): the priority of another thread. May be a system
//                      call: only called right before a thread goes to sleep, and only if there is another thread to
//                      compare with.
//   platform_with_stack_objects
//   local<T>           an object that a thread puts on its stack and other threads access while it waits: *x, x->.
//   platform_with_asymmetric_fences
//   fence_light(), fence_heavy()   a pair of asymmetric fences. Two threads each write a word, then call a fence, then
//                      read the other's word. If at least one of the fences is the heavy one, at least one thread sees
//                      the other's write. The light fence costs (next to) nothing, the heavy one microseconds. The
//                      heavy one returns false where the system has none, and nothing is ordered then. Not for locks.
//   platform_with_owner_tags: priorities and asymmetric fences, and
//   owner_tag()        a number that differs between all running threads: odd, above 2; 1 if the thread has none (yet).
//                      Called in fast paths. ensure_owner_tag(): gives the thread a tag from now on, if possible.
//
//   platform_with_visible_readers: owner tags, and
//   visible_readers()  a table of visible_slots words (atomic<uint64_t>), a power of two, one table for each process,
//                      all zero at first; null until a call of prepare_visible_readers() has succeeded. In the child of
//                      a fork the table has only the ids in slots of the thread that forked: visible_slot_of().
//   lock_id(lock)      identifies a lock in that table: not 0, different for all locks that exist.
//
// The concepts state the whole contract: if a platform lacks an operation, the compile error is one line that names it.
#pragma once

#include "usher/core/cxx20.hpp"

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace usher::inline v2 {

/// The meaning of the words of a process-wide table. Locks share a table only if its words mean the same to all.
enum class table_kind : std::uint8_t {
  counts,      ///< as in TWA: the values have no meaning, only the fact that a word changes
  identities,  ///< 0, or the handle of the waiter
  chains,      ///< handles of queue nodes; all 0 in the child of a fork
};

/// How long a waiter stays awake, in nanoseconds. Read in cold paths only.
struct wait_limits {
  std::uint32_t spin;           ///< for spin-then-park: the time of polling, about the round trip of one thread switch
  std::uint32_t yield;          ///< for yield-then-park: the time during which the waiter yields its CPU
  std::uint32_t sleep = 50000;  ///< for sleep: the time between two loads. Chosen, not measured
};

/// Names a word for wake(): the key under which its sleepers are found.
struct wake_key {
  void* word;
};

/// Returned by take_inflated() in place of a handle: the call has enlarged the pool, but has taken no state.
inline constexpr std::uint32_t retake_inflated = ~std::uint32_t{0};

/// The object that a handle of take_inflated() names.
template <class P, class T>
struct inflated_state {
  typename P::template atomic<std::uint64_t> users;  ///< number of threads that use the state: inflatable.hpp
  alignas(128) T lock;
};

inline constexpr std::uint32_t every_sleeper = ~std::uint32_t{0};
inline constexpr int all = 0x7fffffff;

/// The policies of await(): the actions of a thread between two loads of a word. Without a limit await() returns the
/// value; with a limit, `policy.within(ns)`, it returns a std::optional. Only the nanoseconds of a policy are run-time
/// values.
namespace pacing {

enum class by : std::uint8_t {
  polling,                ///< pauses; with a limit, yields its CPU between loads after about a microsecond
  yielding,               ///< yields its CPU
  polling_then_yielding,  ///< polls for about a microsecond, then yields its CPU: for waits that are usually short
  sleeping,               ///< sleeps for a fixed time; no thread wakes it
  monitoring,             ///< uses an instruction that waits until the word is written, where the processor has one
};

template <by By>
struct within {
  std::uint64_t ns;
};

template <by By>
struct endless {
  constexpr pacing::within<By> within(std::uint64_t ns) const { return {ns}; }
};

template <>
struct endless<by::sleeping> {
  std::uint64_t period;
};

// Platforms provide these policies. With and without a limit:
inline constexpr endless<by::polling> polling{};
// Only without a limit:
inline constexpr endless<by::polling_then_yielding> polling_then_yielding{};
constexpr endless<by::sleeping> sleeping(std::uint64_t period_ns) {
  return {period_ns};
}
// Only with a limit:
inline constexpr endless<by::yielding> yielding{};
inline constexpr endless<by::monitoring> monitoring{};

}  // namespace pacing

namespace platform_contract {

template <class A, class T>
concept atomic_word = requires(A& a, const A& c, T& seen, T v, std::memory_order o) {
  { c.load(o) } -> std::same_as<T>;
  { a.store(v, o) } -> std::same_as<void>;
  { a.exchange(v, o) } -> std::same_as<T>;
  { a.fetch_add(v, o) } -> std::same_as<T>;
  { a.fetch_sub(v, o) } -> std::same_as<T>;
  { a.fetch_and(v, o) } -> std::same_as<T>;
  { a.fetch_or(v, o) } -> std::same_as<T>;
  { a.fetch_xor(v, o) } -> std::same_as<T>;
  { a.compare_exchange_strong(seen, v, o, o) } -> std::same_as<bool>;
  { a.compare_exchange_weak(seen, v, o, o) } -> std::same_as<bool>;
};

template <class D, class T>
concept plain_data = requires(D& d, const D& c, T v) {
  { c.get() } -> std::same_as<T>;
  { d.set(v) } -> std::same_as<void>;
};

template <class P>
concept has_atomics = atomic_word<typename P::template atomic<std::uint32_t>, std::uint32_t> &&
                      atomic_word<typename P::template atomic<std::uint64_t>, std::uint64_t>;

template <class P>
concept has_plain = plain_data<typename P::template plain<std::uint32_t>, std::uint32_t> &&
                    plain_data<typename P::template plain<void*>, void*>;

template <class P>
concept has_nodes = requires(std::uint32_t h) {
  requires atomic_word<std::remove_reference_t<decltype((P::node(h).next))>, std::uint32_t>;
  requires atomic_word<std::remove_reference_t<decltype((P::node(h).flag))>, std::uint32_t>;
  requires plain_data<std::remove_reference_t<decltype((P::node(h).newer))>, std::uint32_t>;
  requires plain_data<std::remove_reference_t<decltype((P::node(h).older))>, std::uint32_t>;
  requires atomic_word<std::remove_reference_t<decltype((P::node(h).mark))>, std::uint32_t>;
};

template <class P, class Policy, class Result>
concept awaits = requires(const typename P::template atomic<std::uint32_t>& w, bool (*pred)(std::uint32_t),
                          std::memory_order o, Policy policy) {
  { P::await(w, pred, o, policy) } -> std::same_as<Result>;
};
template <class P, pacing::by By>
concept awaits_endlessly = awaits<P, pacing::endless<By>, std::uint32_t>;
template <class P, pacing::by By>
concept awaits_within = awaits<P, pacing::within<By>, std::optional<std::uint32_t>>;

/// Checked first, because the other requirements use atomic<T>.
template <class P, bool HasAtomics = has_atomics<P>>
struct words {
  static_assert(HasAtomics, "a platform needs atomic<T>: std::atomic's loads, stores and read-modify-writes");
};

template <class P>
struct words<P, true> {
  using word = typename P::template atomic<std::uint32_t>;
  using wide = typename P::template atomic<std::uint64_t>;
  using u32 = std::uint32_t;
  using u64 = std::uint64_t;

  static_assert(has_plain<P>, "a platform needs plain<T>: get() and set()");
  static_assert(awaits_endlessly<P, pacing::by::polling>, "a platform needs await(word, pred, order, pacing::polling)");
  static_assert(awaits_within<P, pacing::by::polling>,
                "a platform needs await(word, pred, order, pacing::polling.within(ns))");
  static_assert(awaits_within<P, pacing::by::yielding>,
                "a platform needs await(word, pred, order, pacing::yielding.within(ns))");
  static_assert(awaits_endlessly<P, pacing::by::polling_then_yielding>,
                "a platform needs await(word, pred, order, pacing::polling_then_yielding)");
  static_assert(awaits_endlessly<P, pacing::by::sleeping>,
                "a platform needs await(word, pred, order, pacing::sleeping(ns))");
  static_assert(awaits_within<P, pacing::by::monitoring>,
                "a platform needs await(word, pred, order, pacing::monitoring.within(ns))");
  static_assert(
      requires(u32 ns) {
        { P::backoff(ns) } -> std::same_as<void>;
      }, "a platform needs backoff(ns)");
  static_assert(
      requires(const word& w, const wide& d, u32 v, u64 both, u32 mask) {
        { P::park(w, v, mask) } -> std::same_as<void>;
        { P::park(d, both, mask) } -> std::same_as<void>;
      }, "a platform needs park(word, value, mask), for words of 32 and of 64 bits");
  static_assert(
      requires(const word& w, u32 v, u32 mask, u64 ns) {
        { P::park_for(w, v, mask, ns) } -> std::same_as<void>;
      }, "a platform needs park_for(word, value, mask, ns)");
  static_assert(
      requires(const word& w, u32 v, u32 mask, u64 ns) {
        { P::nap(w, v, mask, ns, mask) } -> std::same_as<void>;
      }, "a platform needs nap(word, value, mask, ns, bits)");
  static_assert(
      requires(const word& w, const wide& d) {
        { P::key_of(w) } -> std::same_as<wake_key>;
        { P::key_of(d) } -> std::same_as<wake_key>;
      }, "a platform needs key_of(word), for words of 32 and of 64 bits");
  static_assert(
      requires(wake_key key) {
        { P::wake(key, every_sleeper, all) } -> std::same_as<void>;
      }, "a platform needs wake(key, mask, n)");
  static_assert(
      requires {
        { P::take_node() } -> std::same_as<u32>;
      }, "a platform needs take_node()");
  static_assert(
      requires(u32 h) {
        { P::give_node(h) } -> std::same_as<void>;
      }, "a platform needs give_node(handle)");
  static_assert(
      requires {
        { P::cached_node() } -> std::same_as<u32>;
      }, "a platform needs cached_node()");
  static_assert(
      requires(u32 h) {
        { P::cache_node(h) } -> std::same_as<void>;
      }, "a platform needs cache_node(handle)");
  static_assert(has_nodes<P>, "a platform needs node(handle): a queue_node of its words");
  static_assert(
      requires {
        { P::thread_index() } -> std::same_as<u32>;
      }, "a platform needs thread_index()");
  static_assert(
      requires {
        { P::numa_node() } -> std::same_as<u32>;
      }, "a platform needs numa_node()");
  static_assert(
      requires { typename std::integral_constant<u32, P::most_numa_nodes>; },
      "a platform needs the constant most_numa_nodes");
  static_assert(
      requires {
        { P::cpus() } -> std::same_as<u32>;
      }, "a platform needs cpus()");
  static_assert(
      requires(const void* lock) {
        { P::salt(lock) } -> std::same_as<u32>;
      }, "a platform needs salt(lock)");
  static_assert(
      requires {
        { P::random() } -> std::same_as<u32>;
      }, "a platform needs random()");
  static_assert(
      requires(u32 n) {
        { P::bernoulli(n) } -> std::same_as<bool>;
      }, "a platform needs bernoulli(n)");
  static_assert(
      requires {
        { P::now() } -> std::same_as<u64>;
      }, "a platform needs now()");
  static_assert(
      requires {
        { P::fork_epoch() } -> std::same_as<u32>;
      }, "a platform needs fork_epoch()");
  static_assert(
      requires(u32 n) {
        { P::count_limit(n) } -> std::same_as<u32>;
      }, "a platform needs count_limit(n)");
  static_assert(
      requires {
        { P::limits() } -> std::same_as<wait_limits>;
      }, "a platform needs limits()");
  static_assert(
      requires(const void* lock) {
        { P::doorway(lock) } -> std::same_as<void>;
      }, "a platform needs doorway(lock)");
  static_assert(
      requires(const void* lock) {
        { P::admitted(lock) } -> std::same_as<void>;
      }, "a platform needs admitted(lock)");
};

/// Instantiating this class is a compile error that names the operations that P lacks, if any.
template <class P>
struct complete : words<P> {
  static constexpr bool looked_through = true;
};

struct sample_table {
  static constexpr table_kind kind = table_kind::counts;
  static constexpr std::uint32_t size = 4096;
};
struct sample_lock {};

}  // namespace platform_contract

// The optional groups, as concepts for conditions: for a platform without the group they are false, not an error.

template <class P>
concept offers_tables = requires {
  typename std::integral_constant<std::uint32_t, P::template table_size<platform_contract::sample_table>()>;
  { P::template table<platform_contract::sample_table>() } -> std::same_as<typename P::template atomic<std::uint32_t>*>;
};

template <class P>
concept offers_inflation = requires(std::uint32_t h) {
  { P::template take_inflated<platform_contract::sample_lock>() } -> std::same_as<std::uint32_t>;
  { P::template give_inflated<platform_contract::sample_lock>(h) } -> std::same_as<void>;
  { P::template inflated<platform_contract::sample_lock>(h).lock } -> std::same_as<platform_contract::sample_lock&>;
  requires platform_contract::atomic_word<
      std::remove_reference_t<decltype((P::template inflated<platform_contract::sample_lock>(h).users))>,
      std::uint64_t>;
};

template <class P>
concept offers_priorities = requires {
  { P::priority() } -> std::same_as<std::uint32_t>;
  { P::priority(P::thread_id()) } -> std::same_as<std::uint32_t>;
};

template <class P>
concept offers_stack_objects = requires(typename P::template local<std::uint32_t>& x) {
  { *x } -> std::same_as<std::uint32_t&>;
  { x.operator->() } -> std::same_as<std::uint32_t*>;
};

template <class P>
concept offers_asymmetric_fences = requires {
  { P::fence_light() } -> std::same_as<void>;
  { P::fence_heavy() } -> std::same_as<bool>;
};

template <class P>
concept offers_owner_tags = offers_priorities<P> && offers_asymmetric_fences<P> && requires {
  { P::owner_tag() } -> std::same_as<std::uint32_t>;
  { P::ensure_owner_tag() } -> std::same_as<void>;
};

template <class P>
concept offers_visible_readers = offers_owner_tags<P> && requires(const void* lock) {
  typename std::integral_constant<std::uint32_t, P::visible_slots>;
  { P::visible_readers() } -> std::same_as<typename P::template atomic<std::uint64_t>*>;
  { P::prepare_visible_readers() } -> std::same_as<bool>;
  { P::lock_id(lock) } -> std::same_as<std::uint64_t>;
};

namespace platform_contract {

template <class P>
struct tables {
  static_assert(offers_tables<P>, "this needs a platform with tables: table<Tag>() and table_size<Tag>()");
  static constexpr bool looked_through = true;
};

template <class P>
struct inflation {
  static_assert(
      offers_inflation<P>,
      "this needs a platform with inflation: take_inflated<T>(), give_inflated<T>(handle) and inflated<T>(handle)");
  static constexpr bool looked_through = true;
};

template <class P>
struct priorities {
  static_assert(offers_priorities<P>,
                "this needs a platform with priorities: thread_id(), priority() and priority(id)");
  static constexpr bool looked_through = true;
};

template <class P>
struct stack_objects {
  static_assert(offers_stack_objects<P>, "this needs a platform with stack objects: local<T>");
  static constexpr bool looked_through = true;
};

template <class P>
struct asymmetric_fences {
  static_assert(offers_asymmetric_fences<P>,
                "this needs a platform with asymmetric fences: fence_light() and fence_heavy()");
  static constexpr bool looked_through = true;
};

template <class P>
struct owner_tags {
  static_assert(
      offers_owner_tags<P>,
      "this needs a platform with owner tags: owner_tag() and ensure_owner_tag(), priorities and asymmetric fences");
  static constexpr bool looked_through = true;
};

template <class P>
struct visible_readers {
  static_assert(offers_visible_readers<P>,
                "this needs a platform with visible readers: visible_readers(), visible_slots, "
                "prepare_visible_readers() and lock_id(lock), and owner tags");
  static constexpr bool looked_through = true;
};

}  // namespace platform_contract

// These concepts are for template heads: a missing operation is a compile error that names it.

template <class P>
concept platform = platform_contract::complete<P>::looked_through;

template <class P>
concept platform_with_tables = platform<P> && platform_contract::tables<P>::looked_through;

template <class P>
concept platform_with_inflation = platform<P> && platform_contract::inflation<P>::looked_through;

template <class P>
concept platform_with_priorities = platform<P> && platform_contract::priorities<P>::looked_through;

template <class P>
concept platform_with_stack_objects = platform<P> && platform_contract::stack_objects<P>::looked_through;

template <class P>
concept platform_with_asymmetric_fences = platform<P> && platform_contract::asymmetric_fences<P>::looked_through;

template <class P>
concept platform_with_owner_tags = platform<P> && platform_contract::owner_tags<P>::looked_through;

template <class P>
concept platform_with_visible_readers = platform<P> && platform_contract::visible_readers<P>::looked_through;

}  // namespace usher::inline v2
