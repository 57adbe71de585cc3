// A condition variable compiled for the checker, as a table of functions. Generated translation units
// (check/target.cpp.in) add their tables to the list of targets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "check/engine/any_probability.hpp"
#include "check/engine/checked_lock.hpp"
#include "check/engine/checked_platform.hpp"
#include "check/engine/explore.hpp"
#include "usher/core/condition_core.hpp"

namespace usher::check {

/// Thrown by a mutex if the scenario makes an operation fail.
struct refusal {
  bool of_lock;  ///< lock() has thrown, not unlock(). In both cases the thread does not hold the mutex
};

/// The steps of a mutex that a scenario observes, and the operations that must throw.
struct mutex_steps {
  enum class refuses { nothing, unlock, lock };  ///< unlock: throws after it has unlocked the mutex

  /// `unlocks` is called when a thread's wait unlocks the mutex, and `locked` when lock() has returned or an operation
  /// has thrown.
  void (*unlocks)(void* context) = nullptr;
  void (*locked)(void* context) = nullptr;
  void* context = nullptr;
  std::array<refuses, execution::most_threads> refused{};  ///< indexed by thread: the operation that throws next

  bool is_refused(refuses what) {
    refuses& mine = refused[rl::thread_index()];
    if (mine != what) return false;
    mine = refuses::nothing;
    return true;
  }
};

/// A mutex that reports each step to a scenario, and throws when the scenario demands it.
template <class Mutex>
class scenario_mutex : public Mutex {
 public:
  scenario_mutex(const lock_handle& l, mutex_steps& steps) : Mutex(l), steps_(&steps) {}

  void lock() {
    if (steps_->is_refused(mutex_steps::refuses::lock)) {
      steps_->locked(steps_->context);
      throw refusal{.of_lock = true};
    }
    Mutex::lock();
    steps_->locked(steps_->context);
  }
  void unlock() {
    steps_->unlocks(steps_->context);
    Mutex::unlock();
    if (!steps_->is_refused(mutex_steps::refuses::unlock)) return;
    steps_->locked(steps_->context);
    throw refusal{.of_lock = false};
  }

 private:
  mutex_steps* steps_;
};

using bare_mutex = scenario_mutex<lock_handle>;

constexpr std::size_t room_for_mutex = 512;

struct checked_condition {
  std::string name;
  std::string mutation;
  std::size_t size;
  void (*make)(void*, append_probability);
  void (*end)(void*);
  /// Waits, and returns false if time has run out. `remaining` returns the remaining time, as in the header; null: no
  /// limit. `owned`: the mutex is passed in a unique_lock.
  bool (*wait)(void*, bare_mutex&, std::uint64_t (*remaining)(void* context), void* context, bool owned);
  /// Waits with a mutex to which waiters are requeued; otherwise like `wait`.
  bool (*wait_requeued)(void*, void* mutex, std::uint64_t (*remaining)(void*), void* context, bool owned);
  /// Waits without a limit until `done(context)`. `requeued`: the mutex is one to which waiters are requeued.
  void (*wait_until_done)(void*, void* mutex, bool requeued, bool (*done)(void*), void* context);
  void (*notify_one)(void*);
  void (*notify_all)(void*);
  bool (*close)(void*);

  // The size and the functions of a mutex to which waiters are requeued.
  std::size_t mutex_size;
  void (*make_mutex)(void*, const lock_handle&, mutex_steps&);
  void (*end_mutex)(void*);
  void (*lock_mutex)(void*);
  void (*unlock_mutex)(void*);
  bool (*mutex_is_idle)(void*);  ///< no owner and no waiters; the bit for the turn of timed waiters may have any value
};

inline std::vector<checked_condition>& checked_conditions() {
  static std::vector<checked_condition> list;
  return list;
}

template <class Condition, class Mutex>
bool wait_on(Condition& c, Mutex& m, std::uint64_t (*remaining)(void*), void* context, bool owned) {
  const auto wait = [&](auto& lock) {
    if (remaining != nullptr) return c.wait_while_time(lock, [=] { return remaining(context); });
    c.wait(lock);
    return true;
  };
  if (!owned) return wait(m);
  std::unique_lock<Mutex> lock(m, std::adopt_lock);
  try {
    const bool notified = wait(lock);
    if (!lock.owns_lock()) fail("a unique_lock does not own the mutex after a wait");
    lock.release();
    return notified;
  } catch (...) {
    lock.release();
    throw;
  }
}

template <class Condition>
bool add_condition(std::string name, std::string mutation) {
  using mutex = scenario_mutex<typename Condition::template requeue_mutex_of<lock_handle>>;
  static constexpr auto c = [](void* p) -> Condition& { return *static_cast<Condition*>(p); };
  static constexpr auto m = [](void* p) -> mutex& { return *static_cast<mutex*>(p); };
  checked_conditions().push_back({
      .name = std::move(name),
      .mutation = std::move(mutation),
      .size = sizeof(Condition),
      .make = [](void* at, append_probability chance) { ::new (at) Condition(any_probability{chance}); },
      .end = [](void* p) { c(p).~Condition(); },
      .wait = [](void* p, bare_mutex& bare, std::uint64_t (*remaining)(void*), void* context,
                 bool owned) { return wait_on(c(p), bare, remaining, context, owned); },
      .wait_requeued = [](void* p, void* with, std::uint64_t (*remaining)(void*), void* context,
                          bool owned) { return wait_on(c(p), m(with), remaining, context, owned); },
      .wait_until_done =
          [](void* p, void* with, bool requeued, bool (*done)(void*), void* context) {
            const auto is_done = [=] { return done(context); };
            requeued ? c(p).wait(m(with), is_done) : c(p).wait(*static_cast<bare_mutex*>(with), is_done);
          },
      .notify_one = [](void* p) { c(p).notify_one(); },
      .notify_all = [](void* p) { c(p).notify_all(); },
      .close = [](void* p) { return c(p).close(); },
      .mutex_size = sizeof(mutex),
      .make_mutex =
          [](void* at, const lock_handle& l, mutex_steps& steps) {
            static_assert(sizeof(mutex) <= room_for_mutex);
            ::new (at) mutex(l, steps);
          },
      .end_mutex = [](void* p) { m(p).~mutex(); },
      .lock_mutex = [](void* p) { m(p).lock(); },
      .unlock_mutex = [](void* p) { m(p).unlock(); },
      .mutex_is_idle =
          [](void* p) {
            auto& beside = m(p).words_beside();
            return beside.requeued() == nullptr && timed_waiter_count<checked>::is_idle(beside.timed.newest()) &&
                   beside.owner_tag.newest() == 0;
          },
  });
  return true;
}

}  // namespace usher::check
