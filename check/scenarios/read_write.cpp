// The scenarios of read-write locks. Writers change two plain variables, readers compare them, so the checker finds each
// access that the lock does not order; the scenario itself counts the threads inside. In all scenarios but *share*,
// *linked*, *linked-try*, *many-give-up* and *forked* one thread, the last, locks when all others are in their last section, and ends the
// lock's life right after its unlock: the others may still be inside unlock() or unlock_shared(). The last thread writes, but
// in *reader-ends*.
//
// - Exclude: readers and writers. *stray* has spurious wake-ups, too.
// - Mixed: also attempts, attempts with a deadline, upgrades of readers, writers that become readers.
// - Fair: while a reader waits, at most one writer may begin or be inside. Under the rule phase_fair a reader that comes
//   after a writer has claimed the lock must not enter before that writer. If writers queue on a FIFO lock, a writer
//   that has passed its doorway must not be overtaken by one that came later.
// - Share: all threads read at once, which each of them waits for.
// - Linked, for locks with recursive readers: a writer beside readers that lock again, and that wait for each other
//   inside. *Linked-try*: they only try, and no window ends: a try succeeds in the end although a writer waits.
// - Many-give-up: writers with a deadline give up one after another beside readers, some of which have a deadline, too.
// - Forked: the process forks at any moment. The forking thread may be inside, as a reader or as the writer. The child
//   renews the lock, and goes on with its own threads.
// - Reader-ends: as mixed, but the last thread reads, by any of the calls, and may upgrade. The last section of all others
//   is a write: a reader does not come after the readers that left before it.
#include "check/engine/checked_read_write.hpp"
#include "check/engine/explore.hpp"

namespace usher::check {
namespace {

enum class task { exclude, mixed, fair, share, linked, linked_try, many_give_up, forked, reader_ends };

struct scenario {
  const char* name;
  task runs;
  unsigned stray_wakes = 0;
};

constexpr scenario scenarios[] = {
    {.name = "exclude", .runs = task::exclude},       {.name = "stray", .runs = task::exclude, .stray_wakes = 2},
    {.name = "mixed", .runs = task::mixed},           {.name = "fair", .runs = task::fair},
    {.name = "share", .runs = task::share},           {.name = "linked", .runs = task::linked},
    {.name = "linked-try", .runs = task::linked_try}, {.name = "many-give-up", .runs = task::many_give_up},
    {.name = "forked", .runs = task::forked},         {.name = "reader-ends", .runs = task::reader_ends},
};

const checked_read_write* the_lock;
const scenario* the_scenario;

template <rl::thread_id_t Threads>
struct program : rl::test_suite<program<Threads>, Threads> {
  program() {
    the_lock->make(state());
    world.name(state(), the_lock->size, "lock");
    world.name(first, "first");
    world.name(second, "second");
    // In half of the executions the numbers wrap, and the phases.
    if (const std::uint32_t n = std::array{0u, 0u, 0u, 0x7fffffu - rl::rand(4), 0x7ffffeu, 0xfeu}[rl::rand(6)]; n != 0)
      the_lock->count_from(state(), n);
    last = rl::rand(Threads);
    if (the_scenario->runs == task::forked) {
      for (unsigned t = 2; t < Threads; t++)
        if (rl::rand(2) == 0) world.begins_after(t, 1);
      forks_at = rl::rand(6);
    }
    if (the_scenario->runs == task::linked || the_scenario->runs == task::mixed ||
        the_scenario->runs == task::many_give_up || the_scenario->runs == task::reader_ends)
      world.run_timers();  // windows end by time
    if (the_scenario->runs == task::fair)
      world.observe({[](void* p, const void* word) { static_cast<program*>(p)->sees_write(word); }, nullptr, this});
    last_in = in().newest();
    world.watch(0, {bytes.data(), the_lock->size, "the last thread ends the lock while another one may still touch it",
                    "the lock is touched after the end of its life"});
  }
  ~program() {
    world.watch_nothing();
    world.observe({});
    the_lock->end(state());
  }

