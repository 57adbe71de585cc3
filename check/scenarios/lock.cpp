// The scenarios of locks: one program with several sets of random events. Each thread acquires the lock twice and adds
// one to a plain counter. The thread with the last acquisition ends the lock's life after its unlock has returned. The
// life of a lock with `touched_after_hand_over` ends after all threads.
//
// `progress`, for locks without starvation: one thread acquires the lock once, and the others acquire it repeatedly
// until that thread has it. The schedule is as unfavourable to that thread as fairness allows (checker_scheduler.hpp).
// If other threads can keep a thread from the lock's doorway, the schedule is unfavourable only after the doorway. An
// owner unlocks only when others wait, the clock may leap or creep, and random draws are unfavourable to the thread. No
// wake-up is spurious. All scenarios check the bounds on bypass; in this one a waiter can be overtaken often.
//
// `outrun`: `progress` against an adversary. The thread loses every race that it can lose (`beats`), or runs only while
// others hold the lock and wait for it (`late`), so that luck cannot end its wait (checker_scheduler.hpp).
//
// `due`, for locks with unlock_is_due(): an owner keeps the lock while others wait, until the lock says that an unlock
// is due. Requeued threads that hand the mutex to each other behave like such an owner.
//
// `freed`, for locks with timed waiters beside them: one thread has no deadline. The others have deadlines that never
// come, and one of them always waits. Every second unlock must free the lock.
//
// `served`, for locks with timed waiters beside them: one or two threads have deadlines that never come, the others
// have none. At every second unlock, a thread with a deadline must get the lock.
//
// `forked`: the process forks at any moment. At the fork, thread 0 is outside the lock's operations and may own the
// lock. In the child thread 0 renews the lock as libusher.so renews a mutex, and continues with the child's own
// threads.
//
// `stopped`, for locks that promise it: a thread that waits stops for good, after any of its steps. The others go on.
//
// `ranks`, for locks that promise it: threads have priorities. Threads that sleep when the owner unlocks must be
// admitted by priority.
#include "check/engine/checked_lock.hpp"
#include "check/engine/explore.hpp"
#include "usher/core/timed_waiters.hpp"

namespace usher::check {
namespace {

struct scenario {
  const char* name;
  chances let;
  bool tries = false;   ///< some acquisitions use try_lock
  bool timed = false;   ///< some have a deadline, beside the lock: core/timed_waiters.hpp
  bool guests = false;  ///< some are guests, if the lock has them
  bool progress = false;
  bool ranks = false;   ///< threads have priorities
  bool served = false;  ///< one or two threads have deadlines, and others never leave the lock free
  bool freed = false;   ///< one thread has no deadline, and others with deadlines never leave the lock free
  bool outrun = false;
  bool due = false;
  bool forked = false;
  bool stopped = false;  ///< a thread that waits does not go on
};

// In the scenario `plain` there are no spurious wake-ups: only the lock itself wakes a sleeper.
constexpr scenario scenarios[] = {
    {.name = "plain", .let = {}},
    {.name = "stray", .let = {.stray_wakes = 2}},
    {.name = "try", .let = {.stray_wakes = 1}, .tries = true},
    {.name = "timed", .let = {}, .tries = true, .timed = true},
    {.name = "no-nodes", .let = {.refused_nodes = 2}, .guests = true},
    {.name = "progress", .let = {.adverse = true}, .progress = true},
    {.name = "ranks", .let = {}, .ranks = true},
    {.name = "forked", .let = {}, .tries = true, .guests = true, .forked = true},
    {.name = "served", .let = {.adverse = true}, .progress = true, .served = true},
    {.name = "freed", .let = {.adverse = true}, .progress = true, .freed = true},
    {.name = "outrun", .let = {.adverse = true}, .progress = true, .outrun = true},
    {.name = "due", .let = {}, .due = true},
    {.name = "stopped", .let = {}, .tries = true, .stopped = true},
};

/// Returns whether the lock makes the promise that the scenario checks.
bool concerns(const scenario& c, const checked_lock& l) {
  if (c.served) return l.lock_with_deadline != nullptr;
  if (c.freed) return l.is_had_when_freed;
  if (c.due) return l.unlock_is_due != nullptr;
  if (c.progress) return l.traits->starvation_free;
  if (c.ranks) return l.traits->by_priority;
  if (c.stopped) return l.goes_past_stopped;
  return true;
}

/// Returns four threads for locks whose waiters are in lists or overtake each other: a third waiter can then arrive,
/// leave or be passed over between two others. Returns three for all other locks.
unsigned usual_threads(const checked_lock& l) {
  const lock_traits& t = *l.traits;
  if (t.context || t.restricts || t.by_priority) return 4;
  if (!t.fifo && (t.starvation_free || t.bypass != unbounded)) return 4;
  // The traits do not show some other locks that need four threads: nodes on stacks or for few waiters, distant waiters
  // that share a slot, large locks in a pool, timed waiters.
  for (const char* name : {"k42", "qspinlock", "twa", "awn", "c-", "inflatable-", "timed-", "tkt-dual-batch"})
    if (l.family.starts_with(name)) return 4;
  return 3;
}

// The parameters of the programs below. They are global because relacy constructs programs without arguments.
const checked_lock* the_lock;
const scenario* the_scenario;

/// The lock's memory and the timed waiters' word beside it. The last owner ends the life of both.
struct object {
  alignas(128) std::array<std::byte, room_for_target> lock;
  checked::atomic<std::uint32_t> timed_waiters;
};

template <rl::thread_id_t Threads>
struct program : rl::test_suite<program<Threads>, Threads> {
  using timed_waiters = timed_waiter_count<checked>;

