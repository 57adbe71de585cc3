// Mixed random traffic through all functions that libusher.so replaces, for a given time, with checked counts. This is
// a plain pthread program that does not use Usher, and it must also pass on the C library alone.
//
// Time is divided into rounds. In a round up to 32 threads use shared mutexes, conditions and semaphores at random, and
// run short episodes on objects of their own. At the end of a round no new traffic begins. A thread that waits for a
// unit that is available must then get this unit within the time of --patience, since no other thread competes for it;
// otherwise a wake-up was lost. Threads that wait for a unit that is not available are released, and every count must
// add up.
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "shared.hpp"
#include "watchdog.hpp"

namespace soak {
namespace {

// ---- signals ---------------------------------------------------------------------------------------------------------

std::atomic<shared_objects*> target{nullptr};  // the objects that signal handlers use; null: none
std::atomic<int> handlers_inside{0};

void on_post(int) {
  const int code = errno;
  handlers_inside.fetch_add(1);
  if (shared_objects* shared = target.load(); shared != nullptr && in_child.load() == 0) post_from_handler(*shared);
  handlers_inside.fetch_sub(1);
  errno = code;
}

void on_post_this(int, siginfo_t* info, void*) {
  const int code = errno;
  // sem_post() is the last access to the semaphore: its memory may be freed as soon as the unit is available.
  if (sem_post(static_cast<sem_t*>(info->si_value.sival_ptr)) != 0) FAIL("sem_post in a handler: %s", code_name(errno));
  totals[op_handler_post].fetch_add(1, std::memory_order_relaxed);
  errno = code;
}

/// Stops the interrupted thread for a while between two of its instructions, so that races become likely.
void on_nothing(int) {
  static std::atomic<unsigned> turn{0};
  spin_for(turn.fetch_add(1, std::memory_order_relaxed) % 4 * 15 * microsecond);
}

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, sigpost);
  sigaddset(&set, signothing);
  sigaddset(&set, sigpost_this());
  return set;
}

void install_handlers() {
  struct sigaction action = {};
  // All signals are blocked during a handler, even the C library's own for cancellation, which sigfillset omits: glibc
  // may cancel a waiting thread while a handler runs on top of the wait, and the handler would not finish.
  memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
  action.sa_handler = on_post;  // without SA_RESTART, so that the signal interrupts waits for semaphores
  MUST(sigaction(sigpost, &action, nullptr) == 0 ? 0 : errno);
  action.sa_handler = on_nothing;
  action.sa_flags = SA_RESTART;
  MUST(sigaction(signothing, &action, nullptr) == 0 ? 0 : errno);
  action.sa_sigaction = on_post_this;
  action.sa_flags = SA_SIGINFO;
  MUST(sigaction(sigpost_this(), &action, nullptr) == 0 ? 0 : errno);
  // The main thread and the watchdog block the signals. Otherwise the main thread would receive most of the signals
  // that are sent to the process.
  const sigset_t ours = our_signals();
  MUST(pthread_sigmask(SIG_BLOCK, &ours, nullptr));
}

/// A timer whose signal the kernel sends to any thread.
class ticker {
 public:
  explicit ticker(std::int64_t interval) {
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = sigpost;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0 ? 0 : errno);
    itimerspec times = {};
    times.it_interval = times.it_value = to_timespec(interval);
    MUST(timer_settime(timer_, 0, &times, nullptr) == 0 ? 0 : errno);
  }
  ~ticker() { timer_delete(timer_); }
  ticker(const ticker&) = delete;
  ticker& operator=(const ticker&) = delete;

 private:
  timer_t timer_;
};

// ---- the watchdog ----------------------------------------------------------------------------------------------------

std::atomic<std::int64_t> traffic_ended{0};  // 0: traffic has not ended
std::atomic<bool> all_done{false};