  void thread(unsigned t) {
    switch (the_scenario->runs) {
      case task::share:
        return share(t);
      case task::linked:
      case task::linked_try:
        return t == 0 ? write_twice() : read_linked(t);
      case task::many_give_up:
        return t == 0 ? read_twice() : give_up_twice();
      case task::forked:
        return world.run([this, t] { t == 0 ? fork_once() : use_twice(); });
      case task::reader_ends:
        for (unsigned i = 0; i < acquisitions; i++) use_somehow();
        return t == last ? end_as_reader() : write(true);
      default:
        for (unsigned i = 0; i < acquisitions; i++) the_scenario->runs == task::mixed ? use_somehow() : use();
        t == last ? end_as_writer() : use_last();
    }
  }

  void after() {
    world.watch_nothing();
    world.observe({});
    if (first.get() != written || second.get() != written) fail("writes are missing");
    if (the_scenario->runs != task::linked && the_scenario->runs != task::linked_try && !world.all_nodes_free())
      fail("a node was not given back", rl::test_result_resource_leak, place::current());
    if (!the_lock->is_idle(state())) fail("all threads have left, and the lock is not idle");
  }

 private:
  void* state() { return bytes.data(); }
  const checked::atomic<std::uint32_t>& in() { return *reinterpret_cast<checked::atomic<std::uint32_t>*>(state()); }

  // ---- sections ---------------------------------------------------------------------------------------------

  void write_section(bool is_last = false) {
    begin_section(true);
    if (readers != 0 || writers != 0) fail("a writer enters beside another thread");
    writers++;
    written++;
    first.set(first.get() + 1);
    step();
    if (is_last) finals.fetch_add(1, std::memory_order_relaxed);
    second.set(second.get() + 1);
    writers--;
  }

  void read_section(bool is_last = false) {
    begin_section(false);
    if (writers != 0) fail("a reader enters beside a writer");
    readers++;
    const std::uint32_t seen = first.get();
    step();
    if (is_last) finals.fetch_add(1, std::memory_order_relaxed);
    if (second.get() != seen) fail("a reader sees half of a writer's change");
    readers--;
  }

  /// Lets other threads run, and orders nothing.
  void step() { pulse.fetch_add(1, std::memory_order_relaxed); }

  void write(bool is_last = false) {
    comes(true);
    the_lock->lock(state());
    write_section(is_last);
    the_lock->unlock(state());
  }
  void read(bool is_last = false) {
    comes(false);
    the_lock->lock_shared(state());
    read_section(is_last);
    the_lock->unlock_shared(state());
  }

  void use() { rl::rand(2) == 0 ? write() : read(); }
  void use_last() { rl::rand(2) == 0 ? write(true) : read(true); }

  /// Waits until all others are in their last section. Orders nothing.
  void await_last_sections() {
    checked::await(
        finals, [](std::uint32_t n) { return n == Threads - 1; }, std::memory_order_relaxed, pacing::polling);
  }

  void end_as_writer() {
    await_last_sections();
    comes(true);
    // All others are in their last section, so attempts succeed in the end, whatever a writer that gave up has left.
    if (the_scenario->runs == task::mixed && rl::rand(2) == 0)
      while (!the_lock->try_lock(state())) checked::backoff(0);
    else
      the_lock->lock(state());
    write_section();
    the_lock->unlock(state());
    if (!the_lock->is_idle(state())) fail("the last writer has left, and the lock is not idle");
    if (!the_lock->try_lock(state())) fail("try_lock() fails, and no thread has the lock");
    the_lock->unlock(state());
    world.end_of(0);
  }

  void end_as_reader() {
    await_last_sections();
    switch (rl::rand(4)) {
      case 0:
        while (!the_lock->try_lock_shared(state())) checked::backoff(0);
        break;
      case 1:
        while (!within_time(the_lock->lock_shared_while_time)) checked::backoff(0);
        break;
      default:
        the_lock->lock_shared(state());
    }
    read_section();
    if (rl::rand(2) == 0) {
      if (!the_lock->try_upgrade(state())) fail("try_upgrade() fails, and no other thread uses the lock");
      write_section();
      the_lock->unlock_and_lock_shared(state());
      read_section();
    }
    the_lock->unlock_shared(state());
    if (!the_lock->is_idle(state())) fail("the last reader has left, and the lock is not idle");
    world.end_of(0);
  }

