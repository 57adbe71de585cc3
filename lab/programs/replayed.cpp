// Programs with known results for `usher predict`. Each program runs on a simulated machine and is recorded there with
// few threads. Then it is simulated with more threads and other locks in two ways: the program itself, and a replay of
// its recording.
//
//     replayed --machine FILE --program NAME [--set NAME=N]... --recorded-threads N [--recorded-lock futex]
//              --locks a,b --threads 2,8
//
// prints a line of JSON for each lock and number of threads: lock operations a second of the program and of the replay,
// as median and range over three seeds. With --write FILE it writes the recording for `usher predict`, and compares
// nothing.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/bench/programs/interlock.hpp"
#include "lab/bench/programs/keymap.hpp"
#include "lab/bench/programs/mutexbench.hpp"
#include "lab/bench/programs/throwing.hpp"
#include "lab/predict/prediction.hpp"
#include "lab/predict/replay_plan.hpp"
#include "lab/predict/requeueing_lock.hpp"
#include "lab/recordings/file.hpp"
#include "lab/recordings/recording.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/run_program.hpp"
#include "lab/sim/world.hpp"
#include "usher/core/condition_core.hpp"
#include "usher/core/semaphore_core.hpp"
#include "usher/locks/phase_fair.hpp"

namespace {

namespace sim = usher::sim;
namespace recording = usher::recording;
namespace contract = usher::contract;
using usher::contract::kind;
using usher::contract::verb;
using P = sim::simulated;

// ---- recording -------------------------------------------------------------------------------------------------------

/// Records the calls of a simulated program's threads.
class recorder {
 public:
  /// The simulated time that recording takes, within a call and between calls.
  struct cost {
    std::uint64_t within_ns = 0, between_ns = 0;
  };

  recorder(sim::world& w, unsigned threads, cost c)
      : machine_(w.sim().on()), begin_(w.begin()), end_(w.end()), cost_(c), threads_(threads) {}

  std::uint32_t add(kind kind, std::uint32_t site) {
    made_.objects.emplace_back();
    made_.objects.back().kind = kind;
    made_.objects.back().site = site;
    return std::uint32_t(made_.objects.size() - 1);
  }

  sim::cycles now() const { return sim::simulation::current().now(); }

  /// Notes a call that began at `called` and returns now.
  void note(verb what, std::uint32_t object, sim::cycles called, std::uint32_t other = 0) {
    takes(cost_.within_ns);
    const sim::cycles returned = now();
    of_thread& t = threads_[sim::simulation::current().thread()];
    const bool is_operation =
        what == verb::lock || what == verb::read_lock || what == verb::write_lock || what == verb::semaphore_wait;
    if (returned > begin_ && returned <= end_ && is_operation) operations_++;
    if (called > begin_ && called <= end_) {
      const sim::cycles since = std::max(t.returned, begin_);
      recording::event e;
      e.what = what;
      e.object = object;
      e.other = other;
      e.away = t.away == 0 ? 0 : ns(t, std::min(t.away, called - since));
      e.work = ns(t, called - since - std::min(t.away, called - since));
      e.wait = ns(t, std::min(returned, end_) - called);
      if (t.events.empty()) t.begins = machine_.to_ns(since - begin_);
      (returned <= end_ ? t.events : t.unfinished).push_back(e);
    }
    t.returned = returned;
    t.away = 0;
    takes(cost_.between_ns);
  }
  void sleeps(sim::cycles time) { threads_[sim::simulation::current().thread()].away += time; }

  std::uint64_t operations() const { return operations_; }

