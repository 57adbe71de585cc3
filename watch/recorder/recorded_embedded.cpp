// Records embedded locks. usher_record_v1 leads to these functions (usher/platform/native/recorded.hpp). They use the
// same code as pthread's objects; an embedded mutex is never recursive, and any thread may unlock it.
//
// The operations are the program's own code, which may be unloaded later: no pointer to one is kept after its call.
#include "watch/recorder/recorded_embedded.hpp"

#include <cerrno>

#include "library/preload/cancellable_wait.h"
#include "library/preload/export.hpp"
#include "watch/recorder/holding.hpp"
#include "watch/recorder/recorded_calls.hpp"

namespace usher::preload {
namespace {

using native_detail::record_calls;
using native_detail::recorded_kind;
using operation = record_calls::operation;

constexpr record::kind kind_of(recorded_kind k) {
  return static_cast<record::kind>(k);
}
static_assert(kind_of(recorded_kind::mutex) == record::kind::mutex &&
              kind_of(recorded_kind::condition) == record::kind::condition &&
              kind_of(recorded_kind::semaphore) == record::kind::semaphore);

void mark(record::object& o) {
  if ((o.flags.load(std::memory_order_relaxed) & record::embedded) == 0)
    o.flags.fetch_or(record::embedded, std::memory_order_relaxed);
}

/// Returns the calling thread and the object's entry, which is marked as embedded.
recorded_call find_embedded(const void* object, record::kind kind, std::uint64_t caller) {
  const recorded_call c = find_recorded(object, kind, caller);
  if (c.entry != nullptr) mark(*c.entry);
  return c;
}

/// Whether the recording is over; ends it in this process, too. Only for slow paths.
bool is_over(recorded_thread& me) {
  if (!has_ended(*me.of)) return false;
  end_recording(*me.of);
  return true;
}

void begin(const void* object, recorded_kind kind) {
  if (record::object* const o = begin_initialised(object, kind_of(kind), false)) mark(*o);
}

void end(const void* object, recorded_kind kind) {
  recorded_thread* const me = recorded_self();
  record::object* const o = me != nullptr ? me->find(object) : nullptr;
  if (o != nullptr && !is_another(*o, kind_of(kind))) end_object(*me, *o);
}

// ---- mutexes -----------------------------------------------------------------------------------------------

/// Whether an operation may end at a deadline. Then its context is the caller's variable with the deadline
/// (record_calls), else the object itself.
bool may_time_out(const void* object, const void* context) {
  return context != object;
}

bool lock(const void* mutex, operation try_lock, operation lock, void* context) {
  const std::uint64_t caller = USHER_CALLER;
  const auto [me, o] = find_embedded(mutex, record::kind::mutex, caller);
  if (o == nullptr) return lock(context);
  if (try_lock(context)) {
    hold_begins(*me, *o, mutex);
    try_ends(*me, *o, mutex);
    return true;
  }
  return wait_for_mutex(*me, *o, mutex, {lock, context}, caller, may_time_out(mutex, context));
}

bool try_lock(const void* mutex, operation try_lock, void* context) {
  const auto [me, o] = find_embedded(mutex, record::kind::mutex, USHER_CALLER);
  const bool locked = try_lock(context);
  if (o == nullptr) return locked;
  if (locked) {
    hold_begins(*me, *o, mutex);
    try_ends(*me, *o, mutex);
  } else {
    record::detail* const d = detail_of(*me, *o);
    count_roughly(*me, d != nullptr ? d->failed_tries : o->mutex.failed_tries);
    try_failed(*me, mutex);
  }
  return locked;
}

void unlock(const void* mutex, operation unlock, void* context) {
  recorded_thread* const me = recorded_self();
  record::object* const o = me != nullptr ? me->find(mutex) : nullptr;
  if (o == nullptr || is_another(*o, record::kind::mutex)) {
    unlock(context);
    return;
  }
  const held_charge c = end_own_or_others_hold(*me, *o, mutex);
  unlock(context);  // afterwards the mutex may be gone
  if (c.due != 0) charge_holder(*me, c);
}

// ---- condition variables -----------------------------------------------------------------------------------

bool wait(const void* condition, const void* mutex, operation wait, void* context) {
  const std::uint64_t caller = USHER_CALLER;
  if (find_embedded(condition, record::kind::condition, caller).entry == nullptr) return wait(context);
  return wait_for_condition(condition, mutex, {wait, context}, caller);
}

void notify(const void* condition, bool all) {
  const std::uint64_t caller = USHER_CALLER;
  if (find_embedded(condition, record::kind::condition, caller).entry != nullptr) record_signal(condition, all, caller);
}

// ---- semaphores --------------------------------------------------------------------------------------------

bool acquire(const void* semaphore, operation try_acquire, operation acquire, void* context) {
  const std::uint64_t caller = USHER_CALLER;
  const auto [me, o] = find_embedded(semaphore, record::kind::semaphore, caller);
  if (o == nullptr || is_over(*me)) return acquire(context);
  if (try_acquire(context)) {
    add(o->acquisitions, 1);
    try_ends(*me, *o, semaphore);
    return true;
  }
  recorded_wait wait(*me, *o, record::kind::semaphore, caller, may_time_out(semaphore, context));
  const bool acquired = acquire(context);
  if (!wait.is_current()) return acquired;
  const std::uint64_t ticks = wait.finish();
  if (acquired) {
    add(o->acquisitions, 1);
    wait.book(ticks);
    try_ends(*me, *o, semaphore);
  } else {
    wait.book_timeout(ticks);
  }
  return acquired;
}

bool try_acquire(const void* semaphore, operation try_acquire, void* context) {
  const auto [me, o] = find_embedded(semaphore, record::kind::semaphore, USHER_CALLER);
  const bool acquired = try_acquire(context);
  if (o == nullptr) return acquired;
  if (acquired) {
    add(o->acquisitions, 1);
    try_ends(*me, *o, semaphore);
  } else {
    count_roughly(*me, o->semaphore.failed_tries);
    try_failed(*me, semaphore);
  }
  return acquired;
}

void release(const void* semaphore, std::uint32_t credits) {
  record::object* const o = find_embedded(semaphore, record::kind::semaphore, USHER_CALLER).entry;
  if (o != nullptr) add(o->semaphore.posts, credits);
}

constexpr record_calls embedded_calls{.begin = begin,
                                      .end = end,
                                      .lock = lock,
                                      .try_lock = try_lock,
                                      .unlock = unlock,
                                      .wait = wait,
                                      .notify = notify,
                                      .acquire = acquire,
                                      .try_acquire = try_acquire,
                                      .release = release};

}  // namespace

void connect_embedded(bool recording) {
  usher_record_v1.store(recording ? &embedded_calls : nullptr, std::memory_order_relaxed);
}

}  // namespace usher::preload

constinit std::atomic<const usher::native_detail::record_calls*> usher_record_v1{nullptr};
