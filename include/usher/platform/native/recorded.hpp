// Recording by `usher stat` of the locks that a program embeds, with USHER_RECORD or through usher/usher.h.
//
//     usher_record_v1   exported by libusher.so: a pointer to record_calls while libusher.so records, else null. In
//                       other modules an undefined weak symbol: its address is 0 in a program without libusher.so
//
// Each operation reads this pointer. Without a recording this costs a load of the symbol's address, a load of the
// pointer, and two branches. During a recording the operation passes libusher.so functions that execute it. libusher.so
// calls them, and records the embedded object as it records pthread's (watch/recorder/embedded_wrappers.hpp).
//
// With the macro USHER_RECORD, the classes are in the inline namespace `recorded`, and so differ from those without the
// macro. Otherwise a mutex would be recorded wrongly if one source locked it without recording and another source
// unlocked it with recording. So only sources that share no object may differ in the macro. The size of objects is the
// same with and without the macro. With the macro, destructors are not trivial: they end the record of the object.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>  // std::cv_status
#include <cstddef>
#include <cstdint>
#include <mutex>  // std::unique_lock
#include <type_traits>

#include "usher/core/deadline.hpp"
#include "usher/core/traits.hpp"
#include "usher/platform/native.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2::native_detail {

/// The values are those of record::kind.
enum class recorded_kind : std::uint32_t { mutex = 1, condition = 2, semaphore = 3 };

/// The functions that libusher.so offers. The version in the symbol's name, usher_record_v1, is that of this layout.
/// `object` is the address that identifies an object. libusher.so calls the operations with `context`, which is the
/// object itself if a lock or acquire has no deadline, else another address. A false result means failure: the lock was
/// taken, no credit was left, or time ran out.
struct record_calls {
  using operation = bool (*)(void* context);

  void (*begin)(const void* object, recorded_kind kind);  ///< called when an object is made at run time; records where
  void (*end)(const void* object, recorded_kind kind);    ///< called before the object is destroyed

  bool (*lock)(const void* mutex, operation try_lock, operation lock, void* context);
  bool (*try_lock)(const void* mutex, operation try_lock, void* context);
  void (*unlock)(const void* mutex, operation unlock, void* context);

  /// `mutex` is the mutex if an unlock may hand it over to the waiter, which then does not call lock(); otherwise null.
  bool (*wait)(const void* condition, const void* mutex, operation wait, void* context);
  void (*notify)(const void* condition, bool all);  ///< called before the notification

  bool (*acquire)(const void* semaphore, operation try_acquire, operation acquire, void* context);
  bool (*try_acquire)(const void* semaphore, operation try_acquire, void* context);
  void (*release)(const void* semaphore, std::uint32_t credits);  ///< called before the release
};

/// Returns null if nothing is recorded. Reads the symbol's address from the global offset table in every code model:
/// otherwise, in an executable at a fixed address, the linker would resolve the undefined weak symbol to 0.
inline const record_calls* record_in_use() {
  const std::atomic<const record_calls*>* at;
#if defined(__x86_64__)
  __asm__(
      ".weak usher_record_v1\n\t"
      "{movq usher_record_v1@GOTPCREL(%%rip), %0|mov %0, QWORD PTR usher_record_v1@GOTPCREL[rip]}"
      : "=r"(at));
#else
  at = nullptr;
#endif
  return at != nullptr ? at->load(std::memory_order_relaxed) : nullptr;
}

/// Makes an operation of record_calls from a function object.
template <class F>
struct as_operation {
  F& f;
  static bool call(void* context) { return (*static_cast<F*>(context))(); }
};

/// The operations of record_calls for a mutex with lock(), try_lock() and unlock().
template <class Mutex>
struct recorded_operations {
  static bool try_lock(void* m) { return static_cast<Mutex*>(m)->try_lock(); }
  static bool lock(void* m) { return static_cast<Mutex*>(m)->lock(), true; }
  static bool unlock(void* m) { return static_cast<Mutex*>(m)->unlock(), true; }
};

/// Begins and ends the record of the object that has this base class.
template <recorded_kind Kind>
class recorded_object {
 public:
  constexpr recorded_object() noexcept {
    if (!std::is_constant_evaluated())
      if (const record_calls* const r = record_in_use()) r->begin(this, Kind);
  }
  ~recorded_object() {
    if (const record_calls* const r = record_in_use()) r->end(this, Kind);
  }
  recorded_object(const recorded_object&) = delete;
  recorded_object& operator=(const recorded_object&) = delete;
};

template <class Mutex>
class recorded_mutex : public recorded_object<recorded_kind::mutex> {
  using operations = recorded_operations<Mutex>;

 public:
  using lock_type = typename Mutex::lock_type;
  static constexpr lock_traits traits = Mutex::traits;

  constexpr recorded_mutex() noexcept = default;

  void lock() {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      r->lock(this, operations::try_lock, operations::lock, &mutex_);
    else
      mutex_.lock();
  }
  [[nodiscard]] bool try_lock() {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      return r->try_lock(this, operations::try_lock, &mutex_);
    return mutex_.try_lock();
  }
  void unlock() {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      r->unlock(this, operations::unlock, &mutex_);
    else
      mutex_.unlock();
  }

 protected:
  Mutex mutex_;
};

