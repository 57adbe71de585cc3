// The contract between a lock and the machine it runs on.
//
// A lock is a template over a platform and a way of waiting. The same source is compiled for the hardware
// (`platform/native.hpp`), and for any other machine that keeps this contract: a simulated one, a model checker.
//
// What a platform gives (T an integer of 32 or 64 bits):
//
//   atomic<T>          std::atomic's interface, every order written out. Where a store must be ordered before a
//                      later load, use sequentially consistent operations or a read-modify-write, never a fence.
//   plain<T>           data that the lock protects: get() and set(). Race-checked by a checker, free natively.
//   await(w, pred, o)  the only way to spin on a word: returns the first value loaded with order o that satisfies
//                      pred. await_for(w, pred, o, ns) gives up after about ns nanoseconds: nullopt.
//                      await_yielding(w, pred, o) does not need a CPU of its own: for waits that are short unless
//                      the thread waited for has lost its CPU.
//                      await_yielding_for(w, pred, o, ns): the same with a limit.
//                      await_sleeping(w, pred, o, ns): sleeps for so long between two looks, whatever happens.
//                      await_monitoring_for(w, pred, o, ns): as await_for, but by an instruction that waits for the word to
//                      be written, where the processor has one.
//   backoff(ns)        a pause in a retry loop around a read-modify-write: bounded; every such loop contains it, or waits
//                      in another way before it comes round.
//   park(w, v, mask)   sleep while w == v, until a wake() on w with a common mask bit. A 64-bit w is compared by
//                      its upper half. May return for no reason. park_for(w, v, mask, ns): at the longest ns.
//                      nap(w, v, mask, ns): the same for one that counts on the limit: it comes back to look even if
//                      nobody has woken it, or will.
//   key_of(w)          names w for wake(); formed *before* the operation that gives the lock away, so that nothing
//                      of the lock is touched after it.
//   wake(key, mask, n) wakes at most n sleepers. The word may be gone by then: a stray wake is harmless, which is
//                      why every park stands in a loop.
//   take_node()        a queue node of the calling thread, as a 32-bit handle, or 0 if there are none left. Nodes
//                      are type-stable: their memory is never unmapped. give_node(h) may be called by any thread.
//   borrow_node()      the node that the calling thread has kept, or else as take_node(). keep_node(h): the calling
//                      thread keeps a node, whoever took it, for its next borrow_node(); it gives it back where it
//                      has one already. Nothing touches a node that is kept. Where nodes have no home (native) these are
//                      take_node() and give_node().
//   node(h)            the node of a handle.
//   take_annex<T>()    room for the state of a large lock T, from a pool, as a handle of at most 31 bits, or 0 if there is
//                      none left. annex<T>(h).lock is unlocked, annex<T>(h).users counts on from its last use. The
//                      memory is never unmapped. give_annex<T>(h) may be called by any thread, with the lock unlocked.
//   thread_index()     a small number of the calling thread's own, from 1 on; 0 if it can have no record.
//   numa_node()        the NUMA node that the calling thread runs on, below most_numa_nodes: a guess, for it may be moved at
//                      any time. Machines with more nodes are folded.
//   thread_id()        names the calling thread to priority(id), as long as it lives; not 0.
//   priority()         the calling thread's real-time priority, above 0; 0: it has none. Of those who sleep, the highest is
//                      served first. priority(id): another's. May be a system call: asked right before a thread goes to
//                      sleep and nowhere else, and not where nobody is to be compared with it.
//   table<Tag>()       a table of table_size<Tag>() words (atomic<uint32_t>; a power of two, Tag::size on real machines),
//                      one a process and kind of table, all zero at first. Tag::kind says what is in it.
//   cpus()             how many CPUs the machine had when it was first asked: one answer in a process.
//   salt(lock)         what a lock hashes in place of its address.
//   random()           32 random bits; bernoulli(n): true once in n.
//   now()              nanoseconds of a steady clock.
//   fence_light(), fence_heavy()   a pair of asymmetric fences: of two threads that each write, then call one of them, then
//                      read what the other writes, at least one sees the other's write, if one of them called the heavy
//                      fence. The light one costs (next to) nothing, the heavy one microseconds; it returns false where
//                      the system has none, and nothing is ordered then. Not for locks.
//   fork_stamp()       a number that differs between a process and its children, never 0: what it was when a list of
//                      waiting threads was last used tells whether those threads exist here.
//   local<T>           an object that a thread puts on its stack and others reach while it waits: *x, x->.
//   limits()           how long to poll and to yield before sleeping, and how long to sleep between looks: nanoseconds.
//   doorway(lock), admitted(lock)   hooks by which a test sees arrival and admission; empty natively. lock() begins with
//                      doorway(). A lock with a retry loop on the way to its doorway calls it again right after the
//                      operation that is the doorway: what the lock promises counts from there.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace usher::inline v1 {

/// What the words of a process-wide table mean. Locks of one process share a table only if it means the same to them.
enum class table_kind : std::uint8_t {
  counts,      ///< TWA's: a word's value means nothing, that it changes does
  identities,  ///< 0, or who waits
  chains,      ///< node handles; a child of a fork has an empty one
};

/// How long a waiter stays awake, in nanoseconds. Read in cold paths only.
struct wait_limits {
  std::uint32_t spin;           ///< spin-then-park: polling, about one switch's round trip
  std::uint32_t yield;          ///< yield-then-park: giving the CPU away
  std::uint32_t sleep = 50000;  ///< sleep: between two looks. Chosen, not measured
};

/// The key under which sleepers on a word are found.
struct wake_key {
  void* word;
};

/// What a handle of take_annex() stands for.
template <class P, class T>
struct annexed {
  typename P::template atomic<std::uint64_t> users;  ///< compact.hpp
  alignas(128) T lock;
};

inline constexpr std::uint32_t every_sleeper = ~std::uint32_t{0};
inline constexpr int all = 0x7fffffff;

template <class P>
concept platform = requires(std::uint32_t h, std::uint32_t ns, wake_key key, const void* lock) {
  typename P::template atomic<std::uint32_t>;
  typename P::template plain<std::uint32_t>;
  { P::take_node() } -> std::same_as<std::uint32_t>;
  P::give_node(h);
  { P::borrow_node() } -> std::same_as<std::uint32_t>;
  P::keep_node(h);
  P::node(h);
  P::backoff(ns);
  P::wake(key, every_sleeper, 1);
  { P::salt(lock) } -> std::same_as<std::uint32_t>;
  { P::random() } -> std::same_as<std::uint32_t>;
  { P::fork_stamp() } -> std::same_as<std::uint32_t>;
  P::fence_light();
  { P::fence_heavy() } -> std::same_as<bool>;
  { P::bernoulli(h) } -> std::same_as<bool>;
  { P::thread_index() } -> std::same_as<std::uint32_t>;
  { P::cpus() } -> std::same_as<std::uint32_t>;
  { P::numa_node() } -> std::same_as<std::uint32_t>;
  { P::priority() } -> std::same_as<std::uint32_t>;
  { P::priority(P::thread_id()) } -> std::same_as<std::uint32_t>;
  { P::most_numa_nodes } -> std::convertible_to<std::uint32_t>;
  { P::now() } -> std::same_as<std::uint64_t>;
  { P::limits() } -> std::same_as<wait_limits>;
  P::doorway(lock);
  P::admitted(lock);
};

}  // namespace usher::inline v1
