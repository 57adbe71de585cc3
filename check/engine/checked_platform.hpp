// The checked platform. Every atomic operation goes to relacy, which explores interleavings and the values that the C++
// memory model lets a load return, and finds data races by vector clocks.
//
// This platform adds to relacy:
//
// - Sleeping: park() compares the word's newest value and sleeps in one step, as the kernel does under its bucket's
//   lock. It synchronises nothing. A scenario allows a few spurious wake-ups, but they never resolve a deadlock: a
//   state in which all threads wait is reported, so that a lost wake-up fails.
// - Polling: once await() has seen the newest value, it blocks until the word is written. An endless wait is therefore
//   also a deadlock, and found at once. Polling with a limit looks a random number of times.
// - Time: now() advances at random, by little or beyond every limit.
// - Ends: the last owner of a lock, a waiting list or a semaphore ends its life. Giving a node back ends the node's
//   life, and leaving the block of a local<T> ends that object's. An access is reported if it does not happen before
//   the end (or after the node's next beginning), even if it was in time in this execution. An access after the end is
//   also reported, except for nodes.
// - Order: if a lock claims FIFO order, a thread that overtakes a waiter is reported.
// - Priorities: a scenario gives threads priorities. If a lock claims to admit sleepers by priority, an admission out
//   of order is reported.
//
// Limits of relacy: modification order follows the order of execution, so a store cannot take effect later than another
// thread's store that it precedes. A failed compare-and-swap reads the newest value. The futex's own barriers are not
// modelled, so a lock that needs them is reported.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <queue>
#include <set>
#include <source_location>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <relacy/relacy.hpp>
// relacy defines names of the language and of the standard library as macros. They are removed here.
#undef VAR
#undef $
#undef assert
#undef calloc
#undef delete
#undef errno
#undef free
#undef malloc
#undef memory_order_acq_rel
#undef memory_order_acquire
#undef memory_order_consume
#undef memory_order_relaxed
#undef memory_order_release
#undef memory_order_seq_cst
#undef new
#undef realloc
#define errno (*__errno_location())

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"
#include "usher/core/traits.hpp"

#include "check/engine/checked_fork.hpp"

namespace usher::check {

using place = std::source_location;

/// The place of an operation in the source, for relacy. The file's name is included only while a history is collected.
inline rl::debug_info info(const place& p) {
  return {"", rl::ctx().collecting_history() ? p.file_name() : "", p.line()};
}

// Longer functions that are not templates are in checked_platform.cpp, so that they are compiled once and not for each
// lock.

[[noreturn]] void fail(const char* why, rl::test_result_e kind, const place& p);
inline const char* last_reason = nullptr;  ///< the reason of the last fail()

/// Adds a line to the history.
void note(const char* text, const void* word, std::uint32_t mask, const place& p);

/// The order that replaces the memory order of one operation, to test whether a scenario then fails. The failure order
/// of a compare-and-swap is replaced separately. `removed` is for fences.
enum class made : std::uint8_t {
  all_relaxed,
  relaxed,
  acquire,
  release,
  acq_rel,
  failure_relaxed,
  failure_acquire,
  removed
};
inline constexpr std::array<const char*, 8> names_of_made{"",        "relaxed",         "acquire",         "release",
                                                          "acq_rel", "failure-relaxed", "failure-acquire", "removed"};

enum class access : std::uint8_t { load, store, modify, failure };

/// The operations whose order can be weakened. They are weakened one at a time; of acq_rel, acquire and release are
/// removed separately.
struct ordered_sites {
  struct found {
    place at;
    unsigned ways;  ///< 1 << `made` for each `made` that is weaker than an order seen here
  };
  std::array<found, 256> seen;
  std::string_view only;  ///< endings of file names, separated by spaces; empty: all files
  unsigned count = 0;

  struct site {
    std::string_view file;
    unsigned line, column;
    made way;
  };
  std::optional<site> weakened;

  bool is_weakened(const place& p) const {
    return p.line() == weakened->line && p.column() == weakened->column && weakened->file == p.file_name();
  }
  void add(const place& p, unsigned ways);
  bool removes_fence(const place& p);

 private:
  bool is_wanted(std::string_view file) const;
};
inline ordered_sites sites;
inline bool recording_sites = false;

rl::memory_order order_of(std::memory_order o, const place& p, const void* word, access a = access::modify);

/// The life of an object. All uses must happen before its end.
class life {
 public:
  life() : data_(rl::ctx().var_ctor()) {}
  ~life() { rl::ctx().var_dtor(data_); }
  life(const life&) = delete;
  life& operator=(const life&) = delete;

  void use(const char* why, const place& p) {
    if (ended_ || !data_->load(*rl::ctx().threadx_)) fail(why, rl::test_result_access_to_freed_memory, p);
  }
  /// Ends a life that another one may follow. A use in the next life must be ordered after this end.
  void end(const char* why, const place& p) {
    if (!data_->store(*rl::ctx().threadx_)) fail(why, rl::test_result_access_to_freed_memory, p);
  }
  void end_for_good(const char* why, const place& p) {
    end(why, p);
    ended_ = true;
  }