  recording::recording made(const std::string& lock, const std::vector<std::string>& roles) {
    made_.machine.cpus = machine_.cpus();
    made_.machine.processor = machine_.title;
    made_.machine.lock = lock;
    made_.machine.call_ns = double(cost_.within_ns + cost_.between_ns);
    made_.machine.between_ns = double(cost_.between_ns);
    // The cost for the machine's most distant pair of CPUs: the first two threads of a run are on two sockets if the
    // machine has several.
    made_.machine.transfer_ns = double(machine_.dirty[machine_.farthest()]) * 1000 / machine_.mhz;
    recording::window w;
    w.length = machine_.to_ns(end_ - begin_);
    for (std::uint32_t t = 0; t < threads_.size(); t++) {
      of_thread& of = threads_[t];
      recording::event last;
      last.what = verb::end;
      last.work = of.returned < end_ ? ns(of, end_ - std::max(of.returned, begin_)) : 0;
      of.events.push_back(last);
      made_.roles.push_back({t, roles[t]});
      w.streams.push_back({t, of.begins, std::move(of.events), false, std::move(of.unfinished)});
    }
    made_.windows.push_back(std::move(w));
    return std::move(made_);
  }

 private:
  struct of_thread {
    std::vector<recording::event> events, unfinished;
    sim::cycles returned = 0, away = 0;
    std::uint64_t begins = 0;
    std::int64_t rest = 0;
  };

  void takes(std::uint64_t ns) const {
    if (ns != 0) sim::simulation::current().compute((ns * machine_.mhz + 500) / 1000);
  }
  /// Converts cycles to nanoseconds. The remainder is added to the thread's next duration, so that short durations are
  /// exact on average.
  std::uint64_t ns(of_thread& t, sim::cycles c) const {
    const std::int64_t exact = std::int64_t(c) * 1000 + t.rest;
    const std::int64_t whole = std::max<std::int64_t>(exact, 0) / machine_.mhz;
    t.rest = exact - whole * machine_.mhz;
    return std::uint64_t(whole);
  }

  const sim::machine machine_;  // a copy: the recording is made after the run
  sim::cycles begin_, end_;
  cost cost_;
  std::vector<of_thread> threads_;
  recording::recording made_;
  std::uint64_t operations_ = 0;
};

/// A `world` (lab/bench/programs/program.hpp) whose locks record their calls.
class recorded_world {
 public:
  using platform = P;
  using block = sim::world::block;
  using generator = sim::world::generator;
  using thread = sim::world::thread;
  template <class T>
  using spaced = sim::world::spaced<T>;

  recorded_world(sim::world& w, recorder& r, const sim::simulated_lock& table, std::map<std::string, long> parameters)
      : world_(w), recorder_(r), table_(table), parameters_(std::move(parameters)) {}

  class recorded_lock {
   public:
    recorded_lock(recorded_world& w, std::uint32_t site, bool has_condition)
        : it_(w.world_.sim().shared(), w.table_, has_condition),
          recorder_(&w.recorder_),
          object_(recorder_->add(kind::mutex, site)) {}
    void lock() {
      const sim::cycles called = recorder_->now();
      it_.lock();
      recorder_->note(verb::lock, object_, called);
    }
    void unlock() {
      const sim::cycles called = recorder_->now();
      it_.unlock();
      recorder_->note(verb::unlock, object_, called);
    }
    void lock_as_guest() { lock(); }

    usher::predict::requeueing_lock& bare() { return it_; }
    std::uint32_t object() const { return object_; }

   private:
    usher::predict::requeueing_lock it_;
    recorder* recorder_;
    std::uint32_t object_;
  };
  using lock = recorded_lock;

  lock make_lock(std::uint32_t site = 0, bool has_condition = false) { return {*this, site, has_condition}; }
  unsigned threads() const { return world_.threads(); }
  long parameter(const char* name) const { return parameters_.at(name); }
  bool admits_guests() const { return false; }
  block make_block(std::uint64_t bytes, std::uint64_t page) { return world_.make_block(bytes, page); }
  template <class T>
  T& make() {
    return world_.make<T>();
  }
  template <class T>
  T* make_array(std::size_t n) {
    return world_.make_array<T>(n);
  }
  template <class T>
  spaced<T> make_spaced(std::size_t n, std::size_t distance, std::uint64_t page) {
    return world_.make_spaced<T>(n, distance, page);
  }
  sim::world& simulated_world() { return world_; }
  recorder& calls() { return recorder_; }
  const sim::simulated_lock& table() const { return table_; }

