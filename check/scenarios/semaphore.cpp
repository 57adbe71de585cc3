// The scenarios of semaphores. Threads wait by semaphore_core::wait(), as in libusher.so; only *in-turn* and half of
// the executions of *progress* call the steps of wait() one by one.
//
// - Mutex: the semaphore has one credit. Each thread acquires it twice, in any manner, and adds one to a plain counter.
//   The thread with the last acquisition ends the semaphore's life at once, although others may still be inside
//   release().
// - Credits: *takers* wait without a limit until each has its credits; *posters* release as many credits; *victims*
//   time out or are cancelled, and release a credit that they got. A credit that is lost or swallowed causes a
//   deadlock. Surplus credits are found at the end.
// - Maximum: no thread waits. A release beyond the greatest number must be refused.
// - Ranks: threads with priorities fall asleep one after the other; then as many credits are released as threads wait.
//   The threads must wake by priority, and threads of one priority in the order of their arrival.
// - In-turn: random threads execute operations one at a time. A sequential model predicts the state of each waiter: the
//   order of the list with leavers, returning waiters and priorities; the number of notified waiters; the grants.
// - Progress: the semaphore has one credit. One thread waits for it; the others never wait, and take it first
//   repeatedly. A notified thread that finds no credit and has waited for more than 1 ms must get the next released
//   credit. No thread tries between the two steps of a release, because the promise does not cover that case.
// - Forked: the process forks at any moment. At the fork, the forking thread is outside all operations, or sleeps in
//   the list while a signal handler forks. From then on the credits belong to the child, and no thread waits. The
//   child's own threads acquire and release as in `credits`.
#include "check/engine/checked_semaphore.hpp"
#include "check/engine/explore.hpp"

namespace usher::check {
namespace {

enum class task { mutex, credits, maximum, ranks, in_turn, progress, forked };

struct scenario {
  const char* name;
  task runs;
  bool lifo = false;  ///< mostly LIFO, or mixed; otherwise FIFO
  unsigned stray_wakes = 0;
};

constexpr scenario scenarios[] = {
    {.name = "mutex", .runs = task::mutex},
    {.name = "mutex-lifo", .runs = task::mutex, .lifo = true, .stray_wakes = 1},
    {.name = "credits", .runs = task::credits},
    {.name = "lifo", .runs = task::credits, .lifo = true},
    {.name = "stray", .runs = task::credits, .lifo = true, .stray_wakes = 2},
    {.name = "maximum", .runs = task::maximum},
    {.name = "ranks", .runs = task::ranks},
    {.name = "in-turn", .runs = task::in_turn},
    {.name = "progress", .runs = task::progress},
    {.name = "forked", .runs = task::forked},
    {.name = "forked-lifo", .runs = task::forked, .lifo = true},
};

constexpr std::uint32_t maximum = 0x7fffffff;
constexpr std::uint64_t never = checked::never, handoff_after = 1000000;  // ns

const checked_semaphore* the_semaphore;
const scenario* the_scenario;

enum class manner { for_ever, timed, cancelled, forks };
using wait_end = checked_semaphore::wait_end;

template <rl::thread_id_t Threads>
struct program : rl::test_suite<program<Threads>, Threads> {
  enum role { poster, taker, victim };

