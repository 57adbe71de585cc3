// Variants of locks for the simulator only. Their parameters and layouts differ from the catalogue's, to check what the
// papers say about them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "lab/sim/artifact_locks.hpp"
#include "lab/sim/simulated_family.hpp"
#include "usher/locks/clh.hpp"
#include "usher/locks/cohort.hpp"
#include "usher/locks/k42.hpp"
#include "usher/locks/loiter_variants.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcs_ahead.hpp"
#include "usher/locks/mcsg.hpp"
#include "usher/locks/mcsg_plus.hpp"
#include "usher/locks/three_stage.hpp"
#include "usher/locks/tkt_dual_variants.hpp"
#include "usher/locks/twa.hpp"
#include "usher/locks/twa_variants.hpp"

namespace usher::sim {

// Not an unnamed namespace, for the reason in catalog/lock.cpp.in.
namespace variants {

// TWA with another limit of the distance from the head up to which a waiter watches `grant` instead of a slot. In the
// TWA paper (§2) the limit is 1.
template <class P, class W>
using near_2 = basic_twa<P, W, shared_array<P>, 2>;
template <class P, class W>
using near_4 = basic_twa<P, W, shared_array<P>, 4>;
template <class P, class W>
using near_8 = basic_twa<P, W, shared_array<P>, 8>;

// TWA whose consecutive tickets have adjacent slots. In the TWA paper (§2) they are 127 slots apart.
template <class P, class W>
using adjacent = basic_twa<P, W, shared_array<P, twa_array::size, 1>>;

/// A waiting array whose hash takes the ticket alone, without the lock: locks with equal tickets use the same slots
/// (TWA paper, §2).
template <class P>
class unsalted_array : public shared_array<P> {
 public:
  auto& slot(std::uint32_t number, const void*) const {
    return P::template table<twa_array>()[waiting_array::hash(number, 0) & (twa_array::size - 1)];
  }
};
template <class P, class W>
using unsalted = basic_twa<P, W, unsalted_array<P>>;

// Quantized TWA (TWA, extended, §6) that promotes 16 waiters at a time to short-term waiting. The catalogue's lock
// promotes 4.
template <class P, class W>
using gang_16 = basic_twa_quantized<P, W, 16>;

// TKT-Dual whose unlock writes both words, as in the TWA paper (extended, §6). With one near thread. With four near
// threads, of which either each unlock promotes one, or each fourth unlock promotes four (the paper gives no number).
// With the grant beside the ticket, as in TWA.
template <class P, class W>
using dual_near_4 = basic_tkt_dual_releaser<P, W, 4>;
template <class P, class W>
using dual_batch_4 = basic_tkt_dual_releaser<P, W, 4, 4>;
template <class P, class W>
using dual_beside = basic_tkt_dual_releaser<P, W, 1, 1, 4>;

// 3-Stage whose three locks A, B and C have a sector each. In the catalogue they share a line, so that a write to B or
// C disturbs all waiters at A. Another form also releases B in unlock().
template <class P, class W>
using three_stage_apart = basic_three_stage<P, W, false, false, 128>;
template <class P, class W>
using three_stage_keeps_b_apart = basic_three_stage<P, W, false, true, 128>;

// MCS whose unlock wakes the waiter two or four turns ahead. In the catalogue it is one turn ahead.
template <class P, class W>
using mcs_ahead_2 = basic_mcs_ahead<P, W, 2>;
template <class P, class W>
using mcs_ahead_4 = basic_mcs_ahead<P, W, 4>;

/// A lock whose callers supply the queue nodes, as in the MCSg paper's program, so that the lock need not store the
/// holder's node. Each thread has one node and holds one lock at a time.
template <class P, class Base, const lock_traits& Traits>
class brings_node {
 public:
  static constexpr lock_traits traits = Traits;

