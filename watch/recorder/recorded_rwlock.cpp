// Recorded read-write locks. Several readers hold the lock at once, so all counts are atomic additions; only the writer
// that holds it writes the figures of holds.
#include <algorithm>
#include <cerrno>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/rwlock_layout.hpp"
#include "library/preload/rwlock_table.hpp"
#include "library/preload/timeouts.hpp"
#include "watch/recorder/recorded_others.hpp"

namespace usher::preload {
namespace {

enum side : unsigned { to_read, to_write };  // as detail::behind_writer has it

void acquired(recorded_thread& me, record::object& o, side s) {
  add(o.acquisitions, 1);
  if (s == to_write) {
    o.hold_begin.store(me.of->ticks(), std::memory_order_relaxed);
    o.owner.store(me.name, std::memory_order_relaxed);
    return;
  }
  add(o.rwlock.reads, 1);
  raise_to(o.rwlock.most_readers, o.rwlock.readers.fetch_add(1, std::memory_order_relaxed) + 1);
}

/// Called after a try that found the lock held. `lock` waits.
template <class F>
[[gnu::noinline]] int wait_for(recorded_thread& me, record::object& o, side s, std::uint64_t caller, F lock,
                               bool has_deadline, bool is_shared) {
  if (is_over(me)) return lock();
  recorded_wait wait(me, o, record::kind::rwlock, caller, has_deadline);
  const bool is_written = o.owner.load(std::memory_order_relaxed) != 0;
  record::detail* const d = detail_of(me, o);
  const int result = lock();
  if (!wait.is_current()) return result;
  const std::uint64_t ticks = wait.finish();
  if (result == 0) {
    acquired(me, o, s);
    wait.book(ticks);
    if (s == to_read) add(o.rwlock.contended_reads, 1);
  } else if (result == ETIMEDOUT) {
    wait.book_timeout(ticks);
  } else {
    return result;  // such as EDEADLK
  }
  if (is_shared) add(me.of->head->waited_for_shared, ticks);
  if (s == to_read) add(o.rwlock.waited_to_read, ticks);
  if (d == nullptr) return result;
  if (s == to_read) raise_to(d->longest_read_wait, ticks);
  add(is_written ? d->behind_writer[s] : d->behind_readers[s], ticks);
  return result;
}

/// `try_lock` and `lock` are the functions without and with waiting that are called when nothing is recorded.
template <class Try, class F>
int lock_for(pthread_rwlock_t* l, side s, std::uint64_t caller, Try& try_lock, F lock, bool has_deadline = false) {
  const auto [me, o] = find_recorded(l, record::kind::rwlock, caller);
  if (o == nullptr) return lock();
  const int result = try_lock(l);
  if (result == 0) {
    acquired(*me, *o, s);
    return 0;
  }
  if (result != EBUSY) return result;
  const bool is_shared = c_library::is_glibc() && rwlock_at::is_shared(l);
  return wait_for(*me, *o, s, caller, lock, has_deadline, is_shared);
}

int try_for(pthread_rwlock_t* l, side s, std::uint64_t caller, int result) {
  if (result != 0 && result != EBUSY) return result;
  const auto [me, o] = find_recorded(l, record::kind::rwlock, caller);
  if (o == nullptr) return result;
  if (result == 0)
    acquired(*me, *o, s);
  else if (record::detail* const d = detail_of(*me, *o))
    count_roughly(*me, d->failed_tries);
  return result;
}

/// Ends the hold of a writer, before the unlock. The threads that wait now have waited during it for its length at most,
/// and for the time that they have waited so far at most; the lesser of both sums is charged.
held_charge write_ends(recorded_thread& me, record::object& o) {
  const std::uint64_t now = me.of->ticks(), begin = o.hold_begin.load(std::memory_order_relaxed);
  const std::uint64_t hold = begin != 0 && now > begin ? now - begin : 0;
  add(o.held, hold);
  add(o.holds, 1);
  if (record::detail* const d = existing_detail(me, o)) {
    add(d->holds[record::duration_buckets::of(hold) / 2], 1);
    raise_to(d->longest_hold, hold);
  }
  o.hold_begin.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
  const std::uint64_t waiting = o.waiting.load(std::memory_order_relaxed), n = waiting & record::waiting_count;
  return n == 0 ? held_charge{} : add_charge(me, o, std::min(n * hold, record::waited_so_far(waiting, now)), now);
}

/// Ends the hold of a reader. None is counted if it began before the recording.
void read_ends(record::object& o) {
  std::uint32_t seen = o.rwlock.readers.load(std::memory_order_relaxed);
  while (seen != 0 && !o.rwlock.readers.compare_exchange_weak(seen, seen - 1, std::memory_order_relaxed)) {
  }
}

int recorded_rwlock_init(pthread_rwlock_t* l, const pthread_rwlockattr_t* attributes) {
  const int error = unrecorded_rwlocks.rwlock_init(l, attributes);
  if (error == 0) begin_initialised(l, record::kind::rwlock, false);
  return error;
}

int recorded_rwlock_destroy(pthread_rwlock_t* l) {
  end_destroyed(l);
  return unrecorded_rwlocks.rwlock_destroy(l);
}

int recorded_rdlock(pthread_rwlock_t* l) {
  const rwlock_pointers& c = unrecorded_rwlocks;
  return lock_for(l, to_read, USHER_CALLER, c.tryrdlock, [&] { return c.rdlock(l); });
}
int recorded_wrlock(pthread_rwlock_t* l) {
  const rwlock_pointers& c = unrecorded_rwlocks;
  return lock_for(l, to_write, USHER_CALLER, c.trywrlock, [&] { return c.wrlock(l); });
}

// As in the C library, invalid times and clocks are an error even if the lock is free.
int recorded_timedrdlock(pthread_rwlock_t* l, const timespec* until) {
  const rwlock_pointers& c = unrecorded_rwlocks;
  if (!is_time(*until)) return c.timedrdlock(l, until);
  return lock_for(
      l, to_read, USHER_CALLER, c.tryrdlock, [&] { return c.timedrdlock(l, until); }, true);
}
int recorded_clockrdlock(pthread_rwlock_t* l, clockid_t clock, const timespec* until) {
  const rwlock_pointers& c = unrecorded_rwlocks;
  if (!is_waitable(clock) || !is_time(*until)) return c.clockrdlock(l, clock, until);
  return lock_for(
      l, to_read, USHER_CALLER, c.tryrdlock, [&] { return c.clockrdlock(l, clock, until); }, true);
}
int recorded_timedwrlock(pthread_rwlock_t* l, const timespec* until) {
  const rwlock_pointers& c = unrecorded_rwlocks;
  if (!is_time(*until)) return c.timedwrlock(l, until);
  return lock_for(
      l, to_write, USHER_CALLER, c.trywrlock, [&] { return c.timedwrlock(l, until); }, true);
}
int recorded_clockwrlock(pthread_rwlock_t* l, clockid_t clock, const timespec* until) {
  const rwlock_pointers& c = unrecorded_rwlocks;
  if (!is_waitable(clock) || !is_time(*until)) return c.clockwrlock(l, clock, until);
  return lock_for(
      l, to_write, USHER_CALLER, c.trywrlock, [&] { return c.clockwrlock(l, clock, until); }, true);
}

int recorded_tryrdlock(pthread_rwlock_t* l) {
  return try_for(l, to_read, USHER_CALLER, unrecorded_rwlocks.tryrdlock(l));
}
int recorded_trywrlock(pthread_rwlock_t* l) {
  return try_for(l, to_write, USHER_CALLER, unrecorded_rwlocks.trywrlock(l));
}

int recorded_rwlock_unlock(pthread_rwlock_t* l) {
  recorded_thread* const me = recorded_self();
  record::object* const o = me != nullptr ? me->find(l) : nullptr;
  const auto& unlock = unrecorded_rwlocks.rwlock_unlock;
  if (o == nullptr || is_another(*o, record::kind::rwlock)) return unlock(l);
  if (o->owner.load(std::memory_order_relaxed) != me->name) {
    read_ends(*o);
    return unlock(l);
  }
  const held_charge c = write_ends(*me, *o);
  const int result = unlock(l);  // afterwards the lock may be gone
  if (c.due != 0) charge_holder(*me, c);
  return result;
}

#define USHER_RECORDED_RWLOCK(member, name, parameters, arguments) .member = recorded_##member,

}  // namespace

constinit const rwlock_calls recorded_rwlocks{USHER_RWLOCKS(USHER_RECORDED_RWLOCK)};

}  // namespace usher::preload