  program() {
    world.watch(0, {bytes.data(), the_semaphore->size, "the semaphore ends while another thread may touch it",
                    "the semaphore is touched after its end"});
    world.name(bytes.data(), the_semaphore->size, "semaphore");
    world.name(acquired, "acquired");
    if (the_scenario->runs == task::mutex)
      begins_with = 1;
    else if (the_scenario->runs == task::maximum)
      begins_with = maximum - 1;
    if (the_scenario->runs == task::ranks)
      for (unsigned t = 1; t < Threads; t++) world.set_priority(t, rl::rand(3));
    if (the_scenario->runs == task::in_turn) {
      begins_with = model.credits = rl::rand(3);
      model.most_coming = world.count_limit(2047);
      model.steps = 8 + rl::rand(24);
      if (rl::rand(2) == 0)
        for (unsigned t = 0; t < Threads; t++) world.set_priority(t, rl::rand(3));
    }
    if (the_scenario->runs == task::progress) {
      begins_with = 1;
      the_search.held_back = rl::rand(Threads);
    }
    unsigned wanted = 0;
    for (unsigned t = 0; t < Threads; t++) {
      roles[t] = t == 0 ? poster : t == 1 ? taker : std::array{taker, taker, victim, victim, poster}[rl::rand(5)];
      share[t] = 0;
      if (roles[t] == taker) wanted += share[t] = 1 + rl::rand(2);
    }
    if (the_scenario->runs == task::credits && wanted > 1 && rl::rand(4) == 0) begins_with = 1;
    for (unsigned left = the_scenario->runs == task::credits ? wanted - begins_with : 0, t = 0; left != 0;) {
      if (roles[t] == poster) {
        share[t]++;
        left--;
      }
      t = (t + 1) % Threads;
    }
    if (the_scenario->runs == task::forked) prepare_fork();
    the_semaphore->make(semaphore(), begins_with);
  }
  ~program() { the_semaphore->end(semaphore()); }

  void thread(unsigned t) {
    if (the_scenario->runs == task::forked)
      return world.run([this, t] {
        t == 0 ? fork_and_release() : of_child[t] ? take_and_release(t) : use_in_parent();
      });
    if (the_scenario->runs == task::mutex) return exclude();
    if (the_scenario->runs == task::maximum) return count(t);
    if (the_scenario->runs == task::ranks) return come_in_turn(t);
    if (the_scenario->runs == task::in_turn) return take_turns(t);
    if (the_scenario->runs == task::progress) return t == the_search.held_back ? come_once() : come_again();
    take_and_release(t);
  }

  void after() {
    world.watch_nothing();
    const std::uint32_t value = the_semaphore->value(semaphore());
    switch (the_scenario->runs) {
      case task::mutex:
        if (acquired.get() != Threads * acquisitions) fail("acquisitions are missing");
        if (value != 0) fail("there is a credit beside the last owner's");
        return;
      case task::credits:
        if (value != 0) fail("there are more credits than were released");
        return;
      case task::forked:
        if (value != expected) fail("credits of the child have been lost or made");
        return;
      case task::maximum:
        for (unsigned t = 0; t < Threads; t++) begins_with += changes[t];
        if (value != begins_with) fail("credits have been lost or made");
        if (value > maximum) fail("more credits than the maximum");
        return;
      case task::ranks:
        if (value != 0 || world.woken() != Threads - 1) fail("a thread was not woken for its credit");
        for (unsigned i = 0; i + 1 < world.woken(); i++) {
          const unsigned a = world.woken(i), b = world.woken(i + 1);
          if (world.priority_of(a) < world.priority_of(b)) fail("a waiter of a higher priority was passed over");
          if (world.priority_of(a) == world.priority_of(b) && a > b)
            fail("a waiter of the same priority that came later was preferred");
        }
        return;
      case task::in_turn:
        if (value != model.credits) fail("credits have been lost or made");
        return;
      case task::progress:
        if (value != 1) fail("credits have been lost or made");
    }
  }

 private:
  // ---- the programs -----------------------------------------------------------------------------------------

  void take_and_release(unsigned t) {
    switch (roles[t]) {
      case poster:
        for (unsigned i = 0; i < share[t]; i++) release();
        return;
      case taker:
        for (unsigned i = 0; i < share[t]; i++) acquire(manner::for_ever);
        return;
      case victim:
        if (acquire(rl::rand(2) == 0 ? manner::timed : manner::cancelled)) release();
    }
  }

