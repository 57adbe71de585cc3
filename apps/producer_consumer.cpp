// A bounded queue as most programs have it: one mutex, std::queue, two condition variables. How many times the mutex is
// acquired for each message, which the program counts itself (Malthusian Locks, §6.7; the program measured there is COZ's).
// A producer that finds the queue full waits on not_full and so acquires the mutex twice for one message; one that waits
// for the mutex instead acquires it once.
#include <latch>
#include <queue>

#include "tally.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct bounded_queue {
  alignas(line_pair) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  alignas(line_pair) pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
  alignas(line_pair) pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
  alignas(line_pair) std::queue<int> messages;
  std::size_t bound = 0;
  bool signal_after_unlock = false;
  // Messages are numbered under the mutex, and come out in that order: so the queue is its own witness.
  unsigned produced = 0, consumed = 0;
  alignas(line_pair) std::atomic<bool> stop{false};
};

/// What one thread did.
struct alignas(line_pair) record {
  counter messages;
  counter acquisitions;  // each lock, and each return from a wait
  counter waits;
  counter futile;  // returns from a wait that found nothing changed
};

/// Waits until there is `room`; false when the run is over.
template <class Room>
bool wait_until(bounded_queue& q, pthread_cond_t& condition, record& mine, Room room) {
  bool waited = false;
  while (!room()) {
    if (q.stop.load(std::memory_order_relaxed)) return false;
    if (waited) mine.futile.add();
    mine.waits.add();
    check(pthread_cond_wait(&condition, &q.mutex), "pthread_cond_wait");
    mine.acquisitions.add();
    waited = true;
  }
  return true;
}

template <class Room, class Change>
void work(bounded_queue& q, pthread_cond_t& mine_to_wait, pthread_cond_t& theirs, record& mine, Room room,
          Change change) {
  while (!q.stop.load(std::memory_order_relaxed)) {
    check(pthread_mutex_lock(&q.mutex), "pthread_mutex_lock");
    mine.acquisitions.add();
    const bool done = wait_until(q, mine_to_wait, mine, room);
    if (done) change();
    if (done && !q.signal_after_unlock) check(pthread_cond_signal(&theirs), "pthread_cond_signal");
    check(pthread_mutex_unlock(&q.mutex), "pthread_mutex_unlock");
    if (!done) return;
    if (q.signal_after_unlock) check(pthread_cond_signal(&theirs), "pthread_cond_signal");
    mine.messages.add();
  }
}

void produce(bounded_queue& q, record& mine) {
  work(
      q, q.not_full, q.not_empty, mine, [&q] { return q.messages.size() < q.bound; },
      [&q] { q.messages.push(static_cast<int>(q.produced++)); });
}

void consume(bounded_queue& q, record& mine) {
  work(
      q, q.not_empty, q.not_full, mine, [&q] { return !q.messages.empty(); },
      [&q] {
        if (q.messages.front() != static_cast<int>(q.consumed++)) fail("a message was lost, or came out of order");
        q.messages.pop();
      });
}

struct sums {
  std::uint64_t produced = 0, consumed = 0, acquisitions = 0, waits_not_full = 0, waits_not_empty = 0, futile = 0;

  sums(const std::vector<record>& producers, const std::vector<record>& consumers) {
    for (const record& r : producers) {
      produced += r.messages.get();
      waits_not_full += r.waits.get();
    }
    for (const record& r : consumers) {
      consumed += r.messages.get();
      waits_not_empty += r.waits.get();
    }
    for (const std::vector<record>* all : {&producers, &consumers}) {
      for (const record& r : *all) {
        acquisitions += r.acquisitions.get();
        futile += r.futile.get();
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  long producers = 8, consumers = 3, bound = 10000;
  double seconds = 2;
  bool after = false;
  std::string file;
  options o("producer_consumer", "a bounded queue with one mutex and two condition variables");
  o.number("producers", producers, 1, 4096, "threads that produce (8)");
  o.number("consumers", consumers, 1, 4096, "threads that consume (3)");
  o.number("bound", bound, 1, 1000000000, "messages that the queue holds (10000)");
  o.real("seconds", seconds, 0.01, 3600, "measured time (2)");
  o.flag("signal-after-unlock", after, "signal when the mutex is free again, not inside the critical section");
  o.text("json", file, "write what was measured here, not to standard output");
  o.parse(argc, argv);

  static bounded_queue q;
  q.bound = static_cast<std::size_t>(bound);
  q.signal_after_unlock = after;
  // It begins full: under a slow lock, filling it would be most of what is measured. Where consumers are the faster ones,
  // they empty it before the measured time begins.
  while (q.messages.size() < q.bound) q.messages.push(static_cast<int>(q.produced++));
  std::vector<record> producing(static_cast<std::size_t>(producers)), consuming(static_cast<std::size_t>(consumers));
  std::latch ready(producers + consumers + 1);
  std::vector<std::thread> team;
  for (record& r : producing) {
    team.emplace_back([&] {
      ready.arrive_and_wait();
      produce(q, r);
    });
  }
  for (record& r : consuming) {
    team.emplace_back([&] {
      ready.arrive_and_wait();
      consume(q, r);
    });
  }
  ready.arrive_and_wait();
  sleep_seconds(warm_up(seconds));
  const sums first(producing, consuming);
  const switches before = switches::of(RUSAGE_SELF);
  const clock_type::time_point start = clock_type::now();
  sleep_seconds(seconds);
  const sums last(producing, consuming);
  const double elapsed = seconds_since(start);
  const switches switched = switches::of(RUSAGE_SELF) - before;

  q.stop.store(true, std::memory_order_relaxed);
  // Under the mutex: who has not seen the flag waits already, and is woken.
  check(pthread_mutex_lock(&q.mutex), "pthread_mutex_lock");
  check(pthread_cond_broadcast(&q.not_empty), "pthread_cond_broadcast");
  check(pthread_cond_broadcast(&q.not_full), "pthread_cond_broadcast");
  check(pthread_mutex_unlock(&q.mutex), "pthread_mutex_unlock");
  for (std::thread& t : team) t.join();
  if (q.produced - q.consumed != q.messages.size()) fail("the number of messages left over is wrong");

  const std::uint64_t messages = last.consumed - first.consumed;
  const std::uint64_t acquisitions = last.acquisitions - first.acquisitions;
  const double each = messages > 0 ? 1 / static_cast<double>(messages) : 0;
  nlohmann::json out = document(argc, argv);
  out["producers"] = producers;
  out["consumers"] = consumers;
  out["bound"] = bound;
  out["signal_after_unlock"] = after;
  out["seconds"] = elapsed;
  out["messages"] = messages;
  out["messages_per_second"] = static_cast<double>(messages) / elapsed;
  out["acquisitions"] = acquisitions;
  out["acquisitions_per_message"] = static_cast<double>(acquisitions) * each;
  out["waits_not_full"] = last.waits_not_full - first.waits_not_full;
  out["waits_not_empty"] = last.waits_not_empty - first.waits_not_empty;
  out["futile_wakeups"] = last.futile - first.futile;
  out["voluntary_switches"] = switched.voluntary;
  out["involuntary_switches"] = switched.involuntary;
  out["switches_per_message"] = static_cast<double>(switched.voluntary + switched.involuntary) * each;
  write(out, file);
  return 0;
}
