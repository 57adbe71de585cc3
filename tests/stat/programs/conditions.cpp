// Condition variables: broadcasts that wake a herd of waiters, and counted signals.
#include "planted.hpp"

namespace planted {

// -- a herd: each broadcast wakes 40 waiters, although there is only one item to take --

namespace {
constexpr int herd_size = 40, items = 20;
pthread_mutex_t herd_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t item_came = PTHREAD_COND_INITIALIZER;
tally herd_figures("item_came");
int waiting_for_item = 0, items_there = 0, items_taken = 0;
bool no_more_items = false;

[[gnu::noinline]] void take_items() {
  pthread_mutex_lock(&herd_mutex);
  for (;;) {
    while (items_there == 0 && !no_more_items) {
      ++waiting_for_item;
      pthread_cond_wait(&item_came, &herd_mutex);  // mark: herd waits
    }
    if (items_there == 0) break;
    --items_there;
    ++items_taken;
  }
  pthread_mutex_unlock(&herd_mutex);
}

/// Waits until the consumers have begun `have_waited` waits in all, then adds an item.
[[gnu::noinline]] void give_item(int have_waited, bool last) {
  for (;; sleep_for(500 * us)) {
    pthread_mutex_lock(&herd_mutex);
    if (waiting_for_item == have_waited) break;
    pthread_mutex_unlock(&herd_mutex);
  }
  if (last)
    no_more_items = true;
  else
    ++items_there;
  pthread_cond_broadcast(&item_came);  // mark: herd is called
  pthread_mutex_unlock(&herd_mutex);
}
}  // namespace

void herd() {
  in_threads(herd_size + 1, [](int self) {
    if (self > 0) return take_items();
    // All threads wait at each broadcast, because a thread that has taken an item waits again.
    for (int i = 1; i <= items + 1; ++i) give_item(i * herd_size, i > items);
  });
  herd_figures.say("waits", static_cast<std::uint64_t>(waiting_for_item));
  herd_figures.say("broadcasts", items + 1);
  herd_figures.say("herd", herd_size);
  herd_figures.say("taken", static_cast<std::uint64_t>(items_taken));
}

// -- signals: fixed numbers of signals with a waiter, of signals without one, and of waits that time out --

namespace {
pthread_mutex_t signal_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
tally signal_figures("signalled");
int signal_waits = 0, signals_given = 0;
std::int64_t signalled_at = 0;
constexpr int heard = 25, unheard = 170, gave_up = 8;
}  // namespace

/// A signalled thread runs 4 ms after its signal at the earliest, because the signalling thread holds the mutex for
/// that time.
void signals() {
  in_threads(2, [](int self) {
    for (int i = 1; i <= heard; ++i) {
      if (self == 0) {
        for (;; sched_yield()) {
          pthread_mutex_lock(&signal_mutex);
          if (signal_waits == i) break;
          pthread_mutex_unlock(&signal_mutex);
        }
        signals_given = i;
        signalled_at = now();
        pthread_cond_signal(&signalled);  // mark: signal
        busy(4 * ms);
        pthread_mutex_unlock(&signal_mutex);
      } else {
        pthread_mutex_lock(&signal_mutex);
        signal_waits = i;
        while (signals_given < i) pthread_cond_wait(&signalled, &signal_mutex);  // mark: wait for signal
        signal_figures.took(signalled_at, now());
        pthread_mutex_unlock(&signal_mutex);
      }
    }
  });
  for (int i = 0; i < unheard; ++i) i % 2 == 0 ? pthread_cond_signal(&signalled) : pthread_cond_broadcast(&signalled);
  pthread_mutex_lock(&signal_mutex);
  for (int i = 0; i < gave_up; ++i) {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    pthread_cond_timedwait(&signalled, &signal_mutex, &until);
  }
  pthread_mutex_unlock(&signal_mutex);
  signal_figures.say("signals", heard + unheard);
  signal_figures.say("heard", heard);
  signal_figures.say("unheard", unheard);
  signal_figures.say("timeouts", gave_up);
}

// -- failed trylocks alternate with signals that have no waiter. A sample of every n-th call could contain calls of
// only one of the two objects --

namespace {
pthread_mutex_t vain_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t vain_condition = PTHREAD_COND_INITIALIZER;
tally vain_mutex_figures("vain_mutex"), vain_condition_figures("vain_condition");
constexpr int in_vain = 100'000;
}  // namespace

void many_in_vain() {
  pthread_mutex_lock(&vain_mutex);
  in_threads(2, [](int) {
    for (int i = 0; i < in_vain; ++i) {
      pthread_mutex_trylock(&vain_mutex);
      pthread_cond_signal(&vain_condition);
    }
  });
  pthread_mutex_unlock(&vain_mutex);
  in_threads(2, [](int) {
    for (int i = 0; i < in_vain; ++i) {
      pthread_mutex_lock(&vain_mutex);
      pthread_mutex_unlock(&vain_mutex);
    }
  });
  vain_mutex_figures.say("failed", 2 * in_vain);
  vain_mutex_figures.say("acquisitions", 1 + 2 * in_vain);
  vain_condition_figures.say("unheard", 2 * in_vain);
}

// -- two signals are sent for one waiter: the second finds no waiter --

namespace {
pthread_mutex_t twice_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t twice = PTHREAD_COND_INITIALIZER;
tally twice_figures("twice");
}  // namespace

void signalled_twice() {
  constexpr int rounds = 30;
  int waits = 0, given = 0;
  in_threads(2, [&](int self) {
    for (int i = 1; i <= rounds; ++i) {
      if (self == 0) {
        for (;; sched_yield()) {
          pthread_mutex_lock(&twice_mutex);
          if (waits == i) break;
          pthread_mutex_unlock(&twice_mutex);
        }
        given = i;
        pthread_cond_signal(&twice);
        pthread_cond_signal(&twice);
        pthread_mutex_unlock(&twice_mutex);
      } else {
        pthread_mutex_lock(&twice_mutex);
        waits = i;
        while (given < i) pthread_cond_wait(&twice, &twice_mutex);
        pthread_mutex_unlock(&twice_mutex);
      }
    }
  });
  twice_figures.say("signals", 2 * rounds);
  twice_figures.say("heard", rounds);
}

// -- a condition variable is destroyed when all waiters are woken, as POSIX permits: some have not returned yet --

namespace {
tally left_figures("left");
}  // namespace

void left_in_haste() {
  constexpr int threads = 4, rounds = 150;
  struct room {
    pthread_mutex_t mutex;
    pthread_cond_t door;
    int inside;
    bool is_open;
  };
  for (int i = 0; i < rounds; ++i) {
    auto* one = new room();
    pthread_mutex_init(&one->mutex, nullptr);
    pthread_cond_init(&one->door, nullptr);  // mark: door of a room
    in_threads(threads + 1, [one](int self) {
      pthread_mutex_lock(&one->mutex);
      if (self > 0) {
        ++one->inside;
        while (!one->is_open) pthread_cond_wait(&one->door, &one->mutex);
      } else {
        for (; one->inside < threads; pthread_mutex_lock(&one->mutex)) {
          pthread_mutex_unlock(&one->mutex);
          sched_yield();
        }
        one->is_open = true;
        pthread_cond_broadcast(&one->door);
        pthread_mutex_unlock(&one->mutex);
        pthread_cond_destroy(&one->door);
        return;
      }
      pthread_mutex_unlock(&one->mutex);
    });
    pthread_mutex_destroy(&one->mutex);
    delete one;
  }
  left_figures.say("waits", threads * rounds);
  left_figures.say("broadcasts", rounds);
}

}  // namespace planted