  void exclude() {
    for (unsigned i = 0; i < acquisitions; i++) {
      const unsigned how = rl::rand(5);
      const bool done = how == 0   ? the_semaphore->try_acquire(semaphore()) || the_semaphore->try_acquire(semaphore())
                        : how == 1 ? acquire(manner::timed)
                        : how == 2 ? acquire(manner::cancelled)
                                   : acquire(manner::for_ever);
      if (!done) acquire(manner::for_ever);
      const std::uint32_t n = acquired.get() + 1;
      acquired.set(n);
      if (n == Threads * acquisitions) return world.end_of(0);
      release();
    }
  }

  void come_in_turn(unsigned t) {
    world.await_sleepers(t != 0 ? t - 1 : Threads - 1);
    if (t != 0) {
      acquire(manner::for_ever);
      return;
    }
    for (unsigned i = 1; i < Threads; i++) release();
  }

  void count(unsigned t) {
    for (unsigned i = 0; i < 3; i++) {
      if (rl::rand(3) == 0)
        changes[t] -= acquire(rl::rand(2) == 0 ? manner::timed : manner::for_ever) ? 1 : 0;
      else
        changes[t] += the_semaphore->release(semaphore()) ? 1 : 0;
    }
  }

  // ---- forked -----------------------------------------------------------------------------------------------

  void prepare_fork() {
    begins_with = rl::rand(3);
    for (unsigned t = 2; t < Threads; t++)
      if (rl::rand(2) == 0) {
        of_child[t] = true;
        world.begins_after(t, 1);
      }
  }

  void use_in_parent() {
    for (unsigned i = 0; i < 3; i++)
      if (rl::rand(2) == 0)
        release();
      else
        acquire(std::array{manner::for_ever, manner::timed, manner::cancelled}[rl::rand(3)]);
  }

  void fork_and_release() {
    for (unsigned i = rl::rand(3); i != 0; i--)
      if (rl::rand(2) == 0)
        release();
      else
        acquire(manner::timed);
    if (rl::rand(2) == 0 && acquire(manner::forks)) release();
    if (world.forks() == 0) fork();
    for (unsigned i = 0; i < share[0]; i++) release();
  }

  void fork() {
    world.fork(node_pool::anew);
    begin_child();
  }

  /// The child's takers take the credits that exist; its posters release the missing ones.
  void begin_child() {
    const std::uint32_t credits = the_semaphore->value(semaphore());
    unsigned wanted = 0;
    for (unsigned t = 1; t < Threads; t++)
      if (of_child[t] && roles[t] == taker) wanted += share[t];
    unsigned missing = wanted > credits ? wanted - credits : 0;
    expected += credits + missing - wanted;
    for (unsigned t = 0; t < Threads; t++)
      if (roles[t] == poster) share[t] = 0;
    for (unsigned t = 0; missing != 0; t = (t + 1) % Threads)
      if (roles[t] == poster && (t == 0 || of_child[t])) {
        share[t]++;
        missing--;
      }
    world.start_threads();
  }

  /// Forks in a signal handler during the thread's sleep. The child's list does not contain the thread, which keeps a
  /// credit that it was granted before the fork. The sleep is interrupted, or is begun again and ends because a handler
  /// of fork() wrote the waiter's state.
  wait_end fork_in_handler(void* w, bool& had_one) {
    world.fork(node_pool::anew);
    had_one = the_semaphore->has_credit(w);
    if (had_one) expected++;  // the thread will release it again
    if (rl::rand(2) == 0) the_semaphore->wake_in_child(w);
    begin_child();
    return the_semaphore->waits(w) || rl::rand(2) == 0 ? wait_end::leave : wait_end::woken;
  }

  // ---- in turn ----------------------------------------------------------------------------------------------

  static constexpr unsigned most_waiters = 8;

  /// The sequential model: the semaphore and its waiters, as the header describes them.
  struct state {
    struct one {
      void* at = nullptr;
      unsigned thread = 0;
      std::uint32_t priority = 0;
      checked_semaphore::waiter_state is = checked_semaphore::waiting;
      bool wants_handoff = false;
      std::uint64_t since = 0;
    };
    std::array<one, most_waiters> waiters;
    std::array<unsigned, most_waiters> list{};
    unsigned listed = 0;
    std::uint32_t credits = 0, coming = 0, most_coming = 0;
    unsigned steps = 0;

