// A bounded queue as in most programs: one mutex, std::queue, two condition variables. The program counts how many
// times the mutex is acquired for each message (Malthusian Locks, §6.7; the program measured in the paper is COZ's). A
// producer that finds the queue full waits on not_full, and so acquires the mutex twice for one message. A producer
// that waits for the mutex instead acquires it once.
#include <queue>

#include "tally.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct settings {
  long producers = 8, consumers = 3, bound = 10000;
  double seconds = 2;
  bool after = false;
  std::string file;

  settings(int argc, char** argv) {
    options o("producer_consumer", "a bounded queue with one mutex and two condition variables");
    o.number("producers", producers, 1, 4096, "threads that produce (8)");
    o.number("consumers", consumers, 1, 4096, "threads that consume (3)");
    o.number("bound", bound, 1, 1000000000, "messages that the queue holds (10000)");
    o.real("seconds", seconds, 0.01, 3600, "measured time (2)");
    o.flag("signal-after-unlock", after, "signal when the mutex is free again, not inside the critical section");
    o.text("json", file, "write what was measured here, not to standard output");
    o.parse(argc, argv);
  }
};

struct bounded_queue {
  alignas(line_pair) checked_mutex mutex;
  alignas(line_pair) checked_condition not_empty;
  alignas(line_pair) checked_condition not_full;
  alignas(line_pair) std::queue<int> messages;
  std::size_t bound = 0;
  bool signal_after_unlock = false;
  // Messages get their numbers under the mutex and must be consumed in the order of these numbers. So the queue detects
  // a failure of exclusion.
  unsigned produced = 0, consumed = 0;
  alignas(line_pair) std::atomic<bool> stop{false};
};

/// The counts of one thread.
struct alignas(line_pair) record {
  counter messages;
  counter acquisitions;  // counts each lock and each return from a wait
  counter waits;
  counter futile;  // counts returns from a wait after which the condition was still false
};

/// Waits on the condition variable until `room` returns true. Returns false if the run is over.
template <class Room>
bool wait_until(bounded_queue& q, checked_condition& condition, record& mine, Room room) {
  bool waited = false;
  while (!room()) {
    if (q.stop.load(std::memory_order_relaxed)) return false;
    if (waited) mine.futile.add();
    mine.waits.add();
    condition.wait(q.mutex);
    mine.acquisitions.add();
    waited = true;
  }
  return true;
}

template <class Room, class Change>
void work(bounded_queue& q, checked_condition& mine_to_wait, checked_condition& theirs, record& mine, Room room,
          Change change) {
  while (!q.stop.load(std::memory_order_relaxed)) {
    q.mutex.lock();
    mine.acquisitions.add();
    const bool done = wait_until(q, mine_to_wait, mine, room);
    if (done) change();
    if (done && !q.signal_after_unlock) theirs.signal();
    q.mutex.unlock();
    if (!done) return;
    if (q.signal_after_unlock) theirs.signal();
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

struct results {
  sums first, last;  // counts before and after the measured time
  double elapsed;
  switches switched;
};

results measure(const std::vector<record>& producing, const std::vector<record>& consuming, double seconds) {
  sleep_seconds(warm_up(seconds));  // before the measured time
  const sums first(producing, consuming);
  const switches before = switches::of(RUSAGE_SELF);
  const clock_type::time_point start = clock_type::now();
  sleep_seconds(seconds);  // the measured time
  const sums last(producing, consuming);
  return {first, last, seconds_since(start), switches::of(RUSAGE_SELF) - before};
}

/// Wakes the threads that wait and so have not seen `stop`.
void finish(bounded_queue& q) {
  q.stop.store(true, std::memory_order_relaxed);
  q.mutex.lock();
  q.not_empty.broadcast();
  q.not_full.broadcast();
  q.mutex.unlock();
}

void report(document& out, const settings& set, const results& measured) {
  const sums &first = measured.first, &last = measured.last;
  const switches& switched = measured.switched;
  const std::uint64_t messages = last.consumed - first.consumed;
  const std::uint64_t acquisitions = last.acquisitions - first.acquisitions;
  const double each = messages > 0 ? 1 / static_cast<double>(messages) : 0;
  out["producers"] = set.producers;
  out["consumers"] = set.consumers;
  out["bound"] = set.bound;
  out["signal_after_unlock"] = set.after;
  out["seconds"] = measured.elapsed;
  out["messages"] = messages;
  out["messages_per_second"] = static_cast<double>(messages) / measured.elapsed;
  out["acquisitions"] = acquisitions;
  out["acquisitions_per_message"] = static_cast<double>(acquisitions) * each;
  out["waits_not_full"] = last.waits_not_full - first.waits_not_full;
  out["waits_not_empty"] = last.waits_not_empty - first.waits_not_empty;
  out["futile_wakeups"] = last.futile - first.futile;
  out["voluntary_switches"] = switched.voluntary;
  out["involuntary_switches"] = switched.involuntary;
  out["switches_per_message"] = static_cast<double>(switched.voluntary + switched.involuntary) * each;
}

}  // namespace

int main(int argc, char** argv) {
  const settings set(argc, argv);
  static bounded_queue q;
  q.bound = static_cast<std::size_t>(set.bound);
  q.signal_after_unlock = set.after;
  // The queue is full at the start, because under a slow lock the producers would need most of the measured time to
  // fill it. If the consumers are faster than the producers, they empty the queue before the measured time.
  while (q.messages.size() < q.bound) q.messages.push(static_cast<int>(q.produced++));
  std::vector<record> producing(static_cast<std::size_t>(set.producers)),
      consuming(static_cast<std::size_t>(set.consumers));
  starting_team team(set.producers + set.consumers);
  for (record& r : producing) {
    team.add([&](std::latch& ready) {
      ready.arrive_and_wait();
      produce(q, r);
    });
  }
  for (record& r : consuming) {
    team.add([&](std::latch& ready) {
      ready.arrive_and_wait();
      consume(q, r);
    });
  }
  team.start();
  const results measured = measure(producing, consuming, set.seconds);
  finish(q);
  team.join();
  if (q.produced - q.consumed != q.messages.size()) fail("the number of messages left over is wrong");

  document out(argc, argv);
  report(out, set, measured);
  out.write(set.file);
  return 0;
}
