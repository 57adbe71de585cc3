// Forks while other threads hold locks, wait and are queued. The child has one thread. In the child, data that are
// protected by locks of the forking thread must be consistent, locks that were free must be free, and every object must
// work for new threads.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "shared.hpp"

namespace soak {

namespace {

/// The name of the step that a child executes. If the child fails, the parent prints this name.
struct progress_note {
  std::atomic<const char*> phase[3];
};

progress_note* note() {
  static progress_note* const shared = [] {
    void* p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED, "mmap: %s", code_name(errno));
    return static_cast<progress_note*>(p);
  }();
  return shared;
}

void phase(const char* what) {
  note()->phase[in_child.load() - 1].store(what);
}

/// Returns false for the kinds of mutex that check their owner: the child's thread has another id than the owner.
bool may_unlock_in_child(const guarded& lock) {
  return lock.which() == kind::normal || lock.which() == kind::adaptive;
}

/// Several new threads lock the mutex a few times each.
void new_threads_lock(self& me, guarded& lock) {
  team workers(me);
  for (int i = me.random.between(1, 3); i > 0; --i)
    workers.start([&lock](self& who) {
      for (int n = 0; n < 20; ++n) {
        lock.enter(who, strict);
        lock.leave(who);
      }
    });
  for (int n = 0; n < 5; ++n) {
    lock.enter(me, strict);
    lock.leave(me);
  }
  workers.join_all();
  lock.check_count();
}

/// New threads wait for tokens, and each gets one.
void new_threads_wait(self& me, box& b) {
  const int number = me.random.between(1, 4);
  const bool broadcast = me.random.percent(30);
  b.lock.enter(me, strict);
  const long before = b.tokens.exchange(0);
  b.waiters.store(0);
  b.lock.leave(me);
  team consumers(me);
  for (int i = 0; i < number; ++i)
    consumers.start([&b](self& who) {
      b.lock.enter(who, strict);
      b.waiters.fetch_add(1);
      while (b.tokens.load() == 0) wait_on(who, b.cond.get(), b.clock, b.lock, patience_of_wait::endless, strict);
      b.tokens.fetch_sub(1);
      b.waiters.fetch_sub(1);
      b.lock.leave(who);
    });
  if (me.random.percent(70))
    for (bool all = false; !all; nap(50 * microsecond)) {  // polls
      b.lock.enter(me, strict);
      all = b.waiters.load() == number;
      b.lock.leave(me);
    }
  for (int i = 0; i < number; ++i) {
    b.lock.enter(me, strict);
    b.tokens.fetch_add(1);
    if (!broadcast) MUST(pthread_cond_signal(b.cond.get()));
    b.lock.leave(me);
  }
  if (broadcast) MUST(pthread_cond_broadcast(b.cond.get()));
  consumers.join_all();
  REQUIRE(b.tokens.load() == 0 && b.waiters.load() == 0, "%ld tokens left in a child", b.tokens.load());
  b.tokens.store(before);
}

void new_threads_take(self& me, counted_semaphore& s) {
  const int number = me.random.between(1, 4);
  while (sem_trywait(s.sem.get()) == 0) {
  }
  REQUIRE(s.value() == 0, "a semaphore that is used up has the value %d", s.value());
  team takers(me);
  for (int i = 0; i < number; ++i)
    takers.start([&s](self& who) { take_unit(who, s.sem.get(), patience_of_wait::endless, strict); });
  // After a random time the takers are at different points of their waits.
  if (me.random.percent(50)) nap(me.random.below(500) * microsecond);
  for (int i = 0; i < number; ++i) MUST(sem_post(s.sem.get()) == 0 ? 0 : errno);
  takers.join_all();
  REQUIRE(s.value() == 0, "%d threads took as many units, and %d units are left", number, s.value());
}

struct held_ones {
  std::vector<guarded*> cells;
  std::vector<box*> boxes;
};

int fork_here(self& me, shared_objects& shared, const held_ones& held);

/// Runs in the child: uses and unlocks the mutexes that the forking thread held.
void use_what_was_held(self& me, const held_ones& held) {
  for (guarded* c : held.cells) {
    if (!may_unlock_in_child(*c)) continue;
    phase("unlock of a mutex that the forking thread held");
    c->leave(me);
    c->enter(me, strict);
    c->leave(me);
    phase("new threads at a mutex that the forking thread held");
    new_threads_lock(me, *c);
  }
  for (box* b : held.boxes) {
    if (!may_unlock_in_child(b->lock)) continue;
    phase("unlock of a condition's mutex that the forking thread held");
    b->lock.leave(me);
    if (!set.full) continue;
    phase("new threads at a condition");
    new_threads_wait(me, *b);
  }
}

/// Runs in the child: uses the mutexes that the forking thread did not hold, and the semaphores.
void use_the_others(self& me, shared_objects& shared, const held_ones& held) {
  for (guarded& c : shared.cells) {
    if (std::find(held.cells.begin(), held.cells.end(), &c) != held.cells.end()) continue;
    phase("a mutex that the forking thread did not hold");
    const int code = pthread_mutex_trylock(c.mutex());
    REQUIRE(code == 0 || code == EBUSY, "trylock in a child gave %s", code_name(code));
    if (code != 0) continue;  // a thread of the parent holds it for ever
    MUST(pthread_mutex_unlock(c.mutex()));
    // The mutex was free at the fork, so every use must work. Its count is not checked, because its last owner may have
    // been updating the count.
    MUST(pthread_mutex_lock(c.mutex()));
    MUST(pthread_mutex_unlock(c.mutex()));
  }
  for (counted_semaphore& s : shared.semaphores) {
    phase("new threads at a semaphore");
    new_threads_take(me, s);
  }
}

/// The child forks while it holds `own` and while its other threads wait. The grandchild does not have these threads.
void fork_again(self& me, shared_objects& shared, box& own) {
  phase("a fork of the fork");
  own.lock.enter(me, strict);
  held_ones holds;
  holds.boxes.push_back(&own);
  team waiters(me);
  counted_semaphore s;
  s.sem.place(me.random);
  MUST(sem_init(s.sem.get(), 0, 0) == 0 ? 0 : errno);
  for (int i = 0; i < 2; ++i)
    waiters.start([&](self& who) {
      take_unit(who, s.sem.get(), patience_of_wait::endless, strict);
      own.lock.enter(who, strict);
      own.lock.leave(who);
    });
  MUST(sem_post(s.sem.get()) == 0 ? 0 : errno);
  nap(me.random.below(500) * microsecond);  // a random time: the waiters are at different places at the fork
  const int status = fork_here(me, shared, holds);
  REQUIRE(status == 0, "a grandchild ended with status %#x while at: %s", status, note()->phase[1].load());
  MUST(sem_post(s.sem.get()) == 0 ? 0 : errno);
  own.lock.leave(me);
  waiters.join_all();
}

/// The work of a child. Its exit status is 0 unless `fail` ends it.
void child(self& me, shared_objects& shared, const held_ones& held) {
  use_what_was_held(me, held);
  use_the_others(me, shared, held);
  {
    phase("objects of its own");
    box own;
    own.lock.make(me.random);
    own.clock = CLOCK_MONOTONIC;
    own.cond.place(me.random);
    make_cond(own.cond.get(), own.clock, me.random);
    new_threads_wait(me, own);
    new_threads_lock(me, own.lock);
    if (in_child.load() == 1 && me.random.percent(40)) fork_again(me, shared, own);
  }
  phase("the end");
}

/// Forks and returns the child's status from waitpid.
int fork_here(self& me, shared_objects& shared, const held_ones& held) {
  const int depth = in_child.load();
  note()->phase[depth].store("the fork itself");
  const pid_t pid = fork();
  REQUIRE(pid >= 0, "fork: %s", code_name(errno));
  if (pid == 0) {
    in_child.store(depth + 1);
    alarm(static_cast<unsigned>(set.patience / second) + 5 - static_cast<unsigned>(2 * depth));
    forget_other_threads(me);
    stopping.store(false);
    child(me, shared, held);
    _exit(0);
  }
  me.count(op_fork);
  waiting w(me, "waitpid of a child", &pid, loose);
  int status = 0;
  while (waitpid(pid, &status, 0) != pid) REQUIRE(errno == EINTR, "waitpid: %s", code_name(errno));
  return status;
}

}  // namespace

void fork_a_child(self& me, shared_objects& shared) {
  // Allows one fork at a time, and at most one in 15 ms: a fork costs much more than the other operations.
  if (now() - shared.last_fork.load() < 15 * millisecond || shared.forking.exchange(true)) return;
  held_ones held;
  const int share = me.random.below(101);
  for (guarded& c : shared.cells)
    if (me.random.percent(share)) {
      c.enter(me);
      held.cells.push_back(&c);
    }
  for (box& b : shared.boxes)
    if (me.random.percent(share)) {
      b.lock.enter(me);
      held.boxes.push_back(&b);
    }
  const int status = fork_here(me, shared, held);
  for (box* b : held.boxes) b->lock.leave(me);
  for (guarded* c : held.cells) c->leave(me);
  REQUIRE(status == 0, "a child ended with status %#x (its signal: %d) while at: %s; a grandchild, if any, at: %s",
          status, status & 0x7f, note()->phase[0].load(), note()->phase[1].load());
  shared.last_fork.store(now());
  shared.forking.store(false);
  me.made_progress();
}

}  // namespace soak
