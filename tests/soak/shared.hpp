// The objects that all threads of a round share and that forked children use.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "soak.hpp"

namespace soak {

/// Tokens, with the mutex and the condition variable that protect them.
struct box {
  guarded lock;
  placed<pthread_cond_t> cond;
  clockid_t clock = CLOCK_REALTIME;
  std::atomic<long> tokens{
      0};  // changed only while the mutex is held; atomic, because the main thread reads them without the mutex
  std::atomic<int> waiters{0};
  std::atomic<long> put{0}, taken{0};
};

struct item {
  int producer;
  long number;
};

/// A bounded queue with two condition variables.
struct bounded_queue {
  guarded lock;
  placed<pthread_cond_t> not_full, not_empty;
  clockid_t clock = CLOCK_REALTIME;
  int capacity = 1;
  std::deque<item> items;
  std::atomic<int> length{0}, waiting_producers{0}, waiting_consumers{0};
  std::atomic<long> pushed{0}, popped{0};
  std::vector<long> made, seen;  // one entry for each producer, which alone changes `made`; the mutex guards `seen`
};

/// A semaphore with counts of its units.
struct counted_semaphore {
  placed<sem_t> sem;
  std::atomic<long> posted{0}, taken{0};  // `posted` includes the initial value
  std::atomic<int> waiters{0};
  int value() const {
    int v = 0;
    MUST(sem_getvalue(sem.get(), &v));
    REQUIRE(v >= 0, "a semaphore's value is %d", v);
    return v;
  }
};

/// A bounded queue with two semaphores and a mutex.
struct semaphore_queue {
  guarded lock;
  counted_semaphore slots, items_there;
  int capacity = 1;
  std::deque<item> items;
  std::vector<long> made, seen;
};

struct shared_objects {
  shared_objects(random_source& random, int threads);
  void finish();  // called when all threads have ended: the counts must add up

  /// Returns whether one more thread may wait without a deadline: enough other threads must remain to end such waits.
  bool may_block();

  int threads;
  std::atomic<int> blockers{0};
  std::atomic<bool> forking{false};
  std::atomic<std::int64_t> last_fork{0};
  std::deque<guarded> cells;
  std::deque<box> boxes;
  std::deque<bounded_queue> queues;
  std::deque<counted_semaphore> semaphores;
  // semaphores with one unit, each used as a lock for a variable with its owner's name
  std::deque<counted_semaphore> gates;
  std::deque<std::atomic<int>> gate_owners;
  std::deque<semaphore_queue> semaphore_queues;
};

void post(self& me, counted_semaphore& s);
void post_from_handler(shared_objects& shared);

/// The state of the shared objects when the traffic has ended.
struct standing {
  int waiters = 0;
  const char* owed = nullptr;  // the kind of units that an object has although a thread waits for them
  const void* object = nullptr;
  long units = 0;
  int owed_waiters = 0;
};
standing look_at(shared_objects& shared);
/// Gives every waiter the token, item or unit that it waits for.
void release_waiters(self& me, shared_objects& shared);

}  // namespace soak