 private:
  rl::var_data* data_;
  bool ended_ = false;
};

/// An object whose life a scenario ends, with the messages for an end that is too early and for a use that is too late.
struct watched {
  const void* begin = nullptr;
  std::size_t size = 0;
  const char* ends_early = "";
  const char* used_late = "";
};

void before_access(const void* word, const place& p);
void after_write(const void* word, const place& p);
/// Called before and after a compare-and-swap. The adversary in checker_scheduler.hpp makes the compare-and-swaps of
/// one thread fail.
void begin_attempt(const void* word, bool (*succeeds)(const void*, std::uint64_t), std::uint64_t expected,
                   const place&);
void end_attempt();
void after_exchange(const void* word);

/// The words that are constructed while a history is collected. A history names a word by its index in its object.
struct constructed_words {
  std::array<const void*, 1024> at;
  unsigned count = 0;
};
inline constructed_words constructed;

inline void note_construction(const void* word) {
  if (rl::ctx().collecting_history() && constructed.count < constructed.at.size())
    constructed.at[constructed.count++] = word;
}

// Operations are defined outside their classes and so are not inline: they are compiled once (checked_platform.cpp),
// not for each lock.
template <class T>
class checked_atomic {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using order = std::memory_order;
  static constexpr order seq_cst = std::memory_order_seq_cst;

 public:
  checked_atomic();
  checked_atomic(T v);
  ~checked_atomic();

  T load(order o = seq_cst, place p = place::current()) const;
  void store(T v, order o = seq_cst, place p = place::current());
  T exchange(T v, order o = seq_cst, place p = place::current());
  T fetch_add(T v, order o = seq_cst, place p = place::current());
  T fetch_sub(T v, order o = seq_cst, place p = place::current());
  T fetch_and(T v, order o = seq_cst, place p = place::current());
  T fetch_or(T v, order o = seq_cst, place p = place::current());
  T fetch_xor(T v, order o = seq_cst, place p = place::current());
  bool compare_exchange_strong(T& expected, T v, order success, order failure, place p = place::current());
  bool compare_exchange_weak(T& expected, T v, order success, order failure, place p = place::current());

  /// Returns the value of the last write in execution order. The kernel would compare with this value.
  T newest() const;

 private:
  template <class Operation>
  T modify(Operation operation, const place& p);
  template <class Weak>
  bool swap_if(Weak weak, T& expected, T v, order success, order failure, const place& p);

  rl::atomic<T> word_;
};

template <class T>
checked_atomic<T>::checked_atomic() : word_(T{}) {
  note_construction(this);
}
template <class T>
checked_atomic<T>::checked_atomic(T v) : word_(v) {
  note_construction(this);
}
template <class T>
checked_atomic<T>::~checked_atomic() = default;
template <class T>
T checked_atomic<T>::load(order o, place p) const {
  before_access(this, p);
  return word_.load(order_of(o, p, this, access::load), info(p));
}
template <class T>
void checked_atomic<T>::store(T v, order o, place p) {
  before_access(this, p);
  word_.store(v, order_of(o, p, this, access::store), info(p));
  after_write(this, p);
}
template <class T>
T checked_atomic<T>::exchange(T v, order o, place p) {
  return modify([&] { return word_.exchange(v, order_of(o, p, this), info(p)); }, p);
}
template <class T>
T checked_atomic<T>::fetch_add(T v, order o, place p) {
  return modify([&] { return word_.fetch_add(v, order_of(o, p, this), info(p)); }, p);
}
template <class T>
T checked_atomic<T>::fetch_sub(T v, order o, place p) {
  return modify([&] { return word_.fetch_sub(v, order_of(o, p, this), info(p)); }, p);
}
template <class T>
T checked_atomic<T>::fetch_and(T v, order o, place p) {
  return modify([&] { return word_.fetch_and(v, order_of(o, p, this), info(p)); }, p);
}
template <class T>
T checked_atomic<T>::fetch_or(T v, order o, place p) {
  return modify([&] { return word_.fetch_or(v, order_of(o, p, this), info(p)); }, p);
}
template <class T>
T checked_atomic<T>::fetch_xor(T v, order o, place p) {
  return modify([&] { return word_.fetch_xor(v, order_of(o, p, this), info(p)); }, p);
}
template <class T>
bool checked_atomic<T>::compare_exchange_strong(T& expected, T v, order success, order failure, place p) {
  return swap_if(rl::bool_t<false>(), expected, v, success, failure, p);
}
template <class T>
bool checked_atomic<T>::compare_exchange_weak(T& expected, T v, order success, order failure, place p) {
  return swap_if(rl::bool_t<true>(), expected, v, success, failure, p);
}
template <class T>
T checked_atomic<T>::newest() const {
  return word_.debug_value();
}
template <class T>
template <class Operation>
T checked_atomic<T>::modify(Operation operation, const place& p) {
  before_access(this, p);
  const T old = operation();
  after_exchange(this);
  after_write(this, p);
  return old;
}
template <class T>
template <class Weak>
bool checked_atomic<T>::swap_if(Weak weak, T& expected, T v, order success, order failure, const place& p) {
  // Only these pairs are allowed, because relacy silently does nothing if the success order does not imply the failure
  // order.
  const bool known = failure == std::memory_order_relaxed || success == seq_cst || success == failure ||
                     (success == std::memory_order_acq_rel && failure == std::memory_order_acquire);
  if (!known) fail("an order on failure that relacy cannot follow", rl::test_result_user_assert_failed, p);
  begin_attempt(
      this, [](const void* w, std::uint64_t e) { return static_cast<const checked_atomic*>(w)->newest() == T(e); },
      expected, p);
  before_access(this, p);
  const rl::memory_order then = order_of(success, p, this), otherwise = order_of(failure, p, this, access::failure);
  // A weakened success order may not imply the failure order any more. The failed operation is then relaxed, and an
  // acquire fence follows, which orders a little more.
  const bool implied = otherwise == rl::mo_relaxed || then == rl::mo_seq_cst || then == otherwise ||
                       (then == rl::mo_acq_rel && otherwise == rl::mo_acquire);
  const bool done = word_.compare_exchange(weak, expected, v, then, implied ? otherwise : rl::mo_relaxed, info(p));
  end_attempt();
  if (done) {
    after_exchange(this);
    after_write(this, p);
  } else if (!implied) {
    rl::atomic_thread_fence(rl::mo_acquire, info(p));
  }
  return done;
}

template <class T>
class checked_plain {
 public:
  checked_plain();
  checked_plain(T v);
  ~checked_plain();
  T get(place p = place::current()) const;
  void set(T v, place p = place::current());

