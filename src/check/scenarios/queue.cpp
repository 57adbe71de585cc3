// The clients of a condition variable's waiting list: threads that use it as libusher.so does (preload/cond.cpp), with
// a mutex to which they are moved (preload/moved.hpp, mutex_operations.hpp).
//
// Tokens. *Takers* wait without a limit until each has one; *posters* add as many as there are takers; *victims* wait
// once, give up or are cancelled, and never look for a token. So a signal that is lost, or that a victim swallows, is a
// deadlock.
// Ends. Somebody ends the queue's life as soon as the pthread interface lets it, the mutex held or not.
#include "check/checked_lock.hpp"
#include "check/checked_queue.hpp"
#include "check/explore.hpp"
#include "usher/core/timed_waiters.hpp"

namespace usher::check {
namespace {

enum class program { tokens, broadcast_ends, signals_end, woken_ends };

struct client {
  const char* name;
  program runs = program::tokens;
  unsigned stray_wakes = 0;
  bool outside = false;  ///< signals are also sent without the mutex
  bool ends = false;     ///< tokens: whoever is done last ends the queue's life
  bool busy = false;     ///< tokens: close() in between, which must be refused
  bool ranks = false;    ///< tokens: threads have priorities
};

constexpr client clients[] = {
    {.name = "tokens", .outside = true},
    {.name = "stray", .stray_wakes = 2, .outside = true},
    {.name = "last-ends", .ends = true},
    {.name = "busy", .busy = true},
    {.name = "ranks", .ranks = true},
    {.name = "broadcast", .runs = program::broadcast_ends},
    {.name = "signals", .runs = program::signals_end},
    {.name = "woken", .runs = program::woken_ends},
};

const checked_queue* the_queue;
const client* the_client;

constexpr unsigned the_queues_life = 0, the_mutexs_life = 1;

/// A pthread mutex of the normal kind, as far as a condition variable is concerned.
class mutex {
  using gate = timed_gate<checked>;

 public:
  explicit mutex(const checked_lock& l) : lock_(l) { lock_.make(state()); }
  ~mutex() { lock_.end(state()); }
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock(bool by_time) {
    const lock_handle l{&lock_, state()};
    unsigned left = 1;
    if (!by_time || !gate::lock(
                        l, timed_, [&]() -> std::uint64_t { return left == 0 ? 0 : left--; }, &held_))
      lock_.lock(state());
    take_over();
  }
  /// The mutex has been handed to this thread.
  void take_over() { held_.store(gate::unknown_owner + 1 + rl::thread_index(), std::memory_order_relaxed); }

  void unlock() {
    const lock_handle l{&lock_, state()};
    if (!gate::anyone_after(held_, timed_)) return lock_.unlock(state());
    void* first = nullptr;
    if (gate::has_requeued(timed_) && !leaves_moved() && gate::take_requeued(timed_)) {
      first = take_moved();
      if (!gate::serves_timed(timed_) && rl::rand(2) == 0) {
        gate::pass_by(timed_);
        held_.store(gate::unknown_owner, std::memory_order_relaxed);
        return the_queue->hand_over(first);
      }
    }
    gate::unlock(l, timed_, &held_);
    if (first != nullptr) the_queue->grant(first);
  }

  // As pthread_mutex_destroy() asks for them.
  bool add_user() { return gate::add_user(timed_); }
  void remove_user() { gate::remove_user(timed_); }
  bool has_users() const { return gate::has_users(timed_); }

  /// By the holder.
  void move_here(void* chain) {
    if (void* const first = moved_.get()) {
      moved_.set(the_queue->append(first, chain));
      see_in_order();
    } else {
      moved_.set(chain);
      gate::set_requeued(timed_);
    }
  }

  bool idle() const { return moved_.get() == nullptr && timed_.newest() << 6 == 0 && held_.newest() == 0; }

 private:
  void* state() { return bytes_.data(); }
  void see_in_order() {
    void* w = moved_.get();
    for (void* next; (next = the_queue->next(w)) != nullptr; w = next)
      if (the_queue->priority(w) < the_queue->priority(next)) wrong("a chain is not in the order of priorities");
    if (w != the_queue->last(moved_.get())) wrong("a chain does not know its last");
  }
  void* take_moved() {
    void* const first = moved_.get();
    moved_.set(nullptr);
    return first;
  }
  /// For how long, chance says here.
  bool leaves_moved() {
    void* const first = lock_.contended != nullptr ? moved_.get() : nullptr;
    return first != nullptr && lock_.contended(state()) && !the_queue->urgent(first) && !checked::bernoulli(1000);
  }

  const checked_lock& lock_;
  alignas(64) std::array<std::byte, room_for_subject> bytes_;
  checked::atomic<std::uint32_t> timed_, held_;
  checked::plain<void*> moved_;
};

/// How a thread waits.
enum class manner { for_ever, timed, cancelled };

template <rl::thread_id_t Threads>
struct suite : rl::test_suite<suite<Threads>, Threads> {
  enum role { poster, taker, victim };

