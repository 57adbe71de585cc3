// Recorded condition variables. A wait unlocks the mutex and locks it again. With Usher's own functions, both are
// recorded as usual. If the C library waits, they are recorded here, and the time for which the thread waited for the
// mutex is unknown.
#include <cerrno>

#include "library/preload/cancellable_wait.h"
#include "library/preload/selection.hpp"
#include "watch/recorder/holding.hpp"
#include "watch/recorder/recorded_calls.hpp"
#include "watch/recorder/recorded_embedded.hpp"

namespace usher::preload {
namespace {

/// Stores the time of n signals for the waiters that they will wake; only the latest sixteen are kept. It is unknown
/// which signal woke a waiter, so waiters take the times in order: the sum of all latencies does not depend on the
/// order.
void record_signal_times(record::detail& d, std::uint64_t now, std::uint32_t n) {
  const std::uint64_t first = d.sent.load(std::memory_order_relaxed);
  constexpr std::uint32_t kept = std::size(decltype(d.sent_at){});
  for (std::uint32_t i = 0; i < n && i < kept; i++) d.sent_at[(first + i) % kept].store(now, std::memory_order_relaxed);
  d.sent.fetch_add(n, std::memory_order_release);
}

/// Takes the oldest signal's time. Returns the ticks since then, at most `most`; 0 if no signal is left.
std::uint64_t ticks_since_signal(record::detail& d, std::uint64_t now, std::uint64_t most) {
  constexpr std::uint32_t kept = std::size(decltype(d.sent_at){});
  std::uint64_t heard = d.heard.load(std::memory_order_relaxed);
  do {
    if (heard >= d.sent.load(std::memory_order_acquire)) return 0;
  } while (!d.heard.compare_exchange_weak(heard, heard + 1, std::memory_order_relaxed));
  const std::uint64_t at = d.sent_at[heard % kept].load(std::memory_order_relaxed);
  const std::uint64_t ticks = now > at ? now - at : 0;
  return ticks < most ? ticks : most;  // two simultaneous signals may store each other's time
}

/// Drops the signals in excess of the waiters. Called when a waiter has left without a signal: no waiter would take
/// their times but a later one, which would take the oldest for its own.
void drop_surplus_signals(record::object& o, record::detail& d) {
  const std::uint64_t waiters = o.waiting.load(std::memory_order_relaxed) & record::waiting_count;
  std::uint64_t heard = d.heard.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t sent = d.sent.load(std::memory_order_acquire);
    if (sent <= heard + waiters) return;
    if (d.heard.compare_exchange_weak(heard, sent - waiters, std::memory_order_relaxed))
      return add(o.condition.unheard, sent - waiters - heard);
  }
}

/// A call of one of the three functions that wait, with its arguments; or a wait for an embedded condition variable,
/// with the addresses of its objects.
struct cond_call {
  enum class how { wait, timed, clock, embedded } which;
  pthread_cond_t* condition;
  pthread_mutex_t* mutex;
  clockid_t clock;
  const timespec* until;
  const embedded_operation* wait_embedded = nullptr;

