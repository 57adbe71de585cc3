// Recorded joins. The object is the place in the program that waits for threads to end: the first return address outside
// of the libraries that only pass the call on, such as std::thread::join().
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "library/preload/c11.hpp"
#include "library/preload/cancellable_wait.h"
#include "library/preload/timeouts.hpp"
#include "watch/recorder/recorded_others.hpp"
#include "watch/recorder/waiting_calls.hpp"

namespace usher::preload {
namespace {

/// Whether the module of this word of a chain only passes joins on.
bool is_wrapper(const recorder& r, std::uint64_t pc) {
  const std::uint32_t number = record::module_of(pc);
  if (number == 0 || number > r.room().modules) return false;
  const record::module_slot& m = r.file.module(number - 1);
  if (m.ready.load(std::memory_order_acquire) == 0) return false;
  // Another process may write anything into the file, at any time: numbers are copied, then compared.
  const volatile record::module_slot& there = m;
  const std::uint32_t path = there.path, length = there.path_length, room = r.room().text;
  if (path > room || length > room - path) return false;
  std::string_view name(r.file.text() + path, length);
  name.remove_prefix(name.rfind('/') + 1);  // substr() would need the C++ library, for its exception
  for (const std::string_view wrapper : {"libstdc++.so", "libc++.so", "libboost_thread", "libglib-2.0.so"})
    if (name.starts_with(wrapper)) return true;
  return false;
}

/// The address that names the place. A chain is taken for each join, which takes far less time than a thread's life.
std::uint64_t place_of(recorded_thread& me, std::uint64_t caller) {
  const std::uint32_t taken = take_chain(me);
  if (taken == 0 || taken > me.of->room().chains) return caller;
  const record::chain& c = me.of->file.chain(taken - 1);
  if (c.ready.load(std::memory_order_acquire) == 0) return caller;
  const volatile std::uint32_t& there = c.length;
  const std::uint32_t said = there, length = std::min(said, record::chain::longest);
  for (std::uint32_t i = 0; i < length; i++)
    if (!is_wrapper(*me.of, c.pc[i])) return record::address_of(c.pc[i]);
  return caller;
}

struct waiting {
  const join_call& call;
  record::object& place;
  recorded_wait wait;
};

void come_back(waiting& w, int result) {
  if (!w.wait.is_current()) return;
  const std::uint64_t ticks = w.wait.finish();
  if (result == 0) {
    add(w.place.acquisitions, 1);
    w.wait.book(ticks);
  } else if (result == ETIMEDOUT) {
    w.wait.book_timeout(ticks);
  }
}

int run(void* argument) {
  return static_cast<waiting*>(argument)->call.wait();
}

void on_cancel(void* argument) {
  come_back(*static_cast<waiting*>(argument), ECANCELED);
}

record::object* find_place(recorded_thread* me, std::uint64_t caller) {
  if (me == nullptr || is_over(*me)) return nullptr;
  return find_or_begin(*me, reinterpret_cast<const void*>(place_of(*me, caller)), record::kind::join, caller);
}

int join(const join_call& call, std::uint64_t caller) {
  // As in the C library, another clock is an error even if the thread has ended.
  if (call.which == join_call::how::clock && !is_waitable(call.clock)) return call.wait();
  const usher_cancel_type type = usher_defer_cancellation();
  recorded_thread* const me = recorded_self();
  record::object* const o = find_place(me, caller);
  // The C library's join of an ended thread is no cancellation point, and neither is this one.
  int result = o != nullptr ? unrecorded_others().tryjoin(call.thread, call.value) : EBUSY;
  if (o != nullptr && result == 0) add(o->acquisitions, 1);
  if (o != nullptr && result == EBUSY) {
    waiting w{call, *o, recorded_wait(*me, *o, record::kind::join, caller, call.which != join_call::how::wait)};
    result = usher_call_with_cleanup(run, &w, on_cancel);
    come_back(w, result);
  }
  usher_restore_cancellation(type);
  return o != nullptr ? result : call.wait();
}

}  // namespace

int recorded_join(pthread_t t, void** value) {
  return join({join_call::how::wait, t, value, 0, nullptr}, USHER_CALLER);
}
int recorded_timedjoin(pthread_t t, void** value, const timespec* until) {
  return join({join_call::how::timed, t, value, 0, until}, USHER_CALLER);
}
int recorded_clockjoin(pthread_t t, void** value, clockid_t clock, const timespec* until) {
  return join({join_call::how::clock, t, value, clock, until}, USHER_CALLER);
}

int recorded_tryjoin(pthread_t t, void** value) {
  const int result = unrecorded_others().tryjoin(t, value);
  if (result != 0) return result;
  if (record::object* const o = find_place(recorded_self(), USHER_CALLER)) add(o->acquisitions, 1);
  return 0;
}

int recorded_join_c11(thrd_t t, int* value) {
  void* result = nullptr;
  const int error = join({join_call::how::wait, t, &result, 0, nullptr}, USHER_CALLER);
  if (value != nullptr) *value = static_cast<int>(reinterpret_cast<std::intptr_t>(result));
  return c11_result(error);
}

}  // namespace usher::preload
