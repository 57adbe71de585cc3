// The scenarios of a condition variable's waiting list. Threads wait and signal like threads under libusher.so: through
// the shipped code (core/condition_wait.hpp), and with a mutex to which they are requeued (core/wait_morphing.hpp).
//
// - Tokens: *takers* wait without a limit until each has a token; *posters* add as many tokens as there are takers;
//   *victims* wait once, time out or are cancelled, and never take a token. A signal that is lost, or that a victim
//   consumes, therefore causes a deadlock.
// - Ends: a thread ends the queue's life as soon as the pthread interface allows it, with or without the mutex.
// - Forked: the process forks at any moment, and the child may fork again. At the fork, the forking thread is outside
//   all operations, or owns the mutex, or sleeps in the queue while a signal handler forks. The child's threads then
//   run `tokens` with the queue and the mutex of the parent.
// - Foreign: a thread unlocks a mutex that another thread has locked, while the other thread signals.
// - Undone: threads join the queue without the mutex and leave it again, like pthread_cond_wait() when it cannot unlock
//   the mutex.
// - Row: a broadcast requeues threads when at most three hand-overs are missing to the limit of seven in a row. The
//   next unlock comes long after the requeued threads should have been woken. Another thread locks the mutex
//   repeatedly, with or without a deadline.
// - Wakes: one thread signals only while a thread waits without a limit, and signals again only after a thread has
//   returned from its wait. Other threads wait, some with a limit. Neither a thread that leaves nor a thread that
//   arrives later may consume a signal without returning because of it.
// - In-turn: the threads take turns; each has several waiters, so that many wait at once.
//
// All scenarios check: a signal selects by the list's order and by priority; it selects at most one waiter, and exactly
// one if any waits. A broadcast selects each thread that waits at that time. The threads of a chain return in its
// order, and only one of them at a time is awake without the mutex. A requeue keeps the order of both chains and loses
// no waiter. An unlock leaves no waiter asleep beyond the limits of wait_morphing.hpp. The mutex counts its users.
#include <span>

#include "check/checked_lock.hpp"
#include "check/checked_queue.hpp"
#include "check/explore.hpp"
#include "check/seen_waiters.hpp"

namespace usher::check {
namespace {

enum class task { tokens, broadcast_ends, signals_end, woken_ends, foreign_unlock, row, wakes, in_turn };

struct scenario {
  const char* name;
  task runs = task::tokens;
  unsigned stray_wakes = 0;
  bool outside = false;  ///< signals are also sent without the mutex
  bool ends = false;     ///< tokens: the last thread ends the queue's life
  bool busy = false;     ///< tokens: some threads call close() while others wait, and it must return false
  bool ranks = false;    ///< tokens: threads have priorities
  bool forked = false;   ///< tokens, in the child of a fork
  bool undoes = false;   ///< tokens: some threads join the queue and leave it again
};

constexpr scenario scenarios[] = {
    {.name = "tokens", .outside = true},
    {.name = "stray", .stray_wakes = 2, .outside = true},
    {.name = "last-ends", .ends = true},
    {.name = "busy", .busy = true},
    {.name = "ranks", .ranks = true},
    {.name = "forked", .forked = true},
    {.name = "undone", .outside = true, .undoes = true},
    {.name = "broadcast", .runs = task::broadcast_ends},
    {.name = "signals", .runs = task::signals_end},
    {.name = "woken", .runs = task::woken_ends},
    {.name = "foreign", .runs = task::foreign_unlock},
    {.name = "row", .runs = task::row},
    {.name = "wakes", .runs = task::wakes},
    {.name = "in-turn", .runs = task::in_turn, .ranks = true},
};

const checked_queue* the_queue;
const scenario* the_scenario;

constexpr const char* own_headers = "wait_queue.hpp wait_morphing.hpp condition_wait.hpp timed_waiters.hpp";

constexpr unsigned the_queues_life = 0, the_mutexs_life = 1;

template <rl::thread_id_t Threads>
struct program : rl::test_suite<program<Threads>, Threads> {
  enum role { poster, taker, victim };