void* watch(void*) {
  long last = -1;
  std::int64_t since = now(), looked = since;
  while (!all_done.load()) {
    nap(50 * millisecond);  // until the next look
    const std::int64_t at = now();
    // Does not count the time in which this process or the machine was stopped, since no lock causes such a delay.
    const std::int64_t asleep_myself = at - looked - 2 * second;
    looked = at;
    long sum = 0;
    for (const watched& w : watch_list) sum += w.progress.load(std::memory_order_relaxed);
    if (sum != last || traffic_ended.load() != 0 || asleep_myself > 0) {
      last = sum;
      since = at;
    } else if (at - since > set.patience) {
      FAIL("no thread made progress for %.1f s", static_cast<double>(at - since) / static_cast<double>(second));
    }
    const std::int64_t ended = traffic_ended.load();
    for (const watched& w : watch_list) {
      const char* what = w.what.load(std::memory_order_acquire);
      if (w.tid.load() == 0 || what == nullptr) continue;
      const bool is_strict = w.strict.load();
      std::int64_t from = w.since.load();
      if (!is_strict && ended == 0) continue;
      if (!is_strict) from = std::max(from, ended);
      // Leaves out waits without a deadline on shared objects: the main thread ends them and checks them itself.
      if (!is_strict && strncmp(what, "pthread_cond", 12) == 0) continue;
      if (!is_strict && strncmp(what, "sem_", 4) == 0) continue;
      if (at - from > set.patience && w.what.load() == what && w.since.load() <= from)
        FAIL("a thread has waited for %.1f s: %s %p", static_cast<double>(at - from) / static_cast<double>(second),
             what, w.object.load());
    }
  }
  return nullptr;
}

// ---- workers ---------------------------------------------------------------------------------------------------------

pthread_key_t key;
pthread_mutex_t exits_mutex = PTHREAD_MUTEX_INITIALIZER;
long exits = 0, starts = 0;

/// The destructor of thread-specific data: each thread locks once more at its end.
void at_exit(void*) {
  MUST(pthread_mutex_lock(&exits_mutex));
  exits = exits + 1;
  MUST(pthread_mutex_unlock(&exits_mutex));
}

enum part {
  cells,
  boxes,
  queues,
  semaphores,
  semaphore_queues,
  forks,
  destroyed,
  cancelled,
  cancelled_semaphores,
  async,
  short_semaphores,
  short_mutexes,
  rings,
  signals,
  parts
};
const char* const part_names[parts] = {"mutexes",
                                       "conditions",
                                       "queues",
                                       "semaphores",
                                       "semaphore-queues",
                                       "forks",
                                       "destroyed",
                                       "cancelled-conditions",
                                       "cancelled-semaphores",
                                       "async",
                                       "short-semaphores",
                                       "short-mutexes",
                                       "rings",
                                       "signals"};

struct round_plan {
  int weight[parts] = {};
  int all = 0;
};

struct worker {
  shared_objects* shared = nullptr;
  const round_plan* plan = nullptr;
  int slot = 0;
  std::uint64_t seed = 0;
  pthread_t thread{};
  bool running = false;
  std::atomic<bool> finished{false};
};

void interrupt_somebody(self& me) {
  const watched& w = watch_list[me.random.below(watch_places / 8)];
  if (const int tid = w.tid.load(); tid != 0) signal_thread(tid, me.random.percent(50) ? sigpost : signothing);
}

void act(self& me, const worker& w, std::atomic<int>& actors) {
  int at = me.random.below(w.plan->all), which = 0;
  while (at >= w.plan->weight[which]) at -= w.plan->weight[which++];
  switch (which) {
    case cells:
      return use_cells(me, *w.shared);
    case boxes:
      return use_boxes(me, *w.shared, w.slot);
    case queues:
      return use_queues(me, *w.shared, w.slot);
    case semaphores:
      return use_semaphores(me, *w.shared, w.slot);
    case semaphore_queues:
      return use_semaphore_queues(me, *w.shared, w.slot);
    case forks:
      return fork_a_child(me, *w.shared);
    case signals:
      return interrupt_somebody(me);
    default:
      break;
  }
  // Only a few episodes run at a time, because each has threads of its own.
  if (actors.fetch_add(1) < 3) {
    switch (which) {
      case destroyed:
        destroy_conditions(me);
        break;
      case cancelled:
        cancel_condition_waiters(me);
        break;
      case cancelled_semaphores:
        cancel_semaphore_waiters(me);
        break;
      case async:
        cancel_asynchronously(me);
        break;
      case short_semaphores:
        short_lived_semaphores(me);
        break;
      case short_mutexes:
        short_lived_mutexes(me);
        break;
      case rings:
        ring(me);
        break;
      default:
        break;
    }
  }
  actors.fetch_sub(1);
}