  /// Whether the wait may end at a deadline. Of an embedded condition variable this is not known.
  bool may_time_out() const { return which != how::wait; }
  /// Whether the C library waits, so that its unlock and lock of the mutex are invisible.
  bool is_c_library() const { return which != how::embedded && selected().passes_through; }
  int wait() const {
    if (which == how::embedded) return (*wait_embedded)() ? 0 : ETIMEDOUT;
    if (which == how::wait) return unrecorded().cond_wait(condition, mutex);
    if (which == how::timed) return unrecorded().cond_timedwait(condition, mutex, until);
    return unrecorded().cond_clockwait(condition, mutex, clock, until);
  }
};

struct waiting {
  const cond_call& call;
  recorded_thread& me;
  record::object& condition;
  record::object* mutex;
  recorded_wait wait;
};

/// Records the end of a wait. The thread has locked the mutex again.
void come_back(waiting& w, int result) {
  if (!w.wait.is_current()) return;
  const std::uint64_t ticks = w.wait.finish();
  recorded_thread& me = w.me;
  record::object& o = w.condition;
  if (w.mutex != nullptr && w.mutex->owner.load(std::memory_order_relaxed) != me.name &&
      me.light_mutex != w.call.mutex) {
    // There was no recorded lock call: the C library has locked the mutex, or an unlock has handed it over.
    if (w.call.is_c_library()) w.mutex->flags.fetch_or(record::any_wait_hidden, std::memory_order_relaxed);
    hold_begins(me, *w.mutex, w.call.mutex);
  }
  record::detail* const d = detail_of(me, o);
  if (result == ETIMEDOUT) add(o.timeouts, 1);
  if (result != 0) {
    if (d != nullptr) drop_surplus_signals(o, *d);
    return;
  }
  w.wait.book(d != nullptr ? ticks_since_signal(*d, w.wait.ended(), ticks) : 0);
}

int run(void* argument) {
  return static_cast<waiting*>(argument)->call.wait();
}

constexpr int cancelled = -1;
void on_cancel(void* argument) {
  come_back(*static_cast<waiting*>(argument), cancelled);
}

int wait(const cond_call& call, std::uint64_t caller) {
  const auto [me, o] = find_recorded(call.condition, record::kind::condition, caller);
  if (o == nullptr) return call.wait();
  if (has_ended(*me->of)) {
    end_recording(*me->of);
    return call.wait();
  }
  // Cancellation is permitted only in the wait itself, so that each wait is recorded once.
  const usher_cancel_type type = usher_defer_cancellation();
  add(o->acquisitions, 1);
  detail_of(*me, *o);
  record::object* const mutex = call.mutex != nullptr ? me->find(call.mutex) : nullptr;
  waiting w{call, *me, *o, mutex, recorded_wait(*me, *o, record::kind::condition, caller, call.may_time_out())};
  if (mutex != nullptr && call.is_c_library()) hold_ends(*me, *mutex, w.wait.chain());
  const int result = usher_call_with_cleanup(run, &w, on_cancel);
  come_back(w, result);
  usher_restore_cancellation(type);
  return result;
}

}  // namespace

void record_signal(const void* c, bool all, std::uint64_t caller) {
  const auto [me, o] = find_recorded(c, record::kind::condition, caller);
  if (o == nullptr) return;
  std::uint64_t n = o->waiting.load(std::memory_order_relaxed) & record::waiting_count;
  if (n == 0) {
    if (const std::uint32_t counted = roughly_one(*me, o->condition.unheard); counted != 0) {
      add(o->condition.unheard, counted);
      add(o->condition.signals, counted);
    }
    return;
  }
  add(o->condition.signals, 1);
  if (record::detail* const d = detail_of(*me, *o)) {
    // `pending` waiters were signalled before and have not returned yet, so this signal does not wake them.
    const std::uint64_t sent = d->sent.load(std::memory_order_relaxed),
                        heard = d->heard.load(std::memory_order_relaxed), pending = sent > heard ? sent - heard : 0;
    n = n > pending ? n - pending : 0;
    if (n != 0) record_signal_times(*d, me->of->ticks(), all ? std::uint32_t(n) : 1);
  }
  if (n == 0)
    add(o->condition.unheard, 1);
  else if (all)
    raise_to(o->condition.herd, std::uint32_t(n));
}

bool wait_for_condition(const void* condition, const void* mutex, const embedded_operation& wait_embedded,
                        std::uint64_t caller) {
  return wait({cond_call::how::embedded, static_cast<pthread_cond_t*>(const_cast<void*>(condition)),
               static_cast<pthread_mutex_t*>(const_cast<void*>(mutex)), 0, nullptr, &wait_embedded},
              caller) == 0;
}

int recorded_cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes) {
  const int error = unrecorded().cond_init(c, attributes);
  if (error == 0) begin_initialised(c, record::kind::condition, false);
  return error;
}

int recorded_cond_destroy(pthread_cond_t* c) {
  end_destroyed(c);
  return unrecorded().cond_destroy(c);
}

int recorded_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  return wait({cond_call::how::wait, c, m, 0, nullptr}, USHER_CALLER);
}
int recorded_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  return wait({cond_call::how::timed, c, m, 0, until}, USHER_CALLER);
}
int recorded_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  return wait({cond_call::how::clock, c, m, clock, until}, USHER_CALLER);
}

int recorded_cond_signal(pthread_cond_t* c) {
  record_signal(c, false, USHER_CALLER);
  return unrecorded().cond_signal(c);
}
int recorded_cond_broadcast(pthread_cond_t* c) {
  record_signal(c, true, USHER_CALLER);
  return unrecorded().cond_broadcast(c);
}

}  // namespace usher::preload