  program() {
    the_lock->make(state());
    world.name(state(), the_lock->size, "lock");
    world.name(it.timed_waiters, "gate");
    world.name(acquired, "acquired");
    world.name(is_in, "is_in");
    // In half of the executions, the lock's numbers wrap, at one of several widths.
    if (the_lock->count_from != nullptr)
      if (const std::uint32_t n = std::array{0u, 0u, 0u, 0u - 1 - rl::rand(8), 0x7ffffffeu, 0x7ffeu}[rl::rand(6)];
          n != 0)
        the_lock->count_from(state(), n);
    // In half of the executions, the lock's waiters expect holds for which polling does not pay.
    if (the_lock->expect_holds != nullptr && rl::rand(2) == 0) the_lock->expect_holds(state(), 4000);
    // A lock begins its search for a slot at the thread's index. In half of the executions the threads have the indices
    // of the last slots, so that the search wraps to the first slot.
    if (const int slots = the_lock->traits->bypass + 1; slots > int(Threads) && rl::rand(2) == 0)
      world.number_threads_from(std::uint32_t(slots) - Threads);
    the_search.held_back = rl::rand(Threads);
    crowd = the_scenario->ranks ? 0 : rl::rand(Threads + 1);
    stays_home = the_scenario->progress && Threads > 2 && rl::rand(3) == 0
                     ? (the_search.held_back + 1 + rl::rand(Threads - 1)) % Threads
                     : nobody;
    if (the_scenario->served || the_scenario->freed) world.count_all();
    if (the_scenario->due || the_scenario->outrun || the_scenario->stopped) world.run_timers();
    if (the_scenario->outrun) {
      stays_home = nobody;
      the_search.against = rl::rand(2) == 0 ? search::adversary::beats : search::adversary::late;
      the_search.reads_newest = rl::rand(2) == 0;
      // Against `beats`, half of the executions have only one other thread that competes. The held-back thread then
      // takes steps only while the lock is free, as it is whenever the other thread is outside.
      the_search.if_free = one_other = the_search.against == search::adversary::beats && rl::rand(2) == 0;
    }
    if (has_no_table_of_nodes() && rl::rand(4) == 0) world.number_nodes_from(15);
    second_timed = (the_search.held_back + Threads - 1) % Threads;
    if (stays_home == second_timed || Threads == 2) second_timed = the_search.held_back;
    if (the_scenario->ranks)
      for (unsigned t = 0; t < Threads; t++) world.set_priority(t, rl::rand(3));
    if (the_scenario->forked) prepare_fork();
    const lock_traits& traits = *the_lock->traits;
    // While it is not inflated, an inflatable lock calls P::doorway() itself, so no exchange on its word counts as the
    // doorway: size 0. While it is inflated, the first exchange on the large lock's state may be the doorway.
    const bool is_inflatable = the_lock->family.starts_with("inflatable-");
    world.promise({.lock = state(),
                   .size = is_inflatable ? 0 : the_lock->size,
                   .most_overtaking = most_overtaking(),
                   .first_exchange_is_doorway = traits.fifo && (is_inflatable || traits.bounded_doorway),
                   .says_doorway = !traits.fifo && !traits.bounded_doorway,
                   .fifo_leaders = traits.fifo_leaders});
    world.watch(0, {&it, sizeof it, "the lock's last owner ends it while another thread may still touch it",
                    "the lock is touched after the end of its life"});
  }
  ~program() {
    world.watch_nothing();
    the_lock->end(state());
  }

