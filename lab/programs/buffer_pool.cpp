// Threads share a pool with fewer buffers than threads (Malthusian Locks, §6.11). Each thread takes a buffer, perhaps
// after a wait, exchanges random words of the buffer with words of a private buffer, returns the buffer to the pool,
// and updates random words of the private buffer. The order of wake-ups decides how many threads, and so how many
// private buffers, circulate through the caches.
//
// Buffers are taken at the front of the deque and returned at its back. So all buffers of the pool circulate for any
// order of wake-ups, and a difference in throughput comes only from the private buffers.
#include <deque>

#include "tally.hpp"
#include "team.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct settings {
  long threads = 8, buffers = 5, kib = 1024, exchanges = 500, updates = 5000, window = 1000;
  double seconds = 2;
  bool with_semaphore = false;
  std::string file;

  settings(int argc, char** argv) {
    options o("buffer_pool", "threads share a pool of buffers that a condition variable or a semaphore guards");
    o.number("threads", threads, 1, 4096, "threads (8)");
    o.number("buffers", buffers, 1, 4096, "buffers in the pool (5)");
    o.number("kib", kib, 1, 1 << 20, "size of a buffer in KiB (1024)");
    o.number("exchanges", exchanges, 0, 1000000000, "words exchanged with a pool's buffer in an iteration (500)");
    o.number("updates", updates, 0, 1000000000, "words of the own buffer updated in an iteration (5000)");
    o.number("window", window, 1, 1000000, "admissions among which different threads are counted (1000)");
    o.real("seconds", seconds, 0.01, 3600, "measured time (2)");
    o.flag("semaphore", with_semaphore, "wait on a semaphore; the mutex only guards the deque");
    o.text("json", file, "write what was measured here, not to standard output");
    o.parse(argc, argv);
  }
};

struct buffer {
  std::vector<std::uint32_t> words;
  bool taken = false;  // deliberately not atomic, to detect races: only one thread at a time has the buffer

  explicit buffer(std::size_t size) : words(size, 1) {}
};

struct buffer_pool {
  alignas(line_pair) checked_mutex mutex;
  alignas(line_pair) checked_condition not_empty;
  alignas(line_pair) sem_t available{};
  alignas(line_pair) std::deque<buffer*> free;
  admissions order{std::size_t{1} << 22};
  bool with_semaphore = false;
  std::atomic<bool> stop{false}, measuring{false};

  bool over() const { return stop.load(std::memory_order_relaxed); }

  /// Returns null when the run is over.
  buffer* take(long thread, counter& waits) {
    if (with_semaphore) {
      wait_for(available);
      if (over()) return nullptr;
    }
    mutex.lock();
    while (free.empty() && !over()) {
      if (with_semaphore) fail("the semaphore admitted more threads than there are buffers");
      waits.add();
      not_empty.wait(mutex);
    }
    buffer* mine = nullptr;
    if (!over()) {
      mine = free.front();
      free.pop_front();
      if (measuring.load(std::memory_order_relaxed)) order.add(thread);
    }
    mutex.unlock();
    if (mine != nullptr && std::exchange(mine->taken, true)) fail("two threads have one buffer");
    return mine;
  }

  void give_back(buffer& mine) {
    mine.taken = false;
    mutex.lock();
    free.push_back(&mine);
    if (!with_semaphore) not_empty.signal();
    mutex.unlock();
    if (with_semaphore) post(available);
  }

  /// Ends the run: wakes the threads that wait and so have not seen `stop`.
  void finish(long threads) {
    stop.store(true, std::memory_order_relaxed);
    mutex.lock();
    not_empty.broadcast();
    mutex.unlock();
    if (with_semaphore)
      for (long i = 0; i < threads; ++i) post(available);
  }
};

struct alignas(line_pair) record {
  counter iterations, waits;
};