  program() {
    the_queue->make(queue());
    world.watch(the_queues_life, {bytes.data(), the_queue->size, "the queue ends while another thread may touch it",
                                  "the queue is touched after its end"});
    world.watch(the_mutexs_life, {&m, sizeof m, "the mutex ends while another thread may touch it",
                                  "the mutex is touched after its end"});
    world.name(bytes.data(), the_queue->size, "queue");
    world.name(m, "mutex");
    world.name(tokens, "tokens");
    world.name(to_post, "to_post");
    world.name(users, "users");
    world.name(flag, "flag");
    unsigned takers = 0;
    for (unsigned t = 0; t < Threads; t++) {
      roles[t] = t == 0 ? poster : t == 1 ? taker : std::array{taker, taker, victim, victim, poster}[rl::rand(5)];
      // With these roles, two takers and one victim that may forward a signal, close_refused() can be certain that a
      // taker waits.
      if (the_scenario->busy && Threads == 4 && t > 1 && rl::rand(4) != 0) roles[t] = t == 2 ? taker : victim;
      if (the_scenario->ranks && t > 1 && rl::rand(2) == 0) roles[t] = taker;  // longer chains
      takers += roles[t] == taker ? 1 : 0;
      if (the_scenario->ranks) world.set_priority(t, rl::rand(3));
      // If a thread may be cancelled, each signal must be forwardable, as in preload/cond.cpp.
      manners[t] = rl::rand(2) == 0 ? manner::timed : manner::cancelled;
      if (roles[t] == victim && manners[t] == manner::cancelled) cancels = true;
    }
    to_post.set(the_scenario->runs == task::wakes ? 0 : takers);
    users.set(the_scenario->runs == task::woken_ends ? 2 : Threads);
    deliveries = {[](void* self, void* w) { static_cast<program*>(self)->see_delivered(w); },
                  [](void* self, void* w) { static_cast<program*>(self)->see_back(w); },
                  [](void* self, const chain_seen& chain, const chain_seen& then) {
                    static_cast<program*>(self)->see_requeued(chain, then);
                  },
                  this};
    world.observe(
        {[](void* self, const void* word) { static_cast<program*>(self)->see_written(word); }, nullptr, this});
    if (the_scenario->undoes) {
      cancels = true;  // so each signal must be forwardable
      m.requeues = false;
    } else if (!the_scenario->forked && rl::rand(2) == 0) {
      m.users_elsewhere = mutex_bytes::most_users - rl::rand(3);
      m.timed.fetch_add(m.users_elsewhere * mutex_bytes::one_user, std::memory_order_relaxed);
    }
    if (the_scenario->runs == task::row && rl::rand(2) == 0) world.set_priority(Threads - 1, 1 + rl::rand(2));
    m.unlocked_by_others = the_scenario->runs == task::foreign_unlock;
    if (the_scenario->forked) prepare_forks();
  }
  ~program() {
    the_queue->end(queue());
    forks_in_wait = {};
  }

  void thread(unsigned t) {
    if (the_scenario->forked) return world.run([this, t] { t == 0 ? fork_and_post() : do_as_generation(t); });
    do_as_scenario(t);
  }

  void after() {
    world.watch_nothing();
    if (the_scenario->runs == task::tokens && (tokens.get() != 0 || to_post.get() != 0)) fail("a token is left");
    if (!m.is_idle()) fail("the mutex is not idle at the end");
    if (!locked_for_good && !world.all_nodes_free())
      fail("a node was not given back", rl::test_result_resource_leak, place::current());
  }

 private:
  struct record;
  record& record_of(const void* w) { return records[world.slot_of_local(w)]; }

  void do_as_scenario(unsigned t) {
    if (the_scenario->runs == task::row) return t == 0 ? begin_row() : t <= in_row ? come_in_row() : disturb_row();
    if (the_scenario->runs == task::in_turn) return take_turns(t);
    if (the_scenario->runs == task::wakes) return t == 0 ? wake_one_by_one() : be_woken_twice();
    if (the_scenario->runs == task::foreign_unlock)
      t == 0 ? take_one() : t == 1 ? signal_while_unlocked() : t == 2 ? unlock_anothers() : void();
    else if (the_scenario->runs == task::woken_ends)
      t == 0 ? be_woken() : t == 1 ? wake() : void();
    else if (the_scenario->runs != task::tokens)
      t == 0 ? finish() : attend();
    else if (roles[t] == poster)
      post();
    else if (roles[t] == taker)
      take();
    else
      visit(manners[t]);
  }

  // ---- the programs -----------------------------------------------------------------------------------------

  void take() {
    if (the_scenario->undoes && rl::rand(2) == 0) come_and_go();
    look_in();
    lock();
    while (tokens.get() == 0) wait_for_ever();
    tokens.set(tokens.get() - 1);
    leave_and_unlock();
  }

  void post() {
    look_in();
    for (;;) {
      lock();
      if (to_post.get() == 0) return leave_and_unlock();
      unsigned outside = 0;
      do {
        to_post.set(to_post.get() - 1);
        tokens.set(tokens.get() + 1);
        if (sends_outside())
          outside++;
        else
          announce(true);
      } while (to_post.get() != 0 && rl::rand(2) == 0);
      if (the_scenario->busy) close_refused();
      unlock();
      for (; outside != 0; outside--) announce(false);
    }
  }

