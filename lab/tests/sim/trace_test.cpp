// Tests the log of a run. The log must not change the run. It must name the words that threads access, and show TWA's
// hand-over.
#include "lab/sim/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "lab/sim/harness.hpp"
#include "lab/sim/world.hpp"

namespace usher::sim {
namespace {

const std::string folder = USHER_MACHINES;
using what = trace::what;
using entry = trace::entry;

point mutexbench(const char* lock, unsigned threads) {
  point p;
  p.workload = "mutexbench";
  p.lock = lock;
  p.threads = threads;
  p.run_ns = 300000;
  return p;
}

/// Returns a machine with two CPUs, so that threads sleep and lose their CPUs.
machine two_cpus() {
  machine m = read_machine(folder + "/x5-2.toml");
  m.sockets = 1;
  m.cores = 2;
  m.hardware_threads = 1;
  m.os->slice = m.from_ns(50000);
  return m;
}

TEST(trace, changes_nothing) {
  const machine large = read_machine(folder + "/x5-2.toml"), small = two_cpus();
  struct {
    const machine& m;
    const char* lock;
    unsigned threads;
  } const cases[] = {{large, "twa-spin", 4}, {large, "ticket-spin", 40}, {large, "mcs-spin", 20},
                     {small, "mcs", 6},      {small, "futex", 6},        {small, "ttas-spin", 4}};
  for (const auto& c : cases) {
    if (find_simulated_lock(c.lock) == nullptr) continue;  // a build with few locks
    const point p = mutexbench(c.lock, c.threads);
    trace t(100000);
    const result without = run_point(c.m, p), with = run_point(c.m, p, &t);
    EXPECT_EQ(without.operations, with.operations) << c.lock;
    EXPECT_EQ(without.events, with.events) << c.lock;
    EXPECT_EQ(t.at_first().size(), c.threads) << c.lock;
    EXPECT_GT(t.entries().size(), 100u) << c.lock;
    for (const entry& e : t.entries()) {
      EXPECT_GE(e.time, t.begin());
      EXPECT_LT(e.time, t.begin() + c.m.from_ns(100000));
      EXPECT_EQ(e.text(c.m).find("word "), std::string::npos) << "has no name: " << e.text(c.m);
    }
  }
}

TEST(trace, shows_that_the_home_has_the_only_copy) {
  if (find_simulated_lock("ttas-spin") == nullptr) GTEST_SKIP() << "a build without TTAS";
  trace t(20000);
  const machine m = read_machine(folder + "/graviton4-2.toml", {{"coherence.atomics", "far"}, {"coherence.home", "0"}});
  run_point(m, mutexbench("ttas-spin", 2), &t);
  const auto some = [&](const char* text) {
    return std::ranges::any_of(t.entries(), [&](const entry& e) { return e.text(m).find(text) != std::string::npos; });
  };
  EXPECT_TRUE(some("its home, own socket"));
  EXPECT_TRUE(some("its home, other socket"));
}

TEST(trace, shows_who_sleeps_and_who_has_which_cpu) {
  if (find_simulated_lock("mcs") == nullptr) GTEST_SKIP() << "a build without MCS";
  trace t(300000);
  run_point(two_cpus(), mutexbench("mcs", 6), &t);
  const auto count = [&](what w) {
    return std::count_if(t.entries().begin(), t.entries().end(), [w](const entry& e) { return e.does == w; });
  };
  for (const what w : {what::sleeps, what::wakes, what::ready, what::gets_cpu, what::loses_cpu})
    EXPECT_GT(count(w), 0) << int(w);
  // Between its sleep and its next CPU, a thread must not execute anything.
  std::vector<bool> sleeps(6);
  for (const entry& e : t.entries()) {
    if (e.does == what::sleeps) sleeps[e.thread] = true;
    if (e.does == what::gets_cpu) sleeps[e.thread] = false;
    if (e.does == what::reads || e.does == what::modifies || e.does == what::enters) {
      EXPECT_FALSE(sleeps[e.thread]) << e.text(two_cpus());
    }
  }
}

TEST(trace, names) {
  simulation s(two_cpus(), 1);
  runtime p(s, 3);
  if (find_simulated_lock("twa-spin") == nullptr) GTEST_SKIP() << "a build without TWA";
  world::lock lock(*find_simulated_lock("twa-spin"), s.shared(), nullptr);
  lock.be_named(s.shared(), 1);
  auto* const slots = p.table(table_kind::counts);
  const arena& a = s.shared();
  EXPECT_EQ(a.name_of(static_cast<const char*>(lock.state()) + 4), "lock+4");
  EXPECT_EQ(a.name_of(slots + 100), "array[100]");
  EXPECT_EQ(a.name_of(&p.node(p.take_node(2)).flag), "T2's node.flag");
  EXPECT_EQ(a.name_of(&p.node(p.take_node(2)).next), "T2's node2.next");
  EXPECT_EQ(a.name_of(p.push_local(1, 16)), "T1's stack+0");
  EXPECT_EQ(a.name_of(s.shared().allocate(64, 64)).substr(0, 5), "word ");
}

TEST(trace, what_accesses_cost_and_where_lines_come_from) {
  machine m = read_machine(folder + "/x5-2.toml");
  m.jitter = 0;
  simulation s(m, 1);
  auto& word = *::new (s.shared().allocate(128, 128)) simulated_atomic<std::uint32_t>();
  s.shared().name(&word, 4, arena::plus("it"));
  trace t(1000000);
  t.follow(s.shared(), m, 0);
  s.set_trace(&t);
  constexpr auto relaxed = std::memory_order_relaxed;
  const auto at = [&](cycles when) { s.compute(when - s.now()); };
  s.add_thread(0, [&] {
    at(10000);
    word.fetch_add(7, relaxed);
    at(20000);
    word.load(relaxed);
    at(60000);
    std::uint32_t seen = 0;
    word.compare_exchange_strong(seen, 1, relaxed, relaxed);
    word.load(relaxed);
    word.compare_exchange_strong(seen, 10, relaxed, relaxed);
  });
  s.add_thread(36, [&] {  // a thread of the other socket
    at(30000);
    word.load(relaxed);
    at(50000);
    word.store(9, relaxed);
  });
  s.add_thread(2, [&] {
    at(40000);
    word.load(relaxed);
    at(60001);
    std::uint32_t seen = 0;
    word.compare_exchange_strong(seen, 1, relaxed, relaxed);
  });
  s.run();
  t.over();
  std::vector<std::string> texts;
  for (const entry& e : t.entries())
    if (!e.place.empty()) texts.push_back("T" + std::to_string(e.thread) + " " + e.text(m));
  const std::string line = "; line " + std::to_string(s.shared().offset_of(&word) / 64) + ", ";
  EXPECT_EQ(texts, (std::vector<std::string>{
                       "T0 modifies it+0: 0 → 7" + line + "240 cycles, memory",
                       "T0 reads it+0: 7" + line + "4 cycles, hit",
                       "T1 reads it+0: 7" + line + "310 cycles, other socket, core 0 wrote it",
                       "T2 reads it+0: 7" + line + "50 cycles, own socket, 2 copies",
                       "T1 stores to it+0: 9, into its store buffer",
                       "T1 writes it+0: 7 → 9" + line + "205 cycles, invalidates 2 copies in other sockets",
                       "T0 modifies it+0: 9, unchanged" + line + "330 cycles, other socket, core 18 wrote it",
                       "T2 modifies it+0: 9, unchanged" + line + "452 cycles, own socket, core 0 wrote it",
                       "T0 reads it+0: 9" + line + "4 cycles, still here",
                       "T0 modifies it+0: 9 → 10" + line + "20 cycles, still here",
                   }));
}

// ---- the hand-over of TWA (extended), §2 and §2.1: row T26 of lab/pages/claims.md ----

class twa_hand_over : public testing::Test {
 protected:
  using is = std::function<bool(const entry&)>;

