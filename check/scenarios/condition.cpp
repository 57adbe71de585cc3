// The scenarios of basic_condition_variable, used as in a program that embeds it. scenarios/queue/tokens.cpp defines
// takers, posters and victims.
//
// Throws: lock() or unlock() of the mutex occasionally throws during a wait, and the exception leaves the wait.
//
// Forked: the process forks in the middle of a notification, while a waiter leaves the list, sleeps or is requeued. At
// that moment no other thread may own the mutex or be in one of its operations, because the child does not renew the
// mutex. The child's threads then run `tokens`.
//
// All scenarios check: a notification selects by the list's order and by priority. notify_one() selects at most one
// thread, and exactly one if any waits; notify_all() selects each thread that waits at that time. The threads of a
// chain (those that one notify_all() has selected) wake in its order, and only one of them at a time is awake without
// the mutex. A wait returns whether it was notified. Waits that began before a fork are not checked.
#include "check/engine/checked_condition.hpp"
#include "check/engine/explore.hpp"
#include "check/engine/seen_waiters.hpp"

namespace usher::check {
namespace {

struct scenario {
  const char* name;
  unsigned stray_wakes = 0;
  bool ends = false;    ///< the thread calls notify_all() and immediately ends the condition variable's life
  bool throws = false;  ///< the mutex occasionally throws
  bool forked = false;
};

constexpr scenario scenarios[] = {
    {.name = "tokens"},
    {.name = "stray", .stray_wakes = 2},
    {.name = "all-end", .ends = true},
    {.name = "throws", .throws = true},
    {.name = "forked", .forked = true},
};

const checked_condition* the_condition;
const scenario* the_scenario;

constexpr std::uint64_t never = checked::never;
constexpr unsigned without_end = ~0u;           // a number of rounds that never runs out
constexpr unsigned forks_at_the_end = ~0u - 1;  // time has run out, and a handler forks before the thread notices

/// The state of the lock below the mutex. A fork is allowed only in certain states.
struct {
  const checked_lock* lock;
  bool held;        ///< true also while an unlock hands the lock over
  unsigned inside;  ///< threads that execute one of its operations
} lock_below;

/// The locks of mutexes(), with operations that update `lock_below`.
const std::vector<checked_lock>& watched_mutexes() {
  static const std::vector<checked_lock> list = [] {
    std::vector<checked_lock> some;
    for (const checked_lock* l : mutexes()) {
      some.push_back(*l);
      some.back().lock = [](void* state) {
        lock_below.inside++;
        lock_below.lock->lock(state);
        lock_below.inside--;
        lock_below.held = true;
      };
      some.back().try_lock = [](void* state) {
        lock_below.inside++;
        const bool done = lock_below.lock->try_lock(state);
        lock_below.inside--;
        lock_below.held |= done;
        return done;
      };
      some.back().unlock = [](void* state) {
        lock_below.held = false;
        lock_below.inside++;
        lock_below.lock->unlock(state);
        lock_below.inside--;
      };
    }
    return some;
  }();
  return list;
}

/// A mutex: either any lock by itself, or a lock in a mutex to which notified threads are requeued.
class mutex {
 public:
  mutex(const lock_handle& l, bool requeues) : state(l.state), bare_(l, steps), requeues_(requeues) {
    the_condition->make_mutex(requeued_, l, steps);
    execution::current().name(requeued_, the_condition->mutex_size, "requeue_mutex");
  }
  ~mutex() { the_condition->end_mutex(requeued_); }
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() { requeues_ ? the_condition->lock_mutex(requeued_) : bare_.lock(); }
  void unlock() { requeues_ ? the_condition->unlock_mutex(requeued_) : bare_.unlock(); }
  /// Returns false if time has run out.
  bool wait(void* condition, std::uint64_t (*remaining)(void*), void* context) {
    const bool owned = rl::rand(2) == 0;
    return requeues_ ? the_condition->wait_requeued(condition, requeued_, remaining, context, owned)
                     : the_condition->wait(condition, bare_, remaining, context, owned);
  }

  void wait_until_done(void* condition, bool (*done)(void*), void* context) {
    requeues_ ? the_condition->wait_until_done(condition, requeued_, true, done, context)
              : the_condition->wait_until_done(condition, &bare_, false, done, context);
  }

  bool is_idle() { return the_condition->mutex_is_idle(requeued_); }

  void* const state;
  mutex_steps steps;

