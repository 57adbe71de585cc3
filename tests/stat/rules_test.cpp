// Tests the rules by which `usher stat` judges an object. Each rule must apply in a case that is meant for it, and must
// not apply in a similar case. docs/stat.md must have the same table of rules.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include "synthetic.hpp"
#include "watch/reader/judge/rule_facts.hpp"
#include "watch/reader/judge/rules.hpp"

namespace usher::reader {
namespace {

charged_stack at(std::vector<frame> frames, double waited = 1) {
  charged_stack s;
  s.where.frames = std::move(frames);
  s.waited = waited;
  s.count = 1;
  return s;
}

/// A row of the report for one mutex: 8 threads wait for it during a tenth of their time, 40 µs in each wait; each hold
/// takes 20 µs.
row mutex() {
  row r;
  r.what = kind::mutex;
  r.name = "queue_mutex";
  r.holders = {
      at({frame_of("std::mutex::unlock()", "std_mutex.h", 118), frame_of("worker(int)", "/src/server.cpp", 120)})};
  r.waiters = {at({frame_of("worker(int)", "/src/server.cpp", 118)})};
  counts& c = r.seen;
  c.acquisitions = 250'000;
  c.contended = c.waiting.count = 200'000;
  c.waiting.total = 8;
  c.waiting.longest = 0.002;
  c.waiting.median = 40e-6;
  c.waiting.p99 = 200e-6;
  c.holding.count = 1000;
  c.holding.total = 5;
  c.holding.longest = 100e-6;
  c.holding.median = 20e-6;
  c.holding.p99 = 50e-6;
  c.held_share = 0.5;
  c.most_waiting = 7;
  for (int i = 0; i < 8; i++) c.threads.push_back({11 + i, 25'000, 1});
  r.each.push_back({0x1000, 100, "queue_mutex", c, {}});
  return r;
}

row of_kind(kind k) {
  row r = mutex();
  r.what = k;
  r.holders.clear();
  r.seen.holding = {};
  r.seen.held_share.reset();
  r.each[0].seen = r.seen;
  return r;
}

/// Returns the judged report of a run of 10 s with 8 threads, which has these rows.
report judged(std::vector<row> rows, const std::function<void(report&)>& change = {}) {
  report r;
  r.command = {"./server", "--name", "a b"};
  r.lock = "pthread";
  r.seconds = 10;
  r.threads = 8;
  r.thread_seconds = 80;
  for (const row& i : rows) r.waited[int(i.what) - 1] += i.seen.waiting.total;
  r.rows = std::move(rows);
  if (change) change(r);
  judge(r);
  return r;
}

/// Changes the row of a mutex by `change`, and returns the row with its verdict.
row verdict(const std::function<void(row&)>& change, row r = mutex()) {
  change(r);
  return judged({r}).rows[0];
}
std::string rule_of(const std::function<void(row&)>& change, row r = mutex()) {
  return verdict(change, std::move(r)).rule;
}

TEST(rules, what_all_of_these_begin_with) {
  const row r = verdict([](row&) {});
  EXPECT_EQ(r.rule, "hot");
  EXPECT_EQ(r.verdict, "hot: shorten or split the critical section at server.cpp:120 (worker), or try other locks");
  EXPECT_EQ(r.command, "usher try -- ./server --name 'a b'");
}

TEST(rules, deadlock) {
  const auto with = [](std::uint64_t address, std::size_t threads) {
    return judged({mutex()}, [&](report& r) {
      deadlock d;
      for (std::size_t i = 0; i < threads; i++)
        d.threads.push_back({std::int64_t(12 + i), "queue_mutex", {}, address + i, 0});
      r.deadlocks = {d};
    });
  };
  const report two = with(0x1000, 2);
  EXPECT_EQ(two.rows[0].rule, "deadlock");
  EXPECT_EQ(two.rule, "deadlock");
  EXPECT_NE(two.verdict.find("threads 12 and 13 wait for each other, without a deadline"), std::string::npos)
      << two.verdict;
  EXPECT_NE(with(0x1000, 1).verdict.find("locks it again"), std::string::npos);
  EXPECT_EQ(with(0x9000, 2).rows[0].rule, "hot");  // a deadlock of another mutex
  const auto in_process = [](int pid, kind k) {
    row r = mutex();
    r.what = k;
    return judged({r},
                  [&](report& all) {
                    all.deadlocks.push_back({{{12, "queue_mutex", {}, 0x1000, pid}}});
                  })
        .rows[0]
        .rule;
  };
  EXPECT_EQ(in_process(0, kind::mutex), "deadlock");
  EXPECT_EQ(in_process(100, kind::rwlock), "deadlock");
  EXPECT_EQ(in_process(101, kind::mutex), "hot");  // of a mutex at the same address in another process
}

TEST(rules, uncontended) {
  const auto none = [](row& r) {
    r.seen.contended = 0;
    r.seen.waiting = {};
  };
  EXPECT_EQ(rule_of(none), "uncontended");
  EXPECT_EQ(rule_of(none, of_kind(kind::semaphore)), "uncontended");
  EXPECT_EQ(rule_of([&](row& r) {
              none(r);
              r.seen.waiting_is_hidden = true;
              r.seen.threads.clear();
            }),
            "cool");  // the number of waits is unknown
  EXPECT_NE(rule_of([&](row& r) {
              none(r);
              r.seen.waiting.count = 1;  // a single call, which timed out
            }),
            "uncontended");
}

TEST(rules, rare_wait) {
  const auto rare = [](row& r) {
    r.seen.waiting.longest = 0.1;
    r.seen.holding.longest = 0.01;
  };
  const row r = verdict(rare);
  EXPECT_EQ(r.rule, "rare-wait");
  EXPECT_EQ(r.command, "usher stat --lock steady -- ./server --name 'a b'");
  EXPECT_EQ(rule_of([&](row& x) {
              rare(x);
              x.seen.waiting.total = 0.001;  // has a verdict but no recommended command, however small its share is
            }),
            "rare-wait");
  for (const auto& spoil : std::vector<std::function<void(row&)>>{
           [](row& x) { x.seen.waiting.longest = 0.099; },
           [](row& x) { x.seen.waiting.p99 = 0.0011; },
           [](row& x) { x.seen.holding.longest = 0.011; },  // a hold of 11 ms explains the longest wait
           [](row& x) { x.seen.holding = {}; },
       })
    EXPECT_NE(rule_of([&](row& x) {
                rare(x);
                spoil(x);
              }),
              "rare-wait");
}

TEST(rules, cool) {
  const auto little = [](row& r) {
    r.seen.waiting.total = 0.79;  // of 80 s
    for (auto& t : r.seen.threads) t.waited = 0.1;
  };
  const row r = verdict(little);
  EXPECT_EQ(r.rule, "cool");
  EXPECT_EQ(r.command, "");
  EXPECT_EQ(rule_of(little, of_kind(kind::semaphore)), "cool");
  EXPECT_EQ(rule_of([&](row& x) {
              little(x);
              x.seen.waiting.total = 0.81;
            }),
            "hot");
  EXPECT_EQ(rule_of([&](row& x) {  // all other threads may be idle
              little(x);
              x.seen.threads[0].waited = 0.5;
            }),
            "hot");
}

TEST(rules, allocator) {
  const auto in = [](const char* function, const char* module, double waited) {
    return [=](row& r) {
      r.waiters = {
          at({frame_of("arena_lock", "a.c", 1), frame_of(function, "m.c", 5, module), frame_of("work", "w.c", 9)},
             waited),
          at({frame_of("work", "w.c", 10)}, 1)};
    };
  };
  EXPECT_EQ(rule_of(in("malloc", "/bin/server", 1)), "allocator");
  EXPECT_EQ(rule_of(in("operator new(unsigned long)", "/bin/server", 1)), "allocator");
  EXPECT_EQ(rule_of(in("free", "/bin/server", 1)), "allocator");
  EXPECT_EQ(rule_of(in("", "/usr/lib/libjemalloc.so.2", 1)), "allocator");
  EXPECT_EQ(rule_of(in("malloc", "/bin/server", 0.9)), "hot");
  EXPECT_EQ(rule_of(in("free_list_push", "/bin/server", 1)), "hot");
}

row table(std::uint64_t objects, double first) {
  row r = mutex();
  r.name = "buckets[]";
  r.objects = objects;
  r.each.clear();
  for (std::uint64_t i = 0; i < objects; i++) {
    object_row o;
    o.name = "buckets+0x28";
    o.seen.waiting.total = r.seen.waiting.total * (i == 0 ? first : (1 - first) / double(objects - 1));
    r.each.push_back(o);
  }
  return r;
}

TEST(rules, one_of_many) {
  const row r = verdict([](row&) {}, table(1024, 0.9));
  EXPECT_EQ(r.rule, "one-of-many");
  EXPECT_EQ(r.verdict, "one of 1,024 (buckets+0x28) has 90 % of the waiting: spread what it guards over the others");
  EXPECT_NE(
      verdict([](row& x) { x.each[0].seen.held_share = 0.93, x.each[0].seen.holding.count = 1; }, table(1024, 0.9))
          .verdict.find("server.cpp:120 (worker): it is held about 93 % of the time"),
      std::string::npos);
  EXPECT_EQ(rule_of([](row&) {}, table(8, 0.5)), "one-of-many");
  EXPECT_NE(rule_of([](row&) {}, table(8, 0.49)), "one-of-many");
  EXPECT_NE(rule_of([](row&) {}, table(7, 0.9)), "one-of-many");
}

TEST(rules, starving) {
  const auto starves = [](row& r) {
    r.seen.waiting.longest = 0.34;
    r.seen.waiting.p99 = 0.3;
    r.seen.most_waiting = 1;
    r.seen.threads = {{13, 30, 7.8}, {12, 100, 0.2}};
  };
  const row r = verdict(starves);
  EXPECT_EQ(r.rule, "starving");
  EXPECT_EQ(
      r.verdict,
      "thread 13 has 98 % of the waiting, 340 ms at the longest: others overtake, or an untimed hold took so long; a "
      "lock that bounds waiting may help");
  EXPECT_EQ(r.command, "usher stat --lock steady -- ./server --name 'a b'");
  for (const auto& spoil : std::vector<std::function<void(row&)>>{
           [](row& x) { x.seen.threads[0].waited = 5.9; }, [](row& x) { x.seen.waiting.longest = 0.09; },
           [](row& x) { x.seen.holding.longest = 0.12; },
           [](row& x) { x.seen.acquisitions = 99, x.seen.holding.total = 0.00198; },
           [](row& x) { x.seen.holding.total = 0.018 * 250'000; },  // twenty such holds take longer than the wait
       })
    EXPECT_NE(rule_of([&](row& x) {
                starves(x);
                spoil(x);
              }),
              "starving");
  EXPECT_EQ(judged({r}, [](report& x) { x.lock = "steady"; }).rows[0].command,
            "usher stat --lock twa -- ./server --name 'a b'");
}

TEST(rules, sleeping_hold) {
  const auto sleeps = [](row& r) {
    r.seen.acquisitions = 1000;
    r.seen.holding.median = 0.005;
    r.seen.holding.total = 5;
  };
  const row r = verdict(sleeps);
  EXPECT_EQ(r.rule, "sleeping-hold");
  EXPECT_EQ(
      r.verdict,
      "held 5.00 ms at a time, about 50 % of the time: does it sleep, or do I/O, with the mutex held? Move that out of "
      "the critical section at server.cpp:120 (worker); another lock does not shorten it");
  EXPECT_EQ(r.command, "");
  EXPECT_EQ(rule_of([&](row& x) {  // the mean is long, the median is not
              sleeps(x);
              x.seen.holding.median = 1e-6;
            }),
            "sleeping-hold");
  EXPECT_NE(rule_of([&](row& x) {
              sleeps(x);
              x.seen.holding.median = 0.0009;
              x.seen.holding.total = 0.9;
            }),
            "sleeping-hold");
}

// If the unlock is a tail call, the holder's stack begins with the caller of the function that held the lock.
TEST(rules, the_place_of_a_hold_that_ends_by_a_tail_call) {
  const auto frame_at = [](std::uint64_t address, frame f) {
    f.address = address;
    return f;
  };
  const frame routine = frame_at(0x900, frame_of("", "", 0, "/usr/lib/libstdc++.so.6.0.30")),
              clone = frame_at(0x910, frame_of("clone3", "", 0, "/usr/lib/libc.so.6")),
              loop = frame_at(0x200, frame_of("loop()", "/src/server.cpp", 90)),
              guard = frame_at(0x100, frame_of("std::lock_guard<std::mutex>::lock_guard(std::mutex&)", "mutex.h", 1)),
              worker = frame_at(0x100, frame_of("worker(int)", "/src/server.cpp", 118));
  const std::string entry = "server.cpp:118 (worker), where it is entered";
  row r = mutex();
  r.holders = {at({routine, clone})};
  EXPECT_EQ(holder_place(r), entry);
  EXPECT_TRUE(ends_by_tail_call(r.holders[0].where, r.waiters));
  r.waiters = {at({guard, worker, routine, clone})};
  EXPECT_EQ(holder_place(r), entry);
  r.waiters = {at({clone}), at({guard, worker, loop, routine, clone})};
  r.holders = {at({loop, routine, clone})};  // the call in the loop leads to the function that waits
  EXPECT_EQ(holder_place(r), entry);
  r.holders = {
      at({worker, loop, routine, clone})};  // the unlock has the same address as the lock: in a loop of its own
  EXPECT_EQ(holder_place(r), "server.cpp:118 (worker)");
  r.holders[0].where.frames[0].address = 0x150;
  EXPECT_FALSE(ends_by_tail_call(r.holders[0].where, r.waiters));
  r.holders = {at({routine, clone})};
  r.waiters = {at({clone})};  // a lock of the C library
  EXPECT_FALSE(ends_by_tail_call(r.holders[0].where, r.waiters));
  EXPECT_EQ(holder_place(r), "libstdc++.so.6.0.30+0x0");
  EXPECT_FALSE(ends_by_tail_call(stack{}, r.waiters));
}

TEST(rules, long_hold) {
  const row r = verdict([](row& x) { x.seen.held_share = 0.93, x.seen.holding_is_exact = true; });
  EXPECT_EQ(r.rule, "long-hold");
  EXPECT_EQ(r.verdict,
            "held 93 % of the time: shorten the critical section at server.cpp:120 (worker); a lock gains little");
  EXPECT_EQ(r.command, "");
  EXPECT_EQ(
      verdict([](row& x) { x.seen.held_share = 0.8, x.holders.clear(); }).verdict,
      "held about 80 % of the time: shorten the critical section at server.cpp:118 (worker), where it is entered; a "
      "lock gains little");
  EXPECT_EQ(verdict([](row& x) { x.seen.held_share = 0.8, x.holders.clear(), x.waiters.clear(); }).verdict,
            "held about 80 % of the time: shorten the critical section at queue_mutex; a lock gains little");
  EXPECT_EQ(rule_of([](row& x) { x.seen.held_share = 0.79; }), "hot");
  const auto short_holds = [](double median, double longest = 2e-3) {
    return [=](row& x) {
      x.seen.held_share = 0.84;
      x.seen.holding.total = 250'000 * 1e-6;
      x.seen.holding.median = median;
      x.seen.holding.longest = longest;
    };
  };
  EXPECT_EQ(rule_of(short_holds(0.6e-6)), "long-hold");
  EXPECT_NE(rule_of(short_holds(0.59e-6)), "long-hold");  // the sum may come from a few samples
  EXPECT_EQ(rule_of(short_holds(0.59e-6, 1.5e-3)), "long-hold");
}

/// A row of n mutexes. For each mutex one thread waits 14 times.
row gates(int n) {
  row r = mutex();
  r.objects = n;
  r.each.clear();
  r.seen.threads.clear();
  r.seen.contended = r.seen.waiting.count = 14 * n;
  r.seen.waiting.total = 1.4 * n;
  r.seen.waiting.longest = *(r.seen.waiting.p99 = 0.1);
  for (int i = 0; i < n; i++) {
    counts c = r.seen;
    c.contended = c.waiting.count = 14;
    c.waiting.total = 1.4;
    c.threads = {{11 + i, 14, 1.4}};
    r.seen.threads.push_back(c.threads[0]);
    r.each.push_back({std::uint64_t(0x1000 + 64 * i), 100, "gate", c, {}});
  }
  return r;
}

TEST(rules, gate) {
  const row r = verdict([](row&) {}, gates(7));
  EXPECT_EQ(r.rule, "gate");
  EXPECT_EQ(
      r.verdict,
      "one thread waits for each, 98 times in all, 100 ms at a time: it stops that thread, or its holder lost the "
      "CPU; another lock changes neither");
  EXPECT_EQ(rule_of([](row& x) { x.each[6].seen.threads[0].waited = 1.25; }, gates(7)), "spread");
  EXPECT_EQ(rule_of([](row& x) { x.each[6].seen.contended = 101; }, gates(7)), "spread");
  EXPECT_EQ(rule_of([](row& x) { x.seen.waiting.count = 9801; }, gates(7)), "spread");
  EXPECT_EQ(rule_of([](row& x) { x.seen.held_share = 0.8; }, gates(7)), "long-hold");
  EXPECT_NE(rule_of([](row& x) { x.seen.waiting.total += 1; }, gates(7)), "gate");  // wait for destroyed mutexes
}

TEST(rules, spread) {
  const row r = verdict([](row& x) { x.objects = 64; }, table(60, 0.02));
  EXPECT_EQ(r.rule, "spread");
  EXPECT_EQ(
      r.verdict,
      "the waiting is spread over 60 of 64: if they divide one table, more of them (buckets, shards) make it less; "
      "if each thread or connection has its own, shorten the critical section at server.cpp:120 (worker)");
  EXPECT_EQ(rule_of([](row&) {}, table(4, 0.49)), "spread");
  EXPECT_EQ(rule_of([](row&) {}, table(4, 0.5)), "hot");
  EXPECT_EQ(rule_of([](row&) {}, table(3, 0.4)), "hot");
}

TEST(rules, convoy) {
  const auto slow = [](row& r) {
    r.seen.acquisitions = r.seen.contended = r.seen.waiting.count = 20'000;  // 400 µs for each wait
    r.seen.holding.total = 20'000 * 10e-6;
  };
  const row r = verdict(slow);
  EXPECT_EQ(r.rule, "convoy");
  EXPECT_EQ(
      r.verdict,
      "a wait takes 400 µs, a hold 10.0 µs: woken waiters find it taken, or it waits for them to wake; try a lock that "
      "wakes fewer");
  EXPECT_EQ(r.command, "usher try -- ./server --name 'a b'");
  EXPECT_EQ(rule_of([&](row& x) {
              slow(x);
              x.seen.holding.total = 20'000 * 15e-6;
            }),
            "hot");
  EXPECT_EQ(rule_of([&](row& x) {  // the hold is short, and the wait is too short for a wake-up
              slow(x);
              x.seen.waiting.count = 420'000;
              x.seen.holding.total = 20'000 * 100e-9;
            }),
            "hot-short");
}

TEST(rules, hot_short) {
  EXPECT_EQ(rule_of([](row& r) { r.seen.holding.total = 250'000 * 9e-6; }), "hot-short");
  EXPECT_EQ(rule_of([](row& r) { r.seen.holding.total = 250'000 * 11e-6; }), "hot");
  EXPECT_EQ(rule_of([](row& r) { r.seen.holding = {}; }), "hot");  // the hold times are unknown
}

TEST(rules, no_credits) {
  EXPECT_EQ(rule_of([](row&) {}, of_kind(kind::semaphore)), "no-credits");
}

TEST(rules, semaphore_lock) {
  const auto lock = [](row& x) {
    x.seen.acquisitions = x.seen.signals = 2'000'000;
    x.seen.contended = 200'000;
  };
  const row r = verdict(lock, of_kind(kind::semaphore));
  EXPECT_EQ(r.rule, "semaphore-lock");
  EXPECT_EQ(
      r.verdict,
      "threads waited 10 % of their time for it, and 90 % of its credits were there at once: it is used as a lock, "
      "or to share a pool; shorten what is done with the credit");
  for (const auto& spoil : std::vector<std::function<void(row&)>>{
           [](row& x) { x.seen.contended = 200'001; },
           [](row& x) { x.seen.contended = 99; },
           [](row& x) { x.seen.signals = 1'979'999; },
           [](row& x) { x.seen.threads.resize(1); },
       })
    EXPECT_EQ(rule_of(
                  [&](row& x) {
                    lock(x);
                    spoil(x);
                  },
                  of_kind(kind::semaphore)),
              "no-credits");
  report all = judged({verdict(lock, of_kind(kind::semaphore))});
  EXPECT_EQ(all.rule, "credits");
  EXPECT_NE(all.verdict.find("used as a lock"), std::string::npos) << all.verdict;
}

TEST(rules, herd) {
  const auto herd = [](row& r) {
    r.seen.signals = 110;
    r.seen.unheard = 10;
    r.seen.woken = 4000;
    r.seen.herd = 40;
  };
  const row r = verdict(herd, of_kind(kind::condition));
  EXPECT_EQ(r.rule, "herd");
  EXPECT_EQ(r.verdict, "40 threads wake for each broadcast: if one is enough, and all wait for the same, signal one");
  for (const auto& spoil : std::vector<std::function<void(row&)>>{
           [](row& x) { x.seen.woken = 399; },
           [](row& x) { x.seen.herd = 3; },
           [](row& x) { x.seen.woken = 99, x.seen.signals = 20; },
           [](row& x) { x.seen.unheard = 110; },
       })
    EXPECT_EQ(rule_of(
                  [&](row& x) {
                    herd(x);
                    spoil(x);
                  },
                  of_kind(kind::condition)),
              "condition");
}

TEST(rules, slow_wake) {
  const auto slow = [](row& r) {
    r.seen.woken = 100;
    r.seen.waiting.median = 0.0012;
  };
  EXPECT_EQ(rule_of(slow, of_kind(kind::condition)), "slow-wake");
  EXPECT_EQ(rule_of(
                [&](row& x) {
                  slow(x);
                  x.seen.woken = 99;
                },
                of_kind(kind::condition)),
            "condition");
  EXPECT_EQ(rule_of(
                [&](row& x) {
                  slow(x);
                  x.seen.waiting.median = 0.0009;
                },
                of_kind(kind::condition)),
            "condition");
}

TEST(rules, unheard) {
  EXPECT_EQ(rule_of([](row& r) { r.seen.signals = 1000, r.seen.unheard = 900; }, of_kind(kind::condition)), "unheard");
  EXPECT_EQ(rule_of([](row& r) { r.seen.signals = 1000, r.seen.unheard = 899; }, of_kind(kind::condition)),
            "condition");
  EXPECT_EQ(rule_of([](row& r) { r.seen.signals = 999, r.seen.unheard = 999; }, of_kind(kind::condition)), "condition");
}

// ---- programs ----------------------------------------------------------------------------------------------------

TEST(rules_of_programs, no_calls) {
  EXPECT_EQ(judged({}).rule, "no-calls");
  EXPECT_EQ(judged({}).verdict, "no call of a pthread lock, condition variable or semaphore was recorded");
}

TEST(rules_of_programs, hot_mutex) {
  row other = mutex();
  other.seen.waiting.total = 2;
  const report r = judged({mutex(), other});
  EXPECT_EQ(r.rule, "hot-mutex");
  EXPECT_EQ(
      r.verdict,
      "threads waited 12 % of their time for recorded locks, 80 % of that for queue_mutex: hot: shorten or split the "
      "critical section "
      "at server.cpp:120 (worker), or try other locks");
  EXPECT_EQ(r.next, r.rows[0].command);
  EXPECT_TRUE(
      judged({mutex()}, [](report& x) { x.lock = "loiter"; }).verdict.starts_with("under loiter threads waited"));
}

TEST(rules_of_programs, wake_ups) {
  row cold = mutex();
  cold.seen.waiting = {};
  cold.seen.contended = 0;
  row c = of_kind(kind::condition);
  c.name = "item_came";
  c.seen.waiting.total = 0.8;
  const report r = judged({cold, c});
  EXPECT_EQ(r.rule, "wake-ups");
  EXPECT_EQ(r.verdict,
            "threads waited 0 % of their time for recorded locks, and 1.0 % from signals to running, for a CPU or for "
            "the mutex; most "
            "for item_came");
  EXPECT_TRUE(r.next.starts_with("usher try"));
  c.seen.signals = 100, c.seen.woken = 4000, c.seen.herd = 40;
  EXPECT_TRUE(
      judged({cold, c}).verdict.ends_with("most for item_came: 40 threads wake for each broadcast: if one is "
                                          "enough, and all wait for the same, signal one"));
  c.seen.waiting.total = 0.79;
  EXPECT_EQ(judged({cold, c}).rule, "cold");
}

TEST(rules_of_programs, herds_before_a_mutex_that_is_waited_for_less) {
  row c = of_kind(kind::condition);
  c.name = "item_came";
  c.seen.signals = 100, c.seen.woken = 4000, c.seen.herd = 40;
  c.seen.waiting.total = mutex().seen.waiting.total;
  EXPECT_EQ(judged({mutex(), c}).rule, "hot-mutex");
  c.seen.waiting.total *= 1.01;
  EXPECT_EQ(judged({mutex(), c}).rule, "wake-ups");
}

TEST(rules_of_programs, one_at_a_time) {
  row c = of_kind(kind::condition);
  c.name = "turn";
  c.seen.waiting.total = 8;
  c.seen.acquisitions = 100'000;  // 1 s of 10 s
  row cold = mutex();
  cold.seen.waiting = {};
  cold.seen.contended = cold.seen.acquisitions = 0;
  const auto with = [&](double busy, const row& condition, double waiting = 0) {
    return judged({cold, condition}, [&](report& r) { r.cpu = cpu_use{2, busy, waiting}; });
  };
  const report r = with(1, c);
  EXPECT_EQ(r.rule, "one-at-a-time");
  EXPECT_EQ(
      r.verdict,
      "the program used 1.0 of 2 CPUs, as if one thread ran at a time; 10 % of the threads' time was from signals to "
      "running, most for turn; all waits and acquisitions, at 10 µs and 100 ns each, make 10 % of the CPU time: "
      "other locks can hardly gain more");
  EXPECT_EQ(r.next, "");
  EXPECT_EQ(with(1.2, c).rule, "wake-ups");
  EXPECT_EQ(with(1, c, 0.85).rule, "one-at-a-time");  // threads that take turns, on a quiet machine
  const report ready = with(1, c, 1.7);               // 2.7 threads could have run at a time
  EXPECT_EQ(ready.rule, "wake-ups");
  EXPECT_EQ(ready.verdict.find("one thread"), std::string::npos) << ready.verdict;
  row more = c;
  more.seen.acquisitions = 101'000;
  EXPECT_EQ(with(1, more).rule, "wake-ups");
  row herd = c;
  herd.seen.signals = 100, herd.seen.woken = 4000, herd.seen.herd = 40;
  EXPECT_EQ(with(1, herd).rule, "wake-ups");
}

TEST(rules_of_programs, full_cpus) {
  row r = mutex();
  r.seen.acquisitions = r.seen.contended = 1000;
  r.seen.waiting.count = 1000;
  const report all = judged({r}, [](report& x) { x.cpu = cpu_use{2, 2, 3.2}; });
  EXPECT_EQ(all.rows[0].rule, "cpus-full");
  EXPECT_EQ(all.rule, "cpus-full");
  EXPECT_EQ(all.next, "");
}

row cool() {
  row r = mutex();
  r.seen.waiting.total = 0.008;
  r.seen.threads.clear();
  return r;
}

TEST(rules_of_programs, one_thread_among_many_idle_ones) {
  row r = cool();
  r.seen.waiting.total = 0.7;
  r.seen.threads = {{17, 100, 0.7}};
  const report all = judged({r});
  EXPECT_EQ(all.rule, "hot-mutex");
  EXPECT_NE(all.verdict.find("0.87 % of their time for recorded locks, but thread 17 waited 700 ms"), std::string::npos)
      << all.verdict;
}

TEST(rules_of_programs, scattered) {
  std::vector<row> rows;
  for (int i = 0; i < 4; i++) {
    rows.push_back(cool());
    rows.back().seen.waiting.total = 0.4;  // of 80 s
  }
  EXPECT_EQ(judged(rows).rule, "scattered");
  rows.resize(1);
  EXPECT_EQ(judged(rows).rule, "cold");
}

TEST(rules_of_programs, cold) {
  const report r = judged({cool()});
  EXPECT_EQ(r.rule, "cold");
  EXPECT_EQ(r.verdict,
            "threads waited 0.01 % of their time for recorded locks: other locks save no more waiting than that");
  EXPECT_EQ(r.next, "");
  row herd = of_kind(kind::condition);
  herd.name = "item_came";
  herd.seen.signals = 100, herd.seen.woken = 4000, herd.seen.herd = 40;
  herd.seen.waiting.total = 0.1;
  EXPECT_NE(judged({cool(), herd}).verdict.find("item_came: 40 threads wake"), std::string::npos);
  row waits = herd;
  waits.seen.woken = 4;
  EXPECT_EQ(judged({cool(), waits}).rule, "cold");  // threads that wait for work do not wait for a lock
}

TEST(rules_of_programs, credits) {
  const report r = judged({of_kind(kind::semaphore), cool()});
  EXPECT_EQ(r.rule, "credits");
  EXPECT_EQ(r.verdict,
            "threads waited 0.01 % of their time for recorded locks, and 10 % for queue_mutex: threads waited 10 % of "
            "their time for credits: for work, for a turn or for a resource; which of these was not seen");
  EXPECT_EQ(judged({of_kind(kind::semaphore), mutex()}).rule, "hot-mutex");
}

TEST(rules_of_programs, that_do_not_end_by_themselves) {
  const report r = judged({mutex()}, [](report& x) { x.runs_on = true; });
  EXPECT_EQ(r.next, "usher try --until 'LOAD' -- ./server --name 'a b'");
  EXPECT_EQ(r.rows[0].command, r.next);
}

TEST(rules_of_programs, without_its_command) {
  const report r = judged({mutex()}, [](report& x) { x.command.clear(); });
  EXPECT_EQ(r.next, "usher try -- CMD");
}

TEST(rules_of_programs, whose_record_had_no_room) {
  const auto without_room = [](report& x) {
    x.not_seen.calls = 12345;
    x.not_seen.objects = 131072;
  };
  const report cold = judged({cool()}, without_room);
  EXPECT_EQ(cold.rule, "cold");
  EXPECT_EQ(
      cold.verdict,
      "threads waited 0.01 % of their time for recorded locks; 12,345 calls that found no room in the record were "
      "not seen");
  EXPECT_EQ(cold.next, "usher stat --objects 131072 -- ./server --name 'a b'");
  const report hot = judged({mutex()}, without_room);
  EXPECT_TRUE(hot.verdict.ends_with("; 12,345 calls that found no room in the record were not seen")) << hot.verdict;
  EXPECT_TRUE(hot.next.starts_with("usher try")) << hot.next;
  // A larger number of objects does not help if threads found no room, or if the number is the maximum already.
  EXPECT_EQ(judged({cool()}, [](report& x) { x.not_seen.calls = 1; }).next, "");
  EXPECT_EQ(judged({cool()}, [](report& x) { x.not_seen.objects = 1 << 23; }).next, "");
}

TEST(rules_of_programs, whose_threads_were_not_all_searched) {
  const report r = judged({cool()}, [](report& x) { x.not_seen.threads = 904; });
  EXPECT_TRUE(r.verdict.ends_with("save no more waiting than that; 904 threads were not searched for older deadlocks"))
      << r.verdict;
}

// ---- futexes that were not recorded, and reports that recommend no trial --------------------------------------------

off_cpu asleep(std::uint64_t in_futexes, std::uint64_t elsewhere) {
  off_cpu o;
  o.samples = in_futexes + elsewhere;
  o.places.push_back({"futex", {}, "/usr/lib/libglib-2.0.so.0", in_futexes});
  o.places.push_back({"poll", {}, "/bin/server", elsewhere});
  return o;
}

TEST(rules_of_programs, unseen_futexes) {
  const auto with = [](std::uint64_t in_futexes, std::uint64_t elsewhere) {
    return judged({cool()}, [&](report& r) { r.asleep = asleep(in_futexes, elsewhere); });
  };
  EXPECT_EQ(with(10, 90).rule, "unseen-futexes");
  EXPECT_EQ(with(10, 90).verdict,
            "threads waited 0.01 % of their time for recorded locks; 10 % of the time that threads slept was in futex "
            "calls, the largest part in libglib-2.0.so.0, which no recorded object explains");
  EXPECT_EQ(with(10, 90).next, "usher stat --details -- ./server --name 'a b'");
  EXPECT_EQ(with(9, 91).rule, "cold");
  EXPECT_EQ(with(10, 9).rule, "cold");  // too few samples
  const report none = judged({}, [](report& r) { r.asleep = asleep(90, 10); });
  EXPECT_EQ(none.rule, "unseen-futexes");
  EXPECT_NE(none.verdict.find("recorded; 90 % of the time that threads slept"), std::string::npos) << none.verdict;
  const report attached = judged({cool()}, [](report& r) { r.sees_all_kinds = false; });
  EXPECT_NE(attached.verdict.find("read-write locks, spin locks and barriers were not recorded"), std::string::npos);
}

/// If threads slept in futex calls of a library, the report names the program's code that called the library, as far as
/// stacks show it.
TEST(rules_of_programs, unseen_futexes_of_a_library) {
  const auto with = [](std::initializer_list<std::pair<const char*, std::uint64_t>> callers, auto change) {
    return judged({}, [&](report& r) {
      r.asleep = asleep(0, 10);
      for (const auto& [function, samples] : callers) {
        off_cpu::place p{"futex", {}, "/usr/lib/libgomp.so.1", samples};
        if (*function != '\0') p.below.frames = {frame_of(function, "/src/sum.cpp", 12)};
        r.asleep->places.push_back(p);
        r.asleep->samples += samples;
      }
      change(r);
    });
  };
  const auto as_it_is = [](report&) {};
  const report most = with({{"sum()", 51}, {"product()", 19}, {"", 20}}, as_it_is);
  EXPECT_EQ(most.verdict,
            "no call of a pthread lock, condition variable or semaphore was recorded; 90 % of the time that threads "
            "slept was in futex calls, the largest part in libgomp.so.1, probably most of it below sum.cpp:12 (sum), "
            "which no recorded object explains");
  const report some = with({{"sum()", 30}, {"", 60}}, as_it_is);
  EXPECT_NE(some.verdict.find("libgomp.so.1, some of it probably below sum.cpp:12 (sum), which"), std::string::npos);
  EXPECT_NE(with({{"", 90}}, as_it_is).verdict.find("libgomp.so.1, which"), std::string::npos);
  EXPECT_EQ(with({{"", 90}}, [](report& r) { r.attached = attach_cost{}, r.pid = 4711; }).next,
            "usher stat --details -p 4711");
  // On a busy machine a trial of locks would decide little. The recommended command is no trial, so it is shown
  // nevertheless.
  EXPECT_NE(with({{"", 90}}, [](report& r) { r.others_cpu_share = 0.9; }).next, "");
}

TEST(rules_of_programs, no_sentence_tells_what_no_lock_can_do) {
  for (const auto rules : {rules_of_rows(), rules_of_programs()})
    for (const rule& r : rules) EXPECT_EQ(std::string(r.says).find("no lock"), std::string::npos) << r.name;
}

TEST(rules, no_trial_on_a_busy_machine_or_for_little_waiting) {
  const auto with = [](double others) { return judged({mutex()}, [&](report& r) { r.others_cpu_share = others; }); };
  EXPECT_NE(with(0.1).next, "");
  const report busy = with(0.11);
  EXPECT_EQ(busy.next, "");
  EXPECT_EQ(busy.rows[0].command, "");
  EXPECT_EQ(busy.remarks.size(), 1u);
  row rare = mutex();  // the rule applies, however little is waited
  rare.seen.waiting.longest = 0.1;
  rare.seen.holding.longest = 0.01;
  rare.seen.waiting.total = 0.01;
  rare.seen.threads.clear();
  const report little = judged({rare});
  EXPECT_EQ(little.rows[0].rule, "rare-wait");
  EXPECT_EQ(little.next, "");
}

// ---- the CPUs -------------------------------------------------------------------------------------------------------

/// A mutex with long waits and short holds. Both are so rare that they cost little CPU time.
row seldom_waited_for() {
  row r = mutex();
  r.seen.acquisitions = r.seen.contended = r.seen.waiting.count = 20'000;
  r.seen.holding.total = 20'000 * 10e-6;
  return r;
}

std::string rule_with_cpus(double cpus, double busy, double waiting, row r = seldom_waited_for(),
                           const std::string& lock = "pthread") {
  return judged({std::move(r)},
                [&](report& x) {
                  x.cpu = cpu_use{cpus, busy, waiting};
                  x.lock = lock;
                })
      .rows[0]
      .rule;
}

TEST(rules, cpus_full) {
  EXPECT_EQ(rule_with_cpus(2, 1.8, 0.5), "cpus-full");
  EXPECT_EQ(rule_with_cpus(2, 1.79, 0.5), "convoy");
  EXPECT_EQ(rule_with_cpus(2, 1.8, 0.49), "convoy");
  EXPECT_EQ(rule_with_cpus(2, 1.8, 0.5, seldom_waited_for(), "ticket"), "convoy");  // waiters use CPU time
  row often = seldom_waited_for();
  often.seen.waiting.count = often.seen.acquisitions = often.seen.contended = 95'000;  // 0.96 of 18 s
  EXPECT_NE(rule_with_cpus(2, 1.8, 0.5, often), "cpus-full");
  row tried = seldom_waited_for();
  tried.seen.failed_tries = 20'001;
  EXPECT_NE(rule_with_cpus(2, 1.8, 0.5, tried), "cpus-full");
  const report r = judged({seldom_waited_for()}, [](report& x) { x.cpu = cpu_use{2, 1.9, 3.2}; });
  EXPECT_EQ(r.rows[0].verdict,
            "the CPUs are full (1.9 of 2 used, 3.2 threads ready without one), and its waits and acquisitions, at 10 "
            "µs and 100 ns each, make 1.1 % of that CPU time: another lock can hardly gain more");
  EXPECT_EQ(r.next, "");
  EXPECT_NE(judged({cool()},
                   [](report& x) {
                     x.cpu = cpu_use{2, 1.9, 3.2};
                   })
                .verdict.find("the CPUs are full"),
            std::string::npos);
}

TEST(rules, one_at_a_time) {
  EXPECT_EQ(rule_with_cpus(2, 1.0, 0), "one-at-a-time");
  EXPECT_EQ(rule_with_cpus(2, 1.05, 0.85), "one-at-a-time");  // threads that take turns, on a quiet machine
  EXPECT_EQ(rule_with_cpus(2, 1.0, 1.7), "cpus-taken");       // 2.7 threads could have run at a time
  EXPECT_EQ(rule_with_cpus(2, 1.11, 0), "convoy");
  EXPECT_EQ(rule_with_cpus(2, 0.84, 0), "convoy");
  EXPECT_EQ(rule_with_cpus(1, 1.0, 0), "convoy");
  row often = seldom_waited_for();
  often.seen.waiting.count = 60'000;
  EXPECT_NE(rule_with_cpus(2, 1.0, 0, often), "one-at-a-time");  // its waits cost more than 5 %
  row held = seldom_waited_for();
  held.seen.held_share = 0.93;
  EXPECT_EQ(rule_with_cpus(2, 1.0, 0, held), "long-hold");
}

/// Two mutexes that threads wait for equally long, while other programs use the CPUs. Waits and holds then contain time
/// in which the thread had no CPU, so the report may recommend no lock, however long they are.
TEST(rules, cpus_taken) {
  const auto beside = [](row r, double busy = 0.8, double waiting = 5.8, double others = 0) {
    row other = r;
    other.name = "other_mutex";
    return judged({std::move(r), other}, [&](report& x) {
      x.cpu = cpu_use{2, busy, waiting};
      x.others_cpu_share = others;
    });
  };
  const report all = beside(seldom_waited_for());
  EXPECT_EQ(all.rule, "cpus-taken");
  for (const row& r : all.rows) {
    EXPECT_EQ(
        r.verdict,
        "5.8 threads were ready without a CPU, while the program used 0.8 of 2: others had the rest, or its threads "
        "are bound to one CPU or woken on one; the waits and holds contain that time: record again where they have "
        "CPUs");
    EXPECT_EQ(r.command, "");
  }
  EXPECT_EQ(all.next, "");
  EXPECT_EQ(beside(mutex()).next, "");  // so many waits that they may cost more than 5 % of the CPU time
  EXPECT_EQ(beside(mutex()).rule, "cpus-taken");
  EXPECT_EQ(beside(mutex(), 1.2, 1.19).rule, "hot-mutex");
  EXPECT_EQ(beside(mutex(), 1.2, 0.61, 0.11).rule, "cpus-taken");
  EXPECT_EQ(beside(mutex(), 1.2, 0.59, 0.11).rule, "hot-mutex");
  EXPECT_EQ(beside(mutex(), 0.2, 0.49).rule, "hot-mutex");
  // waits at a condition variable may themselves be the reason why threads are ready without a CPU
  EXPECT_NE(beside(of_kind(kind::condition)).next, "");
  EXPECT_EQ(beside(of_kind(kind::condition), 0.8, 5.8, 0.11).next, "");
  row rare = mutex();
  rare.seen.waiting.longest = 0.1, rare.seen.holding.longest = 0.01;
  const report waits = beside(rare);
  EXPECT_EQ(waits.rows[0].rule, "rare-wait");
  EXPECT_NE(waits.rows[0].verdict.find("or a thread had no CPU: 5.8 threads"), std::string::npos);
  EXPECT_EQ(waits.rows[0].verdict.find("may help"), std::string::npos);
  ASSERT_EQ(waits.remarks.size(), 1u);
  EXPECT_EQ(waits.remarks[0],
            "No command for a trial is recommended, since 5.8 threads were ready without a CPU, while the program used "
            "0.8 of 2.");
}

/// As in the test before, but with objects of other kinds and with tables. A verdict that advises something because of
/// such waits must say that they contain time without a CPU.
TEST(rules, cpus_taken_from_other_kinds) {
  const auto is_cautious = [](row r, double waiting, const std::string& rule) {
    row other = r;
    other.name = "other";
    const report all = judged({std::move(r), other}, [&](report& x) { x.cpu = cpu_use{2, 0.5, waiting}; });
    for (const row& i : all.rows) EXPECT_EQ(i.rule, rule) << i.verdict;
    return all.rows[0].verdict.ends_with(
        "; but 3.0 threads were ready without a CPU, while the program used 0.5 of 2, and the waits contain that time: "
        "record again where they have CPUs");
  };
  row shared = of_kind(kind::rwlock), as_lock = of_kind(kind::semaphore), unequal = of_kind(kind::barrier);
  shared.seen.sides = lock_sides{};
  as_lock.seen.acquisitions = as_lock.seen.signals = 2'000'000;
  as_lock.seen.contended = 200'000;
  unequal.seen.acquisitions = 8000;
  unequal.seen.last = thread_share{12, 950, 0};
  unequal.seen.threads = {{12, 950, 0}, {13, 50, 5}};
  unequal.seen.waiting.total = 20;  // of 80 s
  for (const auto& [r, rule] : {std::pair{shared, "readers-writers"},
                                {as_lock, "semaphore-lock"},
                                {unequal, "last-one"},
                                {of_kind(kind::spin), "spun"},
                                {table(8, 0.5), "one-of-many"},
                                {table(4, 0.49), "spread"}}) {
    EXPECT_TRUE(is_cautious(r, 3, rule)) << rule;
    EXPECT_FALSE(is_cautious(r, 0.4, rule)) << rule;
  }
  EXPECT_FALSE(is_cautious(of_kind(kind::semaphore), 3, "no-credits"));
}

/// If the median hold is long, holds are also long on a quiet machine. A long mean, or a large share of time, may come
/// from a few holders that lost their CPU.
TEST(rules, cpus_taken_from_holders) {
  const auto rule = [](double median, double mean, double share, double waiting) {
    row r = mutex();
    r.seen.holding.median = median;
    r.seen.holding.total = static_cast<double>(r.seen.acquisitions) * mean;
    r.seen.held_share = share;
    return rule_with_cpus(2, 0.5, waiting, r);
  };
  EXPECT_EQ(rule(5e-6, 1.1e-3, 0.4, 0), "sleeping-hold");
  EXPECT_EQ(rule(5e-6, 1.1e-3, 0.4, 3), "cpus-taken");
  EXPECT_EQ(rule(1e-3, 1.1e-3, 0.4, 3), "sleeping-hold");
  EXPECT_EQ(rule(5e-6, 40e-6, 0.9, 0), "long-hold");
  EXPECT_EQ(rule(5e-6, 40e-6, 0.9, 3), "cpus-taken");
  EXPECT_EQ(rule(38e-6, 40e-6, 0.9, 3), "long-hold");
}

TEST(rules, uneven_hold) {
  const auto uneven = [](row& r) {
    r.seen.held_share = 0.7;
    r.seen.holding.median = 1e-6;
    r.seen.holding.total = 250'000 * 20e-6;
  };
  const row r = verdict(uneven);
  EXPECT_EQ(r.rule, "uneven-hold");
  EXPECT_EQ(
      r.verdict,
      "half of its holds take 1.00 µs or less, but the mean is 20.0 µs, and it is held about 70 % of the time: in "
      "some its holder does not run; does it yield, or fault pages, at server.cpp:120 (worker)?");
  for (const auto& spoil : std::vector<std::function<void(row&)>>{
           [](row& x) { x.seen.holding.median = 4.1e-6; }, [](row& x) { x.seen.held_share = 0.49; },
           [](row& x) { x.seen.holding.longest = 0.1; },  // a single hold may have made the mean this long
       })
    EXPECT_NE(rule_of([&](row& x) {
                uneven(x);
                spoil(x);
              }),
              "uneven-hold");
}

TEST(rules, holders_that_yield) {
  const row r = verdict([](row& x) { x.seen.yielding_share = 0.1; });
  EXPECT_EQ(r.rule, "uneven-hold");
  EXPECT_EQ(r.verdict,
            "in 10 % of the timed holds the holder called sched_yield(), and others ran while it had the mutex: yield "
            "outside of the critical section at server.cpp:120 (worker)");
  EXPECT_EQ(r.command, "");
  EXPECT_EQ(rule_of([](row& x) { x.seen.yielding_share = 0.1, x.seen.held_share = 0.9; }), "uneven-hold");
  EXPECT_NE(rule_of([](row& x) { x.seen.yielding_share = 0.09; }), "uneven-hold");
}

TEST(rules, polled) {
  const auto polls = [](row& r) {
    r.seen.contended = 0;
    r.seen.waiting = {};
    r.seen.threads.clear();
    r.seen.failed_tries = 16000;
    r.seen.tries = {40, 0.8, 0.1};  // of 80 s of all threads
  };
  const row r = verdict(polls);
  EXPECT_EQ(r.rule, "polled");
  EXPECT_EQ(r.verdict,
            "16,000 trylocks failed, and 40 acquisitions came 20.0 ms after the first failure: threads that only try "
            "again meanwhile wait here, and use CPU time; held about 50 % of the time: shorten the critical section at "
            "server.cpp:120 (worker)");
  EXPECT_EQ(rule_of(polls, of_kind(kind::spin)), "polled");
  EXPECT_EQ(rule_of(polls, of_kind(kind::semaphore)), "polled");
  const report all = judged({r});
  EXPECT_EQ(all.rule, "hot-mutex");
  EXPECT_NE(all.verdict.find("but queue_mutex was tried repeatedly: 16,000"), std::string::npos) << all.verdict;
  for (const auto& spoil : std::vector<std::function<void(row&)>>{
           [](row& x) { x.seen.tries.count = 5334; },    // one failure may have led to other work
           [](row& x) { x.seen.failed_tries = 15999; },  // as may a longer time than 50 µs to the next one
           [](row& x) { x.seen.tries.total = 0.49; },
           [](row& x) { x.seen.tries.count = 0; },
       })
    EXPECT_EQ(rule_of([&](row& x) {
                polls(x);
                spoil(x);
              }),
              "uncontended");
  EXPECT_EQ(verdict([&](row& x) {
              polls(x);
              x.seen.tries = {};
            }).verdict,
            "no wait for it was recorded; 16,000 trylocks failed");
  EXPECT_EQ(verdict([&](row& x) {
              polls(x);
              x.seen.failed_tries = 8000;
            }).verdict,
            "no wait for it was recorded; 8,000 trylocks failed, 100 µs apart: what the threads did meanwhile was not "
            "seen");
}

// ---- read-write locks, spin locks, barriers, joins ------------------------------------------------------------------

TEST(rules, read_write_locks) {
  row r = of_kind(kind::rwlock);
  r.seen.sides = lock_sides{};
  r.seen.sides->reading.waited = 3.1;
  r.seen.sides->writing.waited = 12;
  r.seen.sides->writing.behind_readers = 11;
  const report all = judged({r});
  EXPECT_EQ(all.rows[0].rule, "readers-writers");
  EXPECT_EQ(all.rows[0].verdict,
            "readers waited 3.10 s, writers 12.0 s (11.0 s of that for readers): hold it for a shorter time, or divide "
            "what it guards");
  EXPECT_EQ(all.rule, "hot-rwlock");
  EXPECT_EQ(all.next, "");
  EXPECT_EQ(rule_of([](row& x) { x.seen.held_share = 0.5; }, r), "writers-hold");
  row beside = mutex();
  beside.seen.waiting.total = 2;
  EXPECT_EQ(judged({r, beside}).rule, "hot-rwlock");
  EXPECT_EQ(rule_of([](row& x) { x.seen.waiting = {}, x.seen.contended = 0; }, r), "uncontended");
  // A starving writer, which never gets the lock, has exactly one wait, and this wait has not ended.
  r.seen.sides = lock_sides{};
  r.seen.sides->reading.acquisitions = 12000;
  r.seen.contended = r.seen.waiting.count = r.seen.still_waiting = 1;
  r.seen.waiting.total = 9.9;
  const row unfinished = verdict([](row&) {}, r);
  EXPECT_EQ(unfinished.rule, "readers-writers");
  EXPECT_EQ(unfinished.verdict,
            "one thread waited for it, 9.90 s in all, and still did at the end; meanwhile there were 12,000 "
            "acquisitions to read and 0 to write: hold it for a shorter time, or divide what it guards");
  EXPECT_TRUE(verdict([](row& x) { x.seen.waiting.count = 2; }, r).verdict.starts_with("readers waited"));
}

TEST(rules, spin_locks) {
  const row r = of_kind(kind::spin);
  const report all = judged({r}, [](report& x) { x.cpu = cpu_use{2, 2, 3.2}; });
  EXPECT_EQ(all.rows[0].rule, "spun");
  EXPECT_NE(all.rows[0].verdict.find("3.2 threads were ready without a CPU"), std::string::npos);
  EXPECT_EQ(all.rule, "hot-spin");
  EXPECT_EQ(judged({r}).rows[0].verdict, "threads spent 10 % of their time in its loop, on a CPU or ready for one");
}

TEST(rules, barriers) {
  row r = of_kind(kind::barrier);
  r.seen.acquisitions = 8000;  // 1,000 rounds of 8 threads
  r.seen.last = thread_share{12, 750, 0};
  r.seen.threads = {{12, 750, 0}, {13, 249, 5}, {14, 1, 7}};
  r.seen.most_waiting = 14;   // threads of two rounds, some of which have not left the first one yet
  r.seen.waiting.total = 12;  // of 80 s
  EXPECT_EQ(verdict([](row&) {}, r).rule, "last-one");
  EXPECT_EQ(judged({r}).rule, "barrier");
  const auto says = [&](const std::function<void(row&)>& change) {
    const row changed = verdict(change, r);
    EXPECT_EQ(changed.rule, "barrier");
    return changed.verdict;
  };
  EXPECT_TRUE(says([](row& x) {
                x.seen.last->waits = x.seen.threads[0].waits = 749;
                x.seen.threads[1].waits++;
              }).find("different threads came last") != std::string::npos);
  EXPECT_EQ(says([](row& x) { x.seen.last.reset(); }), "threads waited 15 % of their time here");
  // Advice needs waiting of 15 % of all threads' time: equal work for all threads would save at most the time that is
  // waited.
  EXPECT_EQ(says([](row& x) { x.seen.waiting.total = 11.9; }),
            "threads waited 15 % of their time here, mostly for the same thread");
}

TEST(rules, joins) {
  EXPECT_EQ(rule_of([](row&) {}, of_kind(kind::join)), "join");
  EXPECT_EQ(judged({of_kind(kind::join)}).rule, "cold");  // waiting for a join is not the fault of a lock
}

// ---- the table ------------------------------------------------------------------------------------------------------

TEST(rules, names_are_unique_and_short_in_the_table) {
  for (const auto rules : {rules_of_rows(), rules_of_programs()}) {
    std::set<std::string> names;
    for (const rule& r : rules) {
      EXPECT_TRUE(names.insert(r.name).second) << r.name;
      EXPECT_LE(std::string(r.in_table).size(), 17u) << r.name;
      EXPECT_NE(find_rule(r.name), nullptr);
    }
  }
  EXPECT_EQ(find_rule("nonsense"), nullptr);
}

/// Returns the lines of a page between `<!-- name -->` and `<!-- /name -->`.
std::string page_of(const char* file) {
  std::ifstream in(file);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

std::string part_of_page(const std::string& name) {
  const std::string page = page_of(USHER_STAT_DOC), begin = "<!-- " + name + " -->\n", end = "<!-- /" + name + " -->";
  const std::size_t from = page.find(begin), to = page.find(end);
  return from == std::string::npos || to == std::string::npos
             ? ""
             : page.substr(from + begin.size(), to - from - begin.size());
}

/// Returns the rules as docs/stat.md must show them: a table of names and conditions. The rules' sentences are not part
/// of it.
std::string as_markdown(std::span<const rule> rules, bool has_column) {
  std::string text = has_column ? "| rule | in the table | when |\n|---|---|---|\n" : "| rule | when |\n|---|---|\n";
  for (const rule& r : rules)
    text +=
        std::string("| `") + r.name + "` | " + (has_column ? std::string(r.in_table) + " | " : "") + r.when + " |\n";
  return text;
}

TEST(rules, the_page_has_the_same_tables) {
  EXPECT_EQ(part_of_page("rules of rows"), as_markdown(rules_of_rows(), true));
  EXPECT_EQ(part_of_page("rules of programs"), as_markdown(rules_of_programs(), false));
}

TEST(rules, readme_has_a_verdict_of_this_form) {
  row r = mutex();
  r.name = "libsqlite3.so.0.8.6+0xa8c5d";
  r.holders = {at({frame_of("sqlite3_step", "", 0, "/usr/lib/libsqlite3.so.0.8.6")})};
  r.seen.held_share = 0.94;
  r.seen.waiting.total = 0.61 * 80;
  const std::string verdict = "Verdict: " + judged({r}).verdict, page = page_of(USHER_README);
  const std::size_t from = page.find("Verdict: "), to = page.find("\n```", from);
  ASSERT_NE(to, std::string::npos);
  EXPECT_EQ(std::regex_replace(page.substr(from, to - from), std::regex("\\s+"), " "), verdict);
}

}  // namespace
}  // namespace usher::reader
