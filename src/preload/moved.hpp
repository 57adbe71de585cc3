// Wait morphing: threads that a condition variable would wake only to find the mutex held are moved to the mutex. Its
// unlock grants the first of them; that one, when it has the mutex, hangs the rest there again.
//
// A lock that restricts concurrency (one with contended()) leaves the chain where it is for up to 1 ms while it knows that
// another thread is going to have the mutex, for that one's unlock comes by here, too. Who has waited for much longer gets
// the mutex itself from an unlock, still locked: mutex_operations.hpp.
//
// A thread is moved only by the thread that holds its mutex, so its unlock is certain to come later. That the caller holds a
// mutex shows in the word `held`: its mark. An unlock by another thread takes that mark away before anything else, and a
// move puts another in its place for as long as it takes, so the two exclude each other, and the chain needs no more
// protection. What is not certain is woken instead: a mutex of a kind that keeps its owner where the chain would be, or of
// the C library's, or one that was taken before the thread had a record.
#pragma once

#include <cstring>

#include "preload/layout.hpp"
#include "usher/core/timed_waiters.hpp"
#include "usher/core/wait_queue.hpp"

namespace usher::preload {

using gate = timed_gate<native>;
using pthread_queue = wait_queue<native>;

/// A thread in pthread_cond_wait().
struct pthread_waiter : pthread_queue::waiter {
  pthread_mutex_t* mutex;
  std::uint32_t counted = 0;  ///< as enter_users() says
  // Once it hangs on the mutex; the holder's.
  std::uint64_t moved_at = 0;   ///< ns; 0: never yet
  std::uint64_t passed_at = 0;  ///< of the first: when it was hung there, or left there by an unlock
};

/// Marks of no thread, in `held`: threads' are odd and larger.
inline constexpr std::uint32_t held_by_somebody = gate::unknown_owner, held_while_moving = 2;

inline pthread_waiter* next_in_chain(const pthread_waiter& w) {
  return static_cast<pthread_waiter*>(w.next.get());
}

/// Takes the mark of whoever locked the mutex away: what follows is this thread's business. False: it is free.
inline bool take_mark(mutex_layout& m) {
  std::uint32_t seen = m.held.load(std::memory_order_relaxed);
  for (;;) {
    if (seen == 0) return false;
    if (seen == held_while_moving) {
      seen = native::await_yielding(
          m.held, [](std::uint32_t h) { return h != held_while_moving; }, std::memory_order_relaxed);
      continue;
    }
    // (2) acquire: pairs with (1), a move by the thread that locked it.
    if (m.held.compare_exchange_strong(seen, held_by_somebody, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
    native::backoff(0);
  }
}

inline void* moved_bytes(mutex_layout& m) {
  return &m.count;  // `count` and `owner`; not aligned for a pointer
}
inline void forget_moved(mutex_layout& m) {
  std::memset(moved_bytes(m), 0, sizeof(pthread_waiter*));
}
inline pthread_waiter* moved(mutex_layout& m) {
  pthread_waiter* first;
  std::memcpy(&first, moved_bytes(m), sizeof first);
  return first;
}
inline pthread_waiter* take_moved(mutex_layout& m) {
  pthread_waiter* const first = moved(m);
  forget_moved(m);
  return first;
}

/// Moves a chain to its mutex. False if it is not certain that the caller holds that.
inline bool move_to_mutex(mutex_layout& m, pthread_waiter& chain) {
  const std::uint32_t me = native::thread_mark();
  if (me == held_by_somebody) {
    native::self();  // a record, for the next time
    return false;
  }
  const std::uint64_t kind = m.kind_and_stamp.load(std::memory_order_relaxed);
  if (!is_ours(kind_of(kind)) || has_owner(kind_of(kind)) || stamp_of(kind) != native::fork_stamp()) return false;
  std::uint32_t mine = me;
  if (m.held.load(std::memory_order_relaxed) != me ||
      !m.held.compare_exchange_strong(mine, held_while_moving, std::memory_order_relaxed, std::memory_order_relaxed))
    return false;
  const std::uint64_t now = native::now();
  if (chain.moved_at == 0)
    for (pthread_waiter* w = &chain; w != nullptr; w = next_in_chain(*w)) w->moved_at = now;
  chain.passed_at = now;
  if (pthread_waiter* const first = moved(m)) {
    auto* const now_first = static_cast<pthread_waiter*>(&pthread_queue::append(*first, chain));
    if (now_first != first) std::memcpy(moved_bytes(m), &now_first, sizeof now_first);  // of a higher priority
  } else {
    pthread_waiter* const p = &chain;
    std::memcpy(moved_bytes(m), &p, sizeof p);
    gate::set_requeued(m.timed);
  }
  m.held.store(me, std::memory_order_release);  // (1) release: pairs with (2)
  return true;
}

}  // namespace usher::preload