  void visit(manner how) {
    if (the_scenario->undoes && rl::rand(2) == 0) come_and_go();
    look_in();
    lock();
    // A cancelled waiter has forwarded the signal.
    if (!wait(how) || gave_up[rl::thread_index()]) return leave_and_unlock();
    if (!sends_outside()) {
      announce(true);
      return leave_and_unlock();
    }
    leave_and_unlock();
    announce(false);
  }

  void attend() {
    const auto how = std::array{manner::for_ever, manner::timed, manner::cancelled}[rl::rand(3)];
    lock();
    if (how != manner::for_ever && !flag.get()) wait(how);
    if (how != manner::cancelled)
      while (!flag.get()) wait_for_ever();
    leave_and_unlock();
  }

  /// Selects all waiters, and then ends the queue's life.
  void finish() {
    lock();
    flag.set(1);
    const bool holds = rl::rand(2) == 0;
    if (!holds) leave_and_unlock();
    if (the_scenario->runs == task::signals_end) {
      for (unsigned i = 0; i < 2 * Threads; i++)
        if (void* const w = select(false, true)) the_queue->deliver(w);
    } else if (void* const first = select(true)) {
      the_queue->deliver(first);
    }
    if (!the_queue->close(queue())) fail("close() says that threads wait, and all were selected");
    world.end_of(the_queues_life);
    if (holds) leave_and_unlock();
  }

  /// A thread that returns from an unlimited wait was woken by the only signal. That signal is complete and no other
  /// thread uses the queue, so this thread may end its life.
  void be_woken() {
    lock();
    flag.set(1);
    if (to_post.get() == 0) return leave_and_unlock();  // wake() has already ended
    wait(manner::for_ever);
    if (!the_queue->close(queue())) fail("close() says that threads wait, and there is none");
    world.end_of(the_queues_life);
    leave_and_unlock();
  }
  void wake() {
    lock();
    to_post.set(0);
    const bool waits = flag.get() != 0;
    leave_and_unlock();
    if (waits) announce(false);
  }

  // ---- one wake-up a signal ---------------------------------------------------------------------------------

  void wake_one_by_one() {
    for (unsigned done = 0; done < 2 * (Threads - 1);) {
      lock();
      const bool outside = rl::rand(2) == 0, waits = to_post.get() != 0;
      if (waits && !outside) the_queue->signal(queue());
      unlock();
      if (!waits) {
        checked::backoff(0);
        continue;
      }
      if (outside) the_queue->signal(queue());
      checked::await(
          returned, [done](std::uint32_t n) { return n > done; }, std::memory_order_relaxed, look::polling);
      done++;
    }
  }

  /// Here `to_post` counts the threads that wait without a limit.
  void be_woken_twice() {
    for (unsigned times = 0; times < 2;) {
      lock();
      if (rl::rand(3) == 0) {
        // A cancelled waiter has forwarded the signal.
        const bool reached = wait(rl::rand(2) == 0 ? manner::timed : manner::cancelled) && !gave_up[rl::thread_index()];
        if (reached) {
          returned.fetch_add(1, std::memory_order_relaxed);
          times++;
        }
      } else {
        to_post.set(to_post.get() + 1);
        wait_for_ever();
        to_post.set(to_post.get() - 1);
        returned.fetch_add(1, std::memory_order_relaxed);
        times++;
      }
      unlock();
    }
  }

  // ---- hand-overs in a row ----------------------------------------------------------------------------------

  void begin_row() {
    for (;;) {
      lock();
      if (arrived_after[0] == in_row) break;
      unlock();
      checked::backoff(0);
    }
    flag.set(1);
    in_a_row = 4 + rl::rand(4);
    const std::uint32_t before = m.timed.newest() / mutex_bytes::one_in_a_row & 7;
    m.timed.fetch_add((in_a_row - before) * mutex_bytes::one_in_a_row, std::memory_order_relaxed);
    if (void* const chain = select(true)) the_queue->deliver(chain);
    row_begun = true;
    for (unsigned i = rl::rand(4) == 0 ? 0 : 20; i != 0 && m.counted_timed() == 0; i--) checked::backoff(0);
    for (unsigned i = 0; i < 6; i++) checked::now();
    unlock();
    if (rl::rand(2) == 0) disturb_row();
  }
  void come_in_row() {
    lock();
    while (!flag.get()) wait_for_ever();
    unlock();
  }
  void disturb_row() {
    while (!row_begun && rl::rand(8) != 0) checked::backoff(0);
    for (unsigned i = 0; i < 3; i++) {
      lock(std::array{0u, 4u, 20u}[rl::rand(3)]);
      unlock();
    }
  }

