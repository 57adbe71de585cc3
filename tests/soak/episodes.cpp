// Episodes: short scenarios. Each uses objects of its own and a few threads of its own, and no other thread takes part.
// So an episode knows exactly which waiters must be woken: its waits are strict (soak.hpp).
#include <sched.h>
#include <string.h>

#include <algorithm>

#include "soak.hpp"

namespace soak {

namespace {

clockid_t some_clock(self& me) {
  return me.random.percent(50) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/// Pauses for a random time, so that the threads meet at different points of their calls.
void pause_a_little(self& me) {
  const int way = me.random.below(10);
  if (way < 4) return;
  if (way < 7) {
    sched_yield();
  } else {
    nap(me.random.below(400) * microsecond);
  }
}

/// Polls until the condition holds.
template <class Condition>
void await(self& me, const char* what, const void* object, int size, Condition&& condition) {
  if (condition()) return;
  waiting w(me, what, object, size, strict);
  for (int i = 0; !condition(); ++i) {
    if (i < 10) {
      sched_yield();
    } else {
      nap(std::min<std::int64_t>(i * 10 * microsecond, 2 * millisecond));
    }
  }
}

/// Posts the semaphore, either directly or by a signal to thread `in` whose handler posts. This thread may itself wait
/// for the unit.
void post_somehow(self& me, sem_t* sem, pthread_t in) {
  me.count(op_post);
  sigval value;
  value.sival_ptr = sem;
  if (me.random.percent(20) && pthread_sigqueue(in, sigpost_this(), value) == 0) return;
  MUST(sem_post(sem) == 0 ? 0 : errno);
}

patience_of_wait mostly_endless(self& me) {
  const int way = me.random.below(10);
  return way < 6 ? patience_of_wait::endless : way < 8 ? patience_of_wait::far : patience_of_wait::near;
}

/// A mutex, a condition variable, and three counts: of the threads that wait, of the tokens that they wait for, and of
/// the waiters that have left. Several kinds of episodes use it.
struct scene {
  explicit scene(self& me) : clock(some_clock(me)), cond_page(me.random) {
    lock.make(me.random);
    make_cond(cond(), clock, me.random);
  }
  pthread_cond_t* cond() const { return cond_page.at<pthread_cond_t>(); }

  guarded lock;
  clockid_t clock;
  page cond_page;
  std::atomic<int> waiting{0}, tokens{0}, out{0};  // changed only while the mutex is held
};

/// A guard for a waiter that may be cancelled, constructed while the mutex is held. Unless `normal` is set, the waiter
/// was cancelled: the destructor then corrects the counts and unlocks.
class leaves_when_cancelled {
 public:
  leaves_when_cancelled(self& me, scene& s) : me_(me), scene_(s) {}
  ~leaves_when_cancelled() {
    if (normal) return;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, nullptr);
    // A cancelled wait acquires the mutex again, so this thread holds it here.
    if (given_away) scene_.lock.ours_again(me_);
    scene_.waiting.fetch_sub(1);
    me_.count(op_cancel);
    scene_.lock.leave(me_);
  }
  bool normal = false, given_away = false;

 private:
  self& me_;
  scene& scene_;
};

}  // namespace

// ---- conditions that are destroyed right after their last use -------------------------------------------------------

void destroy_conditions(self& me) {
  scene s(me);
  const int number = me.random.between(1, 5);
  const bool last_one_destroys = me.random.percent(50), inside = me.random.percent(50),
             one_by_one = me.random.percent(30);
  std::atomic<int> arrived{0};
  auto destroy = [&s](self& who) {
    MUST(pthread_cond_destroy(s.cond()));
    s.cond_page.vanish();
    who.count(op_short_lived);
  };
  team waiters(me);
  for (int i = 0; i < number; ++i) {
    waiters.start([&](self& who) {
      const patience_of_wait p = mostly_endless(who);
      s.lock.enter(who, strict);
      arrived.fetch_add(1);
      while (s.tokens.load() == 0) wait_on(who, s.cond(), s.clock, s.lock, p, strict);
      const bool last = s.out.fetch_add(1) + 1 == number;
      if (last_one_destroys) {
        if (one_by_one && !last) MUST(pthread_cond_signal(s.cond()));
        if (last) destroy(who);
      }
      s.lock.leave(who);
    });
  }
  await(me, "helpers that are to wait on a condition", s.cond(), sizeof(pthread_cond_t),
        [&] { return arrived.load() == number; });
  pause_a_little(me);
  s.lock.enter(me, strict);
  s.tokens.store(1);
  if (last_one_destroys) {
    MUST(one_by_one ? pthread_cond_signal(s.cond()) : pthread_cond_broadcast(s.cond()));
    s.lock.leave(me);
  } else if (inside) {
    MUST(pthread_cond_broadcast(s.cond()));
    destroy(me);
    s.lock.leave(me);
  } else {
    s.lock.leave(me);
    MUST(pthread_cond_broadcast(s.cond()));
    destroy(me);
  }
  me.count(op_signal);
  waiters.join_all();
  s.lock.check_count();
  s.lock.destroy();
  me.made_progress();
}

// ---- cancelled waiters -----------------------------------------------------------------------------------------------

namespace {

/// The work of a waiter on a condition: it takes one token. If it is cancelled, the guard's destructor runs.
void take_a_token(self& who, scene& s, std::atomic<int>& arrived, std::atomic<int>& taken) {
  const patience_of_wait p = who.random.percent(70) ? patience_of_wait::endless : patience_of_wait::far;
  s.lock.enter(who, strict);
  s.waiting.fetch_add(1);
  arrived.fetch_add(1);
  {
    leaves_when_cancelled guard(who, s);
    while (s.tokens.load() == 0) {
      guard.given_away = true;
      wait_on(who, s.cond(), s.clock, s.lock, p, strict);
      guard.given_away = false;
    }
    guard.normal = true;
  }
  s.waiting.fetch_sub(1);
  s.tokens.fetch_sub(1);
  taken.fetch_add(1);
  s.lock.leave(who);
}

/// Adds n tokens and sends n signals or a broadcast, inside the critical section or after it.
void put_tokens(self& me, scene& s, int n, bool broadcast) {
  s.lock.enter(me, strict);
  s.tokens.fetch_add(n);
  const bool inside = me.random.percent(50);
  auto signal = [&] {
    if (broadcast) {
      MUST(pthread_cond_broadcast(s.cond()));
    } else {
      for (int i = 0; i < n; ++i) MUST(pthread_cond_signal(s.cond()));
    }
  };
  if (inside) signal();
  s.lock.leave(me);
  if (!inside) signal();
  me.count(op_signal);
}

void cancel(team& waiters, int victim, std::vector<int>& cancelled) {
  waiters.cancel(victim);
  cancelled.push_back(victim);
}
bool is_among(int victim, const std::vector<int>& cancelled) {
  return std::find(cancelled.begin(), cancelled.end(), victim) != cancelled.end();
}

/// Joins the cancelled waiters, and returns how many of them ended by cancellation. A victim that had not begun to wait
/// is cancelled when its wait begins.
int join(team& waiters, const std::vector<int>& cancelled) {
  int ended = 0;
  for (int victim : cancelled) ended += waiters.join(victim) ? 1 : 0;
  return ended;
}

}  // namespace

void cancel_condition_waiters(self& me) {
  scene s(me);
  const int number = me.random.between(2, 6);
  std::atomic<int> arrived{0}, taken{0};
  const auto await_arrivals = [&] {
    await(me, "helpers that are to wait on a condition", s.cond(), sizeof(pthread_cond_t),
          [&] { return arrived.load() == number; });
  };
  team waiters(me);
  for (int i = 0; i < number; ++i) waiters.start([&](self& who) { take_a_token(who, s, arrived, taken); });
  if (me.random.percent(80)) await_arrivals();
  pause_a_little(me);

  int put = 0;
  const auto give = [&](int n, bool broadcast) {
    put += n;
    put_tokens(me, s, n, broadcast);
  };
  std::vector<int> cancelled;
  const int events = me.random.between(1, number + 1);
  for (int e = 0; e < events; ++e) {
    const int way = me.random.below(10);
    if (way < 5) {
      const int victim = me.random.below(number);
      if (!is_among(victim, cancelled)) cancel(waiters, victim, cancelled);
    } else if (way < 9) {
      give(1, me.random.percent(10));
    } else {
      MUST(pthread_cond_broadcast(s.cond()));  // a broadcast that no token follows
    }
    if (me.random.percent(30)) pause_a_little(me);
  }
  const int ended_by_it = join(waiters, cancelled);
  await_arrivals();
  // No cancelled waiter may have consumed a signal.
  await(me, "waiters on a condition that are owed a token", s.cond(), sizeof(pthread_cond_t),
        [&] { return s.tokens.load() == 0 || s.waiting.load() == 0; });
  s.lock.enter(me, strict);
  const int left = s.waiting.load();
  s.lock.leave(me);
  if (left > 0) give(left, me.random.percent(50));
  waiters.join_all();
  REQUIRE(taken.load() + ended_by_it == number && put == taken.load() + s.tokens.load() && s.waiting.load() == 0,
          "%d waiters: %d cancelled, %d took a token; %d tokens put, %d left, %d wait", number, ended_by_it,
          taken.load(), put, s.tokens.load(), s.waiting.load());
  MUST(pthread_cond_destroy(s.cond()));
  s.cond_page.vanish();
  s.lock.check_count();
  s.lock.destroy();
  me.made_progress();
}

namespace {

/// A semaphore on a page of its own, and its waiters.
struct semaphore_scene {
  explicit semaphore_scene(self& me) : where(me.random), sem(where.at<sem_t>()) {
    MUST(sem_init(sem, 0, 0) == 0 ? 0 : errno);
  }
  int value() const {
    int v = 0;
    MUST(sem_getvalue(sem, &v));
    return v;
  }
  void destroy() {
    MUST(sem_destroy(sem) == 0 ? 0 : errno);
    where.vanish();
  }