 private:
  sim::world& world_;
  recorder& recorder_;
  const sim::simulated_lock& table_;
  std::map<std::string, long> parameters_;
};

static_assert(usher::workloads::world<recorded_world>);

// ---- programs with waits ---------------------------------------------------------------------------------------------

using thread = recorded_world::thread;

class condition {
 public:
  condition(recorded_world& w, std::uint32_t site)
      : it_(w.make<usher::basic_condition_variable<P>>()),
        recorder_(w.calls()),
        object_(recorder_.add(kind::condition, site)) {}
  void wait(recorded_world::lock& l) {
    const sim::cycles called = recorder_.now();
    it_.wait(l.bare());
    recorder_.note(verb::wait, object_, called, l.object());
  }
  void signal() {
    const sim::cycles called = recorder_.now();
    it_.notify_one();
    recorder_.note(verb::signal, object_, called);
  }
  void broadcast() {
    const sim::cycles called = recorder_.now();
    it_.notify_all();
    recorder_.note(verb::broadcast, object_, called);
  }

 private:
  usher::basic_condition_variable<P>& it_;
  recorder& recorder_;
  std::uint32_t object_;
};

/// Works for a random time with this mean, from half of it to one and a half of it.
void work(thread& t, long cycles) {
  t.delay(std::uint64_t(cycles) / 2 + t.uniform(std::uint32_t(cycles)));
}

struct known_program {
  virtual ~known_program() = default;
  virtual void operator()(thread& t) = 0;
  virtual void finish(thread&) {}
  /// The role of a thread, as --threads-are or a comparison of the threads' calls would find it.
  virtual std::string role(unsigned) const { return "all"; }
};

/// A benchmark program of `usher sim`, with recorded locks.
template <class Program>
struct of_simulator : known_program {
  explicit of_simulator(recorded_world& w) : it(w) {}
  void operator()(thread& t) override { it(t); }
  Program it;
};

/// Producers and consumers of a bounded queue. Of k threads one produces.
struct bounded_queue : known_program {
  explicit bounded_queue(recorded_world& w)
      : lock(w.make_lock(0, true)),
        not_empty(w, 1),
        not_full(w, 2),
        places(w.parameter("places")),
        inside(w.parameter("inside")),
        produces(w.parameter("produces")),
        consumes(w.parameter("consumes")),
        kinds(unsigned(w.parameter("kinds"))),
        signals_outside(w.parameter("outside") != 0) {}
  std::string role(unsigned t) const override { return t % kinds == 0 ? "producer" : "consumer"; }
  void operator()(thread& t) override {
    const bool is_producer = t.index() % kinds == 0;
    if (is_producer) work(t, produces);
    lock.lock();
    while ((is_producer ? items == places : items == 0) && !t.over()) (is_producer ? not_full : not_empty).wait(lock);
    if (t.over()) return lock.unlock();
    items += is_producer ? 1 : -1;
    t.delay(std::uint64_t(inside));
    condition& other = is_producer ? not_empty : not_full;
    if (!signals_outside) other.signal();
    lock.unlock();
    if (signals_outside) other.signal();
    if (!is_producer) work(t, consumes);
  }
  void finish(thread&) override {
    lock.lock();
    not_empty.broadcast();
    not_full.broadcast();
    lock.unlock();
  }
  recorded_world::lock lock;
  condition not_empty, not_full;
  long places, inside, produces, consumes, items = 0;
  unsigned kinds;
  bool signals_outside;
};

/// Workers take jobs from a queue; each job adds `jobs` of new ones in every thousand, and there are always a few.
struct job_queue : known_program {
  explicit job_queue(recorded_world& w)
      : lock(w.make_lock(0, true)),
        not_empty(w, 1),
        inside(w.parameter("inside")),
        outside(w.parameter("outside")),
        jobs(w.parameter("jobs")) {}
  void operator()(thread& t) override {
    lock.lock();
    while (jobs == 0 && !t.over()) not_empty.wait(lock);
    if (t.over()) return lock.unlock();
    jobs--;
    t.delay(std::uint64_t(inside));
    lock.unlock();
    work(t, outside);
    lock.lock();
    jobs++;
    t.delay(std::uint64_t(inside));
    not_empty.signal();
    lock.unlock();
  }
  void finish(thread&) override {
    lock.lock();
    not_empty.broadcast();
    lock.unlock();
  }
  recorded_world::lock lock;
  condition not_empty;
  long inside, outside, jobs;
};

/// A leader opens rounds by a broadcast; workers do a part of a round each, with a lock, and the last of them calls the leader.
struct rounds : known_program {
  explicit rounds(recorded_world& w)
      : lock(w.make_lock(0, true)),
        opened(w, 1),
        done(w, 2),
        inside(w.parameter("inside")),
        outside(w.parameter("outside")),
        workers(w.threads() - 1) {}
  std::string role(unsigned t) const override { return t == 0 ? "leader" : "worker"; }
  void operator()(thread& t) override {
    if (t.index() == 0) {
      lock.lock();
      round++;
      left = workers;
      opened.broadcast();
      while (left != 0 && !t.over()) done.wait(lock);
      lock.unlock();
      work(t, outside);
      return;
    }
    lock.lock();
    while (seen[t.index()] == round && !t.over()) opened.wait(lock);
    seen[t.index()] = round;
    lock.unlock();
    if (t.over()) return;
    work(t, outside);
    lock.lock();
    t.delay(std::uint64_t(inside));
    if (--left == 0) done.signal();
    lock.unlock();
  }
  void finish(thread&) override {
    lock.lock();
    opened.broadcast();
    done.broadcast();
    lock.unlock();
  }
  recorded_world::lock lock;
  condition opened, done;
  long inside, outside;
  unsigned workers, left = 0;
  std::uint64_t round = 0;
  std::map<unsigned, std::uint64_t> seen;
};

/// Threads use one of a few connections, which a semaphore counts, and count their uses under a lock.
struct connections : known_program {
  using core = usher::semaphore_core<P>;
  explicit connections(recorded_world& w)
      : lock(w.make_lock()),
        calls(w.calls()),
        object(calls.add(kind::semaphore, 1)),
        credits(w.make<core>()),
        inside(w.parameter("inside")),
        uses(w.parameter("uses")),
        outside(w.parameter("outside")) {
    std::destroy_at(&credits);
    ::new (&credits) core(std::uint32_t(w.parameter("credits")));
  }
  void operator()(thread& t) override {
    sim::cycles called = calls.now();
    if (!credits.try_acquire()) {
      P::local<core::waiter> me;
      credits.wait(*me, {}, [&] {
        P::park(me->state, core::waiter::waiting, usher::every_sleeper);
        return core::wait_end::woken;
      });
    }
    calls.note(verb::semaphore_wait, object, called);
    work(t, uses);
    called = calls.now();
    credits.release();
    calls.note(verb::semaphore_post, object, called);
    lock.lock();
    t.delay(std::uint64_t(inside));
    lock.unlock();
    work(t, outside);
  }
  recorded_world::lock lock;
  recorder& calls;
  std::uint32_t object;
  core& credits;
  long inside, uses, outside;
};

/// Threads lock one of several locks, one of them more often than the others. A share of the sections is long. In a
/// share of the sections the thread locks a second lock, always one with a higher number. Between sections a thread may
/// sleep.
struct mixed : known_program {
  explicit mixed(recorded_world& w)
      : calls(w.calls()),
        inside(w.parameter("inside")),
        outside(w.parameter("outside")),
        hot(w.parameter("hot")),
        longer(w.parameter("long")),
        nested(w.parameter("nested")),
        sleeps(w.parameter("sleeps")),
        own(w.parameter("own")) {
    for (long i = 0; i < w.parameter("locks"); i++) locks.push_back(w.make_lock());
  }
  void operator()(thread& t) override {
    // With `own` a thread uses only two locks, each of which a neighbouring thread uses, too.
    const auto n = std::uint32_t(locks.size());
    std::uint32_t first = t.uniform(1000) < std::uint32_t(hot) ? 0 : t.uniform(n);
    if (own != 0) first = (t.index() + t.uniform(2)) % n;
    recorded_world::lock& l = locks[first];
    l.lock();
    t.delay(std::uint64_t(t.uniform(1000) < std::uint32_t(longer) ? 20 * inside : inside));
    if (first + 1 < n && t.uniform(1000) < std::uint32_t(nested)) {
      recorded_world::lock& second = locks[first + 1 + t.uniform(n - first - 1)];
      second.lock();
      t.delay(std::uint64_t(inside));
      second.unlock();
    }
    l.unlock();
    if (sleeps != 0) {
      const sim::cycles before = calls.now();
      sim::simulation::current().nap(sim::cycles(sleeps / 2) + t.uniform(std::uint32_t(sleeps)));
      calls.sleeps(calls.now() - before);
    }
    work(t, outside);
  }
  recorder& calls;
  std::vector<recorded_world::lock> locks;
  long inside, outside, hot, longer, nested, sleeps, own;
};

/// Threads read under a read-write lock, sometimes write under it, and then count under the measured lock.
struct readers : known_program {
  using kind = usher::phase_fair<P, usher::waiting<P, usher::waiting_kind::spin_then_park>>;
  explicit readers(recorded_world& w)
      : lock(w.make_lock()),
        calls(w.calls()),
        object(calls.add(contract::kind::rwlock, 1)),
        shared(w.make<kind>()),
        inside(w.parameter("inside")),
        outside(w.parameter("outside")),
        writes(w.parameter("writes")) {}
  void operator()(thread& t) override {
    const bool reads = t.uniform(1000) >= std::uint32_t(writes);
    sim::cycles called = calls.now();
    reads ? shared.lock_shared() : shared.lock();
    calls.note(reads ? verb::read_lock : verb::write_lock, object, called);
    t.delay(std::uint64_t(inside));
    called = calls.now();
    reads ? shared.unlock_shared() : shared.unlock();
    calls.note(verb::read_write_unlock, object, called);
    lock.lock();
    t.delay(std::uint64_t(inside));
    lock.unlock();
    work(t, outside);
  }
  recorded_world::lock lock;
  recorder& calls;
  std::uint32_t object;
  kind& shared;
  long inside, outside, writes;
};

// ---- runs ------------------------------------------------------------------------------------------------------------

using parameters = std::map<std::string, long>;

template <class Program>
std::unique_ptr<known_program> made(recorded_world& w) {
  return std::make_unique<Program>(w);
}

struct entry {
  parameters defaults;
  std::unique_ptr<known_program> (*make)(recorded_world& w);
};

template <class Program>
entry simulators() {
  parameters p;
  for (const auto& one : Program::about().parameters) p[one.name] = one.value;
  return {p, made<of_simulator<Program>>};
}

const std::map<std::string, entry>& programs() {
  static const std::map<std::string, entry> all{
      {"mutexbench", simulators<usher::workloads::mutexbench<recorded_world>>()},
      {"interlock", simulators<usher::workloads::interlock<recorded_world>>()},
      {"throwing", simulators<usher::workloads::throwing<recorded_world>>()},
      {"keymap", simulators<usher::workloads::keymap<recorded_world>>()},
      {"bounded_queue",
       {{{"places", 16}, {"inside", 300}, {"produces", 3000}, {"consumes", 3000}, {"kinds", 2}, {"outside", 0}},
        made<bounded_queue>}},
      {"job_queue", {{{"inside", 200}, {"outside", 4000}, {"jobs", 8}}, made<job_queue>}},
      {"rounds", {{{"inside", 200}, {"outside", 20000}}, made<rounds>}},
      {"connections", {{{"inside", 200}, {"uses", 5000}, {"outside", 2000}, {"credits", 3}}, made<connections>}},
      {"mixed",
       {{{"locks", 1},
         {"inside", 300},
         {"outside", 3000},
         {"hot", 0},
         {"long", 0},
         {"nested", 0},
         {"sleeps", 0},
         {"own", 0}},
        made<mixed>}},
      {"readers", {{{"inside", 300}, {"outside", 3000}, {"writes", 50}}, made<readers>}}};
  return all;
}

struct options {
  std::string machine, program, recorded_lock = "futex";
  parameters set;
  unsigned recorded_threads = 2, seeds = 3;
  double recorded_ms = 10;
  int lines = -2;  ///< number of moved lines; -2: both limits of the estimates
  std::vector<std::string> locks;
  std::vector<unsigned> threads;
  recorder::cost cost;  ///< simulated cost of recording
  bool facts = false;
  std::string write;  ///< file for the recording; if given, nothing is compared
};

struct outcome {
  double operations_per_second = 0;
  bool settled = true;
  recording::recording recorded;
};

outcome run(const sim::machine& m, const entry& e, const options& o, const sim::point& p, bool records) {
  const sim::simulated_lock* const table = sim::find_simulated_lock(p.lock);
  if (table == nullptr) throw std::runtime_error("there is no lock " + p.lock);
  parameters set = e.defaults;
  for (const auto& [name, value] : o.set) {
    if (!set.contains(name)) throw std::runtime_error("the program has no parameter " + name);
    set[name] = value;
  }
  std::unique_ptr<recorder> calls;
  std::unique_ptr<recorded_world> world;
  std::unique_ptr<known_program> program;
  std::vector<std::string> roles;
  const usher::workloads::compiled_program<sim::world> compiled{
      {.name = "known", .summary = "", .source = "", .parameters = {}, .one_lock = false},
      [&](sim::world& w) -> std::function<void(sim::world::thread&)> {
        calls = std::make_unique<recorder>(w, p.threads, records ? o.cost : recorder::cost{});
        world = std::make_unique<recorded_world>(w, *calls, *table, set);
        program = e.make(*world);
        for (unsigned t = 0; t < p.threads; t++) roles.push_back(program->role(t));
        return [&](sim::world::thread& t) {
          while (!t.over()) {
            (*program)(t);
            t.count();
          }
          program->finish(t);
        };
      },
      nullptr};
  outcome made;
  const sim::result r = sim::run_program(m, p, compiled);
  made.settled = r.settled;
  made.operations_per_second = double(calls->operations()) / double(p.run_ns) * 1e9;
  if (records) made.recorded = calls->made(p.lock, roles);
  return made;
}

struct median_and_range {
  double median, least, most;
};

median_and_range summary(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return {v[v.size() / 2], v.front(), v.back()};
}

void compare(const options& o) {
  const sim::machine m = sim::read_machine(o.machine);
  const entry& e = programs().at(o.program);
  sim::point p;
  p.lock = o.recorded_lock;
  p.threads = o.recorded_threads;
  p.run_ns = std::uint64_t(o.recorded_ms * 1e6);
  p.seed = 1000;  // differs from the seeds of the comparison
  const outcome recorded = run(m, e, o, p, true);
  if (!o.write.empty()) return recording::write_recording(recorded.recorded, o.write);
  const usher::predict::plan_changes changes;
  const usher::predict::replay_plan plan = usher::predict::make_plan(recorded.recorded, changes);
  if (o.facts) {
    for (const auto& s : plan.slots)
      std::printf("# slot of %zu: %llu operations, %.0f ns a section, lines %.2f to %.2f\n", s.objects.size(),
                  static_cast<unsigned long long>(s.operations),
                  s.operations == 0 ? 0 : double(s.section_ns) / double(s.operations), s.least_lines, s.most_lines);
    for (const auto& [object, f] : plan.semaphores)
      std::printf("# semaphore: %llu waits, %llu posts, %u at first\n", static_cast<unsigned long long>(f.waits),
                  static_cast<unsigned long long>(f.posts), f.at_first);
    for (const auto& c : plan.conditions)
      if (c.waits + c.signals != 0)
        std::printf("# condition: rule %d, %llu waits, %llu unknown, %llu signals, %u at first\n", int(c.rule),
                    static_cast<unsigned long long>(c.waits), static_cast<unsigned long long>(c.unknown),
                    static_cast<unsigned long long>(c.signals), c.at_first);
  }
  const auto limits = o.lines >= -1 ? std::vector<usher::predict::lines_option>{{false, o.lines}}
                                    : std::vector<usher::predict::lines_option>{{false, -1}, {true, -1}};
  for (const std::string& lock : o.locks)
    for (const unsigned threads : o.threads) {
      p.lock = lock;
      p.threads = threads;
      p.run_ns = usher::predict::usual_prediction_ns(m, plan, changes, p);
      std::vector<double> actual, predicted;
      bool settled = true;
      double tokens = 0;
      for (p.seed = 1; p.seed <= o.seeds; p.seed++) {
        const outcome was = run(m, e, o, p, false);
        actual.push_back(was.operations_per_second);
        settled = settled && was.settled;
        for (const auto& l : limits) {
          const auto is = usher::predict::predict_point(m, plan, changes, p, l);
          predicted.push_back(is.operations_per_second);
          tokens = is.token_share;
        }
      }
      const median_and_range a = summary(actual), b = summary(predicted);
      std::printf(
          R"({"lock": "%s", "threads": %u, "ms": %.1f, "actual": [%.0f, %.0f, %.0f], "predicted": [%.0f, %.0f, %.0f], "settled": %s, "token_share": %.3f})"
          "\n",
          lock.c_str(), threads, double(p.run_ns) / 1e6, a.median, a.least, a.most, b.median, b.least, b.most,
          settled ? "true" : "false", tokens);
      std::fflush(stdout);
    }
}

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    all.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return all;
}