  // ---- in turn ----------------------------------------------------------------------------------------------

  void take_turns(unsigned t) {
    for (;;) {
      checked::await(
          turn, [t](std::uint32_t v) { return v == t; }, std::memory_order_acquire, look::polling);
      const bool over = steps == 0 && std::ranges::all_of(places, [](const auto& p) { return p.at == nullptr; });
      if (!over) step(t);
      unsigned next = over ? (t + 1) % Threads : rl::rand(Threads);
      for (const auto& p : places)
        if (p.at != nullptr && record_of(p.at).is_awake &&
            (record_of(p.at).state == record::handed_over || rl::rand(2) == 0)) {
          next = p.thread;  // the waiter may own the mutex
          if (record_of(p.at).state == record::handed_over) break;
        }
      turn.store(next, std::memory_order_release);
      if (over) return;
    }
  }

  void step(unsigned t) {
    if (steps != 0) steps--;
    // The thread returns from a wait, gives up a wait, or only locks.
    waiting* mine = nullptr;
    for (auto& p : places) {
      if (p.at == nullptr || p.thread != t) continue;
      const record& r = record_of(p.at);
      if (r.state == record::handed_over)
        mine = &p;
      else if (mine == nullptr && (r.is_awake ? steps == 0 || rl::rand(2) == 0 : r.is_listed() && rl::rand(8) == 0))
        mine = &p;
      if (r.state == record::handed_over) break;
    }
    mine != nullptr ? come_back(*mine) : lock();
    for (unsigned i = steps == 0 ? 0 : rl::rand(5); i != 0; i--) {
      const auto free = std::ranges::find(places, static_cast<void*>(nullptr), &waiting::at);
      if (rl::rand(3) == 0)
        announce(true);
      else if (free != places.end())
        come(*free, t);
    }
    if (steps == 0)
      if (void* const chain = select(true)) the_queue->deliver(chain);
    unlock();
    if (steps != 0 && rl::rand(8) == 0) announce(false);
  }

  /// A waiter whose thread does not block: it polls the waiter when its turn comes.
  struct waiting {
    void* at = nullptr;
    unsigned thread = 0;
  };

  void come(waiting& p, unsigned t) {
    record& r = begin_waiter({.number = ++arrivals, .priority = world.priority_of(t)});
    p = {r.at, t};
    the_queue->enter(r.at, queue(), m, chance());
    r.listed = true;
    arrived_after[t] = arrivals;
  }

  void come_back(waiting& p) {
    void* const w = p.at;
    record& r = record_of(w);
    const bool granted = the_queue->await_grant(w, manner::timed, 0, gave_up[p.thread]);
    if (granted != r.was_selected) fail("a wait does not return whether a signal has reached it");
    the_queue->come_back(w, granted, 0);
    see_lock();
    p.at = nullptr;
    end_waiter(r);
  }

  // ---- signals ----------------------------------------------------------------------------------------------

  bool sends_outside() const { return the_scenario->outside && rl::rand(2) == 0; }

  void announce(bool holding) {
    if (rl::rand(4) == 0) return announce_at_once();
    void* const chain = rl::rand(4) == 0 ? select(true) : select(false, cancels || rl::rand(2) == 0);
    if (chain == nullptr) return;
    if (holding)
      for (void* w = chain; w != nullptr; w = the_queue->next(w)) see_signalled(w);
    the_queue->deliver(chain);
  }

  /// Calls the functions that libusher.so calls. `busy` has no broadcast here, because close_refused() must know all
  /// selected waiters.
  void announce_at_once() {
    const bool all = !the_scenario->busy && rl::rand(4) == 0;
    see_selection_of(all, [&] {
      (all ? the_queue->broadcast : the_queue->signal)(queue());
      return nullptr;
    });
  }

  /// Selects waiters, and checks the selection.
  void* select(bool all, bool armed = true) {
    void* const chain = see_selection_of(
        all, [&] { return all ? the_queue->select_all(queue()) : the_queue->select_one(queue(), armed); });
    unsigned length = 0;
    for (void* w = chain; w != nullptr; w = the_queue->next(w)) length++;
    if (length != selected_by[rl::thread_index()]) fail("a chain does not consist of the selected waiters");
    return chain;
  }

  template <class Select>
  void* see_selection_of(bool all, Select selects) {
    const unsigned me = rl::thread_index();
    std::array<bool, execution::most_locals> waited{};
    for (const unsigned s : present()) waited[s] = records[s].is_listed() && records[s].number <= arrived_after[me];
    selected_by[me] = 0;
    chain_of[me] = ++chains;
    void* const chain = selects();
    chain_of[me] = 0;
    if (!all && selected_by[me] > 1) fail("a signal selects several waiters");
    for (const unsigned s : present())
      if (waited[s] && records[s].is_listed() && (all || selected_by[me] == 0))
        fail(all ? "a broadcast leaves out a waiter" : "a signal selects no thread, and one waits");
    return chain;
  }

