// The simulated platform. Every operation of a lock is executed on the real object, in the order of simulated time, and
// takes as many simulated cycles as the machine file says.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "lab/sim/simulation.hpp"
#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"

namespace usher::sim {

template <class T>
class simulated_atomic {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using order = std::memory_order;
  static constexpr order seq_cst = std::memory_order_seq_cst;

 public:
  simulated_atomic() = default;
  simulated_atomic(T v) : value_(v) {}
  simulated_atomic(const simulated_atomic&) = delete;
  simulated_atomic& operator=(const simulated_atomic&) = delete;

  T load(order = seq_cst) const {
    auto& s = simulation::current();
    return s.load(&value_, sizeof value_) ? static_cast<T>(s.forwarded()) : value_;
  }
  void store(T v, order o = seq_cst) {
    auto& s = simulation::current();
    if (o == seq_cst)  // as on x86, an exchange
      s.modify(&value_, sizeof value_);
    else if (s.store(&value_, v, sizeof v))
      return;
    value_ = v;
  }
  T exchange(T v, order = seq_cst) {
    if (!simulation::current().on().swap) return loop([v](T) { return v; });
    return modify([v](T) { return v; });
  }
  T fetch_add(T v, order = seq_cst) {
    return fetch([v](T old) { return T(old + v); });
  }
  T fetch_sub(T v, order = seq_cst) {
    return fetch([v](T old) { return T(old - v); });
  }
  T fetch_and(T v, order = seq_cst) {
    return fetch([v](T old) { return T(old & v); });
  }
  T fetch_or(T v, order = seq_cst) {
    return fetch([v](T old) { return T(old | v); });
  }
  T fetch_xor(T v, order = seq_cst) {
    return fetch([v](T old) { return T(old ^ v); });
  }
  bool compare_exchange_strong(T& expected, T v, order, order) {
    auto& s = simulation::current();
    s.compare(&value_, sizeof value_);
    if (value_ == expected) {
      value_ = v;
      return true;
    }
    s.failed(&value_, value_);
    expected = value_;
    return false;
  }
  bool compare_exchange_weak(T& expected, T v, order success, order failure) {
    return compare_exchange_strong(expected, v, success, failure);
  }

  /// Reads the value in no simulated time: for the conditions of spinning threads, for meters and traces.
  T peek() const { return value_; }
  const void* place() const { return &value_; }

 private:
  template <class Operation>
  T modify(Operation operation) {
    simulation::current().modify(&value_, sizeof value_);
    const T old = value_;
    value_ = operation(old);
    return old;
  }
  /// Executes a read-modify-write as a loop, for machines whose only read-modify-write is compare-and-swap.
  template <class Operation>
  T loop(Operation operation) {
    for (T seen = load();;)
      if (compare_exchange_strong(seen, operation(seen), seq_cst, seq_cst)) return seen;
  }
  template <class Operation>
  T fetch(Operation operation) {
    return simulation::current().on().fetch_add ? modify(operation) : loop(operation);
  }

  T value_{};
};

template <class T>
class simulated_plain {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);

 public:
  simulated_plain() = default;
  simulated_plain(T v) : value_(v) {}

  T get() const {
    auto& s = simulation::current();
    if (!s.load(&value_, sizeof value_)) return value_;
    const std::uint64_t bits = s.forwarded();
    T v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
  }
  void set(T v) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    if (!simulation::current().store(&value_, bits, sizeof v)) value_ = v;
  }

  /// Reads the value in no simulated time.
  T peek() const { return value_; }
  const void* place() const { return &value_; }

 private:
  T value_{};
};

struct simulated {
  template <class T>
  using atomic = simulated_atomic<T>;
  template <class T>
  using plain = simulated_plain<T>;

  // ---- polling ----

