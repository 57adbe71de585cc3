#include "watch/recorder/sums.hpp"

#include <algorithm>
#include <string_view>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/one_thread.hpp"
#include "library/preload/rwlock_layout.hpp"
#include "library/preload/selection.hpp"

// Weak, like all references to the C library (preload/c_library_functions.cpp).
extern "C" [[gnu::weak]] int pthread_barrierattr_getpshared(const pthread_barrierattr_t*, int*) noexcept;

namespace usher::recorder {

// ---- mutexes and spin locks --------------------------------------------------------------------------------

contract::object* find_or_make(recorded_thread& me, mutex_object m, std::uint64_t caller) {
  contract::object* const o = me.find(m.key);
  if (o != nullptr && !is_another(*o, contract::kind::mutex)) return o;
  return o == nullptr ? begin_object(me, m.key, contract::kind::mutex, m.is_recursive(), false, caller)
                      : begin_anew(me, *o, m.key, contract::kind::mutex, m.is_recursive(), caller);
}

/// Whether the mutex is certainly free: the process has one thread, the mutex is not process-shared, and the record
/// shows no hold of it (no owner, no light hold of this thread). Locking it then needs no wait, so the C library's lock
/// is called directly, which costs less than its trylock.
bool sums::is_free_for_certain(recorded_thread& me, const contract::object& o, mutex_object m) {
  me.unusual = preload::has_one_thread() ? recorded_thread::alone : 0;
  return me.unusual != 0 && o.owner.load(std::memory_order_relaxed) == 0 && me.light_mutex != m.key &&
         !preload::is_shared(preload::kind_of(m.get()));
}

void sums::count_failed_try(recorded_thread& me, contract::object& o, contract::kind kind) {
  if (kind == contract::kind::semaphore) return count_roughly(me, o.semaphore.failed_tries);
  contract::detail* const d = detail_of(me, o);
  if (d != nullptr)
    count_roughly(me, d->failed_tries);
  else if (contract::has_holds(kind))
    count_roughly(me, o.mutex.failed_tries);
}

void sums::made(const mutex_object& m) {
  const bool recursive = m.is_recursive();
  contract::object* const o = begin_initialised(m.key, contract::kind::mutex, recursive);
  // A static mutex keeps its entry if it is initialised again, perhaps with another type.
  if (o != nullptr)
    o->depth_and_kind.store((recursive ? std::uint32_t(contract::recursive) : 0) | std::uint32_t(contract::kind::mutex),
                            std::memory_order_relaxed);
}

namespace {

/// Adds how often the thread polled, slept and was granted the lock during its wait. Usher's locks count this; `before`
/// has the thread's counts before the wait.
void add_wait_tally(recorded_thread& me, contract::object& o, const native_detail::wait_tally& before) {
  contract::detail* const d = detail_of(me, o);
  if (d == nullptr) return;
  const native_detail::wait_tally& now = native_detail::own_waits;
  add(d->polls, now.polls - before.polls);
  add(d->sleeps, now.sleeps - before.sleeps);
  add(d->grants, now.grants - before.grants);
}

}  // namespace

lock_wait::lock_wait(recorded_thread& t, contract::object& entry, contract::kind kind, const wait_call& how)
    : me(t), o(entry), wait(t, entry, kind, how.caller, how.has_deadline), before(native_detail::own_waits) {
  detail_of(me, o);  // the present hold, perhaps the longest, can then record there
}

void lock_wait::ends(const void* key, int result) {
  if (!wait.is_current()) return;
  const std::uint64_t ticks = wait.finish(result);
  if (!preload::selected().passes_through) add_wait_tally(me, o, before);
  if (is_acquired(result)) {
    wait.book(ticks);
    // A wait of a millisecond suggests long holds, so all holds are timed until they are short again. If an owner died,
    // the entry may name the dead thread, and hold_begins() overwrites it.
    if (ticks >= me.of->ticks_a_ms.load(std::memory_order_relaxed) || result == EOWNERDEAD) count_by_threads(o, false);
    hold_begins(me, o, key);
    try_ends(me, o, key);
  } else if (result == ETIMEDOUT) {
    wait.book_timeout(ticks);
    // finish() has subtracted this wait from the waiters' time, so it is also subtracted from the time at the beginning
    // of the present hold (holding.hpp). A light hold does not store that time.
    if (o.owner.load(std::memory_order_relaxed) != 0) o.mutex.waited_before.fetch_sub(ticks, std::memory_order_relaxed);
  }
}

// ---- condition variables -----------------------------------------------------------------------------------

// A wait unlocks the mutex and locks it again. Usher's own functions record both as usual. If the C library does it,
// both are recorded here, and the time for which the thread waited for the mutex is unknown.

namespace {

/// Stores the time of n signals for the waiters that they will wake; only the latest sixteen are kept. The waiter woken
/// by a signal is not known, so waiters take the times in order: the sum of all latencies does not depend on the order.
void record_signal_times(contract::detail& d, std::uint64_t now, std::uint32_t n) {
  const std::uint64_t first = d.sent.load(std::memory_order_relaxed);
  constexpr std::uint32_t kept = std::size(decltype(d.sent_at){});
  for (std::uint32_t i = 0; i < n && i < kept; i++) d.sent_at[(first + i) % kept].store(now, std::memory_order_relaxed);
  d.sent.fetch_add(n, std::memory_order_release);  // pairs with ticks_since_signal()
}

/// Takes the oldest signal's time. Returns the ticks since then, at most `most`; 0 if no signal is left.
std::uint64_t ticks_since_signal(contract::detail& d, std::uint64_t now, std::uint64_t most) {
  constexpr std::uint32_t kept = std::size(decltype(d.sent_at){});
  std::uint64_t heard = d.heard.load(std::memory_order_relaxed);
  do {
    if (heard >= d.sent.load(std::memory_order_acquire)) return 0;  // pairs with record_signal_times()
  } while (!d.heard.compare_exchange_weak(heard, heard + 1, std::memory_order_relaxed));
  const std::uint64_t at = d.sent_at[heard % kept].load(std::memory_order_relaxed);
  const std::uint64_t ticks = now > at ? now - at : 0;
  return ticks < most ? ticks : most;  // two simultaneous signals may store each other's time
}

/// Drops signals in excess of the waiters. Called after a waiter has left without a signal: otherwise a later waiter
/// would take the oldest of these times as that of its own signal.
void drop_surplus_signals(contract::object& o, contract::detail& d) {
  const std::uint64_t waiters = o.waiting.load(std::memory_order_relaxed) & contract::waiting_count;
  std::uint64_t heard = d.heard.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t sent = d.sent.load(std::memory_order_acquire);
    if (sent <= heard + waiters) return;
    if (d.heard.compare_exchange_weak(heard, sent - waiters, std::memory_order_relaxed))
      return add(o.condition.unheard, sent - waiters - heard);
  }
}

}  // namespace