  suite() {
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
      // Two who wait on, and one that may have to pass a signal on: only then is close() to be refused for certain.
      if (the_client->busy && Threads == 4 && t > 1 && rl::rand(4) != 0) roles[t] = t == 2 ? taker : victim;
      if (the_client->ranks && t > 1 && rl::rand(2) == 0) roles[t] = taker;  // chains of several
      takers += roles[t] == taker ? 1 : 0;
      if (the_client->ranks) world.set_priority(t, rl::rand(3));
      // With cancellation in the program, a signal has to be one that can be passed on: preload/cond.cpp.
      manners[t] = rl::rand(2) == 0 ? manner::timed : manner::cancelled;
      if (roles[t] == victim && manners[t] == manner::cancelled) cancels = true;
    }
    to_post.set(takers);
    users.set(the_client->runs == program::woken_ends ? 2 : Threads);
  }
  ~suite() { the_queue->end(queue()); }

  void thread(unsigned t) {
    if (the_client->runs == program::woken_ends)
      t == 0 ? be_woken() : t == 1 ? wake() : void();
    else if (the_client->runs != program::tokens)
      t == 0 ? finish() : attend();
    else if (roles[t] == poster)
      post();
    else if (roles[t] == taker)
      take();
    else
      visit(manners[t]);
  }

  void after() {
    world.watch_nothing();
    if (the_client->runs == program::tokens && (tokens.get() != 0 || to_post.get() != 0)) wrong("a token is left");
    if (!m.idle()) wrong("the mutex keeps somebody");
    if (!world.all_nodes_free()) fail("a node was not given back", rl::test_result_resource_leak, place::current());
  }

 private:
  // ---- the programs -----------------------------------------------------------------------------------------

  void take() {
    lock();
    while (tokens.get() == 0) wait(manner::for_ever);
    tokens.set(tokens.get() - 1);
    leave_and_unlock();
  }

  void post() {
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
      if (the_client->busy) close_refused();
      unlock();
      for (; outside != 0; outside--) announce(false);
    }
  }

  void visit(manner how) {
    lock();
    // A cancelled one has passed the signal on.
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
      while (!flag.get()) wait(manner::for_ever);
    leave_and_unlock();
  }

  /// Nobody waits who has not been chosen: the queue may go.
  void finish() {
    lock();
    flag.set(1);
    const bool holds = rl::rand(2) == 0;
    if (!holds) leave_and_unlock();
    if (the_client->runs == program::signals_end) {
      for (unsigned i = 0; i < 2 * Threads; i++)
        if (void* const w = the_queue->choose_one(queue(), true)) deliver(w, holds);
    } else if (void* const first = the_queue->choose_all(queue())) {
      deliver(first, holds);
    }
    if (!the_queue->close(queue())) wrong("close() says that threads wait, and all were chosen");
    world.end_of(the_queues_life);
    if (holds) leave_and_unlock();
  }