std::atomic<int> actors{0};

void* work(void* argument) {
  worker& w = *static_cast<worker*>(argument);
  {
    self me(w.seed);
    me.count(op_thread);
    const sigset_t ours = our_signals();
    MUST(pthread_sigmask(SIG_UNBLOCK, &ours, nullptr));
    MUST(pthread_setspecific(key, &w));
    // Half of the threads end after a few actions.
    const int limit = me.random.percent(50) ? me.random.between(1, 20) : me.random.between(100, 2000);
    for (int i = 0; i < limit && !stopping.load(); ++i) act(me, w, actors);
  }
  w.finished.store(true);
  return nullptr;
}

void start(worker& w, std::uint64_t seed) {
  w.seed = seed;
  w.finished.store(false);
  w.running = true;
  ++starts;
  w.thread = start_thread(work, &w);
}

/// Joins the threads that have ended. Returns the number of threads that still run.
int reap(self& me, std::deque<worker>& workers, bool restart) {
  int running = 0;
  for (worker& w : workers) {
    if (w.running && w.finished.load()) {
      MUST(pthread_join(w.thread, nullptr));
      w.running = false;
      if (restart) start(w, me.random.next());
    }
    running += w.running ? 1 : 0;
  }
  return running;
}

void one_round(std::uint64_t seed, std::int64_t length) {
  self me(seed);
  const int threads = set.threads != 0 ? set.threads : me.random.between(4, 32);
  auto shared = std::make_unique<shared_objects>(me.random, threads);
  round_plan plan;
  for (int p = 0; p < parts; ++p) {
    if ((set.parts >> p & 1u) == 0) continue;
    const bool common = p <= semaphore_queues;
    plan.weight[p] = common ? me.random.between(0, 30) : p == signals ? 5 : me.random.between(1, 3);
    plan.all += plan.weight[p];
  }
  if (plan.all == 0) return one_round(seed + 1, length);
  std::deque<worker> workers(static_cast<std::size_t>(threads));
  traffic_ended.store(0);
  stopping.store(false);
  std::vector<std::unique_ptr<ticker>> tickers;
  if ((set.parts >> signals & 1u) != 0) {
    target.store(shared.get());
    for (int i = me.random.between(1, 3); i > 0; --i)
      tickers.push_back(std::make_unique<ticker>(me.random.between(500, 5000) * microsecond));
  }
  for (int i = 0; i < threads; ++i) {
    worker& w = workers[static_cast<std::size_t>(i)];
    w.shared = shared.get();
    w.plan = &plan;
    w.slot = i;
    start(w, me.random.next());
  }
  const std::int64_t end = now() + length;
  while (now() < end) {
    nap(2 * millisecond);  // until the next look at ended workers
    reap(me, workers, true);
  }

  stopping.store(true);
  tickers.clear();
  target.store(nullptr);
  while (handlers_inside.load() != 0) nap(100 * microsecond);  // until the next look
  traffic_ended.store(now());
  std::int64_t owed_since = 0;
  const void* owed_object = nullptr;
  long owed_units = 0;
  for (int running; (running = reap(me, workers, false)) > 0; nap(millisecond)) {  // polls
    const standing s = look_at(*shared);
    if (s.owed == nullptr || s.object != owed_object || s.units != owed_units) {
      owed_since = now();
      owed_object = s.object;
      owed_units = s.units;
    } else if (now() - owed_since > set.patience) {
      FAIL("a wake-up was lost: there are %ld %s %p and %d waiters, for %.1f s", s.units, s.owed, s.object,
           s.owed_waiters, static_cast<double>(now() - owed_since) / static_cast<double>(second));
    }
    if (s.owed == nullptr && s.waiters >= running) release_waiters(me, *shared);
  }
  shared->finish();
  REQUIRE(exits == starts, "%ld threads began, %ld ended", starts, exits);
}

