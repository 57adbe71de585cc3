// Recorded semaphores. A semaphore has no holder, and a post may come from a signal handler, so everything is counted
// by atomic additions.
#include <cerrno>

#include "preload/cancellable_wait.h"
#include "preload/timeouts.hpp"
#include "record/recorded_calls.hpp"

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
  } else if (error == ETIMEDOUT) {
    w.wait.book_timeout(ticks);
  }
}

int run(void* argument) {
  const sem_call& call = static_cast<waiting*>(argument)->call;
  return call.wait_unrecorded(call);
}

void on_cancel(void* argument) {
  come_back(*static_cast<waiting*>(argument), -1, ECANCELED);
}

}  // namespace

int recorded_sem_wait(const sem_call& call, std::uint64_t caller) {
  const auto [me, o] = find_recorded(call.semaphore, record::kind::semaphore, caller);
  if (o == nullptr) return call.wait_unrecorded(call);
  if (has_ended(*me->of)) {
    end_recording(*me->of);
    return call.wait_unrecorded(call);
  }
  // An invalid time or clock is an error even where there is a credit, as in the C library.
  if ((call.which != sem_call::how::wait && !is_time(*call.until)) ||
      (call.which == sem_call::how::clock && !is_waitable(call.clock)))
    return call.wait_unrecorded(call);
  pthread_testcancel();  // a cancellation point, also if it does not wait
  const int saved = errno;
  if (call.try_unrecorded(call.semaphore) == 0) {
    add(o->acquisitions, 1);
    return 0;
  }
  if (errno != EAGAIN) return -1;
  errno = saved;
  const usher_cancel_type type = usher_defer_cancellation();
  waiting w{call, *me, *o, recorded_wait(*me, *o, record::kind::semaphore, caller)};
  const int result = usher_call_with_cleanup(run, &w, on_cancel);
  come_back(w, result, result == 0 ? 0 : errno);
  usher_restore_cancellation(type);
  return result;
}

int recorded_sem_trywait(sem_t* s, int (*plain)(sem_t*), std::uint64_t caller) {
  record::object* const o = find_recorded(s, record::kind::semaphore, caller).entry;
  const int result = plain(s);
  if (o == nullptr) return result;
  if (result == 0)
    add(o->acquisitions, 1);
  else
    add(o->unheard, 1);
  return result;
}

int recorded_sem_post(sem_t* s, int (*plain)(sem_t*), std::uint64_t caller) {
  record::object* const o = find_recorded(s, record::kind::semaphore, caller).entry;
  if (o != nullptr) add(o->signals, 1);  // before the post: its waiter may destroy the semaphore
  return plain(s);
}

}  // namespace usher::preload
