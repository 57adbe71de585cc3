// Recorded semaphores. A semaphore has no holder, and a signal handler may post, so all counts are atomic additions.
#include <cerrno>

#include "library/preload/cancellable_wait.h"
#include "library/preload/selection.hpp"
#include "library/preload/thread_functions.h"
#include "watch/recorder/recorded_calls.hpp"
#include "watch/recorder/waiting_calls.hpp"

namespace usher::preload {
namespace {

struct waiting {
  const sem_call& call;
  recorded_thread& me;
  record::object& semaphore;
  recorded_wait wait;
};

void come_back(waiting& w, int result, int error) {
  if (!w.wait.is_current()) return;
  const std::uint64_t ticks = w.wait.finish();
  record::object& o = w.semaphore;
  if (result == 0) {
    add(o.acquisitions, 1);
    w.wait.book(ticks);
    try_ends(w.me, o, w.call.semaphore);
  } else if (error == ETIMEDOUT) {
    w.wait.book_timeout(ticks);
  }
}

int run(void* argument) {
  return static_cast<waiting*>(argument)->call.wait();
}

void on_cancel(void* argument) {
  come_back(*static_cast<waiting*>(argument), -1, ECANCELED);
}

int wait(const sem_call& call, std::uint64_t caller) {
  const auto [me, o] = find_recorded(call.semaphore, record::kind::semaphore, caller);
  if (o == nullptr) return call.wait();
  if (has_ended(*me->of)) {
    end_recording(*me->of);
    return call.wait();
  }
  if (!call.is_valid()) return call.wait();
  usher_test_cancel();  // a cancellation point, also if it does not wait
  const int saved = errno;
  if (unrecorded().sem_trywait(call.semaphore) == 0) {
    add(o->acquisitions, 1);
    try_ends(*me, *o, call.semaphore);
    return 0;
  }
  if (errno != EAGAIN) return -1;
  errno = saved;
  const usher_cancel_type type = usher_defer_cancellation();
  waiting w{call, *me, *o, recorded_wait(*me, *o, record::kind::semaphore, caller, call.which != sem_call::how::wait)};
  const int result = usher_call_with_cleanup(run, &w, on_cancel);
  come_back(w, result, result == 0 ? 0 : errno);
  usher_restore_cancellation(type);
  return result;
}

}  // namespace

int recorded_sem_init(sem_t* s, int shared, unsigned value) {
  const int result = unrecorded().sem_init(s, shared, value);
  if (result == 0) begin_initialised(s, record::kind::semaphore, false);
  return result;
}

int recorded_sem_destroy(sem_t* s) {
  end_destroyed(s);
  return unrecorded().sem_destroy(s);
}

int recorded_sem_wait(sem_t* s) {
  return wait({sem_call::how::wait, s, 0, nullptr}, USHER_CALLER);
}
int recorded_sem_timedwait(sem_t* s, const timespec* until) {
  return wait({sem_call::how::timed, s, 0, until}, USHER_CALLER);
}
int recorded_sem_clockwait(sem_t* s, clockid_t clock, const timespec* until) {
  return wait({sem_call::how::clock, s, clock, until}, USHER_CALLER);
}

int recorded_sem_trywait(sem_t* s) {
  const auto [me, o] = find_recorded(s, record::kind::semaphore, USHER_CALLER);
  const int result = unrecorded().sem_trywait(s);
  if (o == nullptr) return result;
  if (result == 0) {
    add(o->acquisitions, 1);
    try_ends(*me, *o, s);
  } else {
    count_roughly(*me, o->semaphore.failed_tries);
    try_failed(*me, s);
  }
  return result;
}

int recorded_sem_post(sem_t* s) {
  record::object* const o = find_recorded(s, record::kind::semaphore, USHER_CALLER).entry;
  if (o != nullptr) add(o->semaphore.posts, 1);  // before the post: its waiter may destroy the semaphore
  return unrecorded().sem_post(s);
}

}  // namespace usher::preload