  void SetUp() override {
    if (find_simulated_lock("twa-spin") == nullptr) GTEST_SKIP() << "a build without TWA";
  }

  static is of(unsigned thread, what w, const std::string& place = "") {
    return [=](const entry& e) {
      return e.thread == thread && e.does == w && (place.empty() || e.place.rfind(place, 0) == 0);
    };
  }

  /// Returns the first matching entry after the entry that was found last.
  const entry& next(const std::string& step, const is& wanted) {
    const auto& all = trace_.entries();
    const auto found = std::find_if(all.begin() + std::ptrdiff_t(from_), all.end(), wanted);
    EXPECT_NE(found, all.end()) << step;
    if (found == all.end()) throw std::runtime_error(step);
    from_ = std::size_t(found - all.begin()) + 1;
    return *found;
  }

  // ---- the steps of the example in §2.1
  //
  // The paper's threads T1 to T4 are the threads 0 to 3 here. The values in the words are twice the paper's
  // (ticket_words.hpp), and the numbers of slots advance in steps of four.

  /// Traces four threads that arrive one after the other while the first one holds the lock.
  void simulate_example() {
    machine m = read_machine(folder + "/x5-2.toml");
    simulation s(m, 1);
    runtime p(s, 4);
    world::lock lock(*find_simulated_lock("twa-spin"), s.shared(), nullptr);
    lock.be_named(s.shared(), 1);
    trace_.follow(s.shared(), m, 0);
    s.set_trace(&trace_);
    const auto cpu_of = [](unsigned t) { return t % 2 * 36 + t; };  // uses both sockets
    for (unsigned t = 0; t < 4; t++)
      s.add_thread(cpu_of(t), [&, t] {
        s.compute(10000 * (t + 1) - s.now());
        lock.lock();
        if (t == 0) s.compute(100000 - s.now());
        if (t == 1) s.compute(200000 - s.now());
        lock.unlock();
      });
    s.run();
    trace_.over();
  }