void work(buffer_pool& pool, long thread, buffer& own, long exchanges, long updates, record& mine) {
  random_source random(static_cast<unsigned long>(thread) + 1);
  const std::size_t words = own.words.size();
  while (!pool.over()) {
    buffer* taken = pool.take(thread, mine.waits);
    if (taken == nullptr) return;
    for (long i = 0; i < exchanges; ++i) {
      const std::size_t place = random.below(words);
      std::swap(taken->words[place], own.words[place]);
    }
    pool.give_back(*taken);
    for (long i = 0; i < updates; ++i) ++own.words[random.below(words)];
    mine.iterations.add();
  }
}

struct results {
  std::vector<record> records;
  std::vector<std::uint64_t> iterations;  // counts of each thread in the measured time
  std::uint64_t waits = 0, total = 0;
  switches switched;
  double elapsed = 0;
};

void measure(buffer_pool& pool, double seconds, results& out) {
  sleep_seconds(warm_up(seconds));  // before the measured time
  for (const record& r : out.records) {
    out.iterations.push_back(r.iterations.get());
    out.waits -= r.waits.get();
  }
  const switches before = switches::of(RUSAGE_SELF);
  pool.measuring.store(true, std::memory_order_relaxed);
  const clock_type::time_point start = clock_type::now();
  sleep_seconds(seconds);  // the measured time
  pool.measuring.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < out.records.size(); ++i) {
    out.iterations[i] = out.records[i].iterations.get() - out.iterations[i];
    out.waits += out.records[i].waits.get();
    out.total += out.iterations[i];
  }
  out.elapsed = seconds_since(start);
  out.switched = switches::of(RUSAGE_SELF) - before;
}

void report(document& out, const settings& set, const buffer_pool& pool, const results& measured) {
  const double each = measured.total > 0 ? 1 / static_cast<double>(measured.total) : 0;
  const switches& switched = measured.switched;
  out["threads"] = set.threads;
  out["buffers"] = set.buffers;
  out["kib"] = set.kib;
  out["semaphore"] = set.with_semaphore;
  out["seconds"] = measured.elapsed;
  out["iterations"] = measured.total;
  out["iterations_per_second"] = static_cast<double>(measured.total) / measured.elapsed;
  // With a semaphore the waits are not counted, because sem_wait() does not report whether it waited.
  if (!set.with_semaphore) out["waits_per_iteration"] = static_cast<double>(measured.waits) * each;
  out["window"] = set.window;
  out["distinct_threads"] = pool.order.distinct(static_cast<std::size_t>(set.window));
  write_shares(out["share"], measured.iterations);
  out["counts"] = measured.iterations;
  out["voluntary_switches"] = switched.voluntary;
  out["involuntary_switches"] = switched.involuntary;
  out["switches_per_iteration"] = static_cast<double>(switched.voluntary + switched.involuntary) * each;
}

}  // namespace

int main(int argc, char** argv) {
  const settings set(argc, argv);
  static buffer_pool pool;
  pool.with_semaphore = set.with_semaphore;
  if (sem_init(&pool.available, 0, static_cast<unsigned>(set.buffers)) != 0) fail("sem_init failed");
  const std::size_t words = static_cast<std::size_t>(set.kib) * 1024 / sizeof(std::uint32_t);
  std::deque<buffer> shared;
  for (long i = 0; i < set.buffers; ++i) pool.free.push_back(&shared.emplace_back(words));
  results measured;
  measured.records = std::vector<record>(static_cast<std::size_t>(set.threads));
  starting_team team(set.threads);
  for (long i = 0; i < set.threads; ++i) {
    team.add([&, i](std::latch& ready) {
      buffer own(words);
      ready.arrive_and_wait();
      work(pool, i, own, set.exchanges, set.updates, measured.records[static_cast<std::size_t>(i)]);
    });
  }
  team.start();
  measure(pool, set.seconds, measured);
  pool.finish(set.threads);
  team.join();

  document out(argc, argv);
  report(out, set, pool, measured);
  out.write(set.file);
  return 0;
}
