// A condition variable's waiting list, the mutex to which its waiters are requeued, and their way of waiting, compiled
// for the checker as a table of functions. They are the contents of libusher.so's pthread_cond_t and pthread_mutex_t.
// Generated translation units (check/target.cpp.in) add their tables to the list of targets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "check/engine/any_probability.hpp"
#include "check/engine/checked_lock.hpp"
#include "check/engine/checked_platform.hpp"
#include "check/engine/explore.hpp"
#include "usher/core/condition_wait.hpp"

namespace usher::check {

/// A pthread mutex of the normal kind, with any lock inside.
struct mutex_bytes {
  explicit mutex_bytes(const checked_lock& l) : lock(l) { lock.make(state()); }
  ~mutex_bytes() { lock.end(state()); }
  mutex_bytes(const mutex_bytes&) = delete;
  mutex_bytes& operator=(const mutex_bytes&) = delete;

  /// Sets the lock to all zero bytes in one step.
  void reset_lock() {
    const rl::preemption_disabler in_one_step(rl::ctx());
    lock.end(state());
    lock.make(state());
  }
  /// Like pthread_mutex_init().
  void begin_anew() {
    owner_tag.store(0, std::memory_order_relaxed);
    timed.store(0, std::memory_order_relaxed);
    epoch.store(0, std::memory_order_relaxed);
    chain.set(nullptr);
    reset_lock();
  }

  void* state() { return room.data(); }
  /// Returns true if the mutex has no owner and no waiters. The bits for the turn of timed waiters and for the number
  /// of hand-overs in a row may have any value.
  bool is_idle() const {
    return chain.get() == nullptr &&
           timed_waiter_count<checked>::is_idle(timed.newest() - users_elsewhere * one_user) && owner_tag.newest() == 0;
  }

  // Copies of constants of timed_waiters.hpp.
  static constexpr std::uint32_t one_user = 1u << 14, most_users = 4095, one_in_a_row = 1u << 26, requeued = 1u << 29,
                                 served = 1u << 30, granted = 1u << 31, most_timed = 0xfff;
  std::uint32_t counted_users() const { return timed.newest() / one_user & most_users; }
  std::uint32_t counted_timed() const { return timed.newest() & most_timed; }
  /// Returns true if the mutex belongs to the present fork epoch.
  bool is_valid() const { return epoch.newest() >> 32 == checked::fork_epoch(); }

  const checked_lock& lock;
  bool unlocked_by_others = false;  ///< if true, requeues are not observed, because the mutex may change at any time
  bool requeues = true;
  std::uint32_t users_elsewhere = 0;  ///< pretended waiters on other condition variables that never leave
  std::uint32_t users = 0;            ///< the counted waiters of the scenario
  /// The return values of the lock's functions during a thread's last unlock.
  struct replies {
    enum reply : std::uint8_t { unasked, no, yes };
    reply has_certain_successor = unasked, due = unasked, urgent = unasked;
  };
  std::array<replies, execution::most_threads> said{};
  std::array<bool, execution::most_threads> held_by{};  ///< indexed by thread; set from its lock() to its unlock()
  alignas(64) std::array<std::byte, room_for_target> room;
  checked::atomic<std::uint32_t> owner_tag, timed;
  checked::atomic<std::uint64_t> epoch;
  checked::plain<void*> chain;
};

/// The waiters that one broadcast has selected (a chain), in the chain's order.
struct chain_seen {
  std::array<void*, execution::most_locals> waiters;
  unsigned size = 0;
};

/// Functions that a scenario sets. `told` is called before each delivery of a chain, with its first waiter; `locked`
/// after a waiter has locked the mutex again; `requeued` after each requeue, with the chain and with all waiters that
/// are then requeued.
struct delivery_observer {
  void (*told)(void* context, void* waiter) = nullptr;
  void (*locked)(void* context, void* waiter) = nullptr;
  void (*requeued)(void* context, const chain_seen& chain, const chain_seen& then) = nullptr;
  void* context = nullptr;
};
inline delivery_observer deliveries;

constexpr std::uint64_t never = checked::never;
constexpr unsigned without_end = ~0u;  ///< a number of rounds that never runs out

/// The manner of a thread's wait. `forks`: a signal handler interrupts its sleep and forks.
enum class manner { for_ever, timed, cancelled, forks };

struct checked_queue {
  std::string name;
  std::string mutation;
  std::size_t size, waiter_size;
  void (*make)(void*);
  void (*end)(void*);