  void lock() {
    P::doorway(this);
    const node_handle mine = P::cached_node();
    base_.lock(mine);
    P::cache_node(mine);
    P::admitted(this);
  }
  bool try_lock() {
    const node_handle mine = P::cached_node();
    const bool locked = base_.try_lock(mine);
    P::cache_node(mine);
    return locked;
  }
  void lock_as_guest()
    requires requires(Base& b) { b.lock(); }
  {
    P::doorway(this);
    base_.lock();
    guest_ = true;
    P::admitted(this);
  }
  void unlock() {
    if constexpr (requires(Base& b) { b.unlock(); })
      if (std::exchange(guest_, false)) return base_.unlock();
    const node_handle mine = P::cached_node();
    base_.unlock(mine);
    P::cache_node(mine);
  }

 private:
  Base base_;
  bool guest_ = false;  // not simulated: in the paper's program the unlocking thread knows it
};
template <class P, class W>
using mcs_node = brings_node<P, mcs_with_node<P, W>, mcs<P, W>::traits>;
template <class P, class W>
using mcsg_node = brings_node<P, mcsg_with_node<P, W>, mcsg<P, W>::traits>;
template <class P, class W>
using mcsg_plus_node = brings_node<P, mcsg_plus_with_node<P, W, no_turns>, mcsg_plus<P, W>::traits>;
template <class P, class W>
using mcsg_plus_plus_node = brings_node<P, mcsg_plus_with_node<P, W, leader_turns<P, W>>, mcsg_plus_plus<P, W>::traits>;

/// Linux's spin lock on i386 (kernel 2.4): a read-modify-write, then polling while the lock is held, without back-off.
template <class P, class W>
class ttas_linux {
 public:
  static constexpr lock_traits traits{.summary = "test-and-test-and-set without back-off",
                                      .paper = "baseline of Fairlocks"};

  void lock() {
    P::doorway(this);
    while (word_.exchange(1, std::memory_order_acquire) != 0)
      W::await_soon(word_, [](std::uint32_t w) { return w == 0; });
    P::admitted(this);
  }
  bool try_lock() { return word_.exchange(1, std::memory_order_acquire) == 0; }
  void unlock() { word_.store(0, std::memory_order_release); }

 private:
  typename P::template atomic<std::uint32_t> word_;
};

/// qspinlock with the kernel's operations. qspinlock.hpp changes the word by read-modify-writes alone and joins the
/// queue by a loop of compare-and-swap; the kernel stores bytes, and exchanges the half of the word that is the tail.
/// In the kernel's word (5.x), bits 31…16 are the tail, bit 8 is pending, and bits 7…0 are the locked byte.
template <class P, class W>
class qspinlock_linux {
 public:
  static constexpr lock_traits traits{.summary = "qspinlock with the kernel's stores of bytes and exchange of a half",
                                      .paper = "TWA (extended), section 4.9"};