  page where;
  sem_t* const sem;
  std::atomic<int> arrived{0}, taken{0}, waiting{0};
};

/// The work of a waiter on a semaphore: it takes one unit, or is cancelled.
void take_one(self& who, semaphore_scene& s) {
  struct leaving {
    std::atomic<int>& n;
    ~leaving() { n.fetch_sub(1); }
  };
  const patience_of_wait p = who.random.percent(70) ? patience_of_wait::endless : patience_of_wait::far;
  s.waiting.fetch_add(1);
  s.arrived.fetch_add(1);
  leaving l{s.waiting};
  REQUIRE(take_unit(who, s.sem, p, strict), "a wait with a deadline in a day has timed out: was the clock set?");
  s.taken.fetch_add(1);
}

}  // namespace

void cancel_semaphore_waiters(self& me) {
  semaphore_scene s(me);
  const int number = me.random.between(2, 6);
  const auto await_arrivals = [&] {
    await(me, "helpers that are to wait on a semaphore", s.sem, sizeof *s.sem,
          [&] { return s.arrived.load() == number; });
  };
  team waiters(me);
  for (int i = 0; i < number; ++i) waiters.start([&](self& who) { take_one(who, s); });
  if (me.random.percent(80)) await_arrivals();
  pause_a_little(me);

  int posted = 0;
  const auto give = [&] {
    post_somehow(me, s.sem, pthread_self());
    ++posted;
  };
  std::vector<int> cancelled;
  const int events = me.random.between(1, number + 1);
  for (int e = 0; e < events; ++e) {
    const int victim = me.random.below(number);
    const int way = me.random.below(10);
    if (way < 5 && !is_among(victim, cancelled)) {
      cancel(waiters, victim, cancelled);
    } else if (way < 9) {
      give();
    } else if (waiters.tid(victim) != 0) {
      signal_thread(waiters.tid(victim), me.random.percent(50) ? sigpost : signothing);
    }
    if (me.random.percent(30)) pause_a_little(me);
  }
  const int ended_by_it = join(waiters, cancelled);
  me.count(op_cancel, ended_by_it);
  await_arrivals();
  // In glibc 2.36 a cancelled thread may have consumed the wake-up of a post. So for each cancelled thread one unit may
  // be left in the semaphore although other threads sleep.
  const int swallowed = set.full ? 0 : ended_by_it;
  await(me, "waiters on a semaphore that has units", s.sem, sizeof *s.sem,
        [&] { return s.value() <= swallowed || s.waiting.load() == 0; });
  for (int n = s.waiting.load(); n > 0; --n) give();
  waiters.join_all();
  REQUIRE(s.taken.load() + ended_by_it == number && posted == s.taken.load() + s.value(),
          "%d waiters: %d cancelled, %d took a unit; %d units posted, %d left", number, ended_by_it, s.taken.load(),
          posted, s.value());
  s.destroy();
  me.made_progress();
}

/// POSIX does not guarantee that a wait may be cancelled asynchronously. The C library's waits permit it once the
/// thread sleeps.
void cancel_asynchronously(self& me) {
  scene s(me);
  page semaphore_page(me.random);
  sem_t* const sem = semaphore_page.at<sem_t>();
  MUST(sem_init(sem, 0, 0) == 0 ? 0 : errno);
  const bool on_semaphore = me.random.percent(50);
  const int number = me.random.between(1, 3);
  std::atomic<int> arrived{0};
  team waiters(me);
  for (int i = 0; i < number; ++i) {
    waiters.start([&](self& who) {
      // Signals are blocked, since their handlers are not safe against asynchronous cancellation.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      if (on_semaphore) {
        arrived.fetch_add(1);
        waiting w(who, "sem_wait, to be cancelled asynchronously", sem, strict);
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
        sem_wait(sem);
        FAIL("sem_wait returned, though no thread posted");
      }
      s.lock.enter(who, strict);
      s.waiting.fetch_add(1);
      arrived.fetch_add(1);
      leaves_when_cancelled guard(who, s);
      s.lock.given(who);
      guard.given_away = true;
      waiting w(who, "pthread_cond_wait, to be cancelled asynchronously", s.cond(), strict);
      pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
      for (;;) pthread_cond_wait(s.cond(), s.lock.mutex());
    });
  }
  await(me, "helpers that are to wait", s.cond(), sizeof(pthread_cond_t), [&] { return arrived.load() == number; });
  for (int i = 0; i < number; ++i) {
    s.lock.enter(me, strict);  // a waiter that has arrived releases the mutex only inside its wait, so now it waits
    s.lock.leave(me);
    for (int times = 0; times < 2; ++times) {
      await(me, "a helper that is to sleep", s.cond(), sizeof(pthread_cond_t), [&] { return asleep(waiters.tid(i)); });
      nap(50 * microsecond);  // the first sleep that is seen may have been before the wait
    }
    waiters.cancel(i);
    REQUIRE(waiters.join(i), "a waiter that was cancelled asynchronously returned");
    if (on_semaphore) me.count(op_cancel);
  }
  MUST(sem_post(sem) == 0 ? 0 : errno);
  REQUIRE(sem_trywait(sem) == 0, "a unit went to a cancelled waiter");
  MUST(sem_destroy(sem) == 0 ? 0 : errno);
  semaphore_page.vanish();
  MUST(pthread_cond_destroy(s.cond()));
  s.cond_page.vanish();
  s.lock.check_count();
  s.lock.destroy();
  me.made_progress();
}