condition_wait::condition_wait(recorded_thread& t, contract::object& entry, const waited_condition& c,
                               const wait_call& how)
    : me(t),
      o(entry),
      mutex(c.mutex != nullptr ? t.find(c.mutex) : nullptr),
      wait(t, entry, contract::kind::condition, how.caller, how.has_deadline) {
  add(o.acquisitions, 1);
  detail_of(me, o);  // has room for the times of signals
  if (mutex != nullptr && c.hides_mutex) hold_ends(me, *mutex, wait.chain());
}

void condition_wait::ends(const waited_condition& c, int result) {
  if (!wait.is_current()) return;
  const std::uint64_t ticks = wait.finish(result);
  if (mutex != nullptr && mutex->owner.load(std::memory_order_relaxed) != me.name && me.light_mutex != c.mutex) {
    // This lock of the mutex was not recorded: the C library has locked it, or an unlock has granted it to the waiter.
    if (c.hides_mutex) mutex->flags.fetch_or(contract::any_wait_hidden, std::memory_order_relaxed);
    hold_begins(me, *mutex, c.mutex);
  }
  contract::detail* const d = detail_of(me, o);
  if (result == ETIMEDOUT) add(o.timeouts, 1);
  if (result != 0) {
    if (d != nullptr) drop_surplus_signals(o, *d);
    return;
  }
  wait.book(d != nullptr ? ticks_since_signal(*d, wait.ended(), ticks) : 0);
}