  void lock() {
    P::doorway(this);
    std::uint32_t seen = 0;
    if (!word_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) contend(seen);
    P::admitted(this);
  }
  bool try_lock() {
    std::uint32_t seen = 0;
    return word_.load(std::memory_order_relaxed) == 0 &&
           word_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() { store(0, std::uint8_t{0}); }

 private:
  static constexpr std::uint32_t held = 1, pending = 1u << 8, both = 0xffff;

  /// Stores a part of the word. A load of the whole word waits until the store is written, as on processors that cannot
  /// forward from a narrower store.
  template <class Part>
  void store(unsigned at, Part value) {
    auto* const part = static_cast<char*>(const_cast<void*>(word_.place())) + at;
    if (!simulation::current().store(part, value, sizeof value)) std::memcpy(part, &value, sizeof value);
  }
  node_handle exchange_tail(node_handle me) {
    simulation::current().modify(const_cast<void*>(word_.place()), sizeof(std::uint32_t));
    const node_handle old = word_.peek() >> 16;
    const auto tail = static_cast<std::uint16_t>(me);
    std::memcpy(static_cast<char*>(const_cast<void*>(word_.place())) + 2, &tail, sizeof tail);
    return old;
  }
  std::uint32_t wait_until_clear(std::uint32_t bits) {
    return W::await_soon(word_, [bits](std::uint32_t w) { return (w & bits) == 0; });
  }

  void contend(std::uint32_t seen) {
    if (seen == pending) seen = W::await_soon(word_, [](std::uint32_t w) { return w != pending; });
    if ((seen & ~held) == 0) {
      seen = word_.fetch_or(pending, std::memory_order_acquire);
      if ((seen & ~held) == 0) {
        if ((seen & held) != 0) wait_until_clear(held);
        return store(0, static_cast<std::uint16_t>(held));
      }
      if ((seen & pending) == 0) store(1, std::uint8_t{0});
    }
    const node_handle me = P::take_node();
    prepare<P>(me);
    if (!try_lock()) queue_up(me);
    P::give_node(me);
  }
  void queue_up(node_handle me) {
    if (const node_handle previous = exchange_tail(me)) {
      P::node(previous).next.store(me, std::memory_order_release);
      wait_for_grant<P, W>(me);
    }
    std::uint32_t seen = wait_until_clear(both);
    if (seen >> 16 == me &&
        word_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed))
      return;
    store(0, static_cast<std::uint8_t>(held));
    grant<P, W>(W::await_soon(P::node(me).next, [](node_handle h) { return h != no_node; }));
  }

  typename P::template atomic<std::uint32_t> word_;
};

/// The original CLH (Craig; Landin and Hagersten): after unlock() a thread keeps its predecessor's node for its next
/// lock().
template <class P, class W>
class clh_node {
 public:
  static constexpr lock_traits traits = clh<P, W>::traits;

  void lock() {
    P::doorway(this);
    const node_handle mine = P::cached_node();
    prepare<P>(mine);
    const node_handle before = tail_.exchange(mine, std::memory_order_acq_rel);
    if (before != no_node) wait_for_grant<P, W>(before);
    mine_ = mine;
    before_ = before;
    P::admitted(this);
  }
  bool try_lock() { return false; }
  void unlock() {
    const node_handle before = before_;
    grant<P, W>(mine_);
    P::cache_node(before != no_node ? before : P::take_node());
  }

 private:
  typename P::template atomic<node_handle> tail_;
  node_handle mine_ = no_node, before_ = no_node;  // not simulated: the unlocking thread knows them
};

/// C-BO-MCS that releases the global lock before the local one. In a real program this order would be a mistake (see
/// cohort.hpp).
template <class P, class W>
class cohort_global_first {
  using global_lock = ttas<unhooked<P>, W>;
  using local_lock = mcs<unhooked<P>, W>;

 public:
  static constexpr lock_traits traits = c_bo_mcs<P, W>::traits;

  void lock() {
    P::doorway(this);
    const std::uint32_t n = P::numa_node();
    home& h = homes_[n];
    h.lock.lock();
    if (h.turns.get() == 0) global_.lock();
    h.turns.set(h.turns.get() + 1);
    if (holder_home_.get() != n) holder_home_.set(n);
    P::admitted(this);
  }
  bool try_lock() { return false; }
  void unlock() {
    constexpr std::uint32_t pass_threshold = 64;
    home& h = homes_[holder_home_.get()];
    if (h.turns.get() > pass_threshold || h.lock.has_no_successor()) {
      h.turns.set(0);
      global_.unlock();
    }
    h.lock.unlock();
  }

 private:
  template <class T>
  using plain = typename P::template plain<T>;

  struct alignas(128) home {
    local_lock lock;
    plain<std::uint32_t> turns;
  };