// ---- objects that are destroyed by their last user ------------------------------------------------------------------

void short_lived_semaphores(self& me) {
  const int rounds = me.random.between(5, 40), number = me.random.between(1, 3);
  struct completion {
    explicit completion(self& who) : where(who.random) { MUST(sem_init(sem(), 0, 0) == 0 ? 0 : errno); }
    sem_t* sem() const { return where.at<sem_t>(); }
    page where;
    std::atomic<int> done{0};
  };
  // The objects exist until the end of the episode. Their destructors then check that no thread has written to
  // overwritten pages.
  std::vector<std::unique_ptr<completion>> all;
  for (int i = 0; i < rounds; ++i) all.push_back(std::make_unique<completion>(me));
  team waiters(me);
  for (int n = 0; n < number; ++n) {
    waiters.start([&](self& who) {
      for (auto& c : all) {
        const int way = who.random.below(4);
        bool got = false;
        if (way == 0)
          for (int tries = 0; tries < 100 && !got; ++tries) got = sem_trywait(c->sem()) == 0;
        while (!got)
          got = take_unit(who, c->sem(), way == 1 ? patience_of_wait::near : patience_of_wait::endless, strict);
        if (c->done.fetch_add(1) + 1 == number) {
          if (who.random.percent(50)) MUST(sem_destroy(c->sem()) == 0 ? 0 : errno);
          c->where.vanish();
          who.count(op_short_lived);
        }
      }
    });
  }
  for (auto& c : all) {
    sem_t* const sem = c->sem();
    for (int n = 0; n < number; ++n) {
      // No access follows the last post, because the semaphore may be gone by then. A post by a signal needs a thread
      // that still exists when the signal is sent; a single helper thread cannot end before the last post.
      post_somehow(me, sem, number == 1 && me.random.percent(50) ? waiters.thread(0) : pthread_self());
    }
    if (me.random.percent(20)) pause_a_little(me);
  }
  waiters.join_all();
  me.made_progress();
}

