// Implements the actions of the soak's threads on the shared objects.
#include <sched.h>

#include <algorithm>

#include "shared.hpp"

namespace soak {

namespace {

/// The work in the critical section of a mutex: mostly none, otherwise of random length.
void dwell(self& me) {
  const int way = me.random.below(100);
  if (way < 70) return;
  if (way < 90) {
    spin_for(me.random.below(3) * microsecond);
  } else if (way < 98) {
    sched_yield();
  } else {
    nap(me.random.below(300) * microsecond);
  }
}

patience_of_wait some_patience(self& me, bool may_block) {
  if (may_block) return me.random.percent(80) ? patience_of_wait::endless : patience_of_wait::far;
  return patience_of_wait::near;
}

/// Asks for the right to wait without a deadline, or with a distant one. granted() returns whether the thread may wait
/// in this way.
class blocker {
 public:
  blocker(self& me, shared_objects& shared)
      : shared_(shared), granted_(me.random.percent(50) && !stopping.load() && shared.may_block()) {}
  ~blocker() {
    if (granted_) shared_.blockers.fetch_sub(1);
  }
  bool granted() const { return granted_; }

 private:
  shared_objects& shared_;
  const bool granted_;
};

/// Signals n new items, by n signals or by a broadcast. Each item serves one waiter.
void announce(self& me, pthread_cond_t* cond, int n) {
  if (me.random.percent(n == 1 ? 15 : 40)) {
    MUST(pthread_cond_broadcast(cond));
    me.count(op_signal);
    return;
  }
  for (int i = 0; i < n; ++i) MUST(pthread_cond_signal(cond));
  me.count(op_signal, n);
}

template <class T>
T& one_of(self& me, std::deque<T>& all) {
  return all[static_cast<std::size_t>(me.random.below(static_cast<int>(all.size())))];
}

void check_item(std::vector<long>& seen, const item& i) {
  long& last = seen[static_cast<std::size_t>(i.producer)];
  REQUIRE(i.number == last + 1, "a queue gave out number %ld of producer %d after number %ld", i.number, i.producer,
          last);
  last = i.number;
}

}  // namespace

// ---- the objects -----------------------------------------------------------------------------------------------------

shared_objects::shared_objects(random_source& random, int team)
    : threads(team),
      cells(static_cast<std::size_t>(random.between(2, 8))),
      boxes(static_cast<std::size_t>(random.between(1, 3))),
      queues(static_cast<std::size_t>(random.between(1, 2))),
      semaphores(static_cast<std::size_t>(random.between(1, 3))),
      gates(2),
      gate_owners(2),
      semaphore_queues(static_cast<std::size_t>(random.between(1, 2))) {
  const std::size_t producers = static_cast<std::size_t>(threads) + 1;  // including the main thread
  auto some_clock = [&] { return random.percent(50) ? CLOCK_MONOTONIC : CLOCK_REALTIME; };
  auto make_semaphore = [&](counted_semaphore& s, int value) {
    s.sem.place(random);
    MUST(sem_init(s.sem.get(), 0, static_cast<unsigned>(value)) == 0 ? 0 : errno);
    s.posted.store(value);
  };
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i].make(random, static_cast<kind>(i % 4));
  for (box& b : boxes) {
    b.lock.make(random);
    b.clock = some_clock();
    b.cond.place(random);
    make_cond(b.cond.get(), b.clock, random);
  }
  for (bounded_queue& q : queues) {
    q.lock.make(random);
    q.clock = some_clock();
    q.not_full.place(random);
    q.not_empty.place(random);
    make_cond(q.not_full.get(), q.clock, random);
    make_cond(q.not_empty.get(), q.clock, random);
    q.capacity = random.between(1, 8);
    q.made.assign(producers, 0);
    q.seen.assign(producers, 0);
  }
  for (counted_semaphore& s : semaphores) make_semaphore(s, random.below(4));
  for (counted_semaphore& s : gates) make_semaphore(s, 1);
  for (semaphore_queue& q : semaphore_queues) {
    q.lock.make(random);
    q.capacity = random.between(1, 8);
    make_semaphore(q.slots, q.capacity);
    make_semaphore(q.items_there, 0);
    q.made.assign(producers, 0);
    q.seen.assign(producers, 0);
  }
}