    void insert(unsigned w, bool at_tail) {
      unsigned i = 0;
      const std::uint32_t p = waiters[w].priority;
      while (i < listed && (waiters[list[i]].priority > p || (at_tail && waiters[list[i]].priority == p))) i++;
      std::copy_backward(list.begin() + i, list.begin() + listed, list.begin() + listed + 1);
      list[i] = w;
      listed++;
      waiters[w].is = checked_semaphore::waiting;
    }
    void remove(unsigned w) { listed = unsigned(std::remove(list.begin(), list.begin() + listed, w) - list.begin()); }
    void dispatch() {
      while (listed != 0 && credits > coming && (waiters[list[0]].wants_handoff || coming < most_coming)) {
        one& w = waiters[list[0]];
        w.wants_handoff ? credits-- : coming++;
        w.is = w.wants_handoff ? checked_semaphore::granted : checked_semaphore::notified;
        remove(list[0]);
      }
    }
  };

  void take_turns(unsigned t) {
    for (;;) {
      checked::await(
          turn, [t](std::uint32_t v) { return v == t; }, std::memory_order_acquire, pacing::polling);
      const bool over =
          model.steps == 0 && std::ranges::none_of(model.waiters, [](auto& w) { return w.at != nullptr; });
      if (!over) {
        step(t);
        compare();
      }
      turn.store(over ? (t + 1) % Threads : rl::rand(Threads), std::memory_order_release);
      if (over) return;
    }
  }

  void step(unsigned t) {
    std::array<unsigned, most_waiters> mine{}, places{};
    unsigned of_mine = 0, free = 0;
    for (unsigned i = 0; i < most_waiters; i++)
      if (model.waiters[i].at == nullptr)
        places[free++] = i;
      else if (model.waiters[i].thread == t)
        mine[of_mine++] = i;
    const bool ends = model.steps == 0;
    if (!ends) model.steps--;
    // At the end, threads release credits until each waiter has got one.
    const unsigned what = ends ? of_mine != 0 ? 6 : model.listed != 0 && model.credits == 0 ? 0 : 7 : rl::rand(8);
    if (what <= 1) {
      release_one();
    } else if (what == 2) {
      const bool takes = model.credits != 0;
      if (takes) model.credits--;
      if (the_semaphore->try_acquire(semaphore()) != takes)
        fail("try_acquire() does not take a free credit, or takes one that is not there");
    } else if (what <= 5 && free != 0 && !ends) {
      come(t, places[0]);
    } else if (of_mine != 0) {
      const unsigned w = mine[rl::rand(of_mine)];
      const bool listed = model.waiters[w].is == checked_semaphore::waiting;
      if (listed && ends)
        release_one();
      else if (listed ? rl::rand(2) == 0 : !ends && rl::rand(4) == 0)
        leave(w);
      else if (!listed)
        arrive(w);
    }
  }

  void release_one() {
    model.credits++;
    model.dispatch();
    release();
  }

  void come(unsigned t, unsigned place_of) {
    auto& w = model.waiters[place_of];
    w = {.at = world.begin_local(the_semaphore->waiter_size, place::current()),
         .thread = t,
         .priority = world.priority_of(t)};
    the_semaphore->make_waiter(w.at);
    const bool at_tail = rl::rand(2) == 0, takes = model.credits != 0;
    if (takes)
      model.credits--;
    else
      model.insert(place_of, at_tail);
    model.dispatch();
    if (the_semaphore->enter(semaphore(), w.at, append_probability(at_tail ? 1.0 : 0x1p-32)) != takes)
      fail("enter() does not take a free credit, or takes one that is not there");
    w.since = world.clock();
    if (takes) go(w);
  }