void short_lived_mutexes(self& me) {
  const int rounds = me.random.between(5, 30), number = me.random.between(2, 4);
  struct counted {
    counted(self& who, int users) : where(who.random), references(users) {
      make_mutex(mutex(), static_cast<kind>(who.random.below(4)), who.random);
    }
    pthread_mutex_t* mutex() const { return where.at<pthread_mutex_t>(); }
    page where;
    int references;  // guarded by the mutex
  };
  std::vector<std::unique_ptr<counted>> all;
  for (int i = 0; i < rounds; ++i) all.push_back(std::make_unique<counted>(me, number));
  std::atomic<int> busy{number};
  team users(me);
  for (int n = 0; n < number; ++n) {
    users.start([&](self& who) {
      for (auto& c : all) {
        for (int i = who.random.below(3); i >= 0; --i) {
          bool got = false;
          if (who.random.percent(50))
            for (int tries = 0; tries < 50 && !got; ++tries) got = pthread_mutex_trylock(c->mutex()) == 0;
          if (!got) {
            waiting w(who, "pthread_mutex_lock of a short-lived mutex", c->mutex(), loose);
            MUST(pthread_mutex_lock(c->mutex()));
          }
          const bool last = i == 0 && --c->references == 0;
          MUST(pthread_mutex_unlock(c->mutex()));
          who.count(op_mutex);
          if (last) {
            if (who.random.percent(50)) MUST(pthread_mutex_destroy(c->mutex()));
            c->where.vanish();
            who.count(op_short_lived);
          }
        }
      }
      busy.fetch_sub(1);
    });
  }
  // Interrupts some of the threads by signals, perhaps between the store that releases a mutex and the rest of the
  // unlock.
  for (int i = 0; i < 300 && busy.load() > 0; ++i) {
    if (const int tid = users.tid(me.random.below(number)); tid != 0) signal_thread(tid, signothing);
    spin_for(me.random.below(20) * microsecond);
  }
  users.join_all();
  me.made_progress();
}