 private:
  rl::var<T> data_;
};

template <class T>
checked_plain<T>::checked_plain() : data_(T{}) {
  note_construction(this);
}
template <class T>
checked_plain<T>::checked_plain(T v) : data_(v) {
  note_construction(this);
}
template <class T>
checked_plain<T>::~checked_plain() = default;
template <class T>
T checked_plain<T>::get(place p) const {
  before_access(this, p);
  return data_(info(p)).load();
}
template <class T>
void checked_plain<T>::set(T v, place p) {
  before_access(this, p);
  data_(info(p)).store(v);
}

extern template class checked_atomic<std::uint32_t>;
extern template class checked_atomic<std::uint64_t>;
extern template class checked_plain<std::uint32_t>;
extern template class checked_plain<std::uint64_t>;
extern template class checked_plain<void*>;

/// The types of words in a queue node.
struct checked_words {
  template <class T>
  using atomic = checked_atomic<T>;
  template <class T>
  using plain = checked_plain<T>;
};

/// Constructs an object that no other thread can reach yet. The construction is one step of the execution, so that no
/// fork happens in the middle.
template <class T>
T* construct_at_once(void* at) {
  const rl::preemption_disabler in_one_step(rl::ctx());
  return ::new (at) T{};
}

/// The random events that a scenario allows in one execution.
struct chances {
  unsigned stray_wakes = 0;
  unsigned refused_nodes = 0;  ///< calls of take_node() that return no node
  bool adverse = false;        ///< in some executions the clock has one pace, and random draws succeed rarely or always
};

/// A lock's promise on the order of waiters, from its traits.
struct order_promise {
  const void* lock = nullptr;  ///< the lock's words
  std::size_t size = 0;
  int most_overtaking = unbounded;  ///< the bound for each waiter; 0: FIFO
  /// True: the doorway is the thread's first read-modify-write of a word of the lock. False: the lock marks its doorway
  /// by its second P::doorway, or a thread has passed it when it first polls or sleeps.
  bool first_exchange_is_doorway = false;
  bool says_doorway = false;  ///< the lock always marks its doorway, and a thread may poll or sleep before it
  bool fifo_leaders = false;  ///< the promise holds only among the leaders of groups
};

/// The state of one execution, except the target: nodes, objects on the threads' stacks, the waiting array, the
/// sleepers, the clock.
class execution {
 public:
  static constexpr unsigned most_threads = 4, nodes_a_thread = 3, table_size = 2, most_tables = 3;
  static constexpr unsigned most_locals = 256, most_watched = 2, most_names = 16;

  execution(chances c, unsigned threads);
  ~execution() {
    end_vanished_locals();
    for (unsigned i = 0; i < most_inflated; i++)
      if (end_inflated_[i] != nullptr) end_inflated_[i](inflated_room_[i]);
  }
  execution(const execution&) = delete;
  execution& operator=(const execution&) = delete;

  static execution& current() { return *current_; }

  static bool inside(const void* p, const void* begin, std::size_t size) { return distance(begin, p) < size; }
  static std::size_t distance(const void* from, const void* to) {
    return std::size_t(reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from));
  }

  // ---- lives ----

  /// Sets an object whose life end_of() will end.
  void watch(unsigned which, watched w) { watched_[which] = w; }
  void watch_nothing() { watched_ = {}; }

  void end_of(unsigned which, place p = place::current()) {
    watched_lives_[which].end_for_good(watched_[which].ends_early, p);
  }

  void before_access(const void* word, const place& p);
  void after_write(const void* word, const place& p);

  /// `written` is called by the thread that writes a word, `local_begun` by the thread that begins a local object.
  struct observer {
    void (*written)(void* context, const void* word) = nullptr;
    void (*local_begun)(void* context, void* at) = nullptr;
    void* context = nullptr;
  };
  void observe(observer o) { observer_ = o; }

  // ---- names ----

  /// Sets the name of an object's words in a history.
  void name(const void* begin, std::size_t size, const char* text);
  template <class T>
  void name(const T& object, const char* text) {
    name(&object, sizeof object, text);
  }
  /// Writes "lock[1]" into the buffer, or only the name if the object has one word.
  void describe(const void* word, char* buffer, std::size_t size) const;