void shared_objects::finish() {
  auto end_semaphore = [](counted_semaphore& s, const char* what) {
    const int left = s.value();
    REQUIRE(s.posted.load() == s.taken.load() + left, "%s: %ld posted, %ld taken, %d left", what, s.posted.load(),
            s.taken.load(), left);
    MUST(sem_destroy(s.sem.get()) == 0 ? 0 : errno);
  };
  for (guarded& c : cells) {
    c.check_count();
    c.destroy();
  }
  for (box& b : boxes) {
    b.lock.check_count();
    REQUIRE(b.put.load() == b.taken.load() + b.tokens.load(), "a box: %ld tokens put, %ld taken, %ld left",
            b.put.load(), b.taken.load(), b.tokens.load());
    MUST(pthread_cond_destroy(b.cond.get()));
    b.lock.destroy();
  }
  for (bounded_queue& q : queues) {
    q.lock.check_count();
    while (!q.items.empty()) {
      check_item(q.seen, q.items.front());
      q.items.pop_front();
      q.popped.fetch_add(1);
    }
    REQUIRE(q.made == q.seen && q.pushed.load() == q.popped.load(), "a bounded queue lost items");
    MUST(pthread_cond_destroy(q.not_full.get()));
    MUST(pthread_cond_destroy(q.not_empty.get()));
    q.lock.destroy();
  }
  for (counted_semaphore& s : semaphores) end_semaphore(s, "a semaphore");
  for (counted_semaphore& s : gates) end_semaphore(s, "a semaphore used as a lock");
  for (semaphore_queue& q : semaphore_queues) {
    q.lock.check_count();
    REQUIRE(static_cast<int>(q.items.size()) == q.items_there.value(),
            "a queue of semaphores has %d items, but its semaphore %d", static_cast<int>(q.items.size()),
            q.items_there.value());
    for (const item& i : q.items) check_item(q.seen, i);
    REQUIRE(q.made == q.seen, "a queue of semaphores lost items");
    end_semaphore(q.slots, "a queue's free places");
    end_semaphore(q.items_there, "a queue's items");
    q.lock.destroy();
  }
}

bool shared_objects::may_block() {
  if (blockers.fetch_add(1) < threads - 2) return true;
  blockers.fetch_sub(1);
  return false;
}

// ---- mutexes ---------------------------------------------------------------------------------------------------------

namespace {

/// Makes further calls in the thread that holds the mutex, and checks their results.
void look_inside(self& me, guarded& cell) {
  pthread_mutex_t* const m = cell.mutex();
  const timespec past = {1, 0};
  switch (cell.which()) {
    case kind::recursive: {
      const int depth = me.random.between(1, 3);
      for (int i = 0; i < depth; ++i) {
        const int way = me.random.below(3);
        MUST(way == 0   ? pthread_mutex_lock(m)
             : way == 1 ? pthread_mutex_trylock(m)
                        : pthread_mutex_timedlock(m, &past));
      }
      for (int i = 0; i < depth; ++i) MUST(pthread_mutex_unlock(m));
      break;
    }
    case kind::error_checking: {
      const int code =
          me.random.percent(50) ? pthread_mutex_lock(m) : pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past);
      REQUIRE(code == EDEADLK, "locking an error-checking mutex twice gave %s", code_name(code));
      const int busy = pthread_mutex_trylock(m);
      REQUIRE(busy == EBUSY, "trylock of one's own error-checking mutex gave %s", code_name(busy));
      break;
    }
    default: {
      const int busy = pthread_mutex_trylock(m);
      REQUIRE(busy == EBUSY, "trylock of one's own mutex gave %s", code_name(busy));
      const int late = pthread_mutex_timedlock(m, &past);
      REQUIRE(late == ETIMEDOUT, "timedlock of one's own mutex gave %s", code_name(late));
      const timespec invalid = {1, 1000000000};
      const int wrong = pthread_mutex_timedlock(m, &invalid);
      REQUIRE(wrong == EINVAL, "timedlock with an invalid time gave %s", code_name(wrong));
    }
  }
}

}  // namespace

