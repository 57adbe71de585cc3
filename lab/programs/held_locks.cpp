// Measures the cost of holding many mutexes at once, and the effects of threads that end while they hold a mutex. A
// lock whose owner has a queue node for each held mutex must find that node at the unlock.
#include <sched.h>

#include "traffic.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

/// A mutex on a pair of cache lines of its own, like the mutexes of a program's objects.
struct alignas(line_pair) own_line : checked_mutex {};

using mutexes = std::vector<own_line>;

clock_type::time_point begun;
double limit = 60;

bool in_time() {
  return seconds_since(begun) < limit;
}

/// Locks all mutexes, then unlocks all in the given order. Returns false if the time limit came first.
bool all_at_once(mutexes& m, const std::string& order, field out) {
  const std::size_t n = m.size();
  std::vector<std::size_t> way(n);
  for (std::size_t i = 0; i < n; ++i) way[i] = order == "reverse" ? n - 1 - i : i;
  if (order == "random") {
    std::uint64_t state = 88172645463325252U;  // xorshift gives the same order everywhere
    for (std::size_t i = n; i > 1; --i) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      std::swap(way[i - 1], way[state % i]);
    }
  }
  std::size_t locked = 0, unlocked = 0;
  const clock_type::time_point start = clock_type::now();
  for (; locked < n && (locked % 256 != 0 || in_time()); ++locked) m[locked].lock();
  const double for_locking = seconds_since(start);
  if (locked == n)
    for (; unlocked < n && (unlocked % 256 != 0 || in_time()); ++unlocked) m[way[unlocked]].unlock();
  const double in_all = seconds_since(start);
  out["order"] = order;
  out["lock_ms"] = for_locking * 1e3;
  out["unlock_ms"] = (in_all - for_locking) * 1e3;
  out["ms"] = in_all * 1e3;
  out["complete"] = unlocked == n;
  return unlocked == n;
}

/// Locks hand over hand through a ring of mutexes, while the thread holds all of `others`. Returns the time of a step
/// in the fastest of ten batches.
double ns_of_a_step(mutexes& others, long steps, long& done) {
  constexpr std::size_t length = 64;
  mutexes ring(length);
  for (own_line& o : others) o.lock();
  ring[0].lock();
  double best = 0;
  std::size_t here = 0;
  for (int batch = 0; batch < 10; ++batch) {
    const clock_type::time_point start = clock_type::now();
    long now = 0;
    for (; now < steps && (now % 256 != 0 || in_time()); ++now) {
      const std::size_t next = (here + 1) % length;
      ring[next].lock();
      ring[here].unlock();
      here = next;
    }
    done += now;
    if (now == 0) break;
    const double each = seconds_since(start) * 1e9 / static_cast<double>(now);
    best = best > 0 ? std::min(best, each) : each;
  }
  ring[here].unlock();
  for (own_line& o : others) o.unlock();
  return best;
}

double ns_of_a_pair() {
  double best = 1e18;
  std::thread([&best] {
    own_line mine;
    for (int batch = 0; batch < 20; ++batch) {
      constexpr int pairs = 5000;
      const clock_type::time_point start = clock_type::now();
      for (int i = 0; i < pairs; ++i) {
        mine.lock();
        mine.unlock();
      }
      best = std::min(best, seconds_since(start) * 1e9 / pairs);
    }
  }).join();
  return best;
}

void* lock_and_end(void* mutex) {
  static_cast<own_line*>(mutex)->lock();
  return nullptr;
}
void* lock_unlock_and_end(void* mutex) {
  static_cast<own_line*>(mutex)->lock();
  static_cast<own_line*>(mutex)->unlock();
  return nullptr;
}

/// Runs threads one after another, each with a mutex of its own. Returns how many threads ran within the time limit.
std::size_t threads_that_end(mutexes& m, void* (*work)(void*)) {
  pthread_attr_t small;
  check(pthread_attr_init(&small), "pthread_attr_init");
  check(pthread_attr_setstacksize(&small, 64UL << 10), "pthread_attr_setstacksize");
  std::size_t done = 0;
  // The threads run one after another. They run on one CPU, so that the wake-up of another CPU is not measured.
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  check(sched_setaffinity(0, sizeof one, &one) == 0 ? 0 : errno, "sched_setaffinity");
  for (; done < m.size() && in_time(); ++done) {
    pthread_t thread{};
    check(pthread_create(&thread, &small, work, &m[done]), "pthread_create");
    check(pthread_join(thread, nullptr), "pthread_join");
  }
  pthread_attr_destroy(&small);
  return done;
}

void run_all(mutexes& m, document& out) {
  bool complete = true;
  for (const char* order : {"forward", "reverse", "random"}) {
    complete = all_at_once(m, order, out[order]);
    if (!complete) break;  // the other mutexes stay locked
  }
  out["complete"] = complete;
}

void run_ring(mutexes& m, long steps, document& out) {
  long done = 0;
  out["ns_per_step"] = ns_of_a_step(m, steps, done);
  out["steps"] = done;
  out["complete"] = done == 10 * steps;
}

void run_ended(mutexes& m, document& out) {
  mutexes first(std::min<std::size_t>(m.size(), 1000));
  const std::size_t released = threads_that_end(first, lock_unlock_and_end);
  const double for_those = seconds_since(begun);
  out["us_per_thread_that_unlocks"] = released > 0 ? for_those * 1e6 / static_cast<double>(released) : 0;
  begun = clock_type::now();
  const std::size_t ended = threads_that_end(m, lock_and_end);
  const double elapsed = seconds_since(begun);
  out["ended"] = ended;
  out["seconds"] = elapsed;
  out["us_per_thread"] = ended > 0 ? elapsed * 1e6 / static_cast<double>(ended) : 0;
  out["complete"] = ended == m.size();
  out["pair_ns_after"] = ns_of_a_pair();
}

}  // namespace

int main(int argc, char** argv) {
  long count = 10000, steps = 20000;
  std::string what = "all", file;
  options o("held_locks", "what it costs to hold many mutexes, and to end holding one");
  o.text("what", what,
         "all: lock and unlock them all; ring: hand over hand while they are held; ended: by threads (all)");
  o.number("count", count, 0, 10000000, "mutexes (10000)");
  o.number("steps", steps, 1, 100000000, "of the ring, ten times (20000)");
  o.real("limit", limit, 0.01, 3600, "s; then it is broken off (60)");
  o.text("json", file, "write what was measured here, not to standard output");
  o.parse(argc, argv);
  if (what != "all" && what != "ring" && what != "ended") fail("there is no '" + what + "' (try --help)", 2);

  mutexes& m = *new mutexes(static_cast<std::size_t>(count));  // never freed: some are locked at the end
  document out(argc, argv);
  out["what"] = what;
  out["count"] = count;
  out["limit_s"] = limit;
  // The C library takes other paths in a process that has never had a second thread.
  out["pair_ns_before"] = ns_of_a_pair();
  begun = clock_type::now();
  if (what == "all")
    run_all(m, out);
  else if (what == "ring")
    run_ring(m, steps, out);
  else
    run_ended(m, out);
  out.write(file);
  leave();
}