  // operations of the mutex
  void (*lock)(mutex_bytes&, unsigned rounds);  ///< with a deadline after this number of rounds; 0: no deadline
  bool (*lock_in_time)(mutex_bytes&);           ///< returns false if time has run out
  bool (*try_lock)(mutex_bytes&);
  void (*unlock)(mutex_bytes&);
  bool (*has_users)(mutex_bytes&);

  // The operations of a thread that waits, in the order of their calls.
  void (*make_waiter)(void*);
  void (*enter)(void* waiter, void* queue, mutex_bytes&, append_probability);
  bool (*await_grant)(void* waiter, manner, unsigned rounds, bool& gave_up);
  bool (*was_handed_over)(void* waiter);
  void (*come_back)(void* waiter, bool granted, unsigned rounds);
  void (*end_waiter)(void*);
  void (*undo_enter)(void* waiter);

  // The operations of a thread that signals.
  void* (*select_one)(void* queue, bool armed);
  void* (*select_all)(void* queue);
  void (*deliver)(void* chain);
  void (*signal)(void* queue);  ///< selects and delivers, like pthread_cond_signal()
  void (*broadcast)(void* queue);
  bool (*close)(void* queue);

  // properties of a waiter
  std::uint32_t (*state)(void* waiter);  ///< the newest value, which a thread may not see yet
  void* (*next)(void* waiter);           ///< the next waiter in its chain
};

inline std::vector<checked_queue>& checked_queues() {
  static std::vector<checked_queue> list;
  return list;
}

/// `Parts`: condition_parts of the shipped headers or of a mutant.
template <class Parts>
struct queue_adapter {
  using queue = typename Parts::queue;
  using timed_waiters = typename Parts::timed_waiters;

  /// A view of the mutex with the members that wait_morphing.hpp requires.
  struct words {
    using waiter = typename Parts::waiter;
    mutex_bytes* m;

    struct observed : lock_handle {
      mutex_bytes* m;
      bool has_certain_successor() const {
        return keep(&mutex_bytes::replies::has_certain_successor, lock_handle::has_certain_successor());
      }
      bool unlock_is_due() const { return keep(&mutex_bytes::replies::due, lock_handle::unlock_is_due()); }
      bool urgent_wait() const { return keep(&mutex_bytes::replies::urgent, lock_handle::urgent_wait()); }
      void unlock() const {
        if (m->owner_tag.newest() != 0) fail("the mutex is freed, and its owner tag says that it is held");
        lock_handle::unlock();
      }
      bool keep(mutex_bytes::replies::reply mutex_bytes::replies::*which, bool is_so) const {
        m->said[rl::thread_index()].*which = is_so ? mutex_bytes::replies::yes : mutex_bytes::replies::no;
        return is_so;
      }
    };
    observed lock() const { return {{&m->lock, m->state()}, m}; }
    auto& owner_tag() const { return m->owner_tag; }
    auto& timed() const { return m->timed; }
    auto& epoch() const { return m->epoch; }
    waiter* requeued() const { return static_cast<waiter*>(m->chain.get()); }
    void requeue_first(waiter* w) const { m->chain.set(w); }
    bool may_requeue() const { return m->epoch.load(std::memory_order_relaxed) >> 32 == checked::fork_epoch(); }
    static bool is_renewed(std::uint32_t) { return true; }
    void forget_requeued() const { requeue_first(nullptr); }
    void reset_lock() const { m->reset_lock(); }
  };
  using mutex = typename Parts::template mutex<words>;

  struct target {
    target() { shadow_.emplace(); }
    target(mutex_bytes* m) : at_(m) {}
    target(const target& o) : at_(o.at_) {}
    target& operator=(const target& o) {
      at_ = o.at_;
      if (shadow_) shadow_->set(1);
      return *this;
    }