  // ---- forks, and owners of a mutex ----

  std::uint32_t epoch() const { return epoch_; }
  std::uint32_t owner_tag() const { return tagged_[record()] ? 2 * record() + 3 : 1; }
  void ensure_owner_tag() { tagged_[record()] = true; }
  std::uint32_t reader_tag() const { return 2 * record() + 3; }

  // Forks: see checked_fork.hpp. The execution continues in the child.

  /// Runs a thread's program, from the beginning of the thread's generation on. A fork may end the program at any
  /// point. In scenarios with forks all threads are run by this function.
  template <class Program>
  void run(Program program) {
    if (process_.begins() && _setjmp(process_.way_out()) == 0) program();
    process_.ends();
  }
  /// Lets thread t begin after this number of forks. To be called before the threads begin.
  void begins_after(unsigned t, unsigned forks) { process_.begins_after(t, forks); }
  /// Forks: all other threads of the process vanish. Called by a thread outside all operations of the target.
  void fork(node_pool pool, place p = place::current()) {
    rl::ctx().sched();
    fork_at_once(pool, p);
  }
  /// Like fork(), but no other thread runs between the caller's last operation and the fork.
  void fork_at_once(node_pool, place p = place::current());
  /// Starts the threads of the child. Called after the fork.
  void start_threads(place p = place::current());
  unsigned forks() const { return process_.forks(); }
  /// Stops another thread for good at its present place, like a signal handler that parks the thread, if that thread is
  /// about to acquire the lock (wants()). Its nodes and stack objects remain. Returns whether the thread was stopped.
  bool stop(unsigned t);
  /// The calling thread's record. A thread of a child may have the record of a vanished thread.
  unsigned record() const { return process_.record_of(rl::thread_index()); }

  // ---- objects on a thread's stack that other threads reach ----

  /// Returns room for one object. It is not reused, so that a late access finds no other object in it. `destroy` is
  /// called if a fork removes the object's thread.
  void* begin_local(std::size_t size, const place& p, void (*destroy)(void*) = nullptr);
  void end_local(const void* at, const place& p) {
    local_lives_[slot_of_local(at)]->end_for_good("a stack object ends while another thread may still touch it", p);
    destroy_local_[slot_of_local(at)] = nullptr;
  }
  /// Returns the object's number, counted from 0.
  unsigned slot_of_local(const void* at) const { return unsigned(distance(locals_, at) / local_size); }
  bool is_local(const void* at) const { return inside(at, locals_, sizeof locals_); }

  // ---- order ----

  /// Sets the lock's promise: how often threads that pass the doorway later may overtake a waiter past its doorway.
  void promise(const order_promise& p) { promise_ = p; }
  void doorway();
  void admitted(const place& p);
  /// Records that the leader of a group of waiters (MCSg locks) gets a place in the order of leaders (true) or gives it
  /// up.
  void leads(bool has_ticket) { door_[rl::thread_index()] = has_ticket ? ++arrivals_ : 0; }
  void after_exchange(const void* word) {
    if (promise_.first_exchange_is_doorway &&
        (inside(word, promise_.lock, promise_.size) || inside(word, inflated_room_, sizeof inflated_room_)))
      pass_doorway();
  }

  // ---- contention ----

  /// Records that the calling thread begins or ends an acquisition.
  void wants(bool lock) {
    wants_[rl::thread_index()] = lock;
    waited_[rl::thread_index()] = false;
    sleeps_[rl::thread_index()] = 0;
  }
  /// Returns how often the thread has fallen asleep since wants(true).
  unsigned sleeps(unsigned thread) const { return wants_[thread] ? sleeps_[thread] : 0; }
  /// Records that the calling thread makes no more acquisitions.
  void goes_home();
  /// Records that the calling thread has to wait: it polls, sleeps or backs off.
  void waits_in_vain() {
    const unsigned me = rl::thread_index();
    if (!wants_[me] || waited_[me]) return;
    waited_[me] = true;
    rouse_gathered();
  }
  /// Called by the owner. Waits until `most` other threads wait for the lock, or all that still make acquisitions. A
  /// thread waits if it has polled or slept since wants(true). The thread `but` does not count.
  void gather(unsigned most, unsigned but, place p = place::current());
  /// Returns whether the thread wants the lock and has since polled or slept.
  bool is_waiting(unsigned thread) const { return wants_[thread] && waited_[thread]; }

  // ---- NUMA nodes and numbers of threads ----

  static constexpr unsigned most_numa_nodes = 4;
  std::uint32_t numa_node() const {
    return first_numa_node_ + (moves_ ? rl::rand(numa_nodes_) : home_nodes_[rl::thread_index()]);
  }
  /// Sets the least number of a NUMA node. Only for locks without a table of NUMA nodes, since the numbers may then
  /// exceed most_numa_nodes.
  void number_nodes_from(std::uint32_t n) { first_numa_node_ = n; }
  /// Thread 0's index, minus 1.
  std::uint32_t first_index() const { return first_index_; }
  void number_threads_from(std::uint32_t n) { first_index_ = n; }

  // ---- random draws ----

  /// Draws with the same probability for each n > 1. With adverse draws, each place in the source succeeds at every
  /// lots_-th draw and at no other.
  bool bernoulli(std::uint32_t n, const place& p);

  // ---- priorities ----