  template <class T, class Pred>
  static T await(const atomic<T>& w, Pred pred, std::memory_order o, pacing::endless<pacing::by::polling>) {
    return poll_every(0, w, pred, o);
  }
  template <class T, class Pred>
  static std::optional<T> await(const atomic<T>& w, Pred pred, std::memory_order o,
                                pacing::within<pacing::by::polling> l) {
    const T v = w.load(o);
    if (pred(v)) return v;
    if (l.ns == 0) return std::nullopt;
    auto& s = simulation::current();
    // At least 1, since spin() takes 0 as no limit.
    const cycles limit = std::max<cycles>(1, s.on().from_ns(l.ns)),
                 yields_after = s.on().os ? s.on().os->yields_after * s.on().poll_period : 0;
    if (yields_after != 0 && yields_after < limit) return await_then_yield(w, pred, o, yields_after, limit);
    awaited<T, Pred> a{pred, v};
    if (!s.spin(a.on(w), limit)) return std::nullopt;
    return a.seen;
  }
  /// Polls for about a microsecond, then yields between polls.
  template <class T, class Pred>
  static T await(const atomic<T>& w, Pred pred, std::memory_order o,
                 pacing::endless<pacing::by::polling_then_yielding>) {
    for (;;) {
      if (const auto v = await(w, pred, o, pacing::polling.within(1000))) return *v;
      simulation::current().yield();
    }
  }
  template <class T, class Pred>
  static std::optional<T> await(const atomic<T>& w, Pred pred, std::memory_order o,
                                pacing::within<pacing::by::yielding> l) {
    const std::uint64_t end = now() + l.ns;
    for (;;) {
      if (const auto v = await(w, pred, o, pacing::polling.within(1000))) return *v;
      if (now() >= end) return std::nullopt;
      simulation::current().yield();
    }
  }
  /// Sleeps for the policy's period between two polls.
  template <class T, class Pred>
  static T await(const atomic<T>& w, Pred pred, std::memory_order o, pacing::endless<pacing::by::sleeping> policy) {
    auto& s = simulation::current();
    for (;; s.nap(s.on().from_ns(policy.period))) {
      const T v = w.load(o);
      if (pred(v)) return v;
    }
  }
  /// A waiter that uses a monitor instruction continues monitor_wake cycles after a write. Otherwise it is simulated as
  /// a spinner, which also loads the word only after a write. The model ignores that such a waiter slows the core's
  /// other hardware threads less than a spinner.
  template <class T, class Pred>
  static std::optional<T> await(const atomic<T>& w, Pred pred, std::memory_order o,
                                pacing::within<pacing::by::monitoring> l) {
    auto& s = simulation::current();
    if (s.on().monitor_wake == 0) return await(w, pred, o, pacing::polling.within(l.ns));
    const T v = w.load(o);
    if (pred(v)) return v;
    if (l.ns == 0) return std::nullopt;
    awaited<T, Pred> a{pred, v};
    condition c = a.on(w);
    c.monitors = true;
    if (!s.spin(c, std::max<cycles>(1, s.on().from_ns(l.ns)))) return std::nullopt;
    return a.seen;
  }
  static void backoff(std::uint64_t ns) {
    auto& s = simulation::current();
    s.compute(std::max(s.on().poll_period, s.on().from_ns(ns)));
  }

  // ---- sleeping ----

  template <class T>
  static void park(const atomic<T>& w, std::type_identity_t<T> expected, std::uint32_t mask) {
    sleep(w, expected, mask, 0);
  }
  static void park_for(const atomic<std::uint32_t>& w, std::uint32_t expected, std::uint32_t mask, std::uint64_t ns) {
    sleep(w, expected, mask, std::max<cycles>(1, simulation::current().on().from_ns(ns)));
  }
  static void nap(const atomic<std::uint32_t>& w, std::uint32_t expected, std::uint32_t mask, std::uint64_t ns,
                  std::uint32_t) {
    park_for(w, expected, mask, ns);
  }
  template <class T>
  static wake_key key_of(const atomic<T>& w) {
    return {const_cast<void*>(w.place())};
  }
  static void wake(wake_key key, std::uint32_t mask, int most) { simulation::current().wake(key.word, mask, most); }

  static void fence_light() {}
  static bool fence_heavy() { return false; }

  // ---- nodes ----

  static node_handle take_node();
  static void give_node(node_handle h);
  static node_handle cached_node();
  static void cache_node(node_handle h);
  static queue_node<simulated>& node(node_handle h);

  // ---- the rest ----

  template <class T>
  class local {
   public:
    local() : object_(*::new(push_local(sizeof(T))) T{}) {}
    ~local() {
      object_.~T();
      pop_local(sizeof(T));
    }
    local(const local&) = delete;
    local& operator=(const local&) = delete;
    T& operator*() { return object_; }
    T* operator->() { return &object_; }

   private:
    T& object_;
  };

