// A condition variable compiled for the checker, as a table: check/subject.cpp.in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "check/any_chance.hpp"
#include "check/checked_lock.hpp"
#include "check/explore.hpp"
#include "check/platform.hpp"
#include "usher/core/condition_core.hpp"

namespace usher::check {

/// What a mutex throws that a client lets refuse.
struct refusal {
  bool of_lock, holds;  ///< lock() has refused, not unlock(); the thread has the mutex
};

/// What a client does as a thread's wait unlocks the mutex, or has locked it or been refused.
struct mutex_observer {
  void (*unlocks)(void* context) = nullptr;
  void (*locked)(void* context) = nullptr;
  void* context = nullptr;
};

/// A mutex, told of each step. It refuses what a thread does next with it, where the client has said so.
template <class Mutex>
class client_mutex : public Mutex {
 public:
  enum class refuses { nothing, unlock, unlock_when_done, lock };

  explicit client_mutex(const lock_handle& l) : Mutex(l) {}

  void lock() {
    if (is_refused(refuses::lock)) {
      observer.locked(observer.context);
      throw refusal{true, false};
    }
    Mutex::lock();
    observer.locked(observer.context);
  }
  void unlock() {
    observer.unlocks(observer.context);
    const bool holds = is_refused(refuses::unlock);
    if (!holds) Mutex::unlock();
    if (!holds && !is_refused(refuses::unlock_when_done)) return;
    observer.locked(observer.context);
    throw refusal{false, holds};
  }

  std::array<refuses, execution::most_threads> refused{};
  mutex_observer observer;

 private:
  bool is_refused(refuses what) {
    refuses& mine = refused[rl::thread_index()];
    if (mine != what) return false;
    mine = refuses::nothing;
    return true;
  }
};

using bare_mutex = client_mutex<lock_handle>;
using mutex_with_words = client_mutex<requeue_mutex<checked, lock_handle>>;  ///< to which threads are requeued

struct checked_condition {
  std::string name;
  std::string bug;
  std::size_t size;
  void (*make)(void*, append_chance);
  void (*end)(void*);
  /// False: time has run out. `remaining` as the header has it; null: there is no limit. `owned`: through a unique_lock.
  bool (*wait)(void*, bare_mutex&, std::uint64_t (*remaining)(void* context), void* context, bool owned);
  bool (*wait_requeued)(void*, mutex_with_words&, std::uint64_t (*remaining)(void*), void* context, bool owned);
  void (*notify_one)(void*);
  void (*notify_all)(void*);
  bool (*close)(void*);
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
    if (!lock.owns_lock()) wrong("a lock does not know that it has the mutex again");
    lock.release();
    return notified;
  } catch (...) {
    lock.release();
    throw;
  }
}

template <class Condition>
bool add_condition(std::string name, std::string bug) {
  static constexpr auto c = [](void* p) -> Condition& { return *static_cast<Condition*>(p); };
  checked_conditions().push_back({
      .name = std::move(name),
      .bug = std::move(bug),
      .size = sizeof(Condition),
      .make = [](void* at, append_chance chance) { ::new (at) Condition(any_chance{chance}); },
      .end = [](void* p) { c(p).~Condition(); },
      .wait = [](void* p, bare_mutex& m, std::uint64_t (*remaining)(void*), void* context,
                 bool owned) { return wait_on(c(p), m, remaining, context, owned); },
      .wait_requeued = [](void* p, mutex_with_words& m, std::uint64_t (*remaining)(void*), void* context,
                          bool owned) { return wait_on(c(p), m, remaining, context, owned); },
      .notify_one = [](void* p) { c(p).notify_one(); },
      .notify_all = [](void* p) { c(p).notify_all(); },
      .close = [](void* p) { return c(p).close(); },
  });
  return true;
}

}  // namespace usher::check
