// Tests how the report's rows are made from records (grouping, sums, scaling, unknown values), and the search for
// circles of threads that wait for each other.
#include <gtest/gtest.h>

#include <numeric>

#include "synthetic.hpp"
#include "watch/access/census.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/name/naming.hpp"

namespace usher::reader {
namespace {

constexpr std::uint64_t ms = 1'000'000, s = 1000 * ms;

class reading : public testing::Test {
 protected:
  report read(std::size_t most_rows = 100) { return read_report(made.view, time, names, most_rows); }
  const row& only(const report& r) {
    EXPECT_EQ(r.rows.size(), 1u);
    static const row none;
    return r.rows.empty() ? none : r.rows[0];
  }
  /// Adds a mutex with this number of acquisitions to the record.
  std::uint32_t mutex(std::uint64_t address, std::uint64_t acquisitions = 1) {
    const std::uint32_t i = made.object(kind::mutex, address);
    made.at(i).acquisitions = acquisitions;
    return i;
  }

  synthetic made;
  made_up_names names{made.view};
  time_scale time{0, 10 * s, 1e-9};
};

TEST_F(reading, nothing) {
  const report r = read();
  EXPECT_TRUE(r.rows.empty());
  EXPECT_TRUE(r.remarks.empty());
  EXPECT_EQ(r.seconds, 10);
  EXPECT_EQ(r.pid, 100);
  EXPECT_EQ(r.lock, "pthread");
  EXPECT_EQ(r.processes, 1u);
}

TEST_F(reading, a_static_object_has_its_symbol) {
  names.variable(0x1000, "log_mutex", 40);
  names.variable(0x2000, "(anonymous namespace)::pool", 200, "/lib/libpool.so");
  mutex(0x1000, 7);
  mutex(0x2000 + 0x28, 8);
  const report r = read();
  ASSERT_EQ(r.rows.size(), 2u);
  EXPECT_EQ(r.rows[0].name, "pool+0x28");
  EXPECT_EQ(r.rows[0].module, "/lib/libpool.so");
  EXPECT_EQ(r.rows[1].name, "log_mutex");
  EXPECT_EQ(r.rows[1].seen.acquisitions, 7u);
  EXPECT_TRUE(r.rows[1].place.frames.empty());
}

TEST_F(reading, four_in_a_symbol_are_a_table_and_three_are_not) {
  names.variable(0x1000, "buckets", 4 * 40);
  names.variable(0x2000, "few", 3 * 40);
  for (unsigned i = 0; i < 4; i++) mutex(0x1000 + i * 40, 10);
  for (unsigned i = 0; i < 3; i++) mutex(0x2000 + i * 40, 1);
  const std::uint32_t condition = made.object(kind::condition, 0x1008);  // an object of another kind
  made.at(condition).acquisitions = 1;
  const report r = read();
  ASSERT_EQ(r.rows.size(), 5u);
  EXPECT_EQ(r.rows[0].name, "buckets[]");
  EXPECT_EQ(r.rows[0].objects, 4u);
  EXPECT_EQ(r.rows[0].seen.acquisitions, 40u);
  ASSERT_EQ(r.rows[0].each.size(), 4u);
  EXPECT_EQ(r.rows[0].each[1].name, "buckets+0x28");
  EXPECT_EQ(r.rows[0].each[1].pid, 100);
  std::set<std::string> others;
  for (std::size_t i = 1; i < r.rows.size(); i++) others.insert(r.rows[i].name);
  EXPECT_EQ(others, (std::set<std::string>{"few", "few+0x28", "few+0x50", "buckets+0x8"}));
}

TEST_F(reading, a_module_without_symbols_and_an_address_without_a_module) {
  names.variable(0x1000, "", 0x100, "/lib/libstripped.so");
  mutex(0x1234 - 0x200, 2);
  mutex(0x999000, 1);
  const report r = read();
  ASSERT_EQ(r.rows.size(), 2u);
  EXPECT_EQ(r.rows[0].name, "libstripped.so+0x1034");
  EXPECT_EQ(r.rows[1].name, "0x999000");
}

TEST_F(reading, objects_of_one_line_are_one_row) {
  // Two functions call std::mutex::lock. The first function locks two objects on the heap in one process and one object
  // in a child.
  names.code[0x10] = {frame_of("std::mutex::lock()", "std_mutex.h", 100)};
  names.code[0x20] = {frame_of("Table::find(int)", "/src/table.cpp", 120)};
  names.code[0x21] = {frame_of("Table::find(int)", "/src/table.cpp", 120)};
  names.code[0x30] = {frame_of("void (anonymous namespace)::run<int>(int)", "/src/run.cpp", 7)};
  const std::uint32_t child = made.process(101);
  const std::uint32_t one = made.chain({0x10, 0x20, 0x30}), same = made.chain({0x10, 0x21}, child),
                      other = made.chain({0x10, 0x30});
  made.at(made.placed(kind::mutex, 0x5000, one)).acquisitions = 3;
  made.at(made.placed(kind::mutex, 0x6000, one)).acquisitions = 4;
  made.at(made.placed(kind::mutex, 0x5000, same, 0, child)).acquisitions = 5;
  made.at(made.placed(kind::mutex, 0x7000, other, contract::from_init)).acquisitions = 1;
  const report r = read();
  ASSERT_EQ(r.rows.size(), 2u);
  EXPECT_EQ(r.rows[0].name, "Table::find table.cpp:120");
  EXPECT_EQ(r.rows[0].objects, 3u);
  EXPECT_EQ(r.rows[0].seen.acquisitions, 12u);
  EXPECT_FALSE(r.rows[0].by_init);
  ASSERT_GE(r.rows[0].place.frames.size(), 2u);
  EXPECT_EQ(r.rows[0].each[0].pid, 101);
  EXPECT_EQ(r.rows[1].name, "run<int> run.cpp:7");
  EXPECT_TRUE(r.rows[1].by_init);
}

TEST_F(reading, code_without_lines_has_module_and_offset) {
  frame f;
  f.module = "/lib/libx.so";
  f.offset = 0x1234;
  names.code[0x10] = {f};
  f.function = "start";
  names.code[0x20] = {f};
  made.at(made.placed(kind::mutex, 0x5000, made.chain({0x10}))).acquisitions = 3;
  made.at(made.placed(kind::mutex, 0x6000, made.chain({0x20}))).acquisitions = 2;
  made.at(made.placed(kind::mutex, 0x7000, made.chain({0x30}))).acquisitions = 1;
  made.at(made.placed(kind::mutex, 0x8000, 50)).acquisitions = 0;
  made.at(made.placed(kind::mutex, 0x8000, 50)).mutex.failed_tries = 1;  // there is no such chain
  const report r = read();
  ASSERT_EQ(r.rows.size(), 4u);
  EXPECT_EQ(r.rows[0].name, "libx.so+0x1234");
  EXPECT_EQ(r.rows[1].name, "start libx.so+0x1234");
  EXPECT_EQ(r.rows[2].name, "0x30");
  EXPECT_EQ(r.rows[3].name, "unknown place");
}

TEST_F(reading, two_entries_of_one_object_are_summed) {
  names.variable(0x1000, "m", 40);
  mutex(0x1000, 3);
  mutex(0x1000, 4);
  const row r = only(read());
  EXPECT_EQ(r.objects, 1u);
  EXPECT_EQ(r.each.size(), 1u);
  EXPECT_EQ(r.seen.acquisitions, 7u);
}

TEST_F(reading, destroyed_objects_are_in_the_sums_only) {
  names.code[0x10] = {frame_of("make", "/src/make.cpp", 5)};
  const std::uint32_t place = made.chain({0x10});
  made.at(made.placed(kind::mutex, 0x5000, place)).acquisitions = 2;
  const std::uint32_t sum =
      made.placed(kind::mutex, (1ull << 47) | 17, place, contract::is_sum | contract::any_wait_hidden);
  made.at(sum).owner = 1000;
  made.at(sum).acquisitions = 5000;
  made.at(sum).held = 5000 * 300;
  made.at(sum).holds = 5000;
  made.at(sum).contended = 4;
  made.at(sum).waited = 8 * ms;
  made.at(sum).longest_in_all = 2 * s;  // the sum of all holds of one of the objects
  const row r = only(read());
  EXPECT_EQ(r.objects, 1001u);
  EXPECT_EQ(r.gone, 1000u);
  EXPECT_EQ(r.each.size(), 1u);
  EXPECT_EQ(r.seen.acquisitions, 5002u);
  EXPECT_EQ(r.seen.contended, 4u);
  EXPECT_NEAR(r.seen.waiting.total, 0.008, 1e-9);
  EXPECT_TRUE(r.seen.waiting_is_hidden);
  EXPECT_NEAR(r.seen.holding.total, 5000 * 300e-9, 1e-9);
  EXPECT_NEAR(r.seen.held_share.value_or(0), 0.2,
              1e-9);  // the share of the process's time, since the lives of the threads are unknown
}

TEST_F(reading, what_was_never_used_is_no_row) {
  mutex(0x1000, 0);
  EXPECT_TRUE(read().rows.empty());
}

TEST_F(reading, percentiles_of_waiting) {
  const std::uint32_t m = mutex(0x1000, 1000);
  made.at(m).contended = 100;
  made.at(m).waited = 98 * 1000 + 2 * ms;
  made.at(m).longest = ms;
  contract::detail& d = made.detail(m);
  d.waits[contract::duration_buckets::of(1000)] = 98;
  d.waits[contract::duration_buckets::of(ms)] = 2;
  const counts c = only(read()).seen;
  EXPECT_EQ(c.waiting.count, 100u);
  ASSERT_TRUE(c.waiting.median && c.waiting.p99);
  EXPECT_NEAR(*c.waiting.median, 1e-6, 0.07e-6);
  EXPECT_NEAR(*c.waiting.p99, 1e-3, 0.07e-3);
  EXPECT_LE(*c.waiting.p99, c.waiting.longest);
  EXPECT_NEAR(c.waiting.longest, 1e-3, 1e-9);
}

TEST_F(reading, without_histograms_percentiles_are_unknown) {
  const std::uint32_t m = mutex(0x1000, 1000);
  made.at(m).contended = 1;
  made.at(m).waited = ms;
  made.at(m).detail = ~std::uint32_t{0};  // the table of histograms had no room
  const counts c = only(read()).seen;
  EXPECT_FALSE(c.waiting.median);
  EXPECT_FALSE(c.waiting.p99);
  EXPECT_NEAR(c.waiting.total, 1e-3, 1e-9);
}

TEST_F(reading, a_stale_page_of_histograms_is_not_read) {
  const std::uint32_t m = mutex(0x1000, 1000), other = mutex(0x2000, 1);
  made.detail(other).waits[5] = 1;
  made.at(m).detail = made.at(other).detail.load();
  const report r = read();
  EXPECT_FALSE(r.rows[0].seen.waiting.median);
}

TEST_F(reading, sampled_holds_are_scaled) {
  const std::uint32_t m = mutex(0x1000, 1'000'000);
  made.at(m).held = 1000 * 2000;
  made.at(m).holds = 1000;
  made.detail(m).holds[contract::duration_buckets::of(2000) / 2] = 1000;
  const counts c = only(read()).seen;
  EXPECT_FALSE(c.holding_is_exact);
  EXPECT_NEAR(c.holding.total, 2.0, 1e-6);
  EXPECT_NEAR(c.held_share.value_or(-1), 0.2, 1e-6);
  EXPECT_NEAR(c.holding.median.value_or(-1), 2e-6, 0.2e-6);
}

TEST_F(reading, holds_that_are_all_timed_are_exact) {
  made.view.head().hold_times = 1;
  const std::uint32_t m = mutex(0x1000, 3);
  made.at(m).held = 6 * s;
  made.at(m).holds = 3;
  counts c = only(read()).seen;
  EXPECT_TRUE(c.holding_is_exact);
  EXPECT_NEAR(c.holding.total, 6, 1e-9);
  EXPECT_NEAR(c.held_share.value_or(-1), 0.6, 1e-9);
  made.view.head().hold_times = 0;  // the first few holds are always timed
  EXPECT_TRUE(only(read()).seen.holding_is_exact);
  made.at(m).holds = 0;
  made.at(m).held = 0;
  c = only(read()).seen;
  EXPECT_EQ(c.holding.count, 0u);
  EXPECT_FALSE(c.held_share);
}

TEST_F(reading, a_hold_that_has_not_ended_counts_up_to_the_end) {
  const std::uint32_t m = mutex(0x1000, 101);
  made.at(m).held = 100 * 1000;
  made.at(m).holds = 50;  // 2 µs for each hold
  made.at(m).owner = 1;
  made.at(m).hold_begin = 4 * s;
  counts c = only(read()).seen;
  EXPECT_NEAR(c.holding.total, 6 + 100 * 2e-6, 1e-9);
  EXPECT_NEAR(c.holding.longest, 6, 1e-9);
  made.view.process(0).ended = 5 * s;
  c = only(read()).seen;
  EXPECT_NEAR(c.holding.longest, 1, 1e-9);
  EXPECT_NEAR(c.held_share.value_or(-1), 0.2, 0.001);
}

TEST_F(reading, a_row_is_held_as_much_as_the_object_that_is_held_most) {
  names.variable(0x1000, "buckets", 400);
  made.view.head().hold_times = 1;
  for (unsigned i = 0; i < 5; i++) {
    const std::uint32_t m = mutex(0x1000 + i * 40, 1);
    made.at(m).held = i * s;
    made.at(m).holds = 1;
  }
  EXPECT_NEAR(only(read()).seen.held_share.value_or(-1), 0.4, 1e-9);
}

TEST_F(reading, waits_that_have_not_ended_count_up_to_the_end) {
  const std::uint32_t m = mutex(0x1000, 10), one = made.thread(11), two = made.thread(12);
  made.at(m).contended = 1;
  made.at(m).waited = 1 * s;
  made.waits(one, m, 4 * s);
  made.waits(two, m, 9 * s);
  const report r = read();
  const counts& c = only(r).seen;
  EXPECT_NEAR(c.waiting.total, 1 + 6 + 1, 1e-6);
  EXPECT_NEAR(c.waiting.longest, 6, 1e-6);
  EXPECT_EQ(c.still_waiting, 2u);
  EXPECT_EQ(c.contended, 3u);
  EXPECT_EQ(c.waiting.count, 3u);
  ASSERT_EQ(c.threads.size(), 2u);
  EXPECT_EQ(c.threads[0].tid, 11);
  EXPECT_NEAR(r.waited[0], 8, 1e-6);
  ASSERT_EQ(r.remarks.size(), 1u);
  EXPECT_EQ(r.remarks[0], "2 threads still waited at the end; counted up to then.");
}

TEST_F(reading, of_waits_without_a_thread_only_the_sum_is_known) {
  const std::uint32_t m = mutex(0x1000, 10);
  made.at(m).waiting = contract::arrival(3 * s);
  const counts c = only(read()).seen;
  EXPECT_EQ(c.still_waiting, 1u);
  EXPECT_NEAR(c.waiting.total, 7, 1e-6);
}

TEST_F(reading, waiting_for_a_condition_is_not_waiting_for_a_lock) {
  const std::uint32_t c = made.object(kind::condition, 0x1000), t = made.thread(11);
  made.at(c).acquisitions = 5;
  made.at(c).contended = 4;
  made.at(c).waited = 40 * ms;
  made.at(c).condition.signals = 9;
  made.at(c).condition.unheard = 3;
  made.at(c).condition.herd = 2;
  made.at(c).timeouts = 1;
  made.waits(t, c, 0);
  const report r = read();
  const counts& seen = only(r).seen;
  EXPECT_NEAR(seen.waiting.total, 0.04, 1e-9);
  EXPECT_EQ(seen.waiting.count, 4u);
  EXPECT_EQ(seen.woken, 4u);
  EXPECT_EQ(seen.signals, 9u);
  EXPECT_EQ(seen.unheard, 3u);
  EXPECT_EQ(seen.herd, 2u);
  EXPECT_EQ(seen.still_waiting, 1u);
  EXPECT_TRUE(r.remarks.empty());
}

TEST_F(reading, what_words_mean_by_kind) {
  const std::uint32_t m = mutex(0x1000, 9), x = made.object(kind::semaphore, 0x2000);
  made.at(m).mutex.failed_tries = 2;
  made.at(m).mutex.timed = 5;
  made.at(m).holds = 9;
  made.at(m).timeouts = 3;
  made.at(m).waited = 3 * ms;
  made.at(x).acquisitions = 8;
  made.at(x).semaphore.posts = 7;
  made.at(x).semaphore.failed_tries = 6;
  const report r = read();
  EXPECT_EQ(r.rows[0].seen.failed_tries, 2u);
  EXPECT_EQ(r.rows[0].seen.holds_timed, 5u);  // for a mutex this word counts timed holds, and no herd
  EXPECT_EQ(r.rows[0].seen.herd, 0u);
  EXPECT_EQ(r.rows[0].seen.timeouts, 3u);
  EXPECT_EQ(r.rows[0].seen.waiting.count, 3u);
  EXPECT_EQ(r.rows[1].seen.signals, 7u);
  EXPECT_EQ(r.rows[1].seen.failed_tries, 6u);
  EXPECT_EQ(r.rows[1].seen.unheard, 0u);
}

TEST_F(reading, the_sides_of_a_read_write_lock) {
  const std::uint32_t l = made.object(kind::rwlock, 0x1000), t = made.thread(11);
  contract::object& o = made.at(l);
  o.acquisitions = 110;
  o.rwlock.reads = 100;
  o.contended = 15;
  o.rwlock.contended_reads = 5;
  o.waited = 9 * s;
  o.rwlock.waited_to_read = 2 * s;
  o.longest = 3 * s;
  o.rwlock.most_readers = 4;
  o.rwlock.readers = 2;
  o.held = 1 * s;
  o.holds = 9;
  o.owner = t + 1;
  o.hold_begin = 9 * s;
  contract::detail& d = made.detail(l);
  d.longest_read_wait = 1 * s;
  d.behind_writer[0] = 2 * s;
  d.behind_writer[1] = 3 * s;
  d.behind_readers[1] = 4 * s;
  d.failed_tries = 6;
  made.waits(made.thread(12), l, 8 * s);
  const report r = read();
  const counts& c = only(r).seen;
  EXPECT_EQ(c.acquisitions, 110u);
  EXPECT_EQ(c.contended, 16u);  // includes the thread that still waits, to read or to write
  EXPECT_NEAR(c.waiting.total, 11, 1e-9);
  EXPECT_NEAR(r.waited[contract::index_of(kind::rwlock)], 11, 1e-9);
  ASSERT_TRUE(c.sides);
  const lock_side &reading = c.sides->reading, &writing = c.sides->writing;
  EXPECT_EQ(reading.acquisitions, 100u);
  EXPECT_EQ(writing.acquisitions, 10u);
  EXPECT_EQ(reading.contended, 5u);
  EXPECT_EQ(writing.contended, 10u);
  EXPECT_NEAR(reading.waited, 2, 1e-9);
  EXPECT_NEAR(writing.waited, 7, 1e-9);
  EXPECT_NEAR(reading.longest, 1, 1e-9);
  EXPECT_NEAR(writing.longest, 3, 1e-9);
  EXPECT_NEAR(reading.behind_writer, 2, 1e-9);
  EXPECT_EQ(reading.behind_readers, 0);
  EXPECT_NEAR(writing.behind_writer, 3, 1e-9);
  EXPECT_NEAR(writing.behind_readers, 4, 1e-9);
  EXPECT_EQ(c.sides->most_readers, 4u);
  EXPECT_EQ(c.failed_tries, 6u);
  EXPECT_EQ(c.signals + c.unheard + c.herd, 0u);  // for this kind these words have another meaning
  EXPECT_EQ(c.holding.count, 10u);
  EXPECT_NEAR(c.holding.total, 2, 1e-9);  // with the hold that has not ended
  EXPECT_TRUE(c.holding_is_exact);
  EXPECT_NEAR(c.held_share.value(), 0.2, 1e-9);
}

TEST_F(reading, the_longest_wait_of_a_side_may_be_unknown) {
  const std::uint32_t l = made.object(kind::rwlock, 0x1000);
  contract::object& o = made.at(l);
  o.acquisitions = 10;
  o.contended = 2;
  o.rwlock.contended_reads = 1;
  o.longest = 3 * s;
  EXPECT_EQ(only(read()).seen.sides->reading.longest, 0);  // no detail
  made.detail(l).longest_read_wait = 3 * s;
  EXPECT_NEAR(only(read()).seen.sides->reading.longest, 3, 1e-9);
  EXPECT_EQ(only(read()).seen.sides->writing.longest, 0);  // shorter, and not recorded
}

TEST_F(reading, a_spin_lock_is_read_as_a_mutex) {
  const std::uint32_t l = made.object(kind::spin, 0x1000);
  contract::object& o = made.at(l);
  o.acquisitions = 10;
  o.contended = 4;
  o.waited = 2 * s;
  o.held = 1 * s;
  o.holds = o.mutex.timed = 10;
  o.mutex.failed_tries = 3;
  contract::detail& d = made.detail(l);
  d.failed_tries = 4;
  d.tries = 2;
  d.tried = 3 * s;
  d.longest_try = 2 * s;
  const counts c = only(read()).seen;
  EXPECT_EQ(c.failed_tries, 7u);
  EXPECT_EQ(c.tries.count, 2u);
  EXPECT_NEAR(c.tries.total, 3, 1e-9);
  EXPECT_NEAR(c.tries.longest, 2, 1e-9);
  EXPECT_NEAR(c.held_share.value(), 0.1, 1e-9);
  EXPECT_EQ(c.holds_timed, 10u);
  EXPECT_EQ(c.herd, 0u);
  EXPECT_FALSE(c.sides);
}

TEST_F(reading, the_thread_that_comes_last_at_a_barrier) {
  const std::uint32_t i = made.object(kind::barrier, 0x1000), a = made.thread(11), b = made.thread(12);
  contract::object& o = made.at(i);
  o.acquisitions = 60;
  o.contended = 30;
  o.waited = 5 * s;
  o.owner = a + 1;  // of the last round
  contract::detail& d = made.detail(i);
  d.threads[0].index = a + 1;
  d.threads[0].waits = 1;
  d.threads[0].waited = 4 * s;
  d.threads[1].index = b + 1;
  d.threads[1].waits = 29;
  d.threads[1].waited = 1 * s;
  d.threads[2].index = 999;  // no such slot
  d.threads[2].waits = 1000;
  made.waits(a, i, 9 * s);
  const counts c = only(read()).seen;
  ASSERT_TRUE(c.last);
  EXPECT_EQ(c.last->tid, 12);
  EXPECT_EQ(c.last->waits, 29u);
  EXPECT_NEAR(c.waiting.total, 6, 1e-9);
  d.many = 1;  // one entry of the list may count several threads
  EXPECT_FALSE(only(read()).seen.last);
  d.many = 0;
  d.threads[0].waits = d.threads[1].waits = 0;  // the number of threads is not known
  EXPECT_FALSE(only(read()).seen.last);
}

TEST_F(reading, a_join_is_named_by_its_place) {
  names.code[0x400100] = {frame_of("std::thread::join()", "", 0, "/lib/libstdc++.so.6")};
  names.code[0x400200] = {frame_of("run(Pool&)", "/src/pool.cpp", 30)};
  names.code[0x400300] = {frame_of("idle()", "/src/pool.cpp", 99)};
  names.variable(0x400000, "run", 0x1000);
  const std::uint32_t place = made.chain({0x400100, 0x400200}), other = made.chain({0x400300});
  const std::uint32_t i = made.placed(kind::join, 0x400200, place);
  made.at(i).acquisitions = 3;
  made.at(i).waited = 2 * s;
  made.charge(contract::charged::waiter, kind::join, contract::of_place + place, other, 3, 2 * s);
  const report r = read();
  EXPECT_EQ(only(r).name, "run pool.cpp:30");
  EXPECT_TRUE(only(r).first_locked.empty());
  EXPECT_EQ(only(r).waiters.size(), 1u);
  EXPECT_NEAR(r.waited[contract::index_of(kind::join)], 2, 1e-9);
}

TEST_F(reading, threads_and_their_lives) {
  made.thread(1, 0);
  const std::uint32_t gone = made.thread(2, 1 * s);
  made.view.thread(gone).over = 1;
  made.view.thread(gone).last = 3 * s;
  const std::uint32_t child = made.process(101, 6 * s);
  made.thread(3, 5 * s, child);
  made.view.head().threads++;  // a slot that is being filled
  made.view.head().retired = 2;
  made.view.head().retired_lives = 4 * s;
  made.view.head().retired_waited[0] = 1 * s;
  made.view.thread(0).waited[0] = 2 * s;
  const report r = read();
  EXPECT_EQ(r.threads, 5u);
  EXPECT_EQ(r.processes, 2u);
  EXPECT_NEAR(r.thread_seconds, 10 + 2 + 1 + 4, 1e-9);
  EXPECT_NEAR(r.waited[0], 3, 1e-9);
}

TEST_F(reading, sum_has_the_waiting_for_read_write_locks) {
  contract::object& o = made.at(made.object(kind::rwlock, 0x1000));
  o.acquisitions = 100;
  o.contended = 7;
  o.timeouts = 2;
  const std::uint32_t t = made.thread(1, 0);
  made.view.thread(t).last = 8 * s;
  made.view.thread(t).waited[contract::index_of(kind::mutex)] = 1 * s;
  made.view.thread(t).waited[contract::index_of(kind::rwlock)] = 3 * s;
  made.view.head().retired_lives = 2 * s;
  made.view.head().retired_waited[contract::index_of(kind::rwlock)] = 1 * s;
  made.view.head().waited_for_shared = 1 * s;
  const access::recorded_calls c = access::sum_of(made.view);
  EXPECT_EQ(c.rwlocks, 102u);
  EXPECT_EQ(c.contended_rwlocks, 9u);
  EXPECT_EQ(c.all(), 102u);
  EXPECT_NEAR(*c.share(c.waited), 0.1, 1e-9);
  EXPECT_NEAR(*c.share(c.waited_for_rwlocks), 0.4, 1e-9);
  EXPECT_NEAR(*c.share(c.waited_for_shared_rwlocks), 0.1, 1e-9);
  made.view.head().waited_for_shared = ~std::uint64_t{0};  // a program may write anything
  EXPECT_EQ(access::sum_of(made.view).waited_for_shared_rwlocks, 4 * s);
}

TEST_F(reading, parts_of_threads) {
  const std::uint32_t m = mutex(0x1000, 9), a = made.thread(11), b = made.thread(12);
  contract::detail& d = made.detail(m);
  d.threads[0].index = a + 1;
  d.threads[0].waits = 1;
  d.threads[0].waited = 1 * s;
  d.threads[7].index = b + 1;
  d.threads[7].waits = 2;
  d.threads[7].waited = 2 * s;
  d.many = 1;
  const counts c = only(read()).seen;
  ASSERT_EQ(c.threads.size(), 2u);
  EXPECT_EQ(c.threads[0].tid, 12);
  EXPECT_EQ(c.threads[0].waits, 2u);
  EXPECT_NEAR(c.threads[0].waited, 2, 1e-9);
  EXPECT_TRUE(c.has_more_threads);
}

TEST_F(reading, stacks_of_statics_and_of_places) {
  names.variable(0x1000, "m", 40);
  names.code[0x10] = {frame_of("place", "/src/p.cpp", 1)};
  names.code[0x20] = {frame_of("hold", "/src/h.cpp", 2)};
  names.code[0x21] = names.code[0x20];
  names.code[0x30] = {frame_of("wait", "/src/w.cpp", 3)};
  const std::uint32_t place = made.chain({0x10}), hold = made.chain({0x20}), same = made.chain({0x21}),
                      wait = made.chain({0x30});
  const std::uint32_t own = mutex(0x1000, 2);
  made.at(made.placed(kind::mutex, 0x5000, place)).acquisitions = 1;
  using contract::charged;
  made.charge(contract::charged::holder, kind::mutex, own, hold, 2, 3 * s);
  made.charge(contract::charged::holder, kind::mutex, own, same, 1, 1 * s);
  made.charge(contract::charged::holder, kind::mutex, own, wait, 1, 2 * s);
  made.charge(contract::charged::waiter, kind::mutex, own, wait, 9, 2 * s);
  made.charge(contract::charged::waiter, kind::mutex, contract::of_place + place, hold, 5, 1 * s);
  made.charge(contract::charged::waiter, kind::condition, own, wait, 9,
              2 * s);  // charges of the previous object at this address
  report r = read();
  ASSERT_EQ(r.rows.size(), 2u);
  ASSERT_EQ(r.rows[0].holders.size(), 2u);
  EXPECT_EQ(r.rows[0].holders[0].where.frames[0].function, "hold");
  EXPECT_NEAR(r.rows[0].holders[0].waited, 4, 1e-9);
  EXPECT_EQ(r.rows[0].holders[0].count, 3u);
  ASSERT_EQ(r.rows[0].waiters.size(), 1u);
  EXPECT_EQ(r.rows[0].waiters[0].count, 9u);
  ASSERT_EQ(r.rows[1].waiters.size(), 1u);
  EXPECT_EQ(r.rows[1].waiters[0].count, 5u);

  r = read(1);  // the second row gets a name but no stacks, whose lookup takes time
  EXPECT_EQ(r.rows[0].waiters.size(), 1u);
  EXPECT_EQ(r.rows[1].name, "place p.cpp:1");
  EXPECT_TRUE(r.rows[1].waiters.empty());
  EXPECT_TRUE(r.rows[1].place.frames.empty());
}

/// An object at 0x5000. The function "old" locked it first; most waits for it are in the function "now".
class reused : public reading {
 protected:
  std::uint32_t make(std::initializer_list<std::uint64_t> first, std::uint32_t flags = 0) {
    names.code[0x10] = {frame_of("old", "/src/old.cpp", 1)};
    names.code[0x20] = {frame_of("now", "/src/now.cpp", 2)};
    names.code[0x21] = {frame_of("now", "/src/now.cpp", 3)};
    names.code[0x30] = {frame_of("seldom", "/src/seldom.cpp", 4)};
    names.code[0x40] = {frame_of("worker", "/src/worker.cpp", 5)};
    const std::uint32_t place = made.chain(first);
    made.at(made.placed(kind::mutex, 0x5000, place, flags)).acquisitions = 10;
    return contract::of_place + place;
  }
  void waits(std::uint32_t whom, std::initializer_list<std::uint64_t> chain, std::uint64_t ticks,
             contract::charged what = contract::charged::waiter) {
    made.charge(what, kind::mutex, whom, made.chain(chain), 1, ticks);
  }
};

TEST_F(reused, a_row_has_the_name_of_the_line_that_waits_most) {
  const std::uint32_t m = make({0x10, 0x40});
  waits(m, {0x30, 0x40}, 2 * s);
  waits(m, {0x20, 0x40}, 1 * s);
  waits(m, {0x20, 0x41}, 2 * s);
  waits(m, {0x21, 0x40}, 1 * s, contract::charged::holder);
  row r = only(read());
  EXPECT_EQ(r.name, "now now.cpp:2");
  EXPECT_EQ(r.first_locked, "old old.cpp:1");
  ASSERT_FALSE(r.place.frames.empty());
  EXPECT_EQ(r.place.frames[0].function, "old");
}

TEST_F(reused, by_its_holders_if_no_waiter_is_known) {
  waits(make({0x10}), {0x21, 0x40}, 1 * s, contract::charged::holder);
  EXPECT_EQ(only(read()).name, "now now.cpp:3");
}

TEST_F(reused, not_where_the_place_still_waits_or_holds) {
  const std::uint32_t m = make({0x20, 0x40});
  waits(m, {0x30, 0x40}, 2 * s);
  waits(m, {0x21, 0x40}, 1 * s, contract::charged::holder);  // another line of the same function
  const row r = only(read());
  EXPECT_EQ(r.name, "now now.cpp:2");
  EXPECT_EQ(r.first_locked, "");
}

TEST_F(reused, not_what_was_initialised) {
  waits(make({0x10}, contract::from_init), {0x20}, 2 * s);
  EXPECT_EQ(only(read()).name, "old old.cpp:1");
}

TEST_F(reused, not_without_samples) {
  make({0x10});
  const row r = only(read());
  EXPECT_EQ(r.name, "old old.cpp:1");
  EXPECT_EQ(r.first_locked, "");
}

TEST_F(reading, ids_of_another_namespace) {
  const std::uint32_t child = made.process(7);
  made.view.process(child).parent = 1;
  const std::uint32_t m = mutex(0x1000, 10), a = made.thread(11), b = made.thread(12), c = made.thread(13, 0, child);
  contract::detail& d = made.detail(m);
  for (unsigned i = 0; i < 3; i++) {
    d.threads[i].index = i + 1;
    d.threads[i].waits = 1;
    d.threads[i].waited = (3 - i) * s;
  }
  access::seen_ids ids;
  ids.processes = {{100, 5000, true, false}, {}};
  ids.threads = {{11, 5011}, {99, 5012}, {}};  // the second slot belonged to another thread
  const report r = read_report(made.view, time, names, 100, &ids);
  EXPECT_EQ(r.pid, shown_id(5000, 100));
  const counts& seen = only(r).seen;
  ASSERT_EQ(seen.threads.size(), 3u);
  EXPECT_EQ(seen.threads[0].tid, shown_id(5011, 11));
  EXPECT_EQ(seen.threads[1].tid, shown_id(0, 12));
  EXPECT_EQ(seen.threads[2].tid, shown_id(0, 13));  // a thread of a child process that the observer has not seen
  EXPECT_EQ(id_text(seen.threads[0].tid), "5011 (own 11)");
  EXPECT_EQ(id_text(seen.threads[1].tid), "? (own 12)");
  EXPECT_EQ(id_text({11}), "11");
  static_cast<void>(a + b + c);
}

TEST_F(reading, of_hidden_threads_the_time_is_what_is_known) {
  const std::uint32_t t = made.thread(11), waiting = made.thread(12);
  made.view.thread(t).last = 2 * s;
  made.waits(waiting, mutex(0x1000), 4 * s);
  access::seen_ids ids;
  ids.processes = {{100, 0, false, true}};
  const report r = read_report(made.view, time, names, 100, &ids);
  EXPECT_NEAR(r.thread_seconds, 2 + 10, 1e-9);
  ASSERT_EQ(r.remarks.size(), 2u);
  EXPECT_NE(r.remarks[1].find("2 threads: /proc does not show"), std::string::npos) << r.remarks[1];
}

TEST_F(reading, admission_of_the_object_that_was_contended_most) {
  names.variable(0x1000, "buckets", 400);
  std::uint32_t m = 0;
  for (unsigned i = 0; i < 5; i++) m = mutex(0x1000 + i * 40, 1);
  made.at(m).contended = 5;
  made.at(m).waited = s;
  std::vector<std::uint16_t> turns;
  for (unsigned i = 0; i < 1000; i++) turns.push_back(std::uint16_t(i % 4));
  made.window(m, turns);
  made.window(m, turns);
  made.at(m - 1).acquisitions = 2;  // so that its row comes next
  made.window(m - 1, {1, 1, 1, 1});
  const row r = only(read());
  ASSERT_TRUE(r.order);
  EXPECT_EQ(r.order->windows, 2u);
  EXPECT_EQ(r.order->acquisitions, 2000u);
  EXPECT_NEAR(r.order->owner_changes, 1, 1e-9);
  EXPECT_NEAR(r.order->lwss, 4, 1e-9);
  EXPECT_NEAR(r.order->mttr, 3, 1e-9);
  EXPECT_NEAR(r.order->gini, 0, 1e-9);
  EXPECT_NEAR(r.order->rstddev, 0, 1e-9);
  ASSERT_TRUE(r.each[0].order && r.each[1].order);
  EXPECT_NEAR(r.each[1].order->owner_changes, 0, 1e-9);
}

TEST_F(reading, what_was_dropped_is_said) {
  made.view.head().dropped.objects = 5;
  made.view.head().dropped.details = 1;
  made.view.head().dropped.chains = 2;
  made.view.head().dropped.charges = 1;
  made.view.head().dropped.modules = 1;
  made.view.head().dropped.threads = 1;
  made.view.head().calls = 7;
  const report r = read();
  ASSERT_EQ(r.remarks.size(), 5u);
  EXPECT_EQ(r.remarks[0], "5 calls on objects that found no room are not counted: --objects 8192 makes room.");
  EXPECT_NE(r.remarks[2].find("3 stacks"), std::string::npos);
  EXPECT_NE(r.remarks[3].find("7 calls"), std::string::npos);
  EXPECT_EQ(r.not_seen.calls, 12u);
  EXPECT_EQ(r.not_seen.objects, 8192u);
}

TEST_F(reading, nonsense_in_the_record_does_no_harm) {
  const std::uint32_t m = mutex(0x1000, 3), t = made.thread(11);
  made.at(m).detail = 999999;
  made.at(m).owner = 99999;
  made.at(m).hold_begin = 99 * s;
  made.at(m).waiting = 0xfff;
  made.view.thread(t).waits_for = 0xfffffff;
  made.view.thread(t).first = 99 * s;
  made.view.head().threads = 0xffffff;
  made.view.head().windows = 0xffff;
  made.charge(contract::charged::waiter, kind::mutex, 0x2fffffff, 0xffffff, 1, 1);
  made.charge(contract::charged::waiter, kind(9), m, 1, 1, 1);
  made.charge(contract::charged::holder, kind::mutex, contract::of_place + 0xffffff, 0xfffff0, 1, 1);
  const std::uint32_t odd = made.chain({});
  made.view.chain(odd).length = 1000;
  made.placed(kind::mutex, 0x5000, odd);
  made.placed(kind(8), 0x6000, odd);
  made.at(made.placed(kind(255), 0x7000, odd)).acquisitions = 1;
  made.charge(contract::charged::holder, kind(8), m, 1, 1, 1);
  EXPECT_EQ(read().rows.size(), 1u);
  EXPECT_TRUE(circles(made.view).empty());
}

// The recorded program writes the record, and may be the attacker: each word may have any value.
TEST_F(reading, nonsense_about_the_other_kinds_does_no_harm) {
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  made.thread(11);
  for (const kind what : {kind::rwlock, kind::spin, kind::barrier, kind::join}) {
    const std::uint32_t i = made.object(what, 0x1000 + 0x100 * std::uint64_t(what), 0);
    contract::object& o = made.at(i);
    for (contract::word64* w : {&o.longest, &o.acquisitions, &o.hold_begin, &o.mutex.waited_before, &o.held, &o.waiting,
                                &o.contended, &o.waited, &o.mutex.failed_tries, &o.mutex.counted})
      *w = huge;
    for (contract::word32* w : {&o.owner, &o.mutex.countdown, &o.holds, &o.most_waiting, &o.timeouts, &o.mutex.timed})
      *w = ~0u;
    o.place = 0xfffffff;
    contract::detail& d = made.detail(i);
    std::memset(static_cast<void*>(&d), 0xff, sizeof d);
    d.object = i + 1;
    made.charge(contract::charged::holder, what, i, 0xffffff, huge, huge);
  }
  const std::uint32_t other = made.object(kind::rwlock, 0x9000, contract::is_sum);  // more reads than acquisitions
  made.at(other).acquisitions = 1;
  made.at(other).rwlock.reads = 5;
  made.at(other).detail = 77;
  const report r = read();
  EXPECT_EQ(r.rows.size(), 5u);
  for (const row& i : r.rows) {
    EXPECT_TRUE(!i.seen.held_share || (*i.seen.held_share >= 0 && *i.seen.held_share <= 1)) << i.name;
    EXPECT_FALSE(i.seen.last) << i.name;
    EXPECT_EQ(i.seen.sides.has_value(), i.what == kind::rwlock);
    EXPECT_TRUE(i.seen.acquisitions != 1 || i.seen.sides->writing.acquisitions == 0);
  }
}

TEST_F(reading, most_of_what_nobody_waited_for_is_not_listed) {
  names.variable(0x100000, "buckets", 40 * 4000);
  for (unsigned i = 0; i < 4000; i++) mutex(0x100000 + i * 40, 1);
  const row r = only(read());
  EXPECT_EQ(r.objects, 4000u);
  EXPECT_EQ(r.each.size(), 2048u);
}

// ---- circles --------------------------------------------------------------------------------------------------------

class circle : public reading {
 protected:
  void holds(std::uint32_t thread, std::uint32_t object) { made.at(object).owner = thread + 1; }
  using found = std::vector<std::vector<std::uint32_t>>;
};

TEST_F(circle, two_threads) {
  names.variable(0x1000, "left", 40);
  names.variable(0x2000, "right", 40);
  names.code[0x10] = {frame_of("a", "/src/a.cpp", 1)};
  names.code[0x20] = {frame_of("b", "/src/b.cpp", 2)};
  const std::uint32_t l = mutex(0x1000), r = mutex(0x2000), a = made.thread(11), b = made.thread(12),
                      c = made.thread(13);
  holds(a, l);
  holds(b, r);
  made.waits(a, r, 4 * s);
  EXPECT_TRUE(circles(made.view).empty());
  made.waits(b, l, 8 * s);
  made.waits(c, l, 9 * s);  // waits for a thread of the circle, but is not in it
  ASSERT_EQ(circles(made.view), (found{{a, b}}));

  made.view.thread(a).chain = made.chain({0x10}) + 1;
  made.view.thread(b).caller = 0x20;
  const deadlock d = describe(made.view, {a, b}, time, names);
  EXPECT_NEAR(d.seconds, 2, 1e-9);
  ASSERT_EQ(d.threads.size(), 2u);
  EXPECT_EQ(d.threads[0].tid, 11);
  EXPECT_EQ(d.threads[0].waits_for, "right");
  EXPECT_EQ(d.threads[0].address, 0x2000u);
  ASSERT_EQ(d.threads[0].where.frames.size(), 1u);
  EXPECT_EQ(d.threads[0].where.frames[0].function, "a");
  EXPECT_EQ(d.threads[1].waits_for, "left");
  ASSERT_EQ(d.threads[1].where.frames.size(), 1u);
  EXPECT_EQ(d.threads[1].where.frames[0].function, "b");
  EXPECT_TRUE(d.threads[1].where.is_cut);
}

TEST_F(circle, a_thread_that_locks_again) {
  const std::uint32_t m = mutex(0x1000), a = made.thread(11);
  holds(a, m);
  made.waits(a, m, s);
  EXPECT_EQ(circles(made.view), (found{{a}}));
}

TEST_F(circle, three_and_two_at_once) {
  std::vector<std::uint32_t> m, t;
  for (unsigned i = 0; i < 5; i++) {
    m.push_back(mutex(0x1000 + i * 40));
    t.push_back(made.thread(11 + i));
    holds(t[i], m[i]);
  }
  made.waits(t[2], m[0], s);
  made.waits(t[0], m[4], s);
  made.waits(t[4], m[2], s);
  made.waits(t[1], m[3], s);
  made.waits(t[3], m[1], s);
  EXPECT_EQ(circles(made.view), (found{{t[0], t[4], t[2]}, {t[1], t[3]}}));
}

TEST_F(circle, not_where_someone_can_go_on) {
  const std::uint32_t m = mutex(0x1000), n = mutex(0x2000), a = made.thread(11), b = made.thread(12);
  holds(a, m);
  made.waits(a, n, s);
  made.waits(b, m, s);
  EXPECT_TRUE(circles(made.view).empty());  // n is free
  holds(b, n);
  EXPECT_EQ(circles(made.view).size(), 1u);
  made.view.thread(b).over = 1;
  EXPECT_TRUE(circles(made.view).empty());
}

TEST_F(circle, not_where_a_wait_has_a_deadline) {
  const std::uint32_t m = mutex(0x1000), n = mutex(0x2000), a = made.thread(11), b = made.thread(12);
  holds(a, m);
  holds(b, n);
  made.waits(a, n, s);
  made.waits(b, m, 2 * s);
  for (const std::uint32_t t : {a, b}) {
    made.view.thread(t).has_deadline = 1;
    EXPECT_TRUE(circles(made.view).empty());
    made.view.thread(t).has_deadline = 0;
    EXPECT_EQ(circles(made.view).size(), 1u);
  }
}

// Threads end during a deadlock. They still form a circle as long as the record shows that they wait.
TEST_F(circle, ends_when_a_thread_goes_on) {
  const std::uint32_t m = mutex(0x1000), n = mutex(0x2000), a = made.thread(11), b = made.thread(12);
  holds(a, m);
  holds(b, n);
  made.waits(a, n, s);
  made.waits(b, m, 2 * s);
  EXPECT_TRUE(still_waits(made.view, {a, b}, {s, 2 * s}));
  EXPECT_FALSE(still_waits(made.view, {a, b}, {s, 3 * s}));
  EXPECT_FALSE(still_waits(made.view, {a, 70000}, {s, 2 * s}));
  made.view.thread(a).over = made.view.thread(b).over = 1;
  EXPECT_TRUE(circles(made.view).empty());
  EXPECT_TRUE(still_waits(made.view, {a, b}, {s, 2 * s}));
  holds(b, m);
  EXPECT_FALSE(still_waits(made.view, {a, b}, {s, 2 * s}));
  holds(a, m);
  made.view.thread(b).waits_for = 0;
  EXPECT_FALSE(still_waits(made.view, {a, b}, {s, 2 * s}));
}

TEST_F(circle, of_other_locks_than_mutexes) {
  const std::uint32_t l = made.object(kind::rwlock, 0x1000), m = made.object(kind::spin, 0x2000), a = made.thread(11),
                      b = made.thread(12);
  holds(a, l);
  holds(b, m);
  made.waits(a, m, s);
  made.waits(b, l, s);
  EXPECT_EQ(circles(made.view), (found{{a, b}}));
  made.at(l).owner = 0;  // readers hold it
  EXPECT_TRUE(circles(made.view).empty());
}

TEST_F(circle, conditions_and_semaphores_have_no_holder) {
  const std::uint32_t x = made.object(kind::semaphore, 0x1000), a = made.thread(11);
  holds(a, x);
  made.waits(a, x, s);
  EXPECT_TRUE(circles(made.view).empty());
}

// ---- quantities ----------------------------------------------------------------------------------------------------

TEST(quantities, counts) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999'999), "999,999");
  EXPECT_EQ(count_text(1'234'567), "1.23 M");
  EXPECT_EQ(count_text(999'400'000), "999 M");
  EXPECT_EQ(count_text(12'345'678'901), "12.3 G");
  EXPECT_EQ(exact_count(1'234'567), "1,234,567");
}

TEST(quantities, times) {
  EXPECT_EQ(time_text(0), "0 s");
  EXPECT_EQ(time_text(850e-9), "850 ns");
  EXPECT_EQ(time_text(12.34e-6), "12.3 µs");
  EXPECT_EQ(time_text(0.0123), "12.3 ms");
  EXPECT_EQ(time_text(0.99999), "1.00 s");
  EXPECT_EQ(time_text(1234.5), "1,235 s");
}

TEST(quantities, shares) {
  EXPECT_EQ(share_text(0), "0 %");
  EXPECT_EQ(share_text(0.0001), "< 0.1 %");
  EXPECT_EQ(share_text(0.0123), "1.2 %");
  EXPECT_EQ(share_text(0.934), "93 %");
  EXPECT_EQ(small_share_text(0.0001), "0.01 %");
  EXPECT_EQ(small_share_text(0.00123), "0.12 %");
  EXPECT_EQ(small_share_text(0), "0 %");
  EXPECT_EQ(small_share_text(0.31), "31 %");
}

TEST(quantities, names_of_functions) {
  EXPECT_EQ(short_name("main"), "main");
  EXPECT_EQ(short_name("Table::find(int, std::vector<int>)"), "Table::find");
  EXPECT_EQ(short_name("(anonymous namespace)::worker(void*)"), "worker");
  EXPECT_EQ(short_name("void run<int>(int)"), "run<int>");
  EXPECT_EQ(short_name("std::vector<int> make<std::vector<int>, long>(int)"), "make<std::vector<int>, long>");
  EXPECT_EQ(short_name("a::operator()(int) const"), "a::operator()");
  EXPECT_EQ(short_name("operator new(unsigned long)"), "operator new");
  EXPECT_EQ(short_name("std::ostream& operator<< <char>(std::ostream&, char)"), "operator<< <char>");
  EXPECT_EQ(short_name("main::{lambda(int)#1}::operator()(int) const"), "main::{lambda#1}::operator()");
  EXPECT_EQ(short_name("f(int)::table"), "f::table");
  EXPECT_EQ(
      short_name("std::_Hashtable<std::string, std::pair<std::string const, int>, std::hash<std::string> >::find(int)"),
      "std::_Hashtable<…>::find");
  EXPECT_EQ(short_name("guard variable for f()::x"), "guard variable for f::x");
  EXPECT_EQ(short_name(""), "");
  EXPECT_EQ(short_name("odd("), "odd");
}

TEST(quantities, widths) {
  EXPECT_EQ(width_of("12 µs"), 5u);
  EXPECT_EQ(shortened("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(width_of(shortened("äbcdefghijklmnopqrstuvwxyz", 10)), 10u);
  EXPECT_EQ(shortened("äbcdefghijklmnop", 10), "äbc…klmnop");
}

TEST(quantities, commands) {
  EXPECT_EQ(support::shell_line({"./server", "--name", "a b"}), "./server --name 'a b'");
}

}  // namespace
}  // namespace usher::reader