  std::uint32_t priority_of(unsigned thread) const { return priorities_[thread]; }
  void set_priority(unsigned thread, std::uint32_t p) { priorities_[thread] = p; }

  /// Called by the owner before its unlock. Of the threads that sleep now and have a priority, the thread with the
  /// highest must be admitted next.
  void let_sleepers_in_by_priority();

  /// Waits until this number of threads sleep.
  void await_sleepers(unsigned n, place p = place::current());
  /// The number of woken threads, and these threads in the order of their wake-ups. Valid after all threads have ended.
  unsigned woken() const { return woken_; }
  unsigned woken(unsigned i) const { return woken_order_[i]; }

  // ---- waiting ----

  void poll_until_written(const void* word, const place& p);
  void sleep(const void* key, std::uint32_t mask, bool may_time_out, const place& p);
  void wake(const void* key, std::uint32_t mask, int most, const place& p);
  /// Records that the calling thread is about to call nap(). While the word has one of these bits, the nap does not end
  /// by time, because the bits promise a wake-up.
  void naps_at(const checked_atomic<std::uint32_t>& word, std::uint32_t woken_by) {
    naps_[rl::thread_index()] = {&word, woken_by};
  }
  void has_napped() { naps_[rl::thread_index()] = {}; }
  bool may_time_out(unsigned thread) const {
    const nap& n = naps_[thread];
    return n.word == nullptr || (n.word->newest() & n.woken_by) == 0;
  }

  std::uint64_t now() {
    static constexpr std::array<std::uint64_t, 4> steps{1, 1, 700, 2000000};
    return clock_ += pace_ != 0 ? pace_ : steps[rl::rand(steps.size())];
  }
  /// From now on, time limits that a lock sets take effect: a sleep with a limit may time out, and polling with a limit
  /// ends.
  void run_timers() { timers_ = true; }
  bool has_timers() const { return timers_; }
  /// The last value of now().
  std::uint64_t clock() const { return clock_; }

  /// In half of the executions count_limit() lowers the largest value of a count, such as the number of counted
  /// waiters. After count_all() it does not: a lock promises less to a thread for which its count has no room.
  void count_all() { least_room_ = 0; }
  std::uint32_t count_limit(std::uint32_t n) const { return least_room_ != 0 && least_room_ < n ? least_room_ : n; }

  // ---- nodes ----

  /// As on the native platform, a thread takes its own nodes, and any thread gives them back.
  node_handle take_node(const place& p) {
    if (remaining_.refused_nodes > 0 && rl::rand(3) == 0) {
      remaining_.refused_nodes--;
      return no_node;
    }
    const unsigned first = rl::thread_index() * nodes_a_thread;
    for (unsigned i = first; i < first + nodes_a_thread; i++) {
      std::uint32_t unused = 0;  // acquire: pairs with give_node
      if (nodes_[i].used.compare_exchange_strong(unused, 1, std::memory_order_acquire, std::memory_order_relaxed, p))
        return first_node_ + i;
    }
    return no_node;
  }

  void give_node(node_handle h, const place& p) {
    node_slot& s = slot(h, p);
    if (s.used.newest() == 0) fail("a node is given back twice", rl::test_result_double_free, p);
    s.uses.end("a node is given back while another thread may still touch it", p);
    s.used.store(0, std::memory_order_release, p);
  }

  /// A thread without a cached node takes any free one, because other threads may hold its own nodes by then.
  node_handle cached_node(const place& p) {
    node_handle& kept = kept_[rl::thread_index()];
    if (kept != no_node) return std::exchange(kept, no_node);
    const unsigned first = rl::thread_index() * nodes_a_thread;
    for (unsigned i = 0; i < nodes_.size(); i++) {
      const auto h = node_handle((first + i) % nodes_.size());
      std::uint32_t unused = 0;
      if (nodes_[h].used.compare_exchange_strong(unused, 1, std::memory_order_acquire, std::memory_order_relaxed, p))
        return first_node_ + h;
    }
    return no_node;
  }

  void cache_node(node_handle h, const place& p) {
    node_handle& kept = kept_[rl::thread_index()];
    if (kept != no_node) return give_node(h, p);
    kept = h;
    slot(h, p).uses.end("a node is kept while another thread may still touch it", p);
  }

  queue_node<checked_words>& node(node_handle h, const place& p) { return slot(h, p).node; }

  /// Returns whether the word belongs to the platform and not to the target. The orders of its accesses are not
  /// weakened.
  bool keeps(const void* word) const {
    return word == &inflated_taken_ ||
           std::ranges::any_of(nodes_, [word](const node_slot& s) { return word == &s.used; });
  }

  // ---- inflated states ----

