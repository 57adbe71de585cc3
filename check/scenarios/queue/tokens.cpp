// - Tokens: *takers* wait without a limit until each has a token; *posters* add as many tokens as there are takers;
//   *victims* wait once, time out or are cancelled, and never take a token. A signal that is lost, or that a victim
//   consumes, therefore causes a deadlock.
// - Undone: threads join the queue without the mutex and leave it again, like pthread_cond_wait() when it cannot unlock
//   the mutex.
// - Forked: the process forks at any moment, and the child may fork again. At the fork, the forking thread is outside
//   all operations, or owns the mutex, or sleeps in the queue while a signal handler forks. The child's threads then
//   run `tokens` with the queue and the mutex of the parent.
#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {
namespace {

class tokens_program : public queue_program {
 public:
  explicit tokens_program(unsigned threads) : queue_program(threads) {}

  void thread(unsigned t) override {
    if (roles[t] == poster)
      post();
    else if (roles[t] == taker)
      take();
    else
      visit(manners[t]);
  }

 protected:
  void post() {
    lock_briefly();
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

 private:
  void check_end() override {
    if (tokens.get() != 0 || to_post.get() != 0) fail("a token is left");
  }

  void take() {
    if (the_scenario->undoes && rl::rand(2) == 0) come_and_go();
    lock_briefly();
    lock();
    while (tokens.get() == 0) wait_for_ever();
    tokens.set(tokens.get() - 1);
    leave_and_unlock();
  }

  void visit(manner how) {
    if (the_scenario->undoes && rl::rand(2) == 0) come_and_go();
    lock_briefly();
    lock();
    // `gave_up`: the waiter was cancelled and has forwarded the signal.
    if (!wait(how) || gave_up[rl::thread_index()]) return leave_and_unlock();
    if (!sends_outside()) {
      announce(true);
      return leave_and_unlock();
    }
    leave_and_unlock();
    announce(false);
  }

  /// Calls close() while a taker certainly waits without a signal: more takers wait than signals are under way. Each
  /// signal reaches one waiter, even if a cancelled waiter has yet to forward it.
  void close_refused() {
    unsigned wait_on = 0;
    for (const unsigned s : present()) wait_on += records[s].waits_for_ever && !records[s].is_signalled ? 1 : 0;
    if (wait_on > signals_out && rl::rand(2) == 0 && the_queue->close(queue()))
      fail("close() says that no thread waits, and one does");
  }

  /// Locks and unlocks the mutex if it becomes free soon.
  void lock_briefly() {
    if (rl::rand(4) != 0 || !the_queue->lock_in_time(m)) return;
    see_locked();
    see_lock();
    unlock();
  }

  /// Joins the queue without the mutex, and leaves it again.
  void come_and_go() {
    record& r = begin_waiter({.priority = world.priority_of(rl::thread_index()), .ordered = false, .is_back = true});
    the_queue->enter(r.at, queue(), m, chance());
    the_queue->undo_enter(r.at);
    end_waiter(r);
  }

  bool sends_outside() const { return the_scenario->outside && rl::rand(2) == 0; }
};

class forked_program : public tokens_program {
 public:
  explicit forked_program(unsigned threads) : tokens_program(threads) {
    forks_in_wait = {[](void* self, void* w) { static_cast<forked_program*>(self)->fork_in_handler(w); }, this};
    forks_twice = rl::rand(3) == 0;
    cancels = rl::rand(2) == 0;
    for (unsigned t = 1; t < threads; t++) {
      generation[t] = t == 1 ? 0 : rl::rand(forks_twice ? 3 : 2);
      world.begins_after(t, generation[t]);
      manners[t] = cancels && rl::rand(2) == 0 ? manner::cancelled : manner::timed;
    }
    generation[0] = forks_twice ? 2 : 1;  // the last process, in which this thread does not vanish
  }

  void thread(unsigned t) override {
    world.run([this, t] {
      if (t == 0)
        fork_and_post();
      else if (generation[t] == 0)
        use_in_parent();
      else
        tokens_program::thread(t);
    });
  }

 private:
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
    begin_child(the_queue->was_handed_over(w) && is_granted(), w);
  }

  /// Whether an unlock has handed the mutex over, and no thread has it yet.
  bool is_granted() const { return (m.timed.newest() & mutex_bytes::granted) != 0; }

  /// The thread that has forked prepares the child's data before the child's other threads begin. A mutex that another
  /// thread owned would stay locked, so it is initialised again. One that was handed over to a thread that does not exist
  /// in the child can be had there.
  void begin_child(bool holds, void* own_waiter) {
    forget_parent(own_waiter);
    has_from_parent = holds;
    if (!holds && m.owner_tag.newest() != 0) {
      if (is_granted() && rl::rand(4) == 0) {
        if (!the_queue->lock_in_time(m))
          fail("the mutex was handed over before the fork, and the child cannot have it");
        the_queue->unlock(m);
      }
      locked_for_good = m.owner_tag.newest() != 0 && !is_granted() && rl::rand(4) == 0;
      if (locked_for_good && the_queue->lock_in_time(m)) fail("the mutex is locked for good, and the child has it");
      m.begin_anew();
    }
    unsigned takers = 0, in_child = 0;
    for (unsigned t = 0; t < threads; t++) {
      if (t != 0 && generation[t] != world.forks()) continue;
      in_child++;
      takers += roles[t] == taker ? 1 : 0;
    }
    tokens.set(0);
    to_post.set(takers);
    users.set(in_child);
    world.start_threads();
  }

  by_thread<unsigned> generation{};
  bool forks_twice = false;
};

}  // namespace

queue_program* begin_tokens(unsigned threads) {
  return begin<tokens_program>(threads);
}
queue_program* begin_forked(unsigned threads) {
  return begin<forked_program>(threads);
}

}  // namespace usher::check