void use_cells(self& me, shared_objects& shared) {
  const int rounds = me.random.between(1, 30);
  const int count = static_cast<int>(shared.cells.size());
  for (int r = 0; r < rounds && !stopping.load(std::memory_order_relaxed); ++r) {
    const int first = me.random.below(count);
    guarded& a = shared.cells[static_cast<std::size_t>(first)];
    if (me.random.percent(30)) {
      if (!a.try_enter(me)) continue;
    } else {
      a.enter(me);
    }
    dwell(me);
    if (me.random.percent(10)) look_inside(me, a);
    if (first + 1 < count && me.random.percent(10)) {
      // Two mutexes are always locked in the same order, to avoid deadlock. They are unlocked in either order.
      guarded& b = shared.cells[static_cast<std::size_t>(me.random.between(first + 1, count - 1))];
      b.enter(me);
      dwell(me);
      const bool hand_over_hand = me.random.percent(50);
      (hand_over_hand ? a : b).leave(me);
      (hand_over_hand ? b : a).leave(me);
    } else {
      a.leave(me);
    }
    if (a.which() != kind::normal && a.which() != kind::adaptive && me.random.percent(5)) {
      const int code = pthread_mutex_unlock(a.mutex());
      REQUIRE(code == EPERM, "unlocking a %s mutex of another thread gave %s", kind_names[static_cast<int>(a.which())],
              code_name(code));
    }
    me.made_progress();
  }
}

// ---- condition variables ---------------------------------------------------------------------------------------------

void use_boxes(self& me, shared_objects& shared, int) {
  box& b = one_of(me, shared.boxes);
  const int way = me.random.below(100);
  if (way < 3) {  // a signal without a token, sent without the mutex
    announce(me, b.cond.get(), 1);
  } else if (way < 50) {
    const int n = me.random.percent(70) ? 1 : me.random.between(2, 4);
    b.lock.enter(me);
    b.tokens.fetch_add(n);
    b.put.fetch_add(n);
    dwell(me);
    const bool inside = me.random.percent(50);
    if (inside) announce(me, b.cond.get(), n);
    b.lock.leave(me);
    if (!inside) announce(me, b.cond.get(), n);
  } else {
    const blocker permit(me, shared);
    const patience_of_wait p = some_patience(me, permit.granted());
    b.lock.enter(me);
    bool in_time = true;
    b.waiters.fetch_add(1);
    while (b.tokens.load() == 0 && in_time) in_time = wait_on(me, b.cond.get(), b.clock, b.lock, p, loose);
    b.waiters.fetch_sub(1);
    // A waiter that timed out may have been signalled at the same time: it tests the predicate again, as every program
    // must.
    if (b.tokens.load() > 0) {
      b.tokens.fetch_sub(1);
      b.taken.fetch_add(1);
    }
    dwell(me);
    b.lock.leave(me);
  }
  me.made_progress();
}

namespace {

void push(self& me, bounded_queue& q, int producer) {
  q.items.push_back({producer, ++q.made[static_cast<std::size_t>(producer)]});
  q.length.fetch_add(1);
  q.pushed.fetch_add(1);
  me.count(op_item);
}

void pop(bounded_queue& q) {
  check_item(q.seen, q.items.front());
  q.items.pop_front();
  q.length.fetch_sub(1);
  q.popped.fetch_add(1);
}

}  // namespace