  void thread(unsigned t) {
    if (the_scenario->forked) return world.run([&] { t == 0 ? fork_once() : acquire_in_turn(); });
    if (the_scenario->stopped) return world.run([&] { acquire_and_stop(t); });
    if (t == stays_home || (one_other && t != the_search.held_back && t != (the_search.held_back + 1) % Threads))
      return world.goes_home();
    if (the_scenario->served && t == second_timed && t != the_search.held_back)
      return come_with_deadline(), world.goes_home();
    if (the_scenario->progress) return t == the_search.held_back ? come_once() : come_again();
    for (unsigned i = 0; i < acquisitions; i++) {
      acquire();
      const std::uint32_t n = acquired.get() + 1;
      acquired.set(n);
      world.gather(crowd, nobody);
      if (the_scenario->due && rl::rand(2) == 0) stay_until_due();
      if (the_lock->has_certain_successor != nullptr && the_lock->has_certain_successor(state()) &&
          n == Threads * acquisitions)
        fail("has_certain_successor() is true, and no other thread comes");
      if (the_lock->unlock_is_due != nullptr && n == Threads * acquisitions && the_lock->unlock_is_due(state()))
        fail("unlock_is_due() is true, and no other thread comes");
      release();
      if (n == Threads * acquisitions) {
        if (crowd == 0) expect_free();
        end_life();
      }
    }
    world.goes_home();
  }

  void after() {
    if (!the_scenario->progress && acquired.get() != in_all) fail("acquisitions are missing");
    if (the_scenario->stopped && in_all != Threads * acquisitions) return;  // its node stays in use
    if (!world.all_nodes_free()) fail("a node was not given back", rl::test_result_resource_leak, place::current());
    if (!world.inflated_is_free() && !inflated_lost)
      fail("a large lock did not go back to the pool", rl::test_result_resource_leak, place::current());
  }

 private:
  void* state() { return it.lock.data(); }

  int most_overtaking() {
    const lock_traits& t = *the_lock->traits;
    if (t.fifo || t.fifo_leaders) return 0;
    // In a lock with a slot for each waiter, the thread of each other slot may bypass a waiter once. count_limit() may
    // leave only a few slots.
    const int slots = t.bypass + 1;
    return slots > int(execution::most_threads) ? int(world.count_limit(std::uint32_t(slots))) - 1 : t.bypass;
  }

  void come_once() {
    if (the_scenario->served) {
      come_with_deadline();
      the_lock->lock_with_deadline(state());
    } else if (the_scenario->freed) {
      world.wants(true);
      the_search.favoured = true;
      the_lock->lock_without_deadline(state());
      the_search.favoured = false;
    } else {
      world.wants(true);
      the_search.helped = !the_lock->traits->bounded_doorway && the_search.against != search::adversary::late;
      the_lock->lock(state());
      the_search.helped = false;
    }
    is_in.set(1);
    the_lock->unlock(state());
    world.goes_home();
  }

  void come_with_deadline() {
    for (unsigned i = 0; i < 3; i++) {
      world.wants(true);
      the_lock->lock_with_deadline(state());
      world.wants(false);
      passes = 0;
      the_lock->unlock(state());
    }
    world.wants(true);
  }