void sums::count_signal(recorded_thread& me, contract::object& o, bool all) {
  std::uint64_t n = o.waiting.load(std::memory_order_relaxed) & contract::waiting_count;
  if (n == 0) {
    if (const std::uint32_t counted = roughly_one(me, o.condition.unheard); counted != 0) {
      add(o.condition.unheard, counted);
      add(o.condition.signals, counted);
    }
    return;
  }
  add(o.condition.signals, 1);
  if (contract::detail* const d = detail_of(me, o)) {
    // `pending` waiters were signalled before and have not returned yet, so this signal does not wake them.
    const std::uint64_t sent = d->sent.load(std::memory_order_relaxed),
                        heard = d->heard.load(std::memory_order_relaxed), pending = sent > heard ? sent - heard : 0;
    n = n > pending ? n - pending : 0;
    if (n != 0) record_signal_times(*d, me.of->ticks(), all ? std::uint32_t(n) : 1);
  }
  if (n == 0)
    add(o.condition.unheard, 1);
  else if (all)
    raise_to(o.condition.herd, std::uint32_t(n));
}

// ---- read-write locks --------------------------------------------------------------------------------------

// Several readers hold the lock at once, so all counts are atomic additions. Only the writer that holds it writes the
// figures of holds.

/// Ends a writer's hold, before the unlock. Each thread that waits now has waited during the hold for the hold's length
/// at most, and for its wait so far at most. The lesser of the two sums is charged.
held_charge sums::write_ends(recorded_thread& me, contract::object& o) {
  const std::uint64_t now = me.of->ticks(), begin = o.hold_begin.load(std::memory_order_relaxed);
  const std::uint64_t hold = begin != 0 && now > begin ? now - begin : 0;
  add(o.held, hold);
  add(o.holds, 1);
  if (contract::detail* const d = existing_detail(me, o)) {
    add(d->holds[contract::duration_buckets::of(hold) / 2], 1);
    raise_to(d->longest_hold, hold);
  }
  o.hold_begin.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
  const std::uint64_t waiting = o.waiting.load(std::memory_order_relaxed), n = waiting & contract::waiting_count;
  return n == 0 ? held_charge{} : add_charge(me, o, std::min(n * hold, contract::waited_so_far(waiting, now)), now);
}

rwlock_wait::rwlock_wait(recorded_thread& t, contract::object& entry, const void* lock, side s, const wait_call& how)
    : me(t),
      o(entry),
      of(s),
      wait(t, entry, contract::kind::rwlock, how.caller, how.has_deadline),
      detail(detail_of(t, entry)),
      is_written(entry.owner.load(std::memory_order_relaxed) != 0),
      is_shared(preload::c_library::is_glibc() &&
                preload::rwlock_at::is_shared(static_cast<pthread_rwlock_t*>(const_cast<void*>(lock)))) {}

void rwlock_wait::ends(int result) {
  if (!wait.is_current()) return;
  const std::uint64_t ticks = wait.finish(result);
  if (result == 0) {
    of == to_read ? sums::read_begins(o) : sums::write_begins(me, o);
    wait.book(ticks);
    if (of == to_read) add(o.rwlock.contended_reads, 1);
  } else if (result == ETIMEDOUT) {
    wait.book_timeout(ticks);
  } else {
    return;  // for example EDEADLK
  }
  if (is_shared) add(me.of->head->waited_for_shared, ticks);
  if (of == to_read) add(o.rwlock.waited_to_read, ticks);
  if (detail == nullptr) return;
  if (of == to_read) raise_to(detail->longest_read_wait, ticks);
  add(is_written ? detail->behind_writer[of] : detail->behind_readers[of], ticks);
}

// ---- barriers ----------------------------------------------------------------------------------------------

