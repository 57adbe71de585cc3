// Measures the time from pthread_cond_signal() until the selected thread returns from pthread_cond_wait(), while other
// threads (the users) repeatedly lock the mutex. For comparison, the same run measures a pthread_mutex_lock() of a
// newcomer, which begins just after the signaller has unlocked the mutex and a user has acquired it. Each of these
// measured waits is called a turn. In every turn all users wait for the mutex when the signaller unlocks it.
#include "traffic.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

enum : int { nobody, signaller, signalled, newcomer };
constexpr const char* names[] = {"nobody", "signaller", "signalled", "newcomer"};

struct settings {
  long users = 2, most = 0;
  double hold = 20000, seconds = 2, patience = 5, outside = 0;
  std::string by = "auto", file;

  settings(int argc, char** argv) {
    options o("signalled", "what a signalled thread waits for its mutex, beside a thread that comes anew");
    o.number("users", users, 1, 4096, "threads that use the mutex all the time (2)");
    o.real("hold-us", hold, 0, 10000000, "µs for which they hold it (20000)");
    o.text("hold", by, "spin, sleep: how they pass that time; auto: spin below 1 ms (auto)");
    o.real("outside-us", outside, 0, 10000000, "µs between two uses, awake (0)");
    o.real("seconds", seconds, 0.01, 3600, "no new turn after that (2)");
    o.number("most", most, 0, 100000000, "turns, each a signal and a newcomer; 0: as many as there is time for (0)");
    o.real("patience", patience, 0, 3600,
           "s for which a turn may go on; then the users pause, and it counts as that long (5)");
    o.text("json", file, "write what was measured here, not to standard output");
    o.parse(argc, argv);
  }
};

struct stage {
  alignas(line_pair) checked_mutex mutex;
  alignas(line_pair) checked_condition condition;
  // The next members are accessed under the mutex.
  bool told = false, over = false;
  clock_type::time_point called;
  // These words tell the threads when to start and whose turn it is. They are atomics, so that no further pthread
  // object is used.
  alignas(line_pair) std::atomic<int> armed{0};     // the waiter waits, or holds the mutex and is about to wait
  alignas(line_pair) std::atomic<int> summoned{0};  // the number of the turn that has begun
  alignas(line_pair) std::atomic<int> through{0};   // the number of the last turn that has ended
  alignas(line_pair) std::atomic<bool> stop{false}, no_more{false};
  // The signaller writes here for which thread's action it waits, and since when. The main thread reads these words,
  // and limits the wait.
  alignas(line_pair) std::atomic<int> open{nobody}, turn{0};
  std::atomic<double> open_since{0};
  std::atomic<int> relieved{0};  // the last turn that ended only because the users paused
  samples by_signal, by_coming;
  long signals_relieved = 0, comings_relieved = 0;
};

const clock_type::time_point epoch = clock_type::now();

