#undef USHER_DEBUG  // with it, usher.h would rename the functions to those that check (usher_debug_…)
#ifndef USHER_RECORD
#define USHER_RECORD  // always, so that `usher stat` records programs that were not compiled for it
#endif

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "library/catalog/names.hpp"
#include "usher/catalog.hpp"
#include "usher/condition_variable.hpp"
#include "usher/core/timespec.hpp"
#include "usher/core/wait_morphing.hpp"
#include "usher/platform/native.hpp"
#include "usher/platform/native/owner_check.hpp"
#include "usher/platform/native/recorded.hpp"
#include "usher/semaphore.hpp"
#include "usher/usher.h"

namespace {

/// The default lock's table; null before the first look-up. Several threads may look it up, with the same result. (A
/// local static variable would need the C++ library.)
constinit std::atomic<const usher::lock_table*> found_default{nullptr};

[[noreturn, gnu::cold, gnu::noinline]] void die_without_default() {
  constexpr char text[] =
      "usher: the default lock is not in this build (USHER_LOCKS): name another one to usher_mutex_init()\n";
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
  std::abort();
}

const usher::lock_table& default_table() {
  const usher::lock_table* table = found_default.load(std::memory_order_relaxed);
  if (table == nullptr) [[unlikely]] {
    table = usher::find_lock(usher::default_lock);
    if (table == nullptr) die_without_default();
    found_default.store(table, std::memory_order_relaxed);
  }
  return *table;
}

const usher::lock_table& table_of(const usher_mutex_t* m) {
  return m->usher_table != nullptr ? *static_cast<const usher::lock_table*>(m->usher_table) : default_table();
}

/// A lock as an object that calls the functions of its table.
struct bound_lock {
  const usher::lock_table& table;
  void* state;
  void lock() const { table.lock(state); }
  bool try_lock() const { return table.try_lock(state); }
  void unlock() const { table.unlock(state); }
};

/// Gives core/wait_morphing.hpp access to a usher_mutex_t.
struct mutex_view {
  using words = usher::requeue_words<usher::native>;
  using waiter = usher::requeued_waiter<usher::native>;
  usher_mutex_t* m;

  words& beside() const { return *std::launder(reinterpret_cast<words*>(&m->usher_tag)); }
  bound_lock lock() const { return {table_of(m), m->usher_state}; }
  auto& owner_tag() const { return beside().owner_tag; }
  auto& timed() const { return beside().timed; }
  waiter* requeued() const { return beside().requeued(); }
  void requeue_first(waiter* w) const { beside().requeue_first(w); }
};
static_assert(sizeof(mutex_view::words) <= offsetof(usher_mutex_t, usher_state) - offsetof(usher_mutex_t, usher_tag));
static_assert(sizeof(pthread_mutex_t) <= sizeof usher_mutex_t{}.usher_state, "the lock pthread");
using operations = usher::morphing_mutex<usher::native, mutex_view>;
using check = usher::native_detail::tag_check;

using usher::native_detail::record_calls;
using usher::native_detail::record_in_use;
using usher::native_detail::recorded_kind;

bool try_lock_now(void* m) {
  return operations::try_lock({static_cast<usher_mutex_t*>(m)});
}
bool lock_now(void* m) {
  operations::lock({static_cast<usher_mutex_t*>(m)});
  return true;
}
bool unlock_now(void* m) {
  operations::unlock({static_cast<usher_mutex_t*>(m)});
  return true;
}

/// The nanoseconds from now until the time `t` of CLOCK_MONOTONIC.
std::uint64_t until(const timespec& t) {
  return usher::nanoseconds_until(CLOCK_MONOTONIC, t);
}

/// A usher_mutex_t with the members that usher::condition_variable calls.
struct bound_mutex {
  usher_mutex_t* mutex;
  void lock() { usher_mutex_lock(mutex); }
  void unlock() { usher_mutex_unlock(mutex); }
  mutex_view::words& words_beside() { return mutex_view{mutex}.beside(); }
  const void* handed_over_as() const { return mutex; }
};

template <class Object, class Raw>
Object& object_in(Raw* raw) {
  static_assert(sizeof(Object) <= sizeof(Raw) && alignof(Object) <= alignof(Raw));
  return *std::launder(reinterpret_cast<Object*>(raw->usher_state));
}
usher::condition_variable& condition(usher_cond_t* c) {
  return object_in<usher::condition_variable>(c);
}
usher::semaphore& semaphore(usher_sem_t* s) {
  return object_in<usher::semaphore>(s);
}

bool is_chance(double append) {
  return append > 0 && append <= 1;
}

}  // namespace