void use_queues(self& me, shared_objects& shared, int slot) {
  bounded_queue& q = one_of(me, shared.queues);
  const bool produce = me.random.percent(50);
  const int rounds = me.random.between(1, 10);
  for (int r = 0; r < rounds && !stopping.load(std::memory_order_relaxed); ++r) {
    const blocker permit(me, shared);
    const patience_of_wait p = some_patience(me, permit.granted());
    std::atomic<int>& waiters = produce ? q.waiting_producers : q.waiting_consumers;
    pthread_cond_t* const mine = (produce ? q.not_full : q.not_empty).get();
    pthread_cond_t* const others = (produce ? q.not_empty : q.not_full).get();
    auto must_wait = [&] { return produce ? q.length.load() == q.capacity : q.length.load() == 0; };
    q.lock.enter(me);
    bool in_time = true;
    waiters.fetch_add(1);
    while (must_wait() && in_time) in_time = wait_on(me, mine, q.clock, q.lock, p, loose);
    waiters.fetch_sub(1);
    const bool done = !must_wait();
    if (done) {
      if (produce) {
        push(me, q, slot);
      } else {
        pop(q);
      }
    }
    const bool inside = me.random.percent(50);
    if (done && inside) announce(me, others, 1);
    q.lock.leave(me);
    if (done && !inside) announce(me, others, 1);
    me.made_progress();
  }
}

// ---- semaphores ------------------------------------------------------------------------------------------------------

void post(self& me, counted_semaphore& s) {
  s.posted.fetch_add(1);
  MUST(sem_post(s.sem.get()) == 0 ? 0 : errno);
  me.count(op_post);
}

void post_from_handler(shared_objects& shared) {
  static std::atomic<unsigned> turn{0};
  counted_semaphore& s = shared.semaphores[turn.fetch_add(1) % shared.semaphores.size()];
  s.posted.fetch_add(1);
  if (sem_post(s.sem.get()) != 0) FAIL("sem_post in a signal handler gave %s", code_name(errno));
  totals[op_handler_post].fetch_add(1, std::memory_order_relaxed);
}

namespace {

bool take(self& me, shared_objects& shared, counted_semaphore& s) {
  bool got;
  if (me.random.percent(20)) {
    got = sem_trywait(s.sem.get()) == 0;
    REQUIRE(got || errno == EAGAIN || errno == EINTR, "sem_trywait gave %s", code_name(errno));
    if (got) me.count(op_sem);
  } else {
    const blocker permit(me, shared);
    const patience_of_wait p = some_patience(me, permit.granted());
    s.waiters.fetch_add(1);
    got = take_unit(me, s.sem.get(), p, p == patience_of_wait::near ? strict : loose);
    s.waiters.fetch_sub(1);
  }
  if (got) s.taken.fetch_add(1);
  return got;
}

}  // namespace

void use_semaphores(self& me, shared_objects& shared, int) {
  const int way = me.random.below(100);
  if (way < 30) {
    counted_semaphore& s = one_of(me, shared.semaphores);
    const int n = me.random.percent(80) ? 1 : me.random.between(2, 4);
    for (int i = 0; i < n; ++i) post(me, s);
  } else if (way < 80) {
    take(me, shared, one_of(me, shared.semaphores));
  } else {
    const std::size_t i = static_cast<std::size_t>(me.random.below(static_cast<int>(shared.gates.size())));
    if (take(me, shared, shared.gates[i])) {
      const int before = shared.gate_owners[i].exchange(me.name);
      REQUIRE(before == 0, "a semaphore of one unit admitted thread %d while thread %d is inside", me.name, before);
      dwell(me);
      shared.gate_owners[i].store(0);
      post(me, shared.gates[i]);
    }
  }
  me.made_progress();
}