 private:
  bare_mutex bare_;
  alignas(64) std::byte requeued_[room_for_mutex];
  const bool requeues_;
};

template <rl::thread_id_t Threads>
struct program : rl::test_suite<program<Threads>, Threads> {
  enum role { poster, taker, victim };

  program() {
    the_condition->make(condition(), append_probability(at_tail));
    m.steps = {.unlocks = [](void* self) { static_cast<program*>(self)->see_unlock(); },
               .locked = [](void* self) { static_cast<program*>(self)->see_locked(); },
               .context = this};
    world.observe({[](void* self, const void* word) { static_cast<program*>(self)->see_written(word); },
                   [](void* self, void* at) { static_cast<program*>(self)->see_begun(at); }, this});
    if (rl::rand(2) == 0)
      for (unsigned t = 0; t < Threads; t++) world.set_priority(t, rl::rand(3));
    lock.make(m.state);
    world.watch(0, {bytes.data(), the_condition->size, "the condition variable ends while another thread may touch it",
                    "the condition variable is touched after its end"});
    world.name(bytes.data(), the_condition->size, "condition");
    world.name(memory, "mutex");
    world.name(tokens, "tokens");
    world.name(to_post, "to_post");
    world.name(flag, "flag");
    unsigned takers = 0;
    for (unsigned t = 0; t < Threads; t++) {
      roles[t] = t == 0 ? poster : t == 1 ? taker : std::array{taker, taker, victim, victim, poster}[rl::rand(5)];
      takers += roles[t] == taker ? 1 : 0;
    }
    to_post.set(takers);
    lock_below = {mutexes()[which], false, 0};
    if (the_scenario->forked) prepare_fork();
  }
  ~program() {
    if (!destroyed) the_condition->end(condition());
    lock.end(m.state);
  }

  void thread(unsigned t) {
    if (the_scenario->forked)
      return world.run([this, t] {
        if (t == 0)
          fork_and_post();
        else if (of_child[t])
          do_as_scenario(t);
        else
          use_in_parent();
      });
    do_as_scenario(t);
  }

  void after() {
    world.watch_nothing();
    if (!the_scenario->ends && (tokens.get() != 0 || to_post.get() != 0)) fail("a token is left");
    if (!destroyed && !the_condition->close(condition())) fail("a waiter is still in the list");
    if (!m.is_idle()) fail("the mutex is not idle at the end");
    if (!world.all_nodes_free()) fail("a node was not given back", rl::test_result_resource_leak, place::current());
  }

 private:
  void do_as_scenario(unsigned t) {
    if (the_scenario->ends)
      t == 0 ? finish() : attend();
    else if (roles[t] == poster)
      post();
    else if (roles[t] == taker)
      take();
    else
      visit();
  }

  void take() {
    m.lock();
    if (rl::rand(4) == 0 && !the_scenario->throws)
      wait_for_token();
    else
      while (tokens.get() == 0) wait();
    if (tokens.get() == 0) fail("a wait with a predicate returns, and the predicate is false");
    tokens.set(tokens.get() - 1);
    m.unlock();
  }

  void post() {
    for (;;) {
      m.lock();
      if (to_post.get() == 0) return m.unlock();
      to_post.set(to_post.get() - 1);
      tokens.set(tokens.get() + 1);
      notify_and_unlock(rl::rand(4) == 0);
    }
  }

  void visit() {
    m.lock();
    if (const ending e = wait(rl::rand(2)); e == ending::notified || e == ending::not_locked)
      notify_and_unlock(rl::rand(4) == 0);
    else
      m.unlock();
  }

  void attend() {
    m.lock();
    if (!flag.get() && rl::rand(2) == 0) wait(rl::rand(2));
    while (!flag.get()) wait();
    m.unlock();
  }

  void finish() {
    m.lock();
    flag.set(1);
    const bool under_mutex = rl::rand(2) == 0;
    if (!under_mutex) m.unlock();
    notify(true);
    // The destructor may take the place of close(), since it also closes the condition variable.
    destroyed = rl::rand(2) == 0;
    if (destroyed)
      the_condition->end(condition());
    else if (!the_condition->close(condition()))
      fail("close() says that threads wait, and all were notified");
    world.end_of(0);
    if (under_mutex) m.unlock();
  }

  void notify_and_unlock(bool all) {
    const bool under_mutex = rl::rand(2) == 0;
    if (!under_mutex) m.unlock();
    notify(all);
    if (under_mutex) m.unlock();
  }

  // ---- waiting ----------------------------------------------------------------------------------------------

  enum class ending { notified, time, not_unlocked, not_locked };

  struct time_left {
    program* self;
    unsigned rounds;