    mutex_bytes* at() const {
      if (shadow_) (void)shadow_->get();
      return at_;
    }

    bool requeue(typename Parts::waiter& chain) const {
      using waiter = typename Parts::template wait<target>::waiter;
      deliveries.told(deliveries.context, static_cast<waiter*>(&chain));
      mutex_bytes* const m = at();
      if (!m->requeues) return false;
      const chain_seen before = see(&chain);
      const std::uint64_t since = chain.requeued_at.get(), deferred = chain.deferred_at.get();
      if (!mutex::requeue({m}, chain)) {
        const chain_seen then = see(&chain);
        if (before.size != then.size || before.waiters[before.size - 1] != then.waiters[then.size - 1] ||
            since != chain.requeued_at.get() || deferred != chain.deferred_at.get())
          fail("a refused requeue has changed its chain");
        return false;
      }
      if (m->unlocked_by_others) return true;
      if (!m->held_by[rl::thread_index()]) fail("a thread requeues to a mutex that it does not hold");
      see_in_order(*words{m}.requeued());
      deliveries.requeued(deliveries.context, before, see(words{m}.requeued()));
      return true;
    }
    static chain_seen see(typename Parts::waiter* w) {
      using waiter = typename Parts::template wait<target>::waiter;
      chain_seen c;
      for (; w != nullptr; w = w->next_in_chain()) {
        if (c.size == c.waiters.size()) fail("a chain is a ring");
        c.waiters[c.size++] = static_cast<waiter*>(w);
      }
      return c;
    }
    bool claim() const {
      mutex::ready({at()});
      return mutex::claim({at()}) && (at()->held_by[rl::thread_index()] = true);
    }
    // These functions count the mutex's users, the waiters that will lock it again: pthread_mutex_destroy() waits for
    // them (preload/users.hpp).
    void entered() {
      mutex_bytes* const m = at();
      const std::uint32_t epoch = checked::fork_epoch();
      const bool valid = m->epoch.load(std::memory_order_relaxed) >> 32 == epoch;
      const bool room = valid && m->users_elsewhere + m->users < mutex_bytes::most_users;
      counted_ = valid && timed_waiters::add_user(m->timed) ? epoch : 0;
      if ((counted_ != 0) != room)
        fail("a waiter is counted though the count has no room, or not counted though it has");
      m->users += counted_ != 0 ? 1 : 0;
    }
    void left() const {
      if (counted_ != checked::fork_epoch()) return;
      timed_waiters::remove_user(at()->timed);
      at()->users--;
    }

    static void see_in_order(typename Parts::waiter& first) {
      auto* w = &first;
      for (; w->next_in_chain() != nullptr; w = w->next_in_chain())
        if (w->rank.get() < w->next_in_chain()->rank.get()) fail("a chain is not in the order of priorities");
      if (w != first.prev.get()) fail("a chain does not record its last waiter");
    }

   private:
    mutex_bytes* at_ = nullptr;
    std::uint32_t counted_ = 0;
    /// Exists only in a waiter. It is accessed together with `at_`, so that relacy finds data races on `at_`.
    std::optional<checked::plain<std::uint32_t>> shadow_;
  };
  using wait = typename Parts::template wait<target>;
  using waiter = typename wait::waiter;
  using wait_end = typename wait::wait_end;

  static queue& q(void* p) { return *static_cast<queue*>(p); }
  static waiter& w(void* p) { return *static_cast<waiter*>(p); }

  /// Locks like pthread_mutex_lock(). If `left` is not 0, it first tries like pthread_mutex_timedlock().
  static void lock(mutex_bytes& m, unsigned left) {
    mutex::ready({&m});
    if (left == 0 || !mutex::lock_until({&m}, [&]() -> std::uint64_t { return left == 0 ? 0 : left--; }))
      mutex::lock({&m});
    m.held_by[rl::thread_index()] = true;
  }
  static bool lock_in_time(mutex_bytes& m) {
    mutex::ready({&m});
    unsigned left = 1;
    const bool locked = mutex::lock_until({&m}, [&]() -> std::uint64_t { return left == 0 ? 0 : left--; });
    m.held_by[rl::thread_index()] = locked;
    return locked;
  }
  static bool try_lock(mutex_bytes& m) {
    mutex::ready({&m});
    if (mutex::try_lock({&m})) return m.held_by[rl::thread_index()] = true;
    if (execution::current().forks() == 0 && checked::owner_tag() > 2 && m.owner_tag.newest() == checked::owner_tag())
      fail("a failed try_lock() leaves its tag: the mutex seems to be this thread's");
    return false;
  }
  static void unlock(mutex_bytes& m) {
    mutex::ready({&m});
    m.held_by[rl::thread_index()] = false;
    mutex::unlock({&m});
  }

