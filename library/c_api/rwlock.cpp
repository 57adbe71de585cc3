// The read-write locks of the C interface. `usher_kind` of the object is the lock's index in `names`; 0 is the default.
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "usher/core/timespec.hpp"
#include "usher/platform/native.hpp"
#include "usher/shared_mutex.hpp"
#include "usher/usher.h"

namespace {

using usher::reader_rule;
using how = usher::waiting<usher::native, usher::waiting_kind::spin_then_park>;

template <template <class, class, template <class, class> class, reader_rule> class Lock, reader_rule Rule>
using kind = Lock<usher::native, how, usher::steady, Rule>;
using phase_fair = kind<usher::phase_fair, reader_rule::phase_fair>;
using phase_fair_recursive = kind<usher::phase_fair, reader_rule::recursive>;
using bravo = kind<usher::bravo, reader_rule::phase_fair>;
using bravo_recursive = kind<usher::bravo, reader_rule::recursive>;

constexpr const char* names[] = {"phase-fair", "phase-fair-recursive", "bravo", "bravo-recursive"};

template <class Lock>
Lock& lock_in(usher_rwlock_t* l) {
  static_assert(sizeof(Lock) <= sizeof l->usher_state && alignof(Lock) <= alignof(usher_rwlock_t));
  return *std::launder(reinterpret_cast<Lock*>(l->usher_state));
}

/// Calls f(lock), with the lock as an object of the class that `usher_kind` selects.
template <class F>
auto with(usher_rwlock_t* l, F f) {
  switch (l->usher_kind) {
    case 0:
      return f(lock_in<phase_fair>(l));
    case 1:
      return f(lock_in<phase_fair_recursive>(l));
    case 2:
      return f(lock_in<bravo>(l));
    default:
      return f(lock_in<bravo_recursive>(l));
  }
}

/// The deadline `t` of CLOCK_MONOTONIC, in the form that the locks take.
usher::native::clock_deadline until(const timespec& t) {
  return {CLOCK_MONOTONIC, t};
}

}  // namespace

extern "C" {

int usher_rwlock_init(usher_rwlock_t* l, const char* name) {
  for (std::uint32_t i = 0; i < sizeof names / sizeof *names; i++)
    if (name == nullptr || std::strcmp(name, names[i]) == 0) {
      std::memset(l, 0, sizeof *l);
      l->usher_kind = i;
      with(l, [](auto& lock) { lock.renew(0, false); });  // removes readers that an earlier lock here has left
      return 0;
    }
  return EINVAL;
}

int usher_rwlock_rdlock(usher_rwlock_t* l) {
  with(l, [](auto& lock) { lock.lock_shared(); });
  return 0;
}

int usher_rwlock_tryrdlock(usher_rwlock_t* l) {
  return with(l, [](auto& lock) { return lock.try_lock_shared(); }) ? 0 : EBUSY;
}

int usher_rwlock_timedrdlock(usher_rwlock_t* l, const struct timespec* end) {
  if (!usher::is_time(*end)) return EINVAL;
  return with(l, [end](auto& lock) { return lock.lock_shared_while_time(until(*end)); }) ? 0 : ETIMEDOUT;
}

int usher_rwlock_rdunlock(usher_rwlock_t* l) {
  with(l, [](auto& lock) { lock.unlock_shared(); });
  return 0;
}

int usher_rwlock_wrlock(usher_rwlock_t* l) {
  with(l, [](auto& lock) { lock.lock(); });
  return 0;
}

int usher_rwlock_trywrlock(usher_rwlock_t* l) {
  return with(l, [](auto& lock) { return lock.try_lock(); }) ? 0 : EBUSY;
}

int usher_rwlock_timedwrlock(usher_rwlock_t* l, const struct timespec* end) {
  if (!usher::is_time(*end)) return EINVAL;
  return with(l, [end](auto& lock) { return lock.lock_while_time(until(*end)); }) ? 0 : ETIMEDOUT;
}

int usher_rwlock_wrunlock(usher_rwlock_t* l) {
  with(l, [](auto& lock) { lock.unlock(); });
  return 0;
}

int usher_rwlock_tryupgrade(usher_rwlock_t* l) {
  return with(l, [](auto& lock) { return lock.try_upgrade(); }) ? 0 : EBUSY;
}

int usher_rwlock_downgrade(usher_rwlock_t* l) {
  with(l, [](auto& lock) { lock.unlock_and_lock_shared(); });
  return 0;
}

int usher_rwlock_destroy(usher_rwlock_t* l) {
  if (!with(l, [](auto& lock) { return lock.is_idle(); })) return EBUSY;
  std::memset(l, 0, sizeof *l);
  return 0;
}

}  // extern "C"