double microseconds(clock_type::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

void await(std::atomic<int>& number, int at_least) {
  for (int seen = 0; (seen = number.load()) < at_least;) number.wait(seen);
}
void announce(std::atomic<int>& number, int value) {
  number.store(value);
  number.notify_all();
}

/// Runs the waiter. It keeps the mutex between two waits, so that it makes no lock call that would delay the other
/// threads.
void wait_for_signals(stage& s) {
  s.mutex.lock();
  announce(s.armed, 1);
  for (;;) {
    while (!s.told && !s.over) s.condition.wait(s.mutex);
    const clock_type::time_point now = clock_type::now();
    if (s.over) break;
    s.told = false;
    s.by_signal.add(microseconds(now - s.called));
    announce(s.through, s.summoned.load());
  }
  s.mutex.unlock();
}

void come(stage& s) {
  for (int turn = 2;; turn += 2) {
    await(s.summoned, turn);
    if (s.no_more.load()) return;
    const clock_type::time_point start = clock_type::now();
    s.mutex.lock();
    const clock_type::time_point now = clock_type::now();
    s.mutex.unlock();
    s.by_coming.add(microseconds(now - start));
    announce(s.through, turn);
  }
}

void waits(stage& s, int who) {
  s.open_since.store(seconds_since(epoch));
  s.open.store(who);
}

/// Replaces the time of the last turn by a lower bound, the time limit `patience`, because the turn ended only after
/// the users had paused.
void make_bound(samples& of, long& relieved, double patience) {
  of.values.back() = patience * 1e6;
  ++relieved;
}

void signal(stage& s, traffic& users, long most, double patience) {
  int turn = 0;  // odd: a signal; even: a newcomer
  for (long done = 0; (done < most || most == 0) && !s.stop.load(); ++done) {
    for (const int who : {signalled, newcomer}) {
      waits(s, signaller);
      s.turn.store(++turn);
      users.lock_before_all(s.mutex);
      waits(s, who);
      if (who == signalled) {
        s.summoned.store(turn);
        s.told = true;
        s.called = clock_type::now();
        s.condition.signal();
      }
      s.mutex.unlock();
      if (who == newcomer) {
        users.await_a_holder();  // otherwise the mutex stays free until the first user is awake
        announce(s.summoned, turn);
      }
      await(s.through, turn);
      if (s.relieved.load() == turn) {
        if (who == signalled)
          make_bound(s.by_signal, s.signals_relieved, patience);
        else
          make_bound(s.by_coming, s.comings_relieved, patience);
      }
    }
  }
  waits(s, signaller);
  users.lock_before_all(s.mutex);
  s.over = true;
  s.condition.signal();
  s.mutex.unlock();
  users.pause();
  s.no_more.store(true);
  announce(s.summoned, turn + 2);
  waits(s, nobody);
}

/// Called by the main thread. Returns when the signaller has ended. If a turn takes longer than the time limit
/// (`patience`), the users pause, so that the turn ends.
void watch(stage& s, traffic& users_of, const std::atomic<bool>& done, const settings& set) {
  const clock_type::time_point start = clock_type::now();
  while (!done.load()) {
    if (seconds_since(start) >= set.seconds) s.stop.store(true);
    const int turn = s.turn.load(), open = s.open.load();
    const double age = seconds_since(epoch) - s.open_since.load();
    if ((open == signalled || open == newcomer) && age > set.patience && turn == s.turn.load() &&
        s.relieved.load() != turn) {
      s.relieved.store(turn);
      users_of.pause();
    }
    if (age > set.patience + set.hold * 2e-6 * static_cast<double>(set.users) + 10 && turn == s.turn.load() &&
        open == s.open.load())
      fail(std::string("it hangs, waiting for: ") + names[open]);
    sleep_seconds(0.001);  // until the next look
  }
}

}  // namespace

int main(int argc, char** argv) {
  const settings set(argc, argv);
  static stage s;
  const span held{set.hold, is_asleep(set.by, set.hold)};
  traffic users_of(s.mutex, set.users, held, {set.outside, false});
  std::thread waiter([] { wait_for_signals(s); });
  std::thread coming([] { come(s); });
  await(s.armed, 1);
  users_of.flow();
  sleep_seconds(std::min(0.02, set.seconds / 10));  // the warm-up
  const clock_type::time_point start = clock_type::now();
  std::atomic<bool> done{false};
  std::thread signalling([&] {
    signal(s, users_of, set.most, set.patience);
    done.store(true);
  });
  watch(s, users_of, done, set);
  const double elapsed = seconds_since(start);
  const std::uint64_t operations = users_of.operations();

  document out(argc, argv);
  out["users"] = set.users;
  out["hold_us"] = set.hold;
  out["hold"] = held.asleep ? "sleep" : "spin";
  out["seconds"] = elapsed;
  out["operations_per_second"] = static_cast<double>(operations) / elapsed;
  waiter.join();
  coming.join();
  signalling.join();
  // A turn that took longer than this time limit is recorded with the limit as its time.
  out["patience_us"] = set.patience * 1e6;
  out["signalled_relieved"] = s.signals_relieved;
  out["newcomer_relieved"] = s.comings_relieved;
  s.by_signal.write_all(out["signalled_us"]);
  s.by_coming.write_all(out["newcomer_us"]);
  out.write(set.file);
  users_of.stop();
  return 0;
}