  alignas(128) global_lock global_;
  alignas(128) plain<std::uint32_t> holder_home_;
  home homes_[P::most_numa_nodes];
};

// The forms of the authors' program (artifact_locks.hpp).
template <class P, class W>
using mcsg_counted = brings_node<P, mcsg_with_node<P, W, artifact::counted_pauses>, mcsg<P, W>::traits>;
template <class P, class W>
using mcsg_plus_apart =
    brings_node<P, mcsg_plus_with_node<P, W, artifact::unawaited_turns<P, W>>, mcsg_plus<P, W>::traits>;
template <class P, class W>
using mcsg_plus_plus_apart =
    brings_node<P, mcsg_plus_with_node<P, W, artifact::turns_apart<P, W>>, mcsg_plus_plus<P, W>::traits>;
template <class P, class W>
using k42_looks = basic_k42<P, W, home_nodes<P>, true>;
template <class P, class W>
using k42_tls_looks = basic_k42<P, W, kept_nodes<P>, true>;

/// A string as a template argument, so that each variant's names have static storage.
template <std::size_t N>
struct text {
  consteval text(const char (&t)[N]) { std::ranges::copy(t, chars); }
  char chars[N];
};
template <text Family>
inline constexpr family_names names{Family.chars};

template <template <class, class> class Lock, text Family>
constexpr family<simulated_lock> variant() {
  return make_simulated_family<Lock>(names<Family>);
}

/// A variant whose waiters poll without end, on a form of the platform.
template <class P, template <class, class> class Lock, text Family>
constexpr family<simulated_lock> polling_variant() {
  using made = Lock<P, waiting<P, waiting_kind::spin>>;
  family<simulated_lock> f;
  f.tables[f.count++] =
      simulated_lock{make_lock_table<made>(names<Family>, waiting_kind::spin), [](void* at) { ::new (at) made(); }};
  return f;
}

constexpr family<simulated_lock> all[] = {
    polling_variant<artifact::two_arrays, mcs_node, "mcs-artifact">(),
    polling_variant<artifact::two_arrays, mcsg_counted, "mcsg-artifact">(),
    polling_variant<artifact::two_arrays, mcsg_plus_apart, "mcsg+-artifact">(),
    polling_variant<artifact::two_arrays, mcsg_plus_plus_apart, "mcsg++-artifact">(),
    polling_variant<artifact::two_arrays, clh_node, "clh-artifact">(),
    polling_variant<artifact::no_pause, k42_looks, "k42-artifact">(),
    polling_variant<artifact::no_pause, k42_tls_looks, "k42-tls-artifact">(),
    polling_variant<artifact::no_pause, artifact::tatas, "tatas-artifact">(),
    polling_variant<artifact::two_arrays, artifact::cohort_inherited_by_node, "c-mcsg-mcs-artifact">(),
    variant<clh_node, "clh-node">(),
    variant<ttas_linux, "ttas-linux">(),
    variant<qspinlock_linux, "qspinlock-linux">(),
    variant<cohort_global_first, "c-bo-mcs-global-first">(),
    variant<mcs_node, "mcs-node">(),
    variant<loiter_adaptive, "loiter-adaptive">(),
    variant<mcs_ahead_2, "mcs-ahead-2">(),
    variant<mcs_ahead_4, "mcs-ahead-4">(),
    variant<mcsg_node, "mcsg-node">(),
    variant<mcsg_plus_node, "mcsg+-node">(),
    variant<mcsg_plus_plus_node, "mcsg++-node">(),
    variant<near_2, "twa-near-2">(),
    variant<near_4, "twa-near-4">(),
    variant<near_8, "twa-near-8">(),
    variant<adjacent, "twa-adjacent">(),
    variant<unsalted, "twa-unsalted">(),
    variant<gang_16, "twa-gang-16">(),
    variant<tkt_dual_releaser, "tkt-dual-releaser">(),
    variant<dual_near_4, "tkt-dual-near-4">(),
    variant<dual_batch_4, "tkt-dual-batch-4">(),
    variant<dual_beside, "tkt-dual-beside">(),
    variant<three_stage_keeps_b, "three-stage-keeps-b">(),
    variant<three_stage_apart, "three-stage-apart">(),
    variant<three_stage_keeps_b_apart, "three-stage-keeps-b-apart">(),
};

}  // namespace variants

std::span<const family<simulated_lock>> simulated_variants() {
  return variants::all;
}

}  // namespace usher::sim