  /// Records that a signal sent under the mutex has selected a waiter.
  void see_signalled(void* w) {
    record_of(w).is_signalled = true;
    signals_out++;
  }

  /// Records the delivery of a signal: a cancelled waiter may forward one.
  void see_delivered(void* w) {
    record& r = record_of(w);
    if (r.is_signalled) return;
    r.is_signalled = true;
    signals_out++;
  }

  /// Calls close() while a taker certainly waits without a signal: more takers wait than signals are under way. Each
  /// signal reaches one waiter, also if a cancelled waiter has yet to forward it.
  void close_refused() {
    unsigned wait_on = 0;
    for (const unsigned s : present()) wait_on += records[s].waits_for_ever && !records[s].is_signalled ? 1 : 0;
    if (wait_on > signals_out && rl::rand(2) == 0 && the_queue->close(queue()))
      fail("close() says that no thread waits, and one does");
  }

  // ---- waiting ----------------------------------------------------------------------------------------------

  bool wait_for_ever() { return rl::rand(2) == 0 ? wait(manner::for_ever) : wait(manner::timed, without_end); }

  /// Returns true if a signal has reached the thread.
  bool wait(manner how, unsigned looks = rl::rand(2)) {
    const unsigned me = rl::thread_index(), forks = world.forks();
    record& r = begin_waiter({.number = ++arrivals,
                              .waits_for_ever = how == manner::for_ever || looks == without_end,
                              .priority = world.priority_of(me)});
    void* const w = r.at;
    the_queue->enter(w, queue(), m, chance());
    r.listed = true;
    unlock();
    const bool granted = the_queue->await_grant(w, how, looks, gave_up[me]);
    if (granted && !r.was_selected) fail("a wait says that a signal has reached it, and none has");
    // A thread that forks in its wait may miss a signal that was not delivered before the fork.
    if (!granted && r.was_selected && world.forks() == forks)
      fail("a wait says that no signal has reached it, and one has");
    if (how == manner::forks && granted && rl::rand(2) == 0) fork_in_handler(w);  // before it owns the mutex again
    the_queue->come_back(w, granted, rl::rand(8) == 0 ? 1 : 0);
    see_lock();
    r.waits_for_ever = false;
    if (granted && r.is_signalled && signals_out != 0) signals_out--;
    end_waiter(r);
    return granted;
  }

  /// Joins the queue without the mutex, and leaves it again.
  void come_and_go() {
    record& r = begin_waiter({.priority = world.priority_of(rl::thread_index()), .ordered = false, .is_back = true});
    the_queue->enter(r.at, queue(), m, chance());
    the_queue->undo_enter(r.at);
    end_waiter(r);
  }

  record& begin_waiter(record begun) {
    void* const w = world.begin_local(the_queue->waiter_size, place::current(), the_queue->end_waiter);
    the_queue->make_waiter(w);
    const unsigned slot = world.slot_of_local(w);
    slots[waiters++] = std::uint8_t(slot);
    begun.at = w;
    return records[slot] = begun;
  }
  void end_waiter(record& r) {
    void* const w = std::exchange(r.at, nullptr);
    *std::ranges::find(present(), world.slot_of_local(w)) = slots[waiters - 1];
    waiters--;
    world.end_local(w, place::current());
    the_queue->end_waiter(w);
  }
  /// The slots of the waiters that have not left.
  std::span<std::uint8_t> present() { return std::span(slots).first(waiters); }

  // ---- observations -----------------------------------------------------------------------------------------

  void see_written(const void* word) {
    if (word == &m.timed) {
      if (m.counted_timed() == 0) passed_by = false;
      if (m.counted_timed() > world.count_limit(mutex_bytes::most_timed))
        fail("more threads with a deadline are counted than the count has room for");
      timed_at_write[rl::thread_index()] = m.counted_timed();
      if ((m.timed.newest() & mutex_bytes::requeued) == 0)  // the whole chain is removed with its first waiter
        for (const unsigned s : present()) records[s].requeued = false;
      return;
    }
    if (!world.is_local(word)) return;
    record& r = record_of(word);
    if (r.at == nullptr) return;
    const std::uint32_t was = std::exchange(r.state, the_queue->state(r.at));
    if (was == record::waiting && r.state == record::selected) see_selected(r);
    if (was < record::granted && r.state >= record::granted) see_awake(r);
  }