    std::uint64_t remaining() {
      if (rounds == without_end) return never;
      if (rounds == forks_at_the_end) {
        rounds = 0;
        self->fork(false);
      }
      return rounds == 0 ? 0 : rounds--;
    }
  };

  /// Always returns with the mutex held, even after an exception.
  ending wait(unsigned rounds = without_end) {
    const unsigned me = rl::thread_index();
    const unsigned forks_before = world.forks();
    const bool limited = rounds != without_end || rl::rand(2) == 0;
    time_left time{this, rounds};
    const auto remaining = [](void* t) { return static_cast<time_left*>(t)->remaining(); };
    if (the_scenario->throws && rl::rand(3) == 0) m.steps.refused[me] = mutex_steps::refuses(1 + rl::rand(2));
    enters[me] = true;
    ending e;
    bool holds = true;
    try {
      e = m.wait(condition(), limited ? +remaining : nullptr, &time) ? ending::notified : ending::time;
    } catch (const refusal& r) {
      // No other fiber may run in this block: fibers share the C++ library's exception state.
      e = r.of_lock ? ending::not_locked : ending::not_unlocked;
      holds = false;
    }
    m.steps.refused[me] = mutex_steps::refuses::nothing;
    if (world.forks() == forks_before) {
      record& r = records[of_thread[me]];
      if (e == ending::notified && !r.was_selected) fail("a wait says that it was notified, and it was not");
      if (e == ending::time && r.was_selected) fail("a wait says that its time has run out, and it was notified");
      r.at = nullptr;
      of_thread[me] = none;
    }
    if (!holds) m.lock();
    arrived_after[me] = arrivals;
    return e;
  }

  /// Uses the wait with a predicate. It calls the predicate before each of its waits.
  void wait_for_token() {
    const auto done = [](void* self) { return static_cast<program*>(self)->has_token(); };
    m.wait_until_done(condition(), done, this);
  }
  bool has_token() {
    const unsigned me = rl::thread_index();
    if (of_thread[me] != none) {
      records[of_thread[me]].at = nullptr;
      of_thread[me] = none;
      arrived_after[me] = arrivals;
    }
    enters[me] = tokens.get() == 0;
    return !enters[me];
  }

  void notify(bool all) {
    const unsigned me = rl::thread_index();
    std::array<bool, execution::most_locals> waited{};
    for (unsigned s = 0; s < records.size(); s++)
      waited[s] = records[s].waits() && records[s].number <= arrived_after[me];
    selected_by[me] = 0;
    chain_of[me] = ++chains;
    (all ? the_condition->notify_all : the_condition->notify_one)(condition());
    chain_of[me] = 0;
    if (!all && selected_by[me] > 1) fail("notify_one() notifies several");
    for (unsigned s = 0; s < records.size(); s++)
      if (waited[s] && records[s].waits() && (all || selected_by[me] == 0))
        fail(all ? "notify_all() leaves out a waiter" : "notify_one() notifies no thread, and one waits");
  }

  // ---- observations -----------------------------------------------------------------------------------------

  /// The scenario's record of a waiter. relacy does not observe accesses to it.
  struct record {
    enum { waiting, leaving, selected, granted, handed_over };  // as in wait_queue.hpp

    const checked::atomic<std::uint32_t>* at = nullptr;  // the waiter's state
    unsigned number = 0, chain = 0, place = 0;
    std::uint32_t priority = 0, state = waiting;
    bool listed = false, was_selected = false, is_awake = false, is_back = false;

    bool waits() const { return at != nullptr && listed && state == waiting; }
  };
  static constexpr unsigned none = execution::most_locals;

  void see_begun(void* at) {
    const unsigned me = rl::thread_index();
    if (!enters[me]) return;
    enters[me] = false;
    const unsigned slot = world.slot_of_local(at);
    of_thread[me] = slot;
    records[slot] = {.at = static_cast<checked::atomic<std::uint32_t>*>(at),
                     .number = ++arrivals,
                     .priority = world.priority_of(me)};
  }

  /// Called when a thread's wait unlocks the mutex: the thread is in the list by then.
  void see_unlock() {
    if (const unsigned s = of_thread[rl::thread_index()]; s != none) records[s].listed = true;
  }
  void see_locked() {
    const unsigned me = rl::thread_index();
    if (of_thread[me] != none)
      records[of_thread[me]].is_back = true;
    else
      arrived_after[me] = arrivals;
  }