  /// Takes the only inflated state. A second lock, or the same lock before the state is given back, gets none. If a
  /// fork has lost the state, another one takes its place.
  template <class State>
  std::uint32_t take_inflated(const place& p) {
    std::uint32_t unused = 0;  // acquire: pairs with give_inflated
    if (!inflated_taken_.compare_exchange_strong(unused, 1, std::memory_order_acquire, std::memory_order_relaxed, p))
      return 0;
    static_assert(sizeof(State) <= sizeof inflated_room_[0] && alignof(State) <= 128);
    if (end_inflated_[inflated_lost_] == nullptr) {
      State* const made = construct_at_once<State>(inflated_room_[inflated_lost_]);
      end_inflated_[inflated_lost_] = [](void* at) { static_cast<State*>(at)->~State(); };
      // A new state is closed: no thread may enter it yet. In half of the executions its generation is about to wrap.
      if (wraps_) made->users.store(~std::uint64_t{0x1ffffffff}, std::memory_order_relaxed);
    }
    return 1 + inflated_lost_;
  }
  void give_inflated(const place& p) {
    inflated_uses_.end("a large lock goes back to the pool while another thread may still touch it", p);
    inflated_taken_.store(0, std::memory_order_release, p);
  }
  void* inflated(std::uint32_t h) {
    if (h == 0 || h > most_inflated)
      fail("not the handle of a large lock", rl::test_result_user_assert_failed, place::current());
    return inflated_room_[h - 1];
  }
  bool inflated_is_free() const { return inflated_taken_.newest() == 0; }

  bool all_nodes_free() const {
    for (unsigned i = 0; i < nodes_.size(); i++)
      if (nodes_[i].used.newest() != 0 && std::ranges::find(kept_, first_node_ + i) == kept_.end()) return false;
    return true;
  }

  // ---- process-wide tables ----

  using table_words = std::array<checked_atomic<std::uint32_t>, table_size>;
  table_words& table(table_kind k) { return tables_[std::size_t(k)]; }

  // ---- visible readers ----

  static constexpr unsigned visible_slots = 2;  // threads share them
  checked_atomic<std::uint64_t>* visible_readers() { return visible_readers_.data(); }

 private:
  struct sleeper {
    const void* key;
    std::uint32_t mask;
  };
  struct nap {
    const checked_atomic<std::uint32_t>* word;
    std::uint32_t woken_by;
  };
  struct node_slot {
    checked_atomic<std::uint32_t> used;
    queue_node<checked_words> node;
    life uses;
  };

  struct named {
    const void* begin;
    std::size_t size;
    const char* text;
  };

  void pass_doorway();
  void waits();
  void use_inflated(const void* word, const place& p);
  void forget_thread(unsigned t);
  void forget_nodes();
  void lose_inflated();
  void end_vanished_locals();
  bool has_gathered(unsigned thread) const;
  void rouse_gathered();

  node_slot& slot(node_handle h, const place& p) {
    if (h < first_node_ && h >= first_node)
      fail("a node of the parent is used in the child", rl::test_result_user_assert_failed, p);
    if (h < first_node_ || h - first_node_ >= nodes_.size())
      fail("not the handle of a node", rl::test_result_user_assert_failed, p);
    return nodes_[h - first_node_];
  }

  static inline execution* current_ = nullptr;

  chances remaining_;
  const unsigned threads_;
  std::array<watched, most_watched> watched_;
  std::array<life, most_watched> watched_lives_;
  static constexpr std::size_t local_size = 512;
  alignas(64) std::byte locals_[most_locals * local_size];
  std::array<std::optional<life>, most_locals> local_lives_;
  std::array<void (*)(void*), most_locals> destroy_local_{};
  std::array<unsigned, most_locals> local_owner_{};
  unsigned locals_begun_ = 0;
  std::array<node_slot, std::size_t{most_threads} * nodes_a_thread> nodes_;
  node_handle first_node_ = first_node;                 ///< behind those of the parent after node_pool::anew
  static constexpr std::size_t inflated_lock_at = 128;  // `users`, before the large lock, outlives it
  static constexpr unsigned most_inflated = 3;
  alignas(128) std::byte inflated_room_[most_inflated][4096];
  unsigned inflated_lost_ = 0;
  life inflated_uses_;
  std::array<void (*)(void*), most_inflated> end_inflated_{};
  checked_atomic<std::uint32_t> inflated_taken_;
  std::array<table_words, most_tables> tables_;
  std::array<checked_atomic<std::uint64_t>, visible_slots> visible_readers_;
  std::array<sleeper, most_threads> sleepers_{};
  std::array<nap, most_threads> naps_{};
  std::array<node_handle, most_threads> kept_{};
  std::array<const void*, most_threads> polls_{};
  unsigned pollers_ = 0;
  std::uint64_t clock_ = 1;
  std::uint32_t epoch_ = 1, least_room_ = 0;
  generations process_;
  observer observer_;
  std::array<bool, most_threads> tagged_{};
  order_promise promise_;
  std::array<unsigned, most_threads> arrived_{};  ///< an arrivals_ value; 0: not at the lock
  std::array<unsigned, most_threads> door_{};     ///< the arrivals_ value when it passed its doorway
  std::array<unsigned, most_threads> waits_{};    ///< the arrivals_ value when it first polled or slept
  std::array<int, most_threads> overtaken_{};
  unsigned arrivals_ = 0;
  std::array<bool, most_threads> wants_{}, waited_{}, gone_home_{};
  std::array<unsigned, most_threads> sleeps_{};
  struct gathering {
    unsigned most = 0, but = 0;  ///< most is 0 if the owner does not wait
  };
  std::array<gathering, most_threads> gathers_{};
  std::array<std::uint32_t, most_threads> home_nodes_{};
  unsigned numa_nodes_ = 2;
  std::uint32_t first_numa_node_ = 0;
  bool moves_ = false;
  std::uint32_t first_index_ = 0;
  unsigned lots_ = 0;  ///< 0: each draw succeeds at random, with probability 1/3
  struct drawn_at {
    const char* file = nullptr;
    unsigned line = 0, count = 0;
  };
  std::array<drawn_at, 8> draws_{};
  std::uint64_t pace_ = 0;  ///< the ns by which each now() advances; 0: random
  bool wraps_ = false, timers_ = false;
  std::array<std::uint32_t, most_threads> priorities_{};
  std::array<unsigned, most_threads> asleep_since_{};     ///< an arrivals_ value; 0: awake
  std::array<unsigned, most_threads> slept_at_unlock_{};  ///< asleep_since_ at the last unlock
  std::array<unsigned, most_threads> awaited_sleepers_{};
  std::array<unsigned, 64> woken_order_{};
  unsigned woken_ = 0;
  std::array<named, most_names> names_;
  unsigned names_given_ = 0;
};