  void see_selected(record& r) {
    const unsigned me = rl::thread_index();
    r.was_selected = true;
    r.chain = chain_of[me];
    r.place = ++selected_by[me];
    if (!r.ordered) return;
    see_selection(r, at_tail, [this](auto look_at) {
      for (const unsigned s : present())
        if (records[s].is_listed()) look_at(records[s]);
    });
  }

  void see_awake(record& r) {
    const unsigned me = rl::thread_index();
    r.is_awake = true;
    woken_by[me] = &r;
    if (r.state == record::handed_over) {
      r.is_back = true;
      if (passed_by) fail("two hand-overs in a row pass over a thread with a deadline");
      passed_by = timed_at_write[me] != 0;
      if (in_a_row >= 7 && m.said[me].due != mutex_bytes::replies::no)
        fail("the mutex is handed over eight times in a row, and a thread at the lock has waited long");
      in_a_row++;
      hands_over[me] = true;
    }
    see_awake_in_chain(r, [this](auto look_at) {
      for (const unsigned s : present()) look_at(records[s]);
    });
  }

  void see_back(void* w) {
    record_of(w).is_back = true;
    see_locked();
  }
  void see_locked() {
    passed_by = false;
    in_a_row = 0;
    has_from_parent = false;
  }

  void see_requeued(const chain_seen& chain, const chain_seen& then) {
    for (unsigned i = 0; i < chain.size; i++) {
      record& r = record_of(chain.waiters[i]);
      r.place_at_mutex = ++requeues;
      if (r.requeued_since == 0) r.requeued_since = world.clock();
      r.requeued = true;
    }
    if (then.size != std::size_t(std::ranges::count_if(present(), [this](unsigned s) { return records[s].requeued; })))
      fail("a requeue loses a waiter");
    for (unsigned i = 0; i + 1 < then.size; i++) {
      const record &a = record_of(then.waiters[i]), &b = record_of(then.waiters[i + 1]);
      if (a.priority < b.priority || (a.priority == b.priority && a.place_at_mutex > b.place_at_mutex))
        fail("requeued threads are not in order");
    }
  }

  /// Called by the thread that owns the mutex.
  void see_lock() {
    arrived_after[rl::thread_index()] = arrivals;
    if (m.is_valid() && !the_scenario->undoes && m.counted_users() != m.users_elsewhere + m.users)
      fail("the mutex does not count its users");
  }

  // ---- forks ------------------------------------------------------------------------------------------------

  void prepare_forks() {
    forks_in_wait = {[](void* self, void* w) { static_cast<program*>(self)->fork_in_handler(w); }, this};
    forks_twice = rl::rand(3) == 0;
    cancels = rl::rand(2) == 0;
    for (unsigned t = 1; t < Threads; t++) {
      generation[t] = t == 1 ? 0 : rl::rand(forks_twice ? 3 : 2);
      world.begins_after(t, generation[t]);
      manners[t] = cancels && rl::rand(2) == 0 ? manner::cancelled : manner::timed;
    }
    generation[0] = forks_twice ? 2 : 1;  // the last process, in which this thread does not vanish
  }

  void do_as_generation(unsigned t) { generation[t] == 0 ? use_in_parent() : do_as_scenario(t); }

  /// A thread may wait here without end, because the fork removes it. The thread that forks never does.
  void use_in_parent() {
    for (unsigned i = 0; i < 2; i++)
      if (rl::rand(2) == 0)
        announce_in_parent();
      else {
        lock();
        rl::rand(2) == 0 ? wait_for_ever() : wait(manners[rl::thread_index()]);
        unlock();
      }
  }

  void announce_in_parent() {
    lock();
    const bool holds = rl::rand(4) != 0;
    if (holds) announce(true);
    unlock();
    if (!holds) announce(false);
  }

  void fork_and_post() {
    for (unsigned i = rl::rand(3); i != 0; i--) announce_in_parent();
    bool holds = rl::rand(2) == 0;
    if (holds) lock();
    bool had_it_at_fork = holds;
    if (holds && rl::rand(2) == 0) {
      had_it_at_fork = false;
      wait(manner::forks);
      if (world.forks() == 0) fork(had_it_at_fork = true);  // the grant came before the handler ran
    } else {
      fork(holds);
    }
    if (forks_twice) {
      if (holds && rl::rand(2) == 0) {
        unlock();
        holds = false;
      }
      fork(had_it_at_fork = holds);
    }
    if (had_it_at_fork) {
      to_post.set(to_post.get());
      if (rl::rand(4) == 0 && the_queue->lock_in_time(m)) fail("the child has a mutex twice");
    }
    if (had_it_at_fork && rl::rand(2) == 0 && the_queue->select_one(queue(), true) != nullptr)
      fail("a signal selects a thread, and none has entered this child's queue");
    if (holds) unlock();
    post();
  }

