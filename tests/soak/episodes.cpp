// Episodes: short stories on objects of their own, with a few threads of their own. As nobody else takes part, each knows
// exactly who must be woken: these waits are strict.
#include <sched.h>
#include <string.h>

#include <algorithm>

#include "soak.hpp"

namespace soak {

namespace {

clockid_t some_clock(self& me) {
  return me.random.percent(50) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

void pause_a_little(self& me) {
  const int way = me.random.below(10);
  if (way < 4) return;
  if (way < 7) {
    sched_yield();
  } else {
    nap(me.random.below(400) * microsecond);
  }
}

/// Looks again and again until it is so.
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

/// Directly, or by a signal's handler in that thread, which may be one that waits for this very unit.
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

/// A mutex, a condition and who waits: what several episodes need.
struct scene {
  explicit scene(self& me) : clock(some_clock(me)), cond_page(me.random) {
    lock.make(me.random);
    make_cond(cond(), clock, me.random);
  }
  pthread_cond_t* cond() const { return cond_page.at<pthread_cond_t>(); }

  guarded lock;
  clockid_t clock;
  page cond_page;
  std::atomic<int> waiting{0}, tokens{0}, out{0};  // change with the mutex held
};

/// With the mutex held; returns with it held. A cancelled one leaves by its guard.
class leaves_when_cancelled {
 public:
  leaves_when_cancelled(self& me, scene& s) : me_(me), scene_(s) {}
  ~leaves_when_cancelled() {
    if (normal) return;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, nullptr);
    // As a cleanup handler: the mutex is this thread's again.
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

// ---- conditions that end with their last use -------------------------------------------------------------------------

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

void cancel_condition_waiters(self& me) {
  scene s(me);
  const int number = me.random.between(2, 6);
  std::atomic<int> arrived{0}, taken{0};
  team waiters(me);
  for (int i = 0; i < number; ++i) {
    waiters.start([&](self& who) {
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
    });
  }
  if (me.random.percent(80))
    await(me, "helpers that are to wait on a condition", s.cond(), sizeof(pthread_cond_t),
          [&] { return arrived.load() == number; });
  pause_a_little(me);

  int put = 0;
  auto give = [&](int n, bool broadcast) {
    s.lock.enter(me, strict);
    s.tokens.fetch_add(n);
    put += n;
    const bool inside = me.random.percent(50);
    auto tell = [&] {
      if (broadcast) {
        MUST(pthread_cond_broadcast(s.cond()));
      } else {
        for (int i = 0; i < n; ++i) MUST(pthread_cond_signal(s.cond()));
      }
    };
    if (inside) tell();
    s.lock.leave(me);
    if (!inside) tell();
    me.count(op_signal);
  };
  std::vector<int> cancelled;
  const int events = me.random.between(1, number + 1);
  for (int e = 0; e < events; ++e) {
    const int way = me.random.below(10);
    if (way < 5) {
      const int victim = me.random.below(number);
      if (std::find(cancelled.begin(), cancelled.end(), victim) == cancelled.end()) {
        waiters.cancel(victim);
        cancelled.push_back(victim);
      }
    } else if (way < 9) {
      give(1, me.random.percent(10));
    } else {
      MUST(pthread_cond_broadcast(s.cond()));  // for nothing
    }
    if (me.random.percent(30)) pause_a_little(me);
  }
  int ended_by_it = 0;
  for (int victim : cancelled) {
    // Also one that has not begun to wait: cancellation that is pending is looked at first.
    ended_by_it += waiters.join(victim) ? 1 : 0;
  }
  await(me, "helpers that are to wait on a condition", s.cond(), sizeof(pthread_cond_t),
        [&] { return arrived.load() == number; });
  // No cancelled waiter may have taken a signal with it.
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

void cancel_semaphore_waiters(self& me) {
  page semaphore_page(me.random);
  sem_t* const sem = semaphore_page.at<sem_t>();
  MUST(sem_init(sem, 0, 0) == 0 ? 0 : errno);
  const int number = me.random.between(2, 6);
  std::atomic<int> arrived{0}, taken{0};
  std::atomic<int> waiting_now{0};
  struct leaving {
    std::atomic<int>& n;
    ~leaving() { n.fetch_sub(1); }
  };
  team waiters(me);
  for (int i = 0; i < number; ++i) {
    waiters.start([&](self& who) {
      const patience_of_wait p = who.random.percent(70) ? patience_of_wait::endless : patience_of_wait::far;
      waiting_now.fetch_add(1);
      arrived.fetch_add(1);
      leaving l{waiting_now};
      take_unit(who, sem, p, strict);
      taken.fetch_add(1);
    });
  }
  if (me.random.percent(80))
    await(me, "helpers that are to wait on a semaphore", sem, sizeof *sem, [&] { return arrived.load() == number; });
  pause_a_little(me);

  int posted = 0;
  auto give = [&] {
    post_somehow(me, sem, pthread_self());
    ++posted;
  };
  std::vector<int> cancelled;
  const int events = me.random.between(1, number + 1);
  for (int e = 0; e < events; ++e) {
    const int victim = me.random.below(number);
    const int way = me.random.below(10);
    const bool already = std::find(cancelled.begin(), cancelled.end(), victim) != cancelled.end();
    if (way < 5 && !already) {
      waiters.cancel(victim);
      cancelled.push_back(victim);
    } else if (way < 9) {
      give();
    } else if (waiters.tid(victim) != 0) {
      signal_thread(waiters.tid(victim), me.random.percent(50) ? sigpost : signothing);
    }
    if (me.random.percent(30)) pause_a_little(me);
  }
  int ended_by_it = 0;
  for (int victim : cancelled) ended_by_it += waiters.join(victim) ? 1 : 0;
  me.count(op_cancel, ended_by_it);
  auto value = [&] {
    int v = 0;
    MUST(sem_getvalue(sem, &v));
    return v;
  };
  await(me, "helpers that are to wait on a semaphore", sem, sizeof *sem, [&] { return arrived.load() == number; });
  // In glibc 2.36 a thread that both a post wakes and a cancellation hits takes the wake-up with it: so many units may lie
  // there while others sleep.
  const int swallowed = set.full ? 0 : ended_by_it;
  await(me, "waiters on a semaphore that has units", sem, sizeof *sem,
        [&] { return value() <= swallowed || waiting_now.load() == 0; });
  for (int n = waiting_now.load(); n > 0; --n) give();
  waiters.join_all();
  REQUIRE(taken.load() + ended_by_it == number && posted == taken.load() + value(),
          "%d waiters: %d cancelled, %d took a unit; %d units posted, %d left", number, ended_by_it, taken.load(),
          posted, value());
  MUST(sem_destroy(sem) == 0 ? 0 : errno);
  semaphore_page.vanish();
  me.made_progress();
}

/// POSIX does not promise that a wait may be cancelled asynchronously; the C library's waits may, once they sleep.
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
      // No signals: what they would interrupt is not made for this.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      if (on_semaphore) {
        arrived.fetch_add(1);
        waiting w(who, "sem_wait, to be cancelled asynchronously", sem, strict);
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
        sem_wait(sem);
        FAIL("sem_wait returned, though nobody posted");
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
    s.lock.enter(me, strict);  // who has arrived and does not hold the mutex has given it away in his wait
    s.lock.leave(me);
    for (int times = 0; times < 2; ++times) {
      await(me, "a helper that is to sleep", s.cond(), sizeof(pthread_cond_t), [&] { return asleep(waiters.tid(i)); });
      nap(50 * microsecond);
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

// ---- objects that go with their last user ----------------------------------------------------------------------------

void short_lived_semaphores(self& me) {
  const int rounds = me.random.between(5, 40), number = me.random.between(1, 3);
  struct completion {
    explicit completion(self& who) : where(who.random) { MUST(sem_init(sem(), 0, 0) == 0 ? 0 : errno); }
    sem_t* sem() const { return where.at<sem_t>(); }
    page where;
    std::atomic<int> done{0};
  };
  // Kept, so that a page that was made rubbish is looked at when all is over.
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
      // After the last of these the semaphore may be gone: nothing may follow. A helper that is alone cannot have ended.
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
    int references;  // under the mutex
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
  // One stops here and there, perhaps between the store that frees a mutex and whatever else unlocking does.
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
  const bool exact = me.random.percent(50);  // a condition for each, and signals
  int turn = 0;                              // under the mutex
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