  /// Step 2: T1 takes number 0 and enters.
  void t1_enters() {
    next("2", of(0, what::arrives));
    EXPECT_EQ(next("2", of(0, what::modifies, "lock+0")).after, 2u);
    EXPECT_EQ(next("2", of(0, what::reads, "lock+4")).after, 0u);
    next("2", of(0, what::enters));
  }

  /// Step 3: T2 takes number 1 and watches grant.
  void t2_watches_grant() {
    EXPECT_EQ(next("3", of(1, what::modifies, "lock+0")).after, 4u);
    EXPECT_EQ(next("3", of(1, what::reads, "lock+4")).after, 0u);
    next("3", of(1, what::spins, "lock+4"));
  }

  /// Steps 4 and 5: the thread takes its number, reads a slot, reads grant again, and then watches the slot. `ticket`:
  /// the value of the word ticket after the first of these actions. Returns the read of the slot.
  const entry& watches_slot(const std::string& step, unsigned thread, std::uint64_t ticket) {
    EXPECT_EQ(next(step, of(thread, what::modifies, "lock+0")).after, ticket);
    const entry& slot = next(step, of(thread, what::reads, "array["));
    EXPECT_EQ(next(step + ": looks at grant again", of(thread, what::reads, "lock+4")).after, 0u);
    next(step, of(thread, what::spins, slot.place));
    return slot;
  }

  /// Step 6: T1 releases the lock: grant changes from 0 to 1. Only T2 is notified.
  void t1_releases() {
    next("6", of(0, what::leaves));
    const entry& store = next("6", of(0, what::writes, "lock+4"));
    EXPECT_EQ(store.before, 0u);
    EXPECT_EQ(store.after, 2u);
    EXPECT_EQ(store.to_others, std::vector<unsigned>{1});
  }

