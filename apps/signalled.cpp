// How long a thread that a signal chose needs until it returns from pthread_cond_wait(), while other threads use the mutex
// all the time; and beside it, in the same run, how long a pthread_mutex_lock() takes that is called right after such a
// thread has let the mutex go and another has it. In both cases all users wait when the signaller lets go.
#include "traffic.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

enum : int { nobody, signaller, signalled, newcomer };
constexpr const char* names[] = {"nobody", "signaller", "signalled", "newcomer"};

struct stage {
  alignas(line_pair) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  alignas(line_pair) pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  // Under the mutex:
  bool told = false, over = false;
  clock_type::time_point called;
  // What threads are told otherwise passes by no pthread object.
  alignas(line_pair) std::atomic<int> armed{0};     // the waiter waits, or holds the mutex and is about to
  alignas(line_pair) std::atomic<int> summoned{0};  // number of the turn
  alignas(line_pair) std::atomic<int> through{0};   // number of the turn
  alignas(line_pair) std::atomic<bool> stop{false}, no_more{false};
  // For whoever looks from outside: what is being waited for, and since when.
  alignas(line_pair) std::atomic<int> open{nobody}, turn{0};
  std::atomic<double> open_since{0};
  std::atomic<int> relieved{0};  // the turn that ended only because the users paused
  samples by_signal, by_coming;
  long signals_relieved = 0, comings_relieved = 0;

  void lock() { check(pthread_mutex_lock(&mutex), "pthread_mutex_lock"); }
  void unlock() { check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock"); }
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

/// It waits again without letting go of the mutex in between, so that its turns cost nobody else anything.
void wait_for_signals(stage& s) {
  s.lock();
  announce(s.armed, 1);
  for (;;) {
    while (!s.told && !s.over) check(pthread_cond_wait(&s.condition, &s.mutex), "pthread_cond_wait");
    const clock_type::time_point now = clock_type::now();
    if (s.over) break;
    s.told = false;
    s.by_signal.values.push_back(microseconds(now - s.called));
    announce(s.through, s.summoned.load());
  }
  s.unlock();
}

void come(stage& s) {
  for (int turn = 2;; turn += 2) {
    await(s.summoned, turn);
    if (s.no_more.load()) return;
    const clock_type::time_point start = clock_type::now();
    s.lock();
    const clock_type::time_point now = clock_type::now();
    s.unlock();
    s.by_coming.values.push_back(microseconds(now - start));
    announce(s.through, turn);
  }
}

void waits(stage& s, int who) {
  s.open_since.store(seconds_since(epoch));
  s.open.store(who);
}

/// What it waited is only known to be more.
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
        check(pthread_cond_signal(&s.condition), "pthread_cond_signal");
      }
      s.unlock();
      if (who == newcomer) {
        users.await_a_holder();  // else it meets a mutex that is free until the first of them is awake
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
  check(pthread_cond_signal(&s.condition), "pthread_cond_signal");
  s.unlock();
  users.pause();
  s.no_more.store(true);
  announce(s.summoned, turn + 2);
  waits(s, nobody);
}

}  // namespace

int main(int argc, char** argv) {
  long users = 2, most = 0;
  double hold = 20000, seconds = 2, patience = 5, outside = 0;
  std::string by = "auto", file;
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

  static stage s;
  const span held{hold, is_asleep(by, hold)};
  traffic users_of(s.mutex, users, held, {outside, false});
  std::thread waiter([] { wait_for_signals(s); });
  std::thread coming([] { come(s); });
  await(s.armed, 1);
  users_of.flow();
  sleep_seconds(std::min(0.02, seconds / 10));
  const clock_type::time_point start = clock_type::now();
  std::atomic<bool> done{false};
  std::thread signalling([&] {
    signal(s, users_of, most, patience);
    done.store(true);
  });
  while (!done.load()) {
    if (seconds_since(start) >= seconds) s.stop.store(true);
    const int turn = s.turn.load(), open = s.open.load();
    const double age = seconds_since(epoch) - s.open_since.load();
    if ((open == signalled || open == newcomer) && age > patience && turn == s.turn.load() &&
        s.relieved.load() != turn) {
      s.relieved.store(turn);
      users_of.pause();
    }
    if (age > patience + hold * 2e-6 * static_cast<double>(users) + 10 && turn == s.turn.load() &&
        open == s.open.load())
      fail(std::string("it hangs, waiting for: ") + names[open]);
    sleep_seconds(0.001);
  }
  const double elapsed = seconds_since(start);
  const std::uint64_t operations = users_of.operations();

  nlohmann::json out = document(argc, argv);
  out["users"] = users;
  out["hold_us"] = hold;
  out["hold"] = held.asleep ? "sleep" : "spin";
  out["seconds"] = elapsed;
  out["operations_per_second"] = static_cast<double>(operations) / elapsed;
  waiter.join();
  coming.join();
  signalling.join();
  // Of the turns that took longer than the patience, and count as that.
  out["patience_us"] = patience * 1e6;
  out["signalled_relieved"] = s.signals_relieved;
  out["newcomer_relieved"] = s.comings_relieved;
  out["signalled_us"] = s.by_signal.tell();
  out["newcomer_us"] = s.by_coming.tell();
  write(out, file);
  users_of.stop();
  return 0;
}