namespace {

bool is_of_one_process(const pthread_barrierattr_t* attributes) {
  int shared = PTHREAD_PROCESS_SHARED;
  return attributes == nullptr ||
         (pthread_barrierattr_getpshared != nullptr && pthread_barrierattr_getpshared(attributes, &shared) == 0 &&
          shared == PTHREAD_PROCESS_PRIVATE);
}

}  // namespace

void sums::made(const barrier_object& b, const pthread_barrierattr_t* attributes, unsigned threads) {
  contract::object* const o = begin_initialised(b.key, contract::kind::barrier, false);
  if (o == nullptr) return;
  // A static barrier keeps its entry. The size is known only if the earlier arrivals are whole rounds of the new size.
  const bool is_known = is_of_one_process(attributes) && o->acquisitions.load(std::memory_order_relaxed) % threads == 0;
  o->barrier.size.store(is_known ? threads : 0, std::memory_order_relaxed);
}

sums::last_arrival sums::comes_last(const call& c, const barrier_object&) {
  recorded_thread& me = *c.thread;
  contract::object& o = *c.entry;
  const std::uint64_t arrivals = o.acquisitions.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint32_t size = o.barrier.size.load(std::memory_order_relaxed);
  if (size == 0 || arrivals % size != 0) return {};
  const std::uint64_t now = me.of->ticks(), waiting = o.waiting.load(std::memory_order_relaxed);
  const std::uint64_t waited = contract::waited_so_far(waiting, now);
  o.owner.store(me.name, std::memory_order_relaxed);
  if (contract::detail* const d = detail_of(me, o)) note_thread(*d, me.name, 1, 0);
  const bool is_valid = waited < std::uint64_t{1} << 51;  // else a negative difference: a thread is leaving now
  return {true, is_valid ? add_charge(me, o, waited, now) : held_charge{}};
}

// ---- joins -------------------------------------------------------------------------------------------------

// The object is the place in the program that waits for threads to end: the first return address outside of the
// libraries that only forward the call, such as std::thread::join().

namespace {

/// Whether the module of this return address only forwards joins.
bool is_wrapper(const recorder& r, std::uint64_t pc) {
  const std::uint32_t number = contract::module_of(pc);
  if (number == 0 || number > r.room().modules) return false;
  const contract::module_slot& m = r.file.module(number - 1);
  if (m.ready.load(std::memory_order_acquire) == 0) return false;
  // Another process may write to the file at any time: the fields are copied before they are compared.
  const volatile contract::module_slot& there = m;
  const std::uint32_t path = there.path, length = there.path_length, room = r.room().text;
  if (path > room || length > room - path) return false;
  std::string_view name(r.file.text() + path, length);
  name.remove_prefix(name.rfind('/') + 1);  // substr() may throw, which needs the C++ library
  for (const std::string_view wrapper : {"libstdc++.so", "libc++.so", "libboost_thread", "libglib-2.0.so"})
    if (name.starts_with(wrapper)) return true;
  return false;
}

/// The address that identifies the place. Each join takes a call chain, which costs far less than a thread's creation.
std::uint64_t place_of(recorded_thread& me, std::uint64_t caller) {
  const std::uint32_t taken = take_chain(me);
  if (taken == 0 || taken > me.of->room().chains) return caller;
  const contract::chain& c = me.of->file.chain(taken - 1);
  if (c.ready.load(std::memory_order_acquire) == 0) return caller;
  const volatile std::uint32_t& there = c.length;
  const std::uint32_t said = there, length = std::min(said, contract::chain::longest);
  for (std::uint32_t i = 0; i < length; i++)
    if (!is_wrapper(*me.of, c.pc[i])) return contract::address_of(c.pc[i]);
  return caller;
}

}  // namespace

contract::object* find_place(recorded_thread& me, std::uint64_t caller) {
  if (is_over(me)) return nullptr;
  return find_or_begin(me, reinterpret_cast<const void*>(place_of(me, caller)), contract::kind::join, caller);
}

}  // namespace usher::recorder