  void see_written(const void* word) {
    if (!world.is_local(word)) return;
    record& r = records[world.slot_of_local(word)];
    if (r.at != word) return;
    const std::uint32_t was = std::exchange(r.state, r.at->newest());
    if (was == record::waiting && r.state == record::selected) see_selected(r);
    if (was < record::granted && r.state >= record::granted) see_awake(r);
  }

  void see_selected(record& r) {
    const unsigned me = rl::thread_index();
    r.was_selected = true;
    r.chain = chain_of[me];
    r.place = ++selected_by[me];
    see_selection(r, at_tail, [this](auto visit) {
      for (const record& o : records)
        if (o.waits()) visit(o);
    });
  }

  void see_awake(record& r) {
    r.is_awake = true;
    if (r.state == record::handed_over) r.is_back = true;
    see_awake_in_chain(r, [this](auto visit) {
      for (const record& o : records) visit(o);
    });
  }

  // ---- forked -----------------------------------------------------------------------------------------------

  void prepare_fork() {
    for (unsigned t = 2; t < Threads; t++)
      if (rl::rand(2) == 0) {
        of_child[t] = true;
        world.begins_after(t, 1);
      }
  }

  /// A thread may wait here without end, because the fork removes it. The thread that forks never does.
  void use_in_parent() {
    for (unsigned i = 0; i < 2; i++) {
      m.lock();
      switch (rl::rand(3)) {
        case 0:
          wait();
          m.unlock();
          break;
        case 1:
          wait(rl::rand(2));
          m.unlock();
          break;
        default:
          notify_and_unlock(rl::rand(2) == 0);
      }
    }
  }

  void fork_and_post() {
    for (unsigned i = rl::rand(3); i != 0; i--) {
      m.lock();
      notify_and_unlock(rl::rand(2) == 0);
    }
    if (rl::rand(3) == 0) {
      m.lock();
      wait(forks_at_the_end);
      m.unlock();
    }
    while (world.forks() == 0) {
      const bool holds = rl::rand(4) != 0;
      if (holds) m.lock();
      if (holds && rl::rand(2) == 0) notify(rl::rand(2) == 0);
      fork(holds);
      if (holds && rl::rand(2) == 0) notify(false);
      if (holds) m.unlock();
      if (world.forks() == 0) rl::yield(1, info(place::current()));
    }
    post();
  }

  /// Forks if the state of the mutex allows it.
  void fork(bool holds) {
    rl::ctx().sched();
    if (lock_below.inside != 0 || lock_below.held != holds) return;
    world.fork_at_once(node_pool::copied);
    records = {};  // including the record of a thread that forks in its wait: no list of the child has it
    of_thread.fill(none);
    unsigned takers = 0;
    for (unsigned t = 1; t < Threads; t++) takers += of_child[t] && roles[t] == taker ? 1 : 0;
    tokens.set(0);
    to_post.set(takers);
    world.start_threads();
  }

  void* condition() { return bytes.data(); }

  execution world{{.stray_wakes = the_scenario->stray_wakes}, Threads};
  alignas(64) std::array<std::byte, room_for_target> bytes, memory;
  const unsigned which = rl::rand(unsigned(mutexes().size()));
  const checked_lock& lock = watched_mutexes()[which];
  mutex m{{&lock, memory.data()}, rl::rand(2) == 0};
  checked::plain<std::uint32_t> tokens, to_post, flag;
  bool destroyed = false;
  std::array<role, Threads> roles;
  std::array<bool, Threads> of_child{};
  double at_tail = std::array{1.0, 0x1p-17, 0x1p-32}[rl::rand(3)];  // first in, first out; mixed; last in, first out
  std::array<record, execution::most_locals> records;
  std::array<bool, Threads> enters{};
  std::array<unsigned, Threads> of_thread = [] {
    std::array<unsigned, Threads> all;
    all.fill(none);
    return all;
  }();
  std::array<unsigned, Threads> arrived_after{}, selected_by{}, chain_of{};
  unsigned arrivals = 0, chains = 0;
};

}  // namespace

std::vector<target> condition_targets() {
  std::vector<target> all;
  watched_mutexes();  // must run before relacy replaces the allocator
  for (const checked_condition& v : checked_conditions()) {
    target s{.name = v.name,
             .mutation = v.mutation,
             .header = "wait_queue.hpp",
             .size = v.size,
             .scenarios = {},
             .explore = {}};
    for (const scenario& c : scenarios) s.scenarios.push_back(c.name);
    s.explore = [&v](unsigned c, unsigned threads, const options& o) {
      the_condition = &v;
      the_scenario = &scenarios[c];
      return explore<program>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