// ---- turns -----------------------------------------------------------------------------------------------------------

void ring(self& me) {
  scene s(me);
  const int number = me.random.between(2, 6), rounds = me.random.between(1, 10);
  const bool exact = me.random.percent(50);  // each thread has its own condition, and signals are sent
  int turn = 0;                              // guarded by the mutex
  std::vector<std::unique_ptr<placed<pthread_cond_t>>> own;
  for (int i = 0; i < number; ++i) {
    own.push_back(std::make_unique<placed<pthread_cond_t>>());
    own.back()->place(me.random);
    make_cond(own.back()->get(), s.clock, me.random);
  }
  team players(me);
  for (int i = 0; i < number; ++i) {
    players.start([&, i](self& who) {
      pthread_cond_t* const mine = exact ? own[static_cast<std::size_t>(i)]->get() : s.cond();
      pthread_cond_t* const next = exact ? own[static_cast<std::size_t>((i + 1) % number)]->get() : s.cond();
      for (int r = 0; r < rounds; ++r) {
        s.lock.enter(who, strict);
        while (turn != r * number + i) wait_on(who, mine, s.clock, s.lock, mostly_endless(who), strict);
        ++turn;
        const bool inside = who.random.percent(50);
        if (inside) MUST(exact ? pthread_cond_signal(next) : pthread_cond_broadcast(next));
        s.lock.leave(who);
        if (!inside) MUST(exact ? pthread_cond_signal(next) : pthread_cond_broadcast(next));
        who.count(op_signal);
      }
    });
  }
  players.join_all();
  REQUIRE(turn == number * rounds, "a ring stopped at turn %d of %d", turn, number * rounds);
  for (auto& c : own) MUST(pthread_cond_destroy(c->get()));
  MUST(pthread_cond_destroy(s.cond()));
  s.cond_page.vanish();
  s.lock.check_count();
  s.lock.destroy();
  me.made_progress();
}

}  // namespace soak