  /// One that is woken only by a signal knows that the signal is over, and nobody else is there.
  void be_woken() {
    lock();
    flag.set(1);
    if (to_post.get() == 0) return leave_and_unlock();  // wake() has been here
    wait(manner::for_ever);
    if (!the_queue->close(queue())) wrong("close() says that threads wait, and there is none");
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

  // ---- signals ----------------------------------------------------------------------------------------------

  bool sends_outside() const { return the_client->outside && rl::rand(2) == 0; }

  void announce(bool holding) {
    void* const chain =
        rl::rand(4) == 0 ? the_queue->choose_all(queue()) : the_queue->choose_one(queue(), cancels || rl::rand(2) == 0);
    if (chain == nullptr) return;
    if (holding)
      for (void* w = chain; w != nullptr; w = the_queue->next(w)) see_chosen(w);
    deliver(chain, holding);
  }

  /// A signal sent under the mutex has chosen a waiter. Where the order is that of arrival, so are those chosen, of one
  /// priority. In `ranks` no signal is sent in any other way.
  void see_chosen(void* w) {
    record& r = records[world.slot_of_local(w)];
    if (at_tail == 1 && !the_client->ranks && r.number <= last_chosen) wrong("a signal chose one that came later");
    if (the_client->ranks && !cancels)
      for (const record& other : records) {
        if (!other.waits_for_ever || other.chosen) continue;
        if (other.priority > r.priority) wrong("a signal passed over a waiter of a higher priority");
        if (at_tail == 1 && other.priority == r.priority && other.number < r.number)
          wrong("a signal chose one that came later");
      }
    last_chosen = r.number;
    r.chosen = true;
    signals_out++;
  }

  void deliver(void* chain, bool holding) {
    // As in the preload it may not be certain that the caller holds the mutex.
    if (holding && rl::rand(8) != 0)
      m.move_here(chain);
    else
      the_queue->grant(chain);
  }

  /// close() while a thread waits for ever that none of the signals can have reached: each signal reaches one, and a
  /// cancelled waiter may be just about to pass it on.
  void close_refused() {
    unsigned wait_on = 0;
    for (const record& r : records) wait_on += r.waits_for_ever && !r.chosen ? 1 : 0;
    if (wait_on > signals_out && rl::rand(2) == 0 && the_queue->close(queue()))
      wrong("close() says that nobody waits, and somebody does");
  }

  // ---- waiting: preload/cond.cpp ----------------------------------------------------------------------------

  /// True: granted.
  bool wait(manner how) {
    void* const w = world.begin_local(the_queue->waiter_size, place::current());
    the_queue->make_waiter(w);
    record& r = records[world.slot_of_local(w)];
    r = {++arrivals, how == manner::for_ever, false, world.priority_of(rl::thread_index())};
    const bool counted = m.add_user();
    the_queue->enter(queue(), w, chance());
    unlock();
    const bool granted = sleep(w, how);
    if (granted && !gave_up[rl::thread_index()]) the_queue->depart(queue(), w);
    if (granted && the_queue->was_handed(w))
      m.take_over();
    else
      lock();
    if (counted) m.remove_user();
    r.waits_for_ever = false;
    if (granted && r.chosen && signals_out != 0) signals_out--;
    if (granted)
      if (void* const next = the_queue->rest(w)) deliver(next, true);
    world.end_local(w, place::current());
    the_queue->end_waiter(w);
    return granted;
  }

  bool sleep(void* w, manner how) {
    gave_up[rl::thread_index()] = false;
    unsigned looks = rl::rand(2);
    std::uint32_t state = 0;
    while (the_queue->awake(w, state)) {
      if (how == manner::for_ever || (how == manner::timed && state != waiting_state)) {
        the_queue->park(w, state, false);
      } else if (looks != 0) {
        looks--;
        the_queue->park(w, state, true);
      } else if (how == manner::cancelled) {
        gave_up[rl::thread_index()] = true;
        return withdraw(w);
      } else if (the_queue->leave(queue(), w)) {
        return false;
      }
    }
    return true;
  }

  bool withdraw(void* w) {
    if (the_queue->leave(queue(), w)) return false;
    if (void* const other = the_queue->pass_on(queue(), w)) {
      record& r = records[world.slot_of_local(other)];
      r.chosen = true;
      signals_out++;
      deliver(other, false);
    }
    the_queue->sleep(w);
    return true;
  }

  // ---- the mutex --------------------------------------------------------------------------------------------

  void lock() { m.lock(rl::rand(8) == 0); }
  void unlock() { m.unlock(); }

  /// The last thing that a thread does with the mutex held.
  void leave_and_unlock() {
    const std::uint32_t left = users.get() - 1;
    users.set(left);
    if (left == 0 && the_client->ends) {
      if (!the_queue->close(queue())) wrong("close() says that threads wait, and all have gone");
      world.end_of(the_queues_life);
    }
    if (left == 0 && m.has_users()) wrong("the mutex still counts a thread that waits with it");
    unlock();
    if (left == 0) world.end_of(the_mutexs_life);
  }

  void* queue() { return bytes.data(); }
  append_chance chance() const { return append_chance(at_tail); }

  /// What chance gives the clients to know of a waiter. Not the program's: relacy does not see it.
  struct record {
    unsigned number = 0;
    bool waits_for_ever = false, chosen = false;
    std::uint32_t priority = 0;
  };

  execution world{{.stray_wakes = the_client->stray_wakes}, false};
  // First in, first out; mixed (random numbers have 16 bits here); last in, first out.
  double at_tail = std::array{1.0, 0x1p-17, 0x1p-32}[rl::rand(3)];
  mutex m{*mutexes()[rl::rand(unsigned(mutexes().size()))]};
  alignas(64) std::array<std::byte, room_for_subject> bytes;
  checked::plain<std::uint32_t> tokens, to_post, users, flag;
  std::array<role, Threads> roles;
  std::array<manner, Threads> manners;
  bool cancels = false;
  std::array<record, execution::most_locals> records;
  std::array<bool, Threads> gave_up{};
  unsigned arrivals = 0, last_chosen = 0, signals_out = 0;
};

}  // namespace

std::vector<subject> queue_subjects() {
  std::vector<subject> all;
  mutexes();  // before relacy has the allocator
  for (const checked_queue& q : checked_queues()) {
    subject s{.name = q.name, .bug = q.bug, .header = "wait_queue.hpp", .size = q.size, .clients = {}, .explore = {}};
    for (const client& c : clients) s.clients.push_back(c.name);
    s.explore = [&q](unsigned c, unsigned threads, const options& o) {
      the_queue = &q;
      the_client = &clients[c];
      return explore<suite>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