  /// Indices begin at 1, since on the native platform 0 means a thread without a record.
  static std::uint32_t thread_index() { return simulation::current().thread() + 1; }
  static constexpr std::uint32_t most_numa_nodes = most_sockets;
  static std::uint32_t numa_node() { return simulation::current().node(); }
  static std::uint32_t thread_id() { return thread_index(); }
  static std::uint32_t priority(std::uint32_t = 0) { return 0; }  ///< the simulated scheduler has none
  template <class Tag>
  static atomic<std::uint32_t>* table() {
    return table_of(Tag::kind);
  }
  template <class Tag>
  static constexpr std::uint32_t table_size() {
    return Tag::size;
  }
  static std::uint32_t cpus() { return simulation::current().on().cpus(); }
  static constexpr std::uint32_t visible_slots = 4096;
  static atomic<std::uint64_t>* visible_readers();
  static bool prepare_visible_readers();
  static std::uint64_t lock_id(const void* lock);
  static std::uint32_t salt(const void* lock);
  static std::uint32_t random() { return std::uint32_t(simulation::current().chance().bits() >> 32); }
  static bool bernoulli(std::uint32_t n) { return n != 0 && simulation::current().chance().below(n) == 0; }
  static std::uint64_t now() {
    auto& s = simulation::current();
    return s.on().to_ns(s.now());
  }
  static std::uint32_t fork_epoch() { return 1; }
  static std::uint32_t owner_tag() { return 2 * thread_index() + 1; }
  static void ensure_owner_tag() {}
  static constexpr std::uint32_t count_limit(std::uint32_t n) { return n; }
  static wait_limits limits();
  static void doorway(const void* lock);
  static void admitted(const void*) {}
  template <class Step>
  static void leader(Step s) {
    if (s == Step::joins_other_group) leader_too_late();
  }

 protected:
  /// Polls the word every `period` cycles; 0: as often as the machine's waiters do.
  template <class T, class Pred>
  static T poll_every(cycles period, const atomic<T>& w, Pred pred, std::memory_order o) {
    const T v = w.load(o);
    if (pred(v)) return v;
    awaited<T, Pred> a{pred, v};
    simulation::current().spin(a.on(w, period), 0);
    return a.seen;
  }

 private:
  static void leader_too_late();

  /// The predicate that a thread waits for, and the value that satisfied it: the word may change again before the
  /// thread continues.
  template <class T, class Pred>
  struct awaited {
    const Pred& pred;
    T seen;

    condition on(const atomic<T>& w, cycles period = 0) {
      return {[](void* context, const void* word) {
                auto& a = *static_cast<awaited*>(context);
                a.seen = *static_cast<const T*>(word);
                return bool(a.pred(a.seen));
              },
              this, w.place(), sizeof(T), period};
    }
  };

  template <class T, class Pred>
  static std::optional<T> await_then_yield(const atomic<T>& w, Pred pred, std::memory_order o, cycles yields_after,
                                           cycles limit) {
    auto& s = simulation::current();
    const cycles end = s.now() + limit;
    awaited<T, Pred> a{pred, {}};
    if (s.spin(a.on(w), yields_after)) return a.seen;
    while (s.now() < end) {
      s.yield();
      const T v = w.load(o);
      if (pred(v)) return v;
    }
    return std::nullopt;
  }

  /// Sleeps if the word has the expected value. Of a 64-bit word only the upper half is compared, as in a futex call.
  template <class T>
  static void sleep(const atomic<T>& w, T expected, std::uint32_t mask, cycles limit) {
    const condition unchanged{[](void* context, const void* word) {
                                constexpr unsigned shift = sizeof(T) == 8 ? 32 : 0;
                                return std::uint32_t(*static_cast<const T*>(word) >> shift) ==
                                       std::uint32_t(*static_cast<const T*>(context) >> shift);
                              },
                              &expected, w.place(), sizeof(T)};
    simulation::current().sleep(unchanged, mask, limit);
  }

  static atomic<std::uint32_t>* table_of(table_kind k);
  static void* push_local(std::size_t bytes);
  static void pop_local(std::size_t bytes);
};

// The platform has no inflated states: large locks are simulated without inflation.
static_assert(platform_with_tables<simulated> && platform_with_priorities<simulated> &&
              platform_with_stack_objects<simulated> && platform_with_asymmetric_fences<simulated> &&
              platform_with_visible_readers<simulated>);

}  // namespace usher::sim