options read(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    if (name == "--facts") {
      o.facts = true;
      continue;
    }
    if (++i == argc) throw std::runtime_error(name + " has no value");
    const std::string value = argv[i];
    if (name == "--machine") {
      o.machine = value;
    } else if (name == "--program") {
      o.program = value;
    } else if (name == "--set") {
      const std::size_t sign = value.find('=');
      if (sign == std::string::npos) throw std::runtime_error("--set NAME=N");
      o.set[value.substr(0, sign)] = std::stol(value.substr(sign + 1));
    } else if (name == "--recorded-threads") {
      o.recorded_threads = unsigned(std::stoul(value));
    } else if (name == "--write") {
      o.write = value;
    } else if (name == "--recorded-lock") {
      o.recorded_lock = value;
    } else if (name == "--recorded-ms") {
      o.recorded_ms = std::stod(value);
    } else if (name == "--cost-within") {
      o.cost.within_ns = std::stoul(value);
    } else if (name == "--cost-between") {
      o.cost.between_ns = std::stoul(value);
    } else if (name == "--seeds") {
      o.seeds = unsigned(std::stoul(value));
    } else if (name == "--lines") {
      o.lines = std::stoi(value);
    } else if (name == "--locks") {
      o.locks = parts(value);
    } else if (name == "--threads") {
      for (const std::string& part : parts(value)) o.threads.push_back(unsigned(std::stoul(part)));
    } else {
      throw std::runtime_error("unknown option " + name);
    }
  }
  if (!programs().contains(o.program)) throw std::runtime_error("there is no program '" + o.program + "'");
  return o;
}

}  // namespace

int main(int argc, char** argv) try {
  compare(read(argc, argv));
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "replayed: %s\n", e.what());
  return 1;
}