int run() {
  install_handlers();
  MUST(pthread_key_create(&key, at_exit));
  const pthread_t watchdog = start_thread(watch, nullptr);
  random_source random(set.seed);
  const std::int64_t begin = now(), end = begin + static_cast<std::int64_t>(set.seconds * 1e9);
  for (std::int64_t left; (left = end - now()) > 20 * millisecond;)
    one_round(random.next(), std::min(left, random.between(200, 1000) * millisecond));
  const double seconds = static_cast<double>(now() - begin) / static_cast<double>(second);
  all_done.store(true);
  MUST(pthread_join(watchdog, nullptr));
  printf("{\"seconds\": %.3f, \"operations\": {", seconds);
  for (int i = 0; i < operations; ++i) printf("%s\"%s\": %ld", i ? ", " : "", operation_names[i], totals[i].load());
  printf("}}\n");
  return 0;
}

const char usage[] =
    "soak [--seed N] [--seconds S] [--threads N] [--patience S] [--parts NAME,...] [--full] [--stay]\n"
    "  --seed      seed of all random choices (default: a new one for each run; printed)\n"
    "  --threads   number of workers (default: 4 to 32, another number in each round)\n"
    "  --patience  seconds within which a thread that is owed a wake-up must proceed (30)\n"
    "  --parts     use only these kinds of traffic\n"
    "  --full      also test guarantees that glibc 2.36 breaks: forked children use conditions on which threads of "
    "their parents\n"
    "              wait; a cancelled waiter for a semaphore consumes no wake-up\n"
    "  --stay      after a failure, wait for a debugger\n";

[[noreturn]] void misused(const char* why) {
  fprintf(stderr, "soak: %s\n%s  parts:", why, usage);
  for (const char* p : part_names) fprintf(stderr, " %s", p);
  fprintf(stderr, "\n");
  exit(2);
}

void read_arguments(int count, char** words) {
  static const option options[] = {{"seed", 1, nullptr, 's'},    {"seconds", 1, nullptr, 't'},
                                   {"threads", 1, nullptr, 'n'}, {"patience", 1, nullptr, 'p'},
                                   {"parts", 1, nullptr, 'o'},   {"full", 0, nullptr, 'f'},
                                   {"stay", 0, nullptr, 'y'},    {nullptr, 0, nullptr, 0}};
  std::uint32_t fresh = 0;
  if (getrandom(&fresh, sizeof fresh, 0) != sizeof fresh) fresh = static_cast<std::uint32_t>(now());
  set.seed = fresh;
  for (int c; (c = getopt_long(count, words, "", options, nullptr)) != -1;) {
    switch (c) {
      case 's':
        set.seed = strtoull(optarg, nullptr, 0);
        break;
      case 't':
        set.seconds = atof(optarg);
        break;
      case 'n':
        set.threads = atoi(optarg);
        break;
      case 'p':
        set.patience = static_cast<std::int64_t>(atof(optarg) * 1e9);
        break;
      case 'f':
        set.full = true;
        break;
      case 'y':
        set.stay = true;
        break;
      case 'o':
        set.parts = 0;
        for (char* name = strtok(optarg, ","); name != nullptr; name = strtok(nullptr, ",")) {
          int p = 0;
          while (p < parts && strcmp(part_names[p], name) != 0) ++p;
          if (p == parts) misused("unknown part");
          set.parts |= 1u << p;
        }
        break;
      default:
        misused("unknown option");
    }
  }
  if (optind != count) misused("one argument too many");
  if (set.seconds <= 0 || set.patience < second || set.threads < 0 || (set.threads > 0 && set.threads < 4) ||
      set.threads > 100)
    misused("seconds more than 0, patience at least 1, threads 4 to 100");
}

}  // namespace
}  // namespace soak

int main(int count, char** words) {
  soak::read_arguments(count, words);
  printf("seed %llu\n", static_cast<unsigned long long>(soak::set.seed));
  fflush(stdout);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  return soak::run();
}