void use_semaphore_queues(self& me, shared_objects& shared, int slot) {
  semaphore_queue& q = one_of(me, shared.semaphore_queues);
  const bool produce = me.random.percent(50);
  const int rounds = me.random.between(1, 10);
  for (int r = 0; r < rounds && !stopping.load(std::memory_order_relaxed); ++r) {
    if (!take(me, shared, produce ? q.slots : q.items_there)) continue;
    q.lock.enter(me);
    if (produce) {
      q.items.push_back({slot, ++q.made[static_cast<std::size_t>(slot)]});
      REQUIRE(static_cast<int>(q.items.size()) <= q.capacity, "a queue for %d items has %d", q.capacity,
              static_cast<int>(q.items.size()));
      me.count(op_item);
    } else {
      REQUIRE(!q.items.empty(), "a semaphore gave a unit that no thread posted");
      check_item(q.seen, q.items.front());
      q.items.pop_front();
    }
    q.lock.leave(me);
    post(me, produce ? q.items_there : q.slots);
    me.made_progress();
  }
}

// ---- the end of the traffic ------------------------------------------------------------------------------------------

standing look_at(shared_objects& shared) {
  standing all;
  auto look = [&](int waiters, long units, const char* what, const void* object) {
    all.waiters += waiters;
    if (waiters > 0 && units > 0 && all.owed == nullptr) {
      all.owed = what;
      all.object = object;
      all.units = units;
      all.owed_waiters = waiters;
    }
  };
  auto look_semaphore = [&](counted_semaphore& s, const char* what) {
    const int waiters = s.waiters.load();
    look(waiters, s.value(), what, s.sem.get());
  };
  for (box& b : shared.boxes) look(b.waiters.load(), b.tokens.load(), "tokens behind a condition", b.cond.get());
  for (bounded_queue& q : shared.queues) {
    look(q.waiting_consumers.load(), q.length.load(), "items behind a condition", q.not_empty.get());
    look(q.waiting_producers.load(), q.capacity - q.length.load(), "places behind a condition", q.not_full.get());
  }
  for (counted_semaphore& s : shared.semaphores) look_semaphore(s, "units of a semaphore");
  for (counted_semaphore& s : shared.gates) look_semaphore(s, "the unit of a semaphore used as a lock");
  for (semaphore_queue& q : shared.semaphore_queues) {
    look_semaphore(q.slots, "places behind a semaphore");
    look_semaphore(q.items_there, "items behind a semaphore");
  }
  return all;
}

void release_waiters(self& me, shared_objects& shared) {
  const int slot = shared.threads;
  for (box& b : shared.boxes) {
    b.lock.enter(me);
    const int n = b.waiters.load();
    b.tokens.fetch_add(n);
    b.put.fetch_add(n);
    if (n > 0) announce(me, b.cond.get(), n);
    b.lock.leave(me);
  }
  for (bounded_queue& q : shared.queues) {
    q.lock.enter(me);
    int consumers = std::min(q.waiting_consumers.load(), q.capacity - q.length.load());
    int producers = std::min(q.waiting_producers.load(), q.length.load());
    if (consumers > 0) {
      for (int i = 0; i < consumers; ++i) push(me, q, slot);
      announce(me, q.not_empty.get(), consumers);
    } else if (producers > 0) {
      for (int i = 0; i < producers; ++i) pop(q);
      announce(me, q.not_full.get(), producers);
    }
    q.lock.leave(me);
  }
  auto release_semaphore = [&](counted_semaphore& s) {
    for (int n = s.waiters.load(); n > 0; --n) post(me, s);
  };
  for (counted_semaphore& s : shared.semaphores) release_semaphore(s);
  for (semaphore_queue& q : shared.semaphore_queues) {
    auto try_take = [&](counted_semaphore& s) {
      if (sem_trywait(s.sem.get()) != 0) return false;
      s.taken.fetch_add(1);
      return true;
    };
    for (int n = q.items_there.waiters.load(); n > 0 && try_take(q.slots); --n) {
      q.lock.enter(me);
      q.items.push_back({slot, ++q.made[static_cast<std::size_t>(slot)]});
      q.lock.leave(me);
      post(me, q.items_there);
    }
    for (int n = q.slots.waiters.load(); n > 0 && try_take(q.items_there); --n) {
      q.lock.enter(me);
      check_item(q.seen, q.items.front());
      q.items.pop_front();
      q.lock.leave(me);
      post(me, q.slots);
    }
  }
}

}  // namespace soak