  static bool await_grant(waiter& me, manner how, unsigned rounds, bool& gave_up) {
    gave_up = false;
    return wait::await_grant(me, [&](std::uint32_t state, bool selected) {
      if (how == manner::for_ever || (how == manner::timed && selected)) {
        checked::park(me.state, state, every_sleeper);
      } else if (rounds != 0) {
        if (rounds != without_end) rounds--;
        checked::park_for(me.state, state, every_sleeper, rounds == without_end ? never : 1);
      } else if (how == manner::forks) {
        forks_in_wait.fork(forks_in_wait.context, &me);
        if (!queue::awake(me) && rl::rand(2) == 0) return wait_end::woken;  // the handler began after the sleep
        return std::array{wait_end::abandoned, wait_end::time, wait_end::cancel}[rl::rand(3)];
      } else {
        gave_up = how == manner::cancelled;
        return gave_up ? wait_end::cancel : wait_end::time;
      }
      return wait_end::woken;
    });
  }
};

template <class Parts>
bool add_queue(std::string name, std::string mutation) {
  using a = queue_adapter<Parts>;
  using forwarding = typename a::queue::forwarding;
  checked_queues().push_back({
      .name = std::move(name),
      .mutation = std::move(mutation),
      .size = sizeof(typename a::queue),
      .waiter_size = sizeof(typename a::waiter),
      .make = [](void* at) { ::new (at) typename a::queue{}; },
      .end = [](void* p) { std::destroy_at(&a::q(p)); },
      .lock = a::lock,
      .lock_in_time = a::lock_in_time,
      .try_lock = a::try_lock,
      .unlock = a::unlock,
      .has_users = [](mutex_bytes& m) { return a::timed_waiters::has_users(m.timed); },
      .make_waiter = [](void* at) { construct_at_once<typename a::waiter>(at); },
      .enter = [](void* me, void* p, mutex_bytes& m,
                  append_probability chance) { a::wait::enter(a::w(me), a::q(p), {&m}, any_probability{chance}); },
      .await_grant = [](void* me, manner how, unsigned rounds,
                        bool& gave_up) { return a::await_grant(a::w(me), how, rounds, gave_up); },
      .was_handed_over = [](void* me) { return a::queue::was_handed_over(a::w(me)); },
      .come_back =
          [](void* me, bool granted, unsigned rounds) {
            a::wait::come_back(a::w(me), granted, [&] {
              a::lock(*a::w(me).target.at(), rounds);
              deliveries.locked(deliveries.context, me);
            });
          },
      .end_waiter = [](void* me) { std::destroy_at(&a::w(me)); },
      .undo_enter = [](void* me) { a::wait::undo_enter(a::w(me)); },
      .select_one = [](void* p, bool armed) -> void* {
        return a::wait::of_chain(a::q(p).select_one(armed ? forwarding::armed : forwarding::none));
      },
      .select_all = [](void* p) -> void* { return a::wait::of_chain(a::q(p).select_all()); },
      .deliver = [](void* chain) { a::wait::deliver(a::w(chain)); },
      .signal = [](void* p) { a::wait::signal(a::q(p)); },
      .broadcast = [](void* p) { a::wait::broadcast(a::q(p)); },
      .close = [](void* p) { return a::q(p).close(); },
      .state = [](void* me) { return a::w(me).state.newest(); },
      .next = [](void* me) -> void* { return a::wait::of_chain(a::w(me).next.get()); },
  });
  return true;
}

}  // namespace usher::check