  void use_somehow() {
    switch (rl::rand(7)) {
      case 0:
        if (the_lock->try_lock(state())) {
          write_section();
          the_lock->unlock(state());
        }
        return;
      case 1:
        if (the_lock->try_lock_shared(state())) {
          read_section();
          the_lock->unlock_shared(state());
        }
        return;
      case 2:
        return write_within_time();
      case 3:
        return read_within_time();
      case 4:
        return read_then_upgrade();
      case 5:
        the_lock->lock(state());
        write_section();
        return read_after_write();
      default:
        return use();
    }
  }

  void read_then_upgrade() {
    the_lock->lock_shared(state());
    read_section();
    if (!the_lock->try_upgrade(state())) {
      read_section();
      return the_lock->unlock_shared(state());
    }
    write_section();
    rl::rand(2) == 0 ? the_lock->unlock(state()) : read_after_write();
  }
  void read_after_write() {
    the_lock->unlock_and_lock_shared(state());
    read_section();
    the_lock->unlock_shared(state());
  }

  /// The time runs out after some questions.
  bool within_time(bool (*attempt)(void*, checked_read_write::time_left)) {
    unsigned left = rl::rand(5);
    return attempt(state(), {[](void* p) {
                               auto& n = *static_cast<unsigned*>(p);
                               return n == 0 ? std::uint64_t{0} : (n--, checked::soon);
                             },
                             &left});
  }

  void write_within_time() {
    if (!within_time(the_lock->lock_while_time)) return;
    write_section();
    the_lock->unlock(state());
  }
  void read_within_time() {
    if (!within_time(the_lock->lock_shared_while_time)) return;
    read_section();
    the_lock->unlock_shared(state());
  }

  // ---- share, linked, many-give-up ----------------------------------------------------------------------------------------

  void share(unsigned t) {
    if (rl::rand(3) != 0 || !the_lock->try_lock_shared(state())) the_lock->lock_shared(state());
    meet(Threads);
    read_section();
    the_lock->unlock_shared(state());
    if (t == last) write();
  }

  void write_twice() {
    write();
    write();
  }
  void enter_linked() {
    if (the_scenario->runs == task::linked && rl::rand(2) == 0) return the_lock->lock_shared(state());
    while (!the_lock->try_lock_shared(state())) checked::backoff(0);
  }
  void read_linked(unsigned) {
    enter_linked();
    meet(Threads - 1);
    read_section();
    enter_linked();
    read_section();
    the_lock->unlock_shared(state());
    the_lock->unlock_shared(state());
  }

  void read_twice() {
    for (unsigned i = 0; i < 2; i++) rl::rand(2) == 0 ? read() : read_within_time();
  }
  void give_up_twice() {
    write();
    for (unsigned i = 0; i < 2; i++) write_within_time();
    write();
  }

  /// Waits inside for the other readers.
  void meet(unsigned n) {
    inside.fetch_add(1, std::memory_order_relaxed);
    checked::await(
        inside, [n](std::uint32_t v) { return v == n; }, std::memory_order_relaxed, pacing::polling);
  }

  // ---- fair -------------------------------------------------------------------------------------------------

  enum class doing { nothing, reading, writing };
  struct visitor {
    doing what = doing::nothing;
    bool has_arrived = false;  ///< a reader is counted; a writer has passed its doorway
    unsigned came = 0, door = 0, overtaken = 0, claim = 0;
  };

  void comes(bool writes) {
    visitors[rl::thread_index()] = {.what = writes ? doing::writing : doing::reading, .came = ++time};
  }