template <class Mutex>
class recorded_timed_mutex : public recorded_mutex<Mutex> {
 public:
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return try_lock_until(from_now(d));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    const record_calls* const r = record_in_use();
    if (r == nullptr) [[likely]]
      return this->mutex_.try_lock_until(deadline);
    struct timed {
      Mutex& mutex;
      const std::chrono::time_point<Clock, Duration>& deadline;
      static bool try_lock(void* t) { return static_cast<timed*>(t)->mutex.try_lock(); }
      static bool lock(void* t) {
        return static_cast<timed*>(t)->mutex.try_lock_until(static_cast<timed*>(t)->deadline);
      }
    } t{this->mutex_, deadline};
    return r->lock(this, timed::try_lock, timed::lock, &t);
  }

  /// The words beside the lock, for condition variables.
  auto& words_beside() { return this->mutex_.words_beside(); }
  /// recorded_condition passes the returned pointer to record_calls::wait as the argument `mutex`. Only mutexes whose
  /// unlock may hand the mutex over to a waiter of a condition variable have this function; for other mutexes the
  /// argument is null.
  const void* handed_over_as() const { return this; }
};

/// A condition variable: basic_condition_variable<native>.
template <class Condition>
class recorded_condition : public Condition, public recorded_object<recorded_kind::condition> {
  template <class Mutex>
  static const void* handed_over(Mutex& mutex) {
    if constexpr (requires { mutex.handed_over_as(); })
      return mutex.handed_over_as();
    else
      return nullptr;
  }
  template <class Mutex>
  static const void* handed_over(std::unique_lock<Mutex>& lock) {
    return lock.mutex() != nullptr ? handed_over(*lock.mutex()) : nullptr;
  }

  template <class Lock, class Wait>
  bool recorded_wait(Lock& lock, Wait wait) {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      return r->wait(key(), handed_over(lock), as_operation<Wait>::call, &wait);
    return wait();
  }
  const void* key() const { return static_cast<const recorded_object<recorded_kind::condition>*>(this); }

 public:
  using Condition::Condition;

  void notify_one() {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      r->notify(key(), false);
    Condition::notify_one();
  }
  void notify_all() {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      r->notify(key(), true);
    Condition::notify_all();
  }
  template <class Lock>
  void wait(Lock& lock) {
    recorded_wait(lock, [&] {
      Condition::wait(lock);
      return true;
    });
  }
  template <class Lock, class Predicate>
  void wait(Lock& lock, Predicate done) {
    while (!done()) wait(lock);
  }
  template <class Lock, class Remaining>
  bool wait_while_time(Lock& lock, Remaining remaining) {
    return recorded_wait(lock, [&] { return Condition::wait_while_time(lock, remaining); });
  }
};

template <class Semaphore>
class recorded_semaphore : public Semaphore, public recorded_object<recorded_kind::semaphore> {
  static bool try_operation(void* s) { return static_cast<Semaphore*>(s)->try_acquire(); }
  static bool operation(void* s) { return static_cast<Semaphore*>(s)->acquire(), true; }
  Semaphore* self() { return this; }
  const void* key() const { return static_cast<const recorded_object<recorded_kind::semaphore>*>(this); }

 public:
  using Semaphore::Semaphore;

  void release(std::ptrdiff_t n = 1) {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      if (n > 0) r->release(key(), n < Semaphore::max() ? std::uint32_t(n) : std::uint32_t(Semaphore::max()));
    Semaphore::release(n);
  }
  bool release_one() {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      r->release(key(), 1);
    return Semaphore::release_one();
  }
  [[nodiscard]] bool try_acquire() {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      return r->try_acquire(key(), try_operation, self());
    return Semaphore::try_acquire();
  }
  void acquire() {
    if (const record_calls* const r = record_in_use()) [[unlikely]]
      r->acquire(key(), try_operation, operation, self());
    else
      Semaphore::acquire();
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(const std::chrono::duration<Rep, Period>& d) {
    return try_acquire_until(from_now(d));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return acquire_while_time([&] { return nanoseconds_until(deadline); });
  }
  template <class Remaining>
  bool acquire_while_time(Remaining remaining) {
    const record_calls* const r = record_in_use();
    if (r == nullptr) [[likely]]
      return Semaphore::acquire_while_time(remaining);
    struct timed {
      Semaphore* semaphore;
      Remaining& remaining;
      static bool try_acquire(void* t) { return static_cast<timed*>(t)->semaphore->try_acquire(); }
      static bool acquire(void* t) {
        return static_cast<timed*>(t)->semaphore->acquire_while_time(static_cast<timed*>(t)->remaining);
      }
    } t{this, remaining};
    return r->acquire(key(), timed::try_acquire, timed::acquire, &t);
  }
};

}  // namespace usher::inline v2::native_detail

#ifdef USHER_RECORD
// A note by which `usher stat` finds out that a module's locks are recorded. Its form: state_definition.hpp.
#ifdef __clang__
#define USHER_RECORD_WEAK , gnu::weak
#else
#define USHER_RECORD_WEAK
#endif
extern "C"[[ gnu::used, gnu::visibility("hidden") USHER_RECORD_WEAK ]] inline void usher_record_v1_note() {
  __asm__ volatile(
      ".pushsection .note.usher,\"aG\",%note,usher_record_v1_note,comdat\n"
      ".balign 4\n"
      ".long 16, 0, 2\n"
      ".asciz \"usher_record_v1\"\n"
      ".popsection\n");
}
#undef USHER_RECORD_WEAK
#endif

#include "usher/core/shadow_end.h"
