// Threads share fewer buffers than there are threads (Malthusian Locks, §6.11): take a buffer, perhaps waiting for one,
// exchange random places of it with a buffer of the thread's own, return it, update random places of the own one. Whom a
// return wakes decides how many threads, and so how many private buffers, circulate through the caches.
//
// Buffers are taken at the front of the deque and returned at its back, so all of them circulate, whatever the order of the
// threads is: a difference comes from the threads alone.
#include <deque>
#include <latch>

#include "tally.hpp"
#include "team.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct buffer {
  std::vector<std::uint32_t> words;
  bool taken = false;  // plain on purpose, a witness: it is in one thread's hands at a time

  explicit buffer(std::size_t size) : words(size, 1) {}
};

struct buffer_pool {
  alignas(line_pair) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  alignas(line_pair) pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
  alignas(line_pair) sem_t available{};
  alignas(line_pair) std::deque<buffer*> free;
  admissions order{std::size_t{1} << 22};
  bool with_semaphore = false;
  std::atomic<bool> stop{false}, measuring{false};

  void lock() { check(pthread_mutex_lock(&mutex), "pthread_mutex_lock"); }
  void unlock() { check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock"); }
  bool over() const { return stop.load(std::memory_order_relaxed); }

  /// Null when the run is over.
  buffer* take(long thread, counter& waits) {
    if (with_semaphore) {
      wait_for(available);
      if (over()) return nullptr;
    }
    lock();
    while (free.empty() && !over()) {
      if (with_semaphore) fail("the semaphore admitted more threads than there are buffers");
      waits.add();
      check(pthread_cond_wait(&not_empty, &mutex), "pthread_cond_wait");
    }
    buffer* mine = nullptr;
    if (!over()) {
      mine = free.front();
      free.pop_front();
      if (measuring.load(std::memory_order_relaxed)) order.add(thread);
    }
    unlock();
    if (mine != nullptr && std::exchange(mine->taken, true)) fail("two threads have one buffer");
    return mine;
  }

  void give_back(buffer& mine) {
    mine.taken = false;
    lock();
    free.push_back(&mine);
    if (!with_semaphore) check(pthread_cond_signal(&not_empty), "pthread_cond_signal");
    unlock();
    if (with_semaphore) post(available);
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

}  // namespace

int main(int argc, char** argv) {
  long threads = 8, buffers = 5, kib = 1024, exchanges = 500, updates = 5000, window = 1000;
  double seconds = 2;
  bool with_semaphore = false;
  std::string file;
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

  static buffer_pool pool;
  pool.with_semaphore = with_semaphore;
  if (sem_init(&pool.available, 0, static_cast<unsigned>(buffers)) != 0) fail("sem_init failed");
  const std::size_t words = static_cast<std::size_t>(kib) * 1024 / sizeof(std::uint32_t);
  std::deque<buffer> shared;
  for (long i = 0; i < buffers; ++i) pool.free.push_back(&shared.emplace_back(words));
  std::vector<record> records(static_cast<std::size_t>(threads));
  std::latch ready(threads + 1);
  std::vector<std::thread> team;
  for (long i = 0; i < threads; ++i) {
    team.emplace_back([&, i] {
      buffer own(words);
      ready.arrive_and_wait();
      work(pool, i, own, exchanges, updates, records[static_cast<std::size_t>(i)]);
    });
  }
  ready.arrive_and_wait();
  sleep_seconds(warm_up(seconds));
  std::vector<std::uint64_t> iterations;
  std::uint64_t waits = 0, total = 0;
  for (const record& r : records) {
    iterations.push_back(r.iterations.get());
    waits -= r.waits.get();
  }
  const switches before = switches::of(RUSAGE_SELF);
  pool.measuring.store(true, std::memory_order_relaxed);
  const clock_type::time_point start = clock_type::now();
  sleep_seconds(seconds);
  pool.measuring.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < records.size(); ++i) {
    iterations[i] = records[i].iterations.get() - iterations[i];
    waits += records[i].waits.get();
    total += iterations[i];
  }
  const double elapsed = seconds_since(start);
  const switches switched = switches::of(RUSAGE_SELF) - before;

  pool.stop.store(true, std::memory_order_relaxed);
  pool.lock();  // who has not seen the flag waits already, and is woken
  check(pthread_cond_broadcast(&pool.not_empty), "pthread_cond_broadcast");
  pool.unlock();
  if (with_semaphore)
    for (long i = 0; i < threads; ++i) post(pool.available);
  for (std::thread& t : team) t.join();

  const double each = total > 0 ? 1 / static_cast<double>(total) : 0;
  nlohmann::json out = document(argc, argv);
  out["threads"] = threads;
  out["buffers"] = buffers;
  out["kib"] = kib;
  out["semaphore"] = with_semaphore;
  out["seconds"] = elapsed;
  out["iterations"] = total;
  out["iterations_per_second"] = static_cast<double>(total) / elapsed;
  if (!with_semaphore) out["waits_per_iteration"] = static_cast<double>(waits) * each;  // a semaphore does not say
  out["window"] = window;
  out["distinct_threads"] = pool.order.distinct(static_cast<std::size_t>(window));
  out["share"] = shares(iterations);
  out["counts"] = iterations;
  out["voluntary_switches"] = switched.voluntary;
  out["involuntary_switches"] = switched.involuntary;
  out["switches_per_iteration"] = static_cast<double>(switched.voluntary + switched.involuntary) * each;
  write(out, file);
  return 0;
}