  void sees_write(const void* word) {
    visitor& me = visitors[rl::thread_index()];
    if (word != &in()) {
      // A writer's doorway is that of the writers' lock, whose words are behind the others, or its claim.
      if (me.what == doing::writing && execution::inside(word, &in() + 5, the_lock->size - 5 * sizeof(in())))
        arrive(me);
      return;
    }
    const std::uint32_t before = std::exchange(last_in, in().newest());
    if (me.what == doing::nothing) return;
    const bool claims_it = me.what == doing::writing && (before & 1) == 0 && (last_in & 1) != 0;
    if (me.what == doing::reading || claims_it) arrive(me);
    if (claims_it) waiting_claim = ++claims;
  }

  void arrive(visitor& me) {
    if (me.has_arrived) return;
    me.has_arrived = true;
    me.door = ++time;
    me.overtaken = writers;
    me.claim = waiting_claim;
  }

  void begin_section(bool writes) {
    if (the_scenario->runs != task::fair) return;
    visitor& me = visitors[rl::thread_index()];
    if (writes) {
      waiting_claim = 0;
      for (visitor& v : visitors) {
        if (v.what == doing::reading && v.has_arrived && ++v.overtaken > 1)
          fail("two writers begin while a reader waits");
        if (&v != &me && v.what == doing::writing && v.has_arrived && v.door < me.came && the_lock->fifo_writers)
          fail("a writer is overtaken by one that came later");
      }
    } else if (!the_lock->recursive && me.has_arrived && me.claim != 0 && me.claim == waiting_claim) {
      fail("a reader enters before a writer that has claimed the lock");
    }
    me.what = doing::nothing;
  }

  // ---- forked -----------------------------------------------------------------------------------------------

  void use_twice() {
    use();
    use();
  }

  void fork_once() {
    for (unsigned i = 0;; i++) {
      if (forks_at == 3 * i) return go_on_in_child(0, false);
      const bool writes = rl::rand(2) == 0;
      writes ? the_lock->lock(state()) : the_lock->lock_shared(state());
      if (forks_at == 3 * i + 1) return go_on_in_child(writes ? 0 : 1, writes);
      writes ? write_section() : read_section();
      if (forks_at == 3 * i + 2) return go_on_in_child(writes ? 0 : 1, writes);
      writes ? the_lock->unlock(state()) : the_lock->unlock_shared(state());
    }
  }

  void go_on_in_child(std::uint32_t reads, bool writes) {
    world.fork(node_pool::anew);
    the_lock->renew(state(), reads, writes);
    readers = writers = written = 0;
    first.set(0);
    second.set(0);
    world.start_threads();
    if (writes) {
      write_section();
      the_lock->unlock(state());
    } else if (reads != 0) {
      read_section();
      the_lock->unlock_shared(state());
    }
    use_twice();
  }

  execution world{{.stray_wakes = the_scenario->stray_wakes}, Threads};
  alignas(64) std::array<std::byte, room_for_target> bytes;
  checked::plain<std::uint32_t> first, second;
  checked::atomic<std::uint32_t> pulse, finals, inside;
  unsigned last = 0, forks_at = 0;
  // relacy does not observe these variables.
  unsigned readers = 0, writers = 0, written = 0, time = 0, claims = 0, waiting_claim = 0;
  std::uint32_t last_in = 0;
  std::array<visitor, Threads> visitors;
};

bool concerns(const scenario& c, const checked_read_write& l) {
  return (c.runs != task::linked && c.runs != task::linked_try) || l.recursive;
}

}  // namespace

std::vector<target> read_write_targets() {
  std::vector<target> all;
  for (const checked_read_write& l : checked_read_writes()) {
    target s{.name = l.name,
             .mutation = l.mutation,
             .header = "read_write_words.hpp read_write_windows.hpp read_write_bias.hpp read_write_core.hpp",
             .size = l.size,
             .scenarios = {},
             .explore = {},
             .family = l.family,
             .usual_threads = 3};
    const auto asked = select_scenarios(s, scenarios, [&l](const scenario& c) { return concerns(c, l); });
    s.explore = [&l, asked](unsigned c, unsigned threads, options o) {
      the_lock = &l;
      the_scenario = asked[c];
      return explore<program>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
