// The scenarios of a condition variable's waiting list. Threads wait and signal like threads under libusher.so: through
// the shipped code (core/condition_wait.hpp), and with a mutex to which they are requeued (core/wait_morphing.hpp). The
// files of queue/ describe the programs of the threads.
//
// All scenarios check: a signal selects by the list's order and by priority; it selects at most one waiter, and exactly
// one if any waits. A broadcast selects each thread that waits at that time. The threads of a chain (those that one
// broadcast has selected) return in its order, and only one of them at a time is awake without the mutex. A requeue
// adds the chain to the waiters that are already requeued, keeps the order of both, and loses no waiter. An unlock
// leaves no waiter asleep beyond the limits of wait_morphing.hpp. The mutex counts its users.
#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {
namespace {

constexpr queue_scenario scenarios[] = {
    {.name = "tokens", .begin = begin_tokens, .outside = true},
    {.name = "stray", .begin = begin_tokens, .stray_wakes = 2, .outside = true},
    {.name = "last-ends", .begin = begin_tokens, .ends = true},
    {.name = "busy", .begin = begin_tokens, .busy = true},
    {.name = "ranks", .begin = begin_tokens, .ranks = true},
    {.name = "forked", .begin = begin_forked, .forked = true},
    {.name = "undone", .begin = begin_tokens, .outside = true, .undoes = true},
    {.name = "broadcast", .begin = begin_ends},
    {.name = "signals", .begin = begin_ends, .one_by_one = true},
    {.name = "woken", .begin = begin_woken_ends, .users = 2},
    {.name = "foreign", .begin = begin_foreign_unlock},
    {.name = "row", .begin = begin_row},
    {.name = "wakes", .begin = begin_wakes},
    {.name = "in-turn", .begin = begin_in_turn, .ranks = true},
};

constexpr const char* own_headers = "wait_queue.hpp wait_morphing.hpp condition_wait.hpp timed_waiters.hpp";

template <rl::thread_id_t Threads>
struct program : rl::test_suite<program<Threads>, Threads> {
  ~program() { std::destroy_at(runs); }
  void thread(unsigned t) { runs->thread(t); }
  void after() { runs->after(); }

  queue_program* const runs = the_scenario->begin(Threads);
};

}  // namespace

std::vector<target> queue_targets() {
  std::vector<target> all;
  mutexes();  // must run before relacy replaces the allocator
  for (const checked_queue& q : checked_queues()) {
    target s{
        .name = q.name, .mutation = q.mutation, .header = own_headers, .size = q.size, .scenarios = {}, .explore = {}};
    for (const queue_scenario& c : scenarios) s.scenarios.push_back(c.name);
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