  void arrive(unsigned which) {
    auto& w = model.waiters[which];
    const bool handed = w.is == checked_semaphore::granted, takes = handed || model.credits != 0;
    if (the_semaphore->arrive(semaphore(), w.at) != takes)
      fail("arrive() does not take a free or granted credit, or takes one that is not there");
    if (!handed) {
      model.coming--;
      if (takes) {
        model.credits--;
      } else {
        w.wants_handoff = world.clock() - w.since > handoff_after;
        model.insert(which, false);
      }
      model.dispatch();
    }
    if (takes) go(w);
  }

  void leave(unsigned which) {
    auto& w = model.waiters[which];
    const bool has = w.is == checked_semaphore::granted || (w.is == checked_semaphore::notified && model.credits != 0);
    if (w.is == checked_semaphore::waiting) {
      model.remove(which);
    } else if (w.is == checked_semaphore::notified) {
      model.coming--;
      if (has) model.credits--;
    }
    model.dispatch();
    if (the_semaphore->leave(semaphore(), w.at) != has)
      fail("leave() loses the waiter's credit, or takes one that is not there");
    go(w);
  }

  void go(typename state::one& w) {
    world.end_local(w.at, place::current());
    the_semaphore->end_waiter(w.at);
    w.at = nullptr;
  }

  void compare() {
    if (the_semaphore->value(semaphore()) != model.credits) fail("the number of credits is wrong");
    for (const auto& w : model.waiters) {
      if (w.at == nullptr) continue;
      const auto is = the_semaphore->state(w.at);
      if (is == w.is) continue;
      fail(w.is == checked_semaphore::waiting  ? "a waiter is woken before its turn"
           : is == checked_semaphore::waiting  ? "the next waiter is not woken"
           : is == checked_semaphore::notified ? "a waiter that has waited for more than 1 ms is not granted a credit"
                                               : "a credit is granted to a waiter that has not waited long");
    }
  }

  // ---- progress ---------------------------------------------------------------------------------------------

  void come_once() {
    if (the_semaphore->try_acquire(semaphore())) return over();
    void* const w = world.begin_local(the_semaphore->waiter_size, place::current());
    the_semaphore->make_waiter(w);
    const append_probability chance(rl::rand(2) == 0 ? 1.0 : 0x1p-32);
    rl::rand(2) == 0 ? wait_in_sleeps(w, chance) : wait_in_steps(w, chance);
    wants_handoff = false;
    world.end_local(w, place::current());
    the_semaphore->end_waiter(w);
    over();
  }
  /// Waits by wait(): the thread learns only at its next sleep that it has gone back to the list.
  void wait_in_sleeps(void* w, append_probability chance) {
    std::uint64_t since = 0;   // at or after the time at which enter() read the clock
    std::uint64_t before = 0;  // at or before the time at which arrive() read it
    wait(w, chance, [&] {
      if (since == 0) since = world.clock();
      wants_handoff = before > since + handoff_after;
      the_semaphore->park(w, rl::rand(2) == 0 ? 0 : never);
      if (!the_semaphore->waits(w)) before = world.clock();
      return wait_end::woken;
    });
  }
  /// Waits by the single steps of wait(): the thread learns at once that it has gone back to the list, so more
  /// schedules show a missing hand-over.
  void wait_in_steps(void* w, append_probability chance) {
    bool done = the_semaphore->enter(semaphore(), w, chance);
    const std::uint64_t since = world.clock();  // as above
    while (!done) {
      the_semaphore->park(w, rl::rand(2) == 0 ? 0 : never);
      if (the_semaphore->waits(w)) continue;
      const std::uint64_t before = world.clock();  // as above
      done = the_semaphore->arrive(semaphore(), w);
      wants_handoff = !done && before > since + handoff_after;
    }
  }
  void over() {
    is_in = true;
    release();
  }