inline void before_access(const void* word, const place& p) {
  execution::current().before_access(word, p);
}
inline void after_write(const void* word, const place& p) {
  execution::current().after_write(word, p);
}
inline void after_exchange(const void* word) {
  execution::current().after_exchange(word);
}

/// The platform.
struct checked : checked_words {
  // ---- polling ----

  template <class T, class Pred>
  static T await(const atomic<T>& w, Pred pred, std::memory_order o, pacing::endless<pacing::by::polling>,
                 place p = place::current()) {
    for (;;) {
      const T v = w.load(o, p);
      if (pred(v)) return v;
      // No other thread runs between the load above and this comparison.
      if (v == w.newest())
        execution::current().poll_until_written(&w, p);
      else
        rl::yield(1, info(p));  // after a yield, relacy returns no value older than those already seen
    }
  }
  template <class T, class Pred>
  static T await(const atomic<T>& w, Pred pred, std::memory_order o, pacing::endless<pacing::by::polling_then_yielding>,
                 place p = place::current()) {
    return await(w, pred, o, pacing::polling, p);
  }

  template <class T, class Pred>
  static std::optional<T> await(const atomic<T>& w, Pred pred, std::memory_order o,
                                pacing::within<pacing::by::polling> limit, place p = place::current()) {
    static constexpr std::array<unsigned, 4> loads{1, 2, 4, 0};
    unsigned most = limit.ns == 0 ? 1 : loads[rl::rand(loads.size())];
    if (most == 0 && execution::current().has_timers()) most = 8;
    if (most == 0) return await(w, pred, o, pacing::polling, p);
    for (unsigned i = 1;; i++) {
      const T v = w.load(o, p);
      if (pred(v)) return v;
      execution::current().waits_in_vain();
      if (i == most) return std::nullopt;
      rl::yield(1, info(p));
    }
  }
  template <class T, class Pred>
  static std::optional<T> await(const atomic<T>& w, Pred pred, std::memory_order o,
                                pacing::within<pacing::by::yielding> limit, place p = place::current()) {
    return await(w, pred, o, pacing::polling.within(limit.ns), p);
  }

  template <class T, class Pred>
  static std::optional<T> await(const atomic<T>& w, Pred pred, std::memory_order o,
                                pacing::within<pacing::by::monitoring> limit, place p = place::current()) {
    return await(w, pred, o, pacing::polling.within(limit.ns), p);
  }
  template <class T, class Pred>
  static T await(const atomic<T>& w, Pred pred, std::memory_order o, pacing::endless<pacing::by::sleeping>,
                 place p = place::current()) {
    return await(w, pred, o, pacing::polling, p);
  }

  /// The longest back-off or nap. No other thread ends these, so in all locks they must be short.
  static constexpr std::uint64_t longest_pause = 10000000;  // ns

  static void backoff(std::uint64_t ns, place p = place::current()) {
    if (ns > longest_pause) fail("a pause is longer than 10 ms", rl::test_result_user_assert_failed, p);
    execution::current().waits_in_vain();
    rl::yield(1, info(p));
  }

  // ---- sleeping ----

  // The limits that a scenario gives: a sleep with `soon` may time out, a sleep with `never` does not.
  static constexpr std::uint64_t soon = 1, never = std::uint64_t{1} << 62;

  template <class T>
  static void park(const atomic<T>& w, std::type_identity_t<T> expected, std::uint32_t mask,
                   place p = place::current()) {
    sleep(w, expected, mask, false, p);
  }
  /// Only a limit from the scenario ends this sleep, and not a limit from the lock: otherwise a time-out would hide a
  /// lost wake-up. A lock that relies on a limit calls nap(). In a scenario with timers, a lock's limits end sleeps,
  /// too.
  static void park_for(const atomic<std::uint32_t>& w, std::uint32_t expected, std::uint32_t mask, std::uint64_t ns,
                       place p = place::current()) {
    sleep(w, expected, mask, ns <= soon || execution::current().has_timers(), p);
  }
  static void nap(const atomic<std::uint32_t>& w, std::uint32_t expected, std::uint32_t mask, std::uint64_t ns,
                  std::uint32_t woken_by, place p = place::current()) {
    if (ns == 0 || ns > longest_pause)
      fail("a nap is longer than 10 ms, or none", rl::test_result_user_assert_failed, p);
    execution::current().naps_at(w, woken_by);
    sleep(w, expected, mask, true, p);
    execution::current().has_napped();
  }
  template <class T>
  static wake_key key_of(const atomic<T>& w) {
    return {const_cast<void*>(static_cast<const void*>(&w))};
  }
  static void wake(wake_key key, std::uint32_t mask, int most, place p = place::current()) {
    execution::current().wake(key.word, mask, most, p);
  }

