// The clients of semaphores. The waiting is preload/semaphore.cpp's.
//
// Mutex. One credit: each thread acquires it twice, in any manner, and adds one to a plain counter. Whoever makes the
// last acquisition ends the semaphore's life straight away, though others may still be inside release().
// Credits. *Takers* wait without a limit until each has its credits; *posters* release as many; *victims* give up or
// are cancelled, and give back what they have got. Credits that are lost or swallowed are a deadlock, made ones show at
// the end.
// Maximum. Nobody waits; what goes beyond the greatest number is refused.
// Ranks. Threads with priorities fall asleep one after the other, then as many credits are released as there are threads:
// they must be woken by priority, and those of one priority in the order in which they came.
#include "check/checked_semaphore.hpp"
#include "check/explore.hpp"

namespace usher::check {
namespace {

enum class program { mutex, credits, maximum, ranks };

struct client {
  const char* name;
  program runs;
  bool lifo = false;  ///< mostly last in, first out, or mixed; else first in, first out
  unsigned stray_wakes = 0;
};

constexpr client clients[] = {
    {.name = "mutex", .runs = program::mutex},
    {.name = "mutex-lifo", .runs = program::mutex, .lifo = true, .stray_wakes = 1},
    {.name = "credits", .runs = program::credits},
    {.name = "lifo", .runs = program::credits, .lifo = true},
    {.name = "stray", .runs = program::credits, .lifo = true, .stray_wakes = 2},
    {.name = "maximum", .runs = program::maximum},
    {.name = "ranks", .runs = program::ranks},
};

constexpr std::uint32_t maximum = 0x7fffffff;

const checked_semaphore* the_semaphore;
const client* the_client;

enum class manner { for_ever, timed, cancelled };

template <rl::thread_id_t Threads>
struct suite : rl::test_suite<suite<Threads>, Threads> {
  enum role { poster, taker, victim };

  suite() {
    world.watch(0, {bytes.data(), the_semaphore->size, "the semaphore ends while another thread may touch it",
                    "the semaphore is touched after its end"});
    world.name(bytes.data(), the_semaphore->size, "semaphore");
    world.name(acquired, "acquired");
    if (the_client->runs == program::mutex)
      begins_with = 1;
    else if (the_client->runs == program::maximum)
      begins_with = maximum - 1;
    if (the_client->runs == program::ranks)
      for (unsigned t = 1; t < Threads; t++) world.set_priority(t, rl::rand(3));
    unsigned wanted = 0;
    for (unsigned t = 0; t < Threads; t++) {
      roles[t] = t == 0 ? poster : t == 1 ? taker : std::array{taker, taker, victim, victim, poster}[rl::rand(5)];
      share[t] = 0;
      if (roles[t] == taker) wanted += share[t] = 1 + rl::rand(2);
    }
    if (the_client->runs == program::credits && wanted > 1 && rl::rand(4) == 0) begins_with = 1;
    for (unsigned left = the_client->runs == program::credits ? wanted - begins_with : 0, t = 0; left != 0;) {
      if (roles[t] == poster) {
        share[t]++;
        left--;
      }
      t = (t + 1) % Threads;
    }
    the_semaphore->make(semaphore(), begins_with);
  }
  ~suite() { the_semaphore->end(semaphore()); }

  void thread(unsigned t) {
    if (the_client->runs == program::mutex) return exclude();
    if (the_client->runs == program::maximum) return count(t);
    if (the_client->runs == program::ranks) return come_in_turn(t);
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

  void after() {
    world.watch_nothing();
    const std::uint32_t value = the_semaphore->value(semaphore());
    switch (the_client->runs) {
      case program::mutex:
        if (acquired.get() != Threads * acquisitions) wrong("acquisitions are missing");
        if (value != 0) wrong("the last owner's credit is not its own");
        return;
      case program::credits:
        if (value != 0) wrong("there are more credits than were released");
        return;
      case program::maximum:
        for (unsigned t = 0; t < Threads; t++) begins_with += changes[t];
        if (value != begins_with) wrong("credits have been lost or made");
        if (value > maximum) wrong("more credits than there may be");
        return;
      case program::ranks:
        if (value != 0 || world.woken() != Threads - 1) wrong("a thread was not woken for its credit");
        for (unsigned i = 0; i + 1 < world.woken(); i++) {
          const unsigned a = world.woken(i), b = world.woken(i + 1);
          if (world.priority_of(a) < world.priority_of(b)) wrong("a waiter of a higher priority was passed over");
          if (world.priority_of(a) == world.priority_of(b) && a > b) wrong("one of the same priority came later");
        }
    }
  }

 private:
  // ---- the programs -----------------------------------------------------------------------------------------

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

  // ---- preload/semaphore.cpp --------------------------------------------------------------------------------

  void release() {
    if (!the_semaphore->release(semaphore())) wrong("a credit is refused");
  }

  bool acquire(manner how) {
    if (the_semaphore->try_acquire(semaphore())) return true;
    void* const w = world.begin_local(the_semaphore->waiter_size, place::current());
    the_semaphore->make_waiter(w);
    const bool acquired_one = wait(w, how);
    world.end_local(w, place::current());
    the_semaphore->end_waiter(w);
    return acquired_one;
  }

  bool wait(void* w, manner how) {
    const append_chance chance(the_client->lifo ? (rl::rand(2) == 0 ? 0x1p-17 : 0x1p-32) : 1.0);
    unsigned looks = rl::rand(2);
    for (bool done = the_semaphore->enter(semaphore(), w, chance); !done;) {
      if (!the_semaphore->waits(w)) {
        done = the_semaphore->arrive(semaphore(), w);
      } else if (how == manner::for_ever) {
        the_semaphore->park(w, false);
      } else if (looks != 0) {
        looks--;
        the_semaphore->park(w, true);
      } else {
        const bool got_one = the_semaphore->leave(semaphore(), w);
        if (!got_one || how == manner::timed) return got_one;
        release();
        return false;
      }
    }
    return true;
  }

  void* semaphore() { return bytes.data(); }

  execution world{{.stray_wakes = the_client->stray_wakes}, Threads};
  alignas(64) std::array<std::byte, room_for_subject> bytes;
  checked::plain<std::uint32_t> acquired;
  std::uint32_t begins_with = 0;
  std::array<role, Threads> roles;
  std::array<unsigned, Threads> share;           // of the credits: to take, to release
  std::array<std::uint32_t, Threads> changes{};  // maximum: what each thread has added, modulo 2^32
};

}  // namespace

std::vector<subject> semaphore_subjects() {
  std::vector<subject> all;
  for (const checked_semaphore& v : checked_semaphores()) {
    subject s{
        .name = v.name, .bug = v.bug, .header = "semaphore_core.hpp", .size = v.size, .clients = {}, .explore = {}};
    for (const client& c : clients) s.clients.push_back(c.name);
    s.explore = [&v](unsigned c, unsigned threads, const options& o) {
      the_semaphore = &v;
      the_client = &clients[c];
      return explore<suite>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