  void come_again() {
    while (!is_in) {
      alone();
      const bool next_is_another = wants_handoff, done = the_semaphore->try_acquire(semaphore());
      within = false;
      if (!done) {
        rl::yield(1, info(place::current()));
        continue;
      }
      if (next_is_another) fail("a released credit was not granted to the thread that has waited for more than 1 ms");
      the_search.held = true;
      acquired.set(acquired.get() + 1);
      the_search.held = false;
      alone();
      release();
      within = false;
    }
  }
  /// Waits until no other thread acquires or releases. The flag `within` is a plain variable that relacy does not see, so it
  /// orders no memory accesses.
  void alone() {
    while (within) rl::yield(1, info(place::current()));
    within = true;
  }

  // ---- waiting ----------------------------------------------------------------------------------------------

  void release() {
    if (!the_semaphore->release(semaphore())) fail("a credit is refused");
  }

  bool acquire(manner how) {
    if (the_semaphore->try_acquire(semaphore())) return true;
    void* const w = world.begin_local(the_semaphore->waiter_size, place::current(), the_semaphore->end_waiter);
    the_semaphore->make_waiter(w);
    const bool acquired_one = wait(w, how);
    world.end_local(w, place::current());
    the_semaphore->end_waiter(w);
    return acquired_one;
  }

  bool wait(void* w, manner how) {
    const append_probability chance(the_scenario->lifo ? (rl::rand(2) == 0 ? 0x1p-17 : 0x1p-32) : 1.0);
    unsigned rounds = rl::rand(how == manner::forks ? 4 : 2);
    bool had_one = false;
    const bool has_one = wait(w, chance, [&] {
      if (how == manner::for_ever) {
        the_semaphore->park(w, the_scenario->runs != task::ranks && rl::rand(2) == 0 ? never : 0);
        return wait_end::woken;
      }
      if (rounds != 0) {
        rounds--;
        the_semaphore->park(w, 1);
        // Always forks if the thread has just been granted a credit, since a handler may also run after the wake-up.
        if (how != manner::forks || the_semaphore->waits(w)) return wait_end::woken;
        if (!the_semaphore->has_credit(w) && rl::rand(2) == 0) return wait_end::woken;
      }
      if (how != manner::forks) return how == manner::timed ? wait_end::leave : wait_end::cancel;
      how = manner::timed;
      rounds = rl::rand(2);
      return fork_in_handler(w, had_one);
    });
    if (had_one && !has_one) fail("a thread that was granted a credit has none in the child");
    return has_one;
  }

  template <class Sleep>
  bool wait(void* w, append_probability chance, Sleep sleep) {
    return the_semaphore->wait(
        semaphore(), w, chance, [](void* s) { return (*static_cast<Sleep*>(s))(); }, &sleep);
  }

  void* semaphore() { return bytes.data(); }

  execution world{{.stray_wakes = the_scenario->stray_wakes, .adverse = the_scenario->runs == task::progress}, Threads};
  alignas(64) std::array<std::byte, room_for_target> bytes;
  checked::plain<std::uint32_t> acquired;
  std::uint32_t begins_with = 0;
  std::array<role, Threads> roles;
  std::array<unsigned, Threads> share;  // credits that a taker takes or a poster releases
  checked::atomic<std::uint32_t> turn;
  state model;
  bool wants_handoff = false, is_in = false, within = false;
  std::array<bool, Threads> of_child{};
  std::uint32_t expected = 0;                    // forked: credits at the end
  std::array<std::uint32_t, Threads> changes{};  // maximum: credits that each thread has added, modulo 2^32
};

}  // namespace

std::vector<target> semaphore_targets() {
  std::vector<target> all;
  for (const checked_semaphore& v : checked_semaphores()) {
    target s{.name = v.name,
             .mutation = v.mutation,
             .header = "semaphore_core.hpp",
             .size = v.size,
             .scenarios = {},
             .explore = {}};
    for (const scenario& c : scenarios) s.scenarios.push_back(c.name);
    s.explore = [&v](unsigned c, unsigned threads, options o) {
      the_semaphore = &v;
      the_scenario = &scenarios[c];
      o.fair = the_scenario->runs == task::progress;
      return explore<program>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