  void fork(bool holds) {
    world.fork(node_pool::anew);
    begin_child(holds, nullptr);
  }

  void fork_in_handler(void* w) {
    world.fork(node_pool::anew);
    begin_child(the_queue->was_handed_over(w), w);
  }

  /// The thread that has forked prepares the child's data before the child's other threads begin. A mutex that another
  /// thread owned would stay locked, so it is initialised again.
  void begin_child(bool holds, void* own_waiter) {
    forget_parent(own_waiter);
    has_from_parent = holds;
    if (!holds && m.owner_tag.newest() != 0) {
      locked_for_good = rl::rand(4) == 0;
      if (locked_for_good && the_queue->lock_in_time(m)) fail("the mutex is locked for good, and the child has it");
      m.begin_anew();
    }
    unsigned takers = 0, threads = 0;
    for (unsigned t = 0; t < Threads; t++) {
      if (t != 0 && generation[t] != world.forks()) continue;
      threads++;
      takers += roles[t] == taker ? 1 : 0;
    }
    tokens.set(0);
    to_post.set(takers);
    users.set(threads);
    world.start_threads();
  }

  /// Clears the observations of vanished threads. The waiter of the thread that forks is in no queue and in no chain
  /// of the child.
  void forget_parent(void* own_waiter) {
    for (const unsigned s : present()) {
      record& r = records[s];
      if (r.at != own_waiter) {
        r = {};
        continue;
      }
      r.listed = r.requeued = false;
      r.chain = 0;
      slots[0] = std::uint8_t(s);
    }
    waiters = own_waiter != nullptr ? 1 : 0;
    m.users = signals_out = in_a_row = 0;
    passed_by = false;
    chain_of = timed_at_write = {};
    woken_by = {};
  }

  // ---- a mutex that another thread unlocks ------------------------------------------------------------------

  void take_one() {
    lock();
    while (tokens.get() == 0) wait_for_ever();
    tokens.set(0);
    unlock();
  }
  void signal_while_unlocked() {
    lock();
    tokens.set(1);
    if (Threads == 2) return announce(true), unlock();
    handed_over.store(1, std::memory_order_release);
    if (void* const w = select(false)) the_queue->deliver(w);
  }
  void unlock_anothers() {
    checked::await(
        handed_over, [](std::uint32_t h) { return h == 1; }, std::memory_order_acquire, look::polling);
    unlock();
  }

  // ---- the mutex --------------------------------------------------------------------------------------------

  void lock(unsigned looks = rl::rand(8) == 0 ? 1 : 0) {
    if (looks != 0 || rl::rand(4) != 0 || !the_queue->try_lock(m)) the_queue->lock(m, looks);
    see_locked();
    see_lock();
  }

  void unlock() {
    // After a fork, the mutex has the parent's words until the child renews it.
    if (has_from_parent || the_scenario->runs == task::foreign_unlock) return the_queue->unlock(m);
    using replies = mutex_bytes::replies;
    const unsigned me = rl::thread_index();
    void* const first = m.chain.get();
    const record* const r = first != nullptr ? &record_of(first) : nullptr;
    const std::uint32_t priority = r != nullptr ? r->priority : 0;
    const std::uint64_t waited = r != nullptr ? world.clock() - r->requeued_since : 0;
    // Only an owner changes these bits, so their values hold until this thread unlocks.
    const bool is_full = (m.timed.newest() / mutex_bytes::one_in_a_row & 7) == 7;
    const bool was_served = (m.timed.newest() & mutex_bytes::served) != 0;
    const bool urgent = r != nullptr && m.lock.urgent_wait != nullptr && m.lock.urgent_wait(m.state());
    m.said[me] = {};
    woken_by[me] = nullptr;
    hands_over[me] = false;
    the_queue->unlock(m);
    if (hands_over[me] && urgent)
      fail("the mutex is handed to a requeued thread, and a thread with a real-time priority waits for it");
    if (m.said[me].due == replies::yes && !is_full)
      fail("a requeued thread is passed over, and fewer than seven were handed the mutex in a row");
    if (waited >= 4000000 && was_served && !hands_over[me] && !urgent && m.said[me].urgent != replies::yes &&
        m.said[me].due != replies::yes)
      fail("a requeued thread that has waited for 4 ms is not handed the mutex");
    if (first == nullptr || woken_by[me] == r || m.said[me].urgent == replies::yes || m.said[me].due == replies::yes)
      return;
    if (waited >= 1000000) fail("a requeued thread is left asleep for more than 1 ms");
    if (priority != 0) fail("a requeued thread with a priority is left asleep");
    if (m.said[me].has_certain_successor != replies::yes)
      fail("a requeued thread is left asleep, and no other thread is certain to unlock");
  }