  /// Steps 7 and 8: T2 reads the new value and owns the lock; T1 increments the slot of number 2, which T3 watches. The
  /// order of these steps is not specified.
  void t2_enters_and_t1_notifies(const std::string& slot3) {
    const std::size_t after_6 = from_;
    EXPECT_TRUE(next("7", of(1, what::polls, "lock+4")).goes_on);
    next("7", of(1, what::enters));
    from_ = after_6;
    const entry& told = next("8", of(0, what::modifies, "array["));
    EXPECT_EQ(told.place, slot3);
    EXPECT_EQ(told.after, told.before + 4);
    EXPECT_EQ(told.to_others, std::vector<unsigned>{2});
  }

  /// Step 9: T3 sees the increment, reads grant, and watches grant from then on.
  void t3_watches_grant(const std::string& slot3) {
    EXPECT_TRUE(next("9", of(2, what::polls, slot3)).goes_on);
    EXPECT_EQ(next("9", of(2, what::reads, "lock+4")).after, 2u);
    next("9", of(2, what::spins, "lock+4"));
  }

  /// Step 10: T1 has left. T2 is the owner, T3 watches grant, and T4 still watches its slot. `after_8` is the index of the
  /// first entry after step 8.
  void t4_still_watches_slot(std::size_t after_8) {
    const std::size_t after_9 = std::exchange(from_, after_8);  // T1 runs concurrently with step 9
    next("10", of(0, what::ends));
    from_ = after_9;
    next("10", of(1, what::leaves));
    for (std::size_t i = 0; i < from_; i++) EXPECT_FALSE(of(3, what::polls)(trace_.entries()[i])) << i;
  }

  trace trace_{300000};
  std::size_t from_ = 0;
};

TEST_F(twa_hand_over, the_ten_steps) {
  simulate_example();
  // Step 1 of the paper: ticket and grant are 0. The checks of step 2 also show this.
  t1_enters();
  t2_watches_grant();
  const entry& slot3 = watches_slot("4", 2, 6);
  const entry& slot4 = watches_slot("5", 3, 8);
  EXPECT_NE(slot3.line / 2, slot4.line / 2) << "in one sector";
  t1_releases();
  t2_enters_and_t1_notifies(slot3.place);
  const std::size_t after_8 = from_;
  t3_watches_grant(slot3.place);
  t4_still_watches_slot(after_8);
}

TEST_F(twa_hand_over, in_every_one_of_a_run) {
  const machine m = read_machine(folder + "/x5-2.toml");
  run_point(m, mutexbench("twa-spin", 4), &trace_);
  struct {
    bool to_store = false, to_tell = false;  // set while the thread leaves
    std::string slot;                        // the slot that it watches
  } threads[4];
  unsigned handed_over = 0, brought_near = 0;
  for (const entry& e : trace_.entries()) {
    auto& t = threads[e.thread];
    const bool grant = e.place == "lock+4", array = e.place.rfind("array[", 0) == 0;
    if (e.does == what::leaves) t.to_store = true;
    if (e.does == what::writes && grant) {
      EXPECT_TRUE(t.to_store || handed_over == 0);
      t.to_store = false;
      t.to_tell = true;
      handed_over++;
    }
    if (e.does == what::modifies && array) {
      EXPECT_TRUE(t.to_tell || handed_over == 0) << "the array before grant, at " << e.time;
      t.to_tell = false;
    }
    // A thread that watches a slot must not access grant before the slot has changed.
    if (e.does == what::spins && array) t.slot = e.place;
    if (e.does == what::polls && e.place == t.slot && e.goes_on) {
      EXPECT_NE(e.after, 0u);
      t.slot.clear();
      brought_near++;
    }
    if (grant && (e.does == what::reads || e.does == what::polls || e.does == what::spins)) {
      EXPECT_EQ(t.slot, "") << "T" << e.thread << " turns to grant at " << e.time;
    }
  }
  EXPECT_GT(handed_over, 500u);
  EXPECT_GT(brought_near, 100u);
}

}  // namespace
}  // namespace usher::sim
