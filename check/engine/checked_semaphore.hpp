// A semaphore compiled for the checker, as a table of functions. Generated translation units (check/target.cpp.in) add
// their tables to the list of targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "check/engine/any_probability.hpp"
#include "check/engine/checked_platform.hpp"
#include "usher/core/semaphore_core.hpp"

namespace usher::check {

struct checked_semaphore {
  enum waiter_state { waiting, notified, granted };
  enum class wait_end { woken, leave, cancel };  ///< as in the header

  std::string name;
  std::string mutation;
  std::size_t size, waiter_size;
  void (*make)(void*, std::uint32_t credits);
  void (*end)(void*);
  std::uint32_t (*value)(void*);
  bool (*try_acquire)(void*);
  bool (*release)(void*);
  void (*make_waiter)(void*);
  void (*end_waiter)(void*);
  /// Calls semaphore_core::wait(). `sleep(context)` sleeps by park().
  bool (*wait)(void*, void* waiter, append_probability, wait_end (*sleep)(void*), void* context);
  bool (*enter)(void*, void* waiter, append_probability);
  bool (*waits)(void* waiter);
  bool (*has_credit)(void* waiter);              ///< the waiter was granted a credit
  waiter_state (*state)(void* waiter);           ///< the newest value, which a thread may not see yet
  void (*park)(void* waiter, std::uint64_t ns);  ///< 0: no limit
  void (*wake_in_child)(void* waiter);           ///< by a handler of fork(): preload/own_sleep.hpp
  bool (*arrive)(void*, void* waiter);
  bool (*leave)(void*, void* waiter);
};

inline std::vector<checked_semaphore>& checked_semaphores() {
  static std::vector<checked_semaphore> list;
  return list;
}

template <class Semaphore>
bool add_semaphore(std::string name, std::string mutation) {
  using wait_end = checked_semaphore::wait_end;
  using waiter = typename Semaphore::waiter;
  static constexpr auto s = [](void* p) -> Semaphore& { return *static_cast<Semaphore*>(p); };
  static constexpr auto w = [](void* p) -> waiter& { return *static_cast<waiter*>(p); };
  checked_semaphores().push_back({
      .name = std::move(name),
      .mutation = std::move(mutation),
      .size = sizeof(Semaphore),
      .waiter_size = sizeof(waiter),
      .make = [](void* at, std::uint32_t credits) { ::new (at) Semaphore(credits); },
      .end = [](void* p) { s(p).~Semaphore(); },
      .value = [](void* p) { return s(p).value(); },
      .try_acquire = [](void* p) { return s(p).try_acquire(); },
      .release = [](void* p) { return s(p).release(); },
      .make_waiter = [](void* at) { construct_at_once<waiter>(at); },
      .end_waiter = [](void* m) { w(m).~waiter(); },
      .wait =
          [](void* p, void* m, append_probability chance, wait_end (*sleep)(void*), void* context) {
            return s(p).wait(w(m), any_probability{chance}, [=] {
              using theirs = typename Semaphore::wait_end;
              switch (sleep(context)) {
                case wait_end::leave:
                  return theirs::leave;
                case wait_end::cancel:
                  return theirs::cancel;
                default:
                  return theirs::woken;
              }
            });
          },
      .enter = [](void* p, void* m, append_probability chance) { return s(p).enter(w(m), any_probability{chance}); },
      .waits = [](void* m) { return w(m).state.load(std::memory_order_acquire) == waiter::waiting; },
      .has_credit = [](void* m) { return w(m).state.newest() == waiter::granted; },
      .state =
          [](void* m) {
            const std::uint32_t s = w(m).state.newest();
            return s == waiter::waiting    ? checked_semaphore::waiting
                   : s == waiter::notified ? checked_semaphore::notified
                                           : checked_semaphore::granted;
          },
      .park =
          [](void* m, std::uint64_t ns) {
            ns != 0 ? checked::park_for(w(m).state, waiter::waiting, every_sleeper, ns)
                    : checked::park(w(m).state, waiter::waiting, every_sleeper);
          },
      .wake_in_child =
          [](void* m) {
            if (w(m).state.newest() == waiter::waiting) w(m).state.store(waiter::notified, std::memory_order_relaxed);
          },
      .arrive = [](void* p, void* m) { return s(p).arrive(w(m)); },
      .leave = [](void* p, void* m) { return s(p).leave(w(m)); },
  });
  return true;
}

}  // namespace usher::check