  void come_again() {
    for (bool over = false; !over;) {
      if (the_scenario->outrun) rl::yield(1, info(place::current()));
      the_search.inside++;
      world.wants(true);
      the_scenario->served  ? the_lock->lock_without_deadline(state())
      : the_scenario->freed ? the_lock->lock_with_deadline(state())
                            : the_lock->lock(state());
      world.wants(false);
      over = is_in.get() != 0;
      // A thread has announced itself before its second sleep: (4) in timed_waiters.hpp. After that at most three
      // others may acquire: the owner, one after an unlock that had checked before the announcement, and one more.
      if (the_scenario->served && (world.sleeps(the_search.held_back) > 1 || world.sleeps(second_timed) > 1) &&
          ++passes > 3)
        fail("a thread with a deadline waits, and none is served at each second unlock");
      // Every second unlock must free the lock. Then the held-back thread, which has no deadline, runs as soon as it
      // can: only threads that were granted the lock earlier may acquire it in between.
      if (the_scenario->freed && !over && world.is_waiting(the_search.held_back) && ++passes > 8)
        fail("a thread without a deadline waits, and the lock is not freed at each second unlock");
      the_search.held = true;  // the scheduler reads it, the program does not
      acquired.set(acquired.get() + 1);
      if (!over) world.gather(crowd, the_search.held_back);
      if (the_scenario->outrun) {
        the_search.turn = the_lock->traits->bounded_doorway ? 1 : 4;
        rl::yield(1, info(place::current()));
        the_search.turn = 0;  // the wake-up by the unlock must not begin a turn
      }
      the_search.held = false;
      the_lock->unlock(state());
      the_search.inside--;
    }
    world.goes_home();
  }

  /// Keeps the lock until an unlock is due, while others wait. Requeued threads could keep a mutex in the same way, by
  /// hand-overs without end, if its lock never said that an unlock is due.
  void stay_until_due() {
    bool others_wait = false;
    for (unsigned t = 0; t < Threads; t++) others_wait |= t != rl::thread_index() && world.is_waiting(t);
    while (others_wait && !the_lock->unlock_is_due(state())) {
      checked::now();
      checked::backoff(0);
    }
  }

  /// Returns false for locks whose table has an entry for each NUMA node: cohort locks, which do not define both
  /// functions, and loiter-cohort.
  static bool has_no_table_of_nodes() {
    return the_lock->unlock_is_due != nullptr && the_lock->has_certain_successor != nullptr &&
           !the_lock->family.starts_with("loiter-cohort");
  }

  // ---- forked -----------------------------------------------------------------------------------------------

  /// Draws the time of the fork, and whether each thread belongs to the parent or the child. Thread 1 belongs to the
  /// parent.
  void prepare_fork() {
    unsigned of_child = 1;
    for (unsigned t = 2; t < Threads; t++)
      if (rl::rand(2) == 0) {
        world.begins_after(t, 1);
        of_child++;
      }
    in_all = of_child * acquisitions;
    forks_at = rl::rand(2 * acquisitions + 1);
  }

  void fork_once() {
    for (unsigned i = 0;; i++) {
      if (forks_at == 2 * i) return go_on_in_child(false);
      acquire();
      acquired.set(acquired.get() + 1);
      if (forks_at == 2 * i + 1) return go_on_in_child(true);
      release();
    }
  }

  void go_on_in_child(bool holding) {
    world.fork(node_pool::anew);
    inflated_lost = !world.inflated_is_free();
    the_lock->end(state());
    the_lock->make(state());  // the child finds zero bytes
    if (holding)
      while (!the_lock->try_lock(state())) checked::backoff(0);
    acquired.set(0);
    world.start_threads();
    if (holding) count_and_release();
    acquire_in_turn(holding ? 1 : 0);
  }

  /// Makes the thread's remaining acquisitions. `done`: its acquisitions so far.
  void acquire_in_turn(unsigned done = 0) {
    const bool in_parent = world.forks() == 0;
    for (unsigned i = done; i < acquisitions; i++) {
      acquire();
      if (!in_parent) {
        count_and_release();
        continue;
      }
      acquired.set(acquired.get() + 1);
      release();
    }
  }