extern "C" {

int usher_mutex_init(usher_mutex_t* m, const char* name) {
  const usher::lock_table* table = name != nullptr ? usher::find_lock(name) : &default_table();
  if (table == nullptr || !table->traits->excludes || table->size > sizeof m->usher_state) return EINVAL;
  std::memset(m, 0, sizeof *m);
  m->usher_table = table;
  if (const record_calls* const r = record_in_use()) [[unlikely]]
    r->begin(m, recorded_kind::mutex);
  return 0;
}

int usher_mutex_lock(usher_mutex_t* m) {
  if (const record_calls* const r = record_in_use()) [[unlikely]]
    return r->lock(m, try_lock_now, lock_now, m), 0;
  operations::lock({m});
  return 0;
}

int usher_mutex_trylock(usher_mutex_t* m) {
  if (const record_calls* const r = record_in_use()) [[unlikely]]
    return r->try_lock(m, try_lock_now, m) ? 0 : EBUSY;
  return operations::try_lock({m}) ? 0 : EBUSY;
}

int usher_mutex_timedlock(usher_mutex_t* m, const struct timespec* end) {
  const record_calls* const r = record_in_use();
  if (r == nullptr || !usher::is_time(*end)) [[likely]] {
    if (operations::try_lock({m})) return 0;
    if (!usher::is_time(*end)) return EINVAL;
    return operations::lock_until({m}, [end] { return until(*end); }) ? 0 : ETIMEDOUT;
  }
  struct timed {
    usher_mutex_t* m;
    const timespec* end;
    static bool try_lock(void* t) { return try_lock_now(static_cast<timed*>(t)->m); }
    static bool lock(void* t) {
      const timespec* const at = static_cast<timed*>(t)->end;
      return operations::lock_until({static_cast<timed*>(t)->m}, [at] { return until(*at); });
    }
  } t{m, end};
  return r->lock(m, timed::try_lock, timed::lock, &t) ? 0 : ETIMEDOUT;
}

int usher_mutex_unlock(usher_mutex_t* m) {
  if (const record_calls* const r = record_in_use()) [[unlikely]]
    r->unlock(m, unlock_now, m);
  else
    operations::unlock({m});
  return 0;
}

int usher_mutex_destroy(usher_mutex_t* m) {
  if (constexpr usher_mutex_t unused{}; std::memcmp(m, &unused, sizeof unused) == 0) return 0;
  if (!operations::try_lock({m})) return EBUSY;
  operations::unlock({m});
  if (const record_calls* const r = record_in_use()) [[unlikely]]
    r->end(m, recorded_kind::mutex);
  std::memset(m, 0, sizeof *m);
  return 0;
}

int usher_debug_mutex_lock(usher_mutex_t* m) {
  check::before_lock("usher_mutex_lock()", m, mutex_view{m}.owner_tag());
  return usher_mutex_lock(m);
}

int usher_debug_mutex_timedlock(usher_mutex_t* m, const struct timespec* end) {
  check::before_lock("usher_mutex_timedlock()", m, mutex_view{m}.owner_tag());
  return usher_mutex_timedlock(m, end);
}

int usher_debug_mutex_unlock(usher_mutex_t* m) {
  check::before_unlock("usher_mutex_unlock()", m, mutex_view{m}.owner_tag());
  return usher_mutex_unlock(m);
}

int usher_debug_mutex_destroy(usher_mutex_t* m) {
  check::before_destruction("usher_mutex_destroy()", m, mutex_view{m}.owner_tag());
  return usher_mutex_destroy(m);
}

int usher_cond_init(usher_cond_t* c, double append) {
  if (!is_chance(append)) return EINVAL;
  ::new (c->usher_state) usher::condition_variable(usher::append_probability(append));
  return 0;
}

int usher_cond_wait(usher_cond_t* c, usher_mutex_t* m) {
  bound_mutex mutex{m};
  condition(c).wait(mutex);
  return 0;
}

int usher_cond_timedwait(usher_cond_t* c, usher_mutex_t* m, const struct timespec* end) {
  if (!usher::is_time(*end)) return EINVAL;
  bound_mutex mutex{m};
  return condition(c).wait_while_time(mutex, [end] { return until(*end); }) ? 0 : ETIMEDOUT;
}

int usher_cond_signal(usher_cond_t* c) {
  condition(c).notify_one();
  return 0;
}

int usher_cond_broadcast(usher_cond_t* c) {
  condition(c).notify_all();
  return 0;
}

int usher_cond_destroy(usher_cond_t* c) {
  if (!condition(c).close()) return EBUSY;
  if (const record_calls* const r = record_in_use()) [[unlikely]]
    r->end(c, recorded_kind::condition);
  return 0;
}

int usher_sem_init(usher_sem_t* s, unsigned value, double append) {
  if (value > unsigned(usher::semaphore::max()) || !is_chance(append)) return EINVAL;
  ::new (s->usher_state) usher::semaphore(value, usher::append_probability(append));
  return 0;
}

int usher_sem_wait(usher_sem_t* s) {
  semaphore(s).acquire();
  return 0;
}

int usher_sem_trywait(usher_sem_t* s) {
  return semaphore(s).try_acquire() ? 0 : EAGAIN;
}

int usher_sem_timedwait(usher_sem_t* s, const struct timespec* end) {
  if (!usher::is_time(*end)) return semaphore(s).try_acquire() ? 0 : EINVAL;
  return semaphore(s).acquire_while_time([end] { return until(*end); }) ? 0 : ETIMEDOUT;
}

int usher_sem_post(usher_sem_t* s) {
  return semaphore(s).release_one() ? 0 : EOVERFLOW;
}

const char* usher_version(void) {
  return USHER_VERSION;
}

const char* usher_lock_name(unsigned index) {
  for (const usher::lock_table* t : usher::catalog())
    if (t->traits->excludes && index-- == 0) return t->name;
  return nullptr;
}

}  // extern "C"
