// The clients of locks: sets of chances over one program. Each thread acquires the lock twice, adds one to a plain
// counter, and whoever makes the last acquisition ends the lock's life after its unlock has returned.
#include "check/checked_lock.hpp"
#include "check/explore.hpp"
#include "usher/timed.hpp"

namespace usher::check {
namespace {

struct client {
  const char* name;
  chances let;
  bool tries = false;   ///< some acquisitions by try_lock
  bool timed = false;   ///< some with a deadline, beside the lock: timed.hpp
  bool guests = false;  ///< some as guests, where the lock has them
};

// In `plain` nothing but the lock itself wakes a sleeper.
constexpr client clients[] = {
    {.name = "plain", .let = {}},
    {.name = "stray", .let = {.stray_wakes = 2}},
    {.name = "try", .let = {.stray_wakes = 1}, .tries = true},
    {.name = "timed", .let = {}, .tries = true, .timed = true},
    {.name = "no-nodes", .let = {.refused_nodes = 2}, .guests = true},
};

// What the suites below run: relacy constructs them without arguments.
const checked_lock* the_lock;
const client* the_client;

/// The lock's memory and the timed waiters' word beside it: all that the last owner takes away.
struct object {
  alignas(128) std::array<std::byte, room_for_subject> lock;
  checked::atomic<std::uint32_t> gate;
};

template <rl::thread_id_t Threads>
struct suite : rl::test_suite<suite<Threads>, Threads> {
  using gate = timed_gate<checked>;

  suite() {
    the_lock->make(state());
    // The rest of the numbers' circle is as good as its beginning: half of the executions come over the wrap.
    if (the_lock->tickets && rl::rand(2) == 0)
      for (int i = 0; i < 2; i++)
        static_cast<checked::atomic<std::uint32_t>*>(state())[i].store(~std::uint32_t{3}, std::memory_order_relaxed);
    world.watch(0, {&it, sizeof it, "the lock's last owner ends it while another thread may still touch it",
                    "the lock is touched after the end of its life"});
    world.let_time_out(&it.gate);
  }
  ~suite() {
    world.watch_nothing();
    the_lock->end(state());
  }

  void thread(unsigned) {
    for (unsigned i = 0; i < acquisitions; i++) {
      acquire();
      const std::uint32_t n = acquired.get() + 1;
      acquired.set(n);
      if (the_lock->contended != nullptr && the_lock->contended(state()) && n == Threads * acquisitions)
        wrong("the lock says that another thread will have it, and none comes");
      release();
      if (n == Threads * acquisitions) world.end_of(0);
    }
  }

  void after() {
    if (acquired.get() != Threads * acquisitions) wrong("acquisitions are missing");
    if (!world.all_nodes_free()) fail("a node was not given back", rl::test_result_resource_leak, place::current());
  }

 private:
  void* state() { return it.lock.data(); }

  void acquire() {
    if (the_client->tries && rl::rand(2) == 0)
      for (int i = 0; i < 2; i++)
        if (the_lock->try_lock(state())) return;
    if (the_client->timed && rl::rand(2) == 0) {
      const lock_handle l{the_lock, state()};
      static constexpr std::array<unsigned, 4> patience{0, 1, 2, ~0u};
      unsigned left = patience[rl::rand(patience.size())];
      if (gate::lock(l, it.gate, [&]() -> std::uint64_t { return left == 0 ? 0 : left--; })) return;
    }
    if (the_client->guests && the_lock->lock_as_guest != nullptr && rl::rand(2) == 0)
      return the_lock->lock_as_guest(state());
    the_lock->lock(state());
  }

  /// As timed_mutex::unlock().
  void release() {
    if (!the_client->timed || !gate::anyone(it.gate)) return the_lock->unlock(state());
    const wake_key key = checked::key_of(it.gate);
    if (gate::unlock(it.gate) == gate::outcome::handed_over) return;
    the_lock->unlock(state());
    checked::wake(key, every_sleeper, 1);
  }

  execution world{the_client->let, the_lock->traits->fifo};
  object it;
  checked::plain<std::uint32_t> acquired;
};

}  // namespace

std::vector<subject> lock_subjects() {
  std::vector<subject> all;
  for (const checked_lock& l : checked_locks()) {
    subject s{.name = l.name, .bug = l.bug, .header = {}, .size = l.size, .clients = {}, .explore = {}};
    for (const client& c : clients) s.clients.push_back(c.name);
    s.explore = [&l](unsigned c, unsigned threads, const options& o) {
      the_lock = &l;
      the_client = &clients[c];
      return explore<suite>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