  void count_and_release() {
    const std::uint32_t n = acquired.get() + 1;
    acquired.set(n);
    release();
    if (n == in_all) end_life();
  }

  // ---- stopped ----------------------------------------------------------------------------------------------

  /// The stopping thread owns the lock, so the one that it stops does not.
  void acquire_and_stop(unsigned t) {
    for (unsigned i = 0; i < acquisitions; i++) {
      acquire();
      acquired.set(acquired.get() + 1);
      done[t]++;
      for (unsigned steps = rl::rand(16); steps > 0; steps--) checked::backoff(0);  // the others go on with their waits
      if (const unsigned other = the_search.held_back; other != t && rl::rand(2) == 0 && world.stop(other))
        in_all = (Threads - 1) * acquisitions + done[other];
      release();
    }
    world.goes_home();
  }

  // ---- all --------------------------------------------------------------------------------------------------

  /// Called by the last owner, after its unlock. The memory of a lock that is touched after the hand-over lives longer.
  void end_life() {
    if (!the_lock->touched_after_hand_over) world.end_of(0);
  }

  /// Called by the last owner, after its unlock. The lock must be free: no thread is left to which it could have been
  /// handed over.
  void expect_free() {
    if (the_lock->unlock_is_due == nullptr) return;
    if (!the_lock->try_lock(state())) fail("no thread has the lock, and it is not free");
    the_lock->unlock(state());
  }

  void acquire() {
    world.wants(true);
    acquire_somehow();
    world.wants(false);
  }

  void acquire_somehow() {
    if (the_scenario->tries && rl::rand(2) == 0)
      for (int i = 0; i < 2; i++)
        if (the_lock->try_lock(state())) return;
    if (the_scenario->timed && rl::rand(2) == 0) {
      const lock_handle l{the_lock, state()};
      // The time runs out at once or in the first sleep. Then the thread leaves, so that a lost wake-up is not hidden
      // by a later attempt.
      unsigned left = rl::rand(2);
      if (timed_waiters::lock(l, it.timed_waiters, [&]() -> std::uint64_t { return left == 0 ? 0 : left--; })) return;
    }
    if (the_scenario->guests && the_lock->lock_as_guest != nullptr && rl::rand(2) == 0)
      return the_lock->lock_as_guest(state());
    the_lock->lock(state());
  }

  /// Like timed_mutex::unlock().
  void release() {
    if (the_scenario->ranks) world.let_sleepers_in_by_priority();
    if (!the_scenario->timed || !timed_waiters::has_waiters(it.timed_waiters)) return the_lock->unlock(state());
    const lock_handle l{the_lock, state()};
    timed_waiters::unlock(l, it.timed_waiters);
  }

  static constexpr unsigned nobody = Threads;

  execution world{the_scenario->let, Threads};
  object it;
  checked::plain<std::uint32_t> acquired, is_in;
  std::uint32_t in_all = Threads * acquisitions;
  unsigned forks_at = 0;
  std::array<unsigned, Threads> done{};  ///< stopped: acquisitions so far
  bool inflated_lost = false;
  unsigned crowd = 0;  ///< an owner keeps the lock until this number of threads wait, or all
  unsigned stays_home = nobody;
  bool one_other = false;
  unsigned second_timed = the_search.held_back;  ///< served: also locks a few times with a deadline
  unsigned passes = 0;                           ///< others in a row, while the thread under test waits
};

}  // namespace

std::vector<target> lock_targets() {
  std::vector<target> all;
  for (const checked_lock& l : checked_locks()) {
    target s{.name = l.name,
             .mutation = l.mutation,
             .header = {},
             .size = l.size,
             .scenarios = {},
             .explore = {},
             .family = l.family,
             .usual_threads = usual_threads(l)};
    const auto asked = select_scenarios(s, scenarios, [&l](const scenario& c) { return concerns(c, l); });
    s.explore = [&l, asked](unsigned c, unsigned threads, options o) {
      the_lock = &l;
      the_scenario = asked[c];
      o.fair = the_scenario->progress;
      return explore<program>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