  // ---- nodes ----

  static node_handle take_node(place p = place::current()) { return execution::current().take_node(p); }
  static void give_node(node_handle h, place p = place::current()) { execution::current().give_node(h, p); }
  static node_handle cached_node(place p = place::current()) { return execution::current().cached_node(p); }
  static void cache_node(node_handle h, place p = place::current()) { execution::current().cache_node(h, p); }
  static queue_node<checked_words>& node(node_handle h, place p = place::current()) {
    return execution::current().node(h, p);
  }

  template <class T>
  static std::uint32_t take_inflated(place p = place::current()) {
    return execution::current().take_inflated<inflated_state<checked_words, T>>(p);
  }
  template <class T>
  static void give_inflated(std::uint32_t, place p = place::current()) {
    execution::current().give_inflated(p);
  }
  template <class T>
  static inflated_state<checked_words, T>& inflated(std::uint32_t h) {
    return *static_cast<inflated_state<checked_words, T>*>(execution::current().inflated(h));
  }

  // ---- the rest ----

  template <class T>
  class local {
   public:
    local(place p = place::current())
        : object_(construct_at_once<T>(
              execution::current().begin_local(sizeof(T), p, [](void* at) { static_cast<T*>(at)->~T(); }))),
          place_(p) {}
    ~local() {
      execution::current().end_local(object_, place_);
      object_->~T();
    }
    local(const local&) = delete;
    local& operator=(const local&) = delete;
    T& operator*() { return *object_; }
    T* operator->() { return object_; }

   private:
    T* object_;
    place place_;
  };

  /// Both halves of an asymmetric fence are full fences of the calling thread.
  static void fence_light(place p = place::current()) {
    if (!sites.removes_fence(p)) rl::atomic_thread_fence(rl::mo_seq_cst, info(p));
  }
  static bool fence_heavy(place p = place::current()) {
    fence_light(p);
    return true;
  }

  static std::uint32_t fork_epoch() { return execution::current().epoch(); }
  /// The tag is odd and greater than 2, as on the native platform. A thread may have no tag at first.
  static std::uint32_t owner_tag() { return execution::current().owner_tag(); }
  static void ensure_owner_tag() { execution::current().ensure_owner_tag(); }
  /// As on the native platform, index 0 means a thread without a record.
  static std::uint32_t thread_index() { return execution::current().first_index() + execution::current().record() + 1; }
  static constexpr std::uint32_t most_numa_nodes = execution::most_numa_nodes;
  static std::uint32_t numa_node() { return execution::current().numa_node(); }
  static std::uint32_t thread_id() { return rl::thread_index() + 1; }
  static std::uint32_t priority(std::uint32_t thread = 0) {
    return execution::current().priority_of(thread != 0 ? thread - 1 : rl::thread_index());
  }
  template <class Tag>
  static atomic<std::uint32_t>* table() {
    return execution::current().table(Tag::kind).data();
  }
  /// Each table has two words, so that several waiters share one.
  template <class Tag>
  static constexpr std::uint32_t table_size() {
    return execution::table_size;
  }
  static constexpr std::uint32_t visible_slots = execution::visible_slots;
  static atomic<std::uint64_t>* visible_readers() { return execution::current().visible_readers(); }
  static bool prepare_visible_readers() { return true; }
  static std::uint32_t reader_tag() { return execution::current().reader_tag(); }
  static std::uint64_t lock_id(const void* lock) { return reinterpret_cast<std::uintptr_t>(lock); }
  static std::uint32_t cpus() { return 1; }
  static std::uint32_t salt(const void*) { return 0; }
  /// Never returns 0, so that the smallest append_probability never appends.
  static std::uint32_t random() { return 1 + rl::rand((1u << 16) - 1); }
  static bool bernoulli(std::uint32_t n, place p = place::current()) { return execution::current().bernoulli(n, p); }
  static std::uint64_t now() { return execution::current().now(); }
  static std::uint32_t count_limit(std::uint32_t n) { return execution::current().count_limit(n); }
  static wait_limits limits() { return {1000, 1000}; }
  static void doorway(const void*) { execution::current().doorway(); }
  static void admitted(const void*, place p = place::current()) { execution::current().admitted(p); }
  template <class Step>
  static void leader(Step s) {
    execution::current().leads(s == Step::has_ticket);
  }

 private:
  template <class T>
  static void sleep(const atomic<T>& w, T expected, std::uint32_t mask, bool may_time_out, const place& p) {
    constexpr unsigned shift = sizeof(T) == 8 ? 32 : 0;
    before_access(&w, p);
    rl::ctx().sched();
    if (std::uint32_t(w.newest() >> shift) != std::uint32_t(expected >> shift))
      return note("does not sleep: the word has changed", &w, mask, p);
    execution::current().sleep(key_of(w).word, mask, may_time_out, p);
  }
};

static_assert(platform_with_owner_tags<checked> && platform_with_tables<checked> && platform_with_inflation<checked> &&
              platform_with_priorities<checked> && platform_with_stack_objects<checked> &&
              platform_with_asymmetric_fences<checked> && platform_with_visible_readers<checked>);

}  // namespace usher::check