  /// Ends the thread's last critical section.
  void leave_and_unlock() {
    const std::uint32_t left = users.get() - 1;
    users.set(left);
    if (left == 0 && the_scenario->ends) {
      if (!the_queue->close(queue())) fail("close() says that threads wait, and all have left");
      world.end_of(the_queues_life);
    }
    if (left == 0 && the_queue->has_users(m) != (m.users_elsewhere != 0)) fail("the mutex still counts a user");
    unlock();
    if (left != 0) return;
    if (!the_scenario->forked && rl::rand(2) == 0) unlock_free();
    world.end_of(the_mutexs_life);
  }

  /// Called by the last thread. Unlocking a free mutex must change nothing.
  void unlock_free() {
    the_queue->unlock(m);
    if (!the_queue->lock_in_time(m)) fail("a free mutex was unlocked, and cannot be locked any more");
    if (the_queue->lock_in_time(m)) fail("a free mutex was unlocked, and then locked twice");
    unlock();
  }

  /// Locks and unlocks the mutex if it becomes free soon.
  void look_in() {
    if (rl::rand(4) != 0 || !the_queue->lock_in_time(m)) return;
    see_locked();
    see_lock();
    unlock();
  }

  void* queue() { return bytes.data(); }
  append_probability chance() const { return append_probability(at_tail); }

  /// The scenario's record of a waiter. relacy does not observe accesses to it.
  struct record {
    enum : std::uint32_t { waiting, leaving, selected, granted, handed_over };  // as in wait_queue.hpp

    void* at = nullptr;  // null if it has left
    unsigned number = 0;
    bool waits_for_ever = false, is_signalled = false;
    std::uint32_t priority = 0, state = waiting;
    bool ordered = true, listed = false, was_selected = false, is_awake = false, requeued = false, is_back = false;
    unsigned chain = 0, place = 0, place_at_mutex = 0;
    std::uint64_t requeued_since = 0;  // an upper bound

    bool is_listed() const { return at != nullptr && listed && state == waiting; }
  };

  execution world{{.stray_wakes = the_scenario->stray_wakes}, Threads};
  // The list's order is FIFO, mixed, or LIFO. Random numbers have 16 bits here.
  double at_tail = std::array{1.0, 0x1p-17, 0x1p-32}[rl::rand(3)];
  mutex_bytes m{*mutexes()[rl::rand(unsigned(mutexes().size()))]};
  alignas(64) std::array<std::byte, room_for_target> bytes;
  checked::plain<std::uint32_t> tokens, to_post, users, flag;
  checked::atomic<std::uint32_t> handed_over, returned;
  std::array<unsigned, Threads> generation{};
  bool forks_twice = false, locked_for_good = false;
  std::array<role, Threads> roles;
  std::array<manner, Threads> manners;
  bool cancels = false;
  std::array<record, execution::most_locals> records;      // indexed by the waiter's slot
  std::array<std::uint8_t, execution::most_locals> slots;  // see present()
  unsigned waiters = 0;
  std::array<bool, Threads> gave_up{};
  unsigned arrivals = 0, signals_out = 0, chains = 0, requeues = 0;
  std::array<unsigned, Threads> arrived_after{}, selected_by{}, chain_of{}, timed_at_write{};
  std::array<const record*, Threads> woken_by{};
  std::array<bool, Threads> hands_over{};
  bool has_from_parent = false;  // the forking thread has owned the mutex since before the fork
  bool passed_by = false;        // the last unlock handed over while a thread with a deadline waited
  unsigned in_a_row = 0;
  const unsigned in_row =
      Threads == 2 ? 1 : Threads - 1 - (rl::rand(4) == 0 ? 0 : 1);  // row: the number of waiters, from thread 1 on
  std::array<waiting, 10> places;
  bool row_begun = false;
  unsigned steps = 4 + rl::rand(9);
  checked::atomic<std::uint32_t> turn;
};

}  // namespace

std::vector<target> queue_targets() {
  std::vector<target> all;
  mutexes();  // must run before relacy replaces the allocator
  for (const checked_queue& q : checked_queues()) {
    target s{
        .name = q.name, .mutation = q.mutation, .header = own_headers, .size = q.size, .scenarios = {}, .explore = {}};
    for (const scenario& c : scenarios) s.scenarios.push_back(c.name);
    s.explore = [&q](unsigned c, unsigned threads, const options& o) {
      the_queue = &q;
      the_scenario = &scenarios[c];
      return explore<program>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
