// Tests the text form of a report, which has 80 columns, and its JSON form.
#include "watch/reader/print/text.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "other_kinds.hpp"
#include "support/text/utf8.hpp"
#include "support/text/words.hpp"
#include "support/text/wrap.hpp"
#include "synthetic.hpp"
#include "watch/reader/judge/rules.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/print/stat_json.hpp"

namespace usher::reader {
namespace {

charged_stack stack_of(std::vector<frame> frames, std::uint64_t count, double waited) {
  charged_stack s;
  s.where.frames = std::move(frames);
  s.count = count;
  s.waited = waited;
  return s;
}

counts counts_of_buckets() {
  counts c;
  c.acquisitions = 12'345'678;
  c.contended = 1'234'567;
  c.waiting = {1'234'567, 25.0, 0.0123, 12e-6, 250e-6};
  c.holding = {123'456, 9.3, 0.001, 700e-9, 12e-6};
  c.held_share = 0.93;
  c.most_waiting = 7;
  c.still_waiting = 1;
  c.holds_timed = 333'666;
  c.failed_tries = 12;
  c.timeouts = 3;
  for (int i = 0; i < 9; i++) c.threads.push_back({1000 + i, 100, 25.0 / 9});
  return c;
}

/// Returns the rows of an array's mutexes. Almost all of the waiting is for the first one.
std::vector<object_row> each_bucket(const counts& seen) {
  std::vector<object_row> each;
  for (int i = 0; i < 1024; i++) {
    object_row o;
    o.address = 0x1000 + std::uint64_t(i) * 40;
    o.pid = 100;
    o.name = "buckets+" + hexadecimal(std::uint64_t(i) * 40);
    o.seen = seen;
    o.seen.waiting.total = i == 0 ? 24 : 1.0 / 1023;
    each.push_back(o);
  }
  return each;
}

/// Two stacks. The first contains an inlined function and a frame without a name.
std::vector<charged_stack> holders_of_buckets() {
  frame inlined = frame_of("std::mutex::unlock()", "/usr/include/c++/12/bits/std_mutex.h", 118);
  inlined.is_inlined = true;
  return {stack_of({inlined, frame_of("Table::insert(int, std::string const&)", "/src/table.cpp", 120),
                    frame_of("worker(void*)", "/src/server.cpp", 77), frame_of("", "", 0, "/lib/libc.so.6")},
                   900, 20),
          stack_of({frame_of("other", "/src/other.cpp", 1)}, 100, 5)};
}

/// More functions than a report shows, with extremely long names.
std::vector<frame> deep_stack() {
  std::vector<frame> deep;
  for (unsigned i = 0; i < 12; i++)
    deep.push_back(
        frame_of("a_function_whose_name_is_as_long_as_those_that_templates_make_out_of_templates_" + std::to_string(i),
                 "/src/a_file_with_a_name_that_is_long_too_but_not_that_long.cpp", 1000 + i));
  return deep;
}

/// The row of an array of mutexes, the objects that threads wait for most.
row buckets() {
  row hot;
  hot.what = kind::mutex;
  hot.name = "buckets[]";
  hot.module = "/usr/lib/libserver.so.1";
  hot.objects = 1024;
  hot.seen = counts_of_buckets();
  hot.order = admission{2032, 1, 0.45, 5.2, 4, 0.12, 0.34};
  hot.each = each_bucket(hot.seen);
  hot.holders = holders_of_buckets();
  hot.waiters = {stack_of(deep_stack(), 100, 25)};
  return hot;
}

/// A row of mutexes that are grouped by the place of their initialisation, which has an extremely long name.
row mutexes_of_one_place() {
  row placed;
  placed.what = kind::mutex;
  placed.name =
      "tbb::detail::r1::concurrent_monitor_base<unsigned_long>::prepare_wait concurrent_monitor_of_the_library.h:1204";
  placed.by_init = true;
  placed.place.frames = {frame_of("make", "/src/make.cpp", 5)};
  placed.objects = 3;
  placed.gone = 1;
  placed.each.resize(2);
  placed.seen.acquisitions = 1000;
  placed.seen.contended = 1;
  placed.seen.waiting.total = 0.5;
  placed.seen.waiting.count = 1;
  placed.seen.waiting_is_hidden = true;
  return placed;
}

row uncontended_mutex() {
  row quiet;
  quiet.what = kind::mutex;
  quiet.name = "log_mutex";
  quiet.seen.acquisitions = 5;
  quiet.seen.waiting_is_hidden = true;
  return quiet;
}

/// A condition variable with a herd: a broadcast wakes 40 threads.
row condition_with_herd() {
  row condition;
  condition.what = kind::condition;
  condition.name = "item_came";
  condition.seen.acquisitions = condition.seen.contended = condition.seen.woken = condition.seen.waiting.count = 4000;
  condition.seen.signals = 110;
  condition.seen.unheard = 10;
  condition.seen.herd = 40;
  condition.seen.waiting.total = 0.5;
  condition.seen.waiting.median = 120e-6;
  condition.waiters = {stack_of({frame_of("consumer()", "/src/queue.cpp", 40)}, 4000, 0.5)};
  return condition;
}

row uncontended_semaphore() {
  row semaphore;
  semaphore.what = kind::semaphore;
  semaphore.name = "credits";
  semaphore.seen.acquisitions = 1000;
  semaphore.seen.signals = 1000;
  return semaphore;
}

/// A report that contains every kind of entry, and extremely long names.
report sample() {
  report r;
  r.command = {"./server", "--threads", "8"};
  r.pid = 100;
  r.lock = "pthread";
  r.usher = "0.1.0";
  r.seconds = 10.02;
  r.processes = 1;
  r.threads = 9;
  r.thread_seconds = 82.4;
  r.waited[0] = 25.5;
  r.waited[1] = 0.5;
  r.waited[2] = 0.002;
  r.rows = {buckets(), mutexes_of_one_place(), uncontended_mutex(), condition_with_herd(), uncontended_semaphore()};
  r.remarks = {"5 calls on objects that found no room are not counted: --objects 131072 makes room."};
  return r;
}

deadlock circle() {
  deadlock d;
  d.seconds = 1.25;
  d.threads.resize(2);
  d.threads[0].tid = 12;
  d.threads[0].waits_for = "right";
  d.threads[0].where.frames = {frame_of("first(int)", "/src/deadlock.cpp", 10)};
  d.threads[0].address = 0x2000;
  d.threads[1].tid = 13;
  d.threads[1].waits_for = "left";
  return d;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void expect_narrow(const std::string& text) {
  for (const std::string& line : lines_of(text)) {
    const bool is_copied = line.find("Next: ") != std::string::npos;  // a command is copied as it is
    EXPECT_TRUE(is_copied || width_of(line) <= 80) << line;
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Returns the text without its line breaks.
std::string flat(const std::string& text) {
  std::string all;
  std::istringstream in(text);
  for (std::string word; in >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

TEST(text, the_table) {
  report r = sample();
  judge(r);
  const std::string text = as_text(r, {});
  expect_narrow(text);
  const std::string expected = R"(./server --threads 8
10.0 s under the C library's mutex; 9 threads in 1 process

mutex                        acquired  contended   waited   held  verdict
)";
  EXPECT_EQ(text.substr(0, expected.size()), expected) << text;
  EXPECT_TRUE(has(text, "buckets[] ×1,024               12.3 M       10 %   25.0 s  ~93 %  one of many\n")) << text;
  EXPECT_TRUE(has(text, "500 ms+      –  ")) << text;  // part of the waiting is hidden; no hold was timed
  EXPECT_TRUE(has(text, "log_mutex                           5          –        –      –  not in the way")) << text;
  EXPECT_TRUE(has(text, "+: and what threads waited when they locked it again inside"));
  EXPECT_TRUE(has(text,
                  "condition variable  waits  signals  unheard  to run  verdict\n"
                  "item_came           4,000      110    9.1 %  120 µs  herd\n"))
      << text;
  EXPECT_TRUE(has(text,
                  "semaphore  taken  contended  waited  posted  verdict\n"
                  "credits    1,000        0 %     0 s   1,000  uncontended\n"))
      << text;
  const auto lines = lines_of(text);
  EXPECT_TRUE(lines.back().starts_with("Verdict: ") || lines.back().starts_with("  "));  // the verdict comes last
  EXPECT_TRUE(has(flat(text), "--objects 131072 makes room"));
}

TEST(text, stacks_under_the_hottest) {
  report r = sample();
  judge(r);
  const std::string text = as_text(r, {});
  EXPECT_TRUE(has(text, R"(
  held at (80 % of the waiting, 20.0 s):
    Table::insert  table.cpp:120
    worker  server.cpp:77
    libc.so.6+0x0
  waited for at (100 % of the waiting, 25.0 s):
)")) << text;
  EXPECT_TRUE(has(text, "    … 4 frames more\n")) << text;
  EXPECT_FALSE(has(text, "other.cpp"));
  EXPECT_TRUE(has(text, "\nitem_came\n  40 threads wake for each broadcast")) << text;
  EXPECT_FALSE(has(text, "\ncredits\n"));
}

TEST(text, counts_that_are_rough_say_so) {
  report r = sample();
  judge(r);
  r.rows[0].seen.failed_tries = 5000;
  const std::string text = as_text(r, {10, true});
  EXPECT_TRUE(has(flat(text), flat("; about 5,000 failed trylocks (1 of 16 counted);"))) << text;
  EXPECT_TRUE(has(flat(text), flat("110 signals and broadcasts, 10 without a waiter;"))) << text;
}

TEST(text, details) {
  report r = sample();
  judge(r);
  const std::string text = as_text(r, {10, true});
  expect_narrow(text);
  for (const char* part : {"12,345,678 acquisitions, 1,234,567 contended; 12 failed trylocks; 3 given up in time",
                           "median 12.0 µs, 99 % 250 µs, longest 12.3 ms",
                           "7 threads at once",
                           "1 still waiting",
                           "std::mutex::unlock std_mutex.h:118 (inlined) Table::insert",
                           "held about 9.30 s in all",
                           "(1 of 37 holds timed)",
                           "LWSS 5.2, MTTR 4, Gini 0.12, RSTDDEV 0.34",
                           "1000 (11 %)",
                           "and others",
                           "in /usr/lib/libserver.so.1",
                           "buckets+0x28",
                           "and 1,014 more",
                           "and 1 that are gone",
                           "initialised at:\n    make  make.cpp:5",
                           "other  other.cpp:1",
                           "4,000 waits, 4,000 ended by a signal",
                           "one woke 40 threads",
                           "templates_11",
                           " credits "})
    EXPECT_TRUE(has(flat(text), flat(part))) << part << "\n" << text;
}

TEST(text, tables_of_the_other_kinds) {
  report r = other_kinds();
  judge(r);
  std::string text = as_text(r, {});
  expect_narrow(text);
  for (const char* part :
       {"read-write lock  read   written  contended  waited  held  verdict",
        "table_lock ×2    1,000  50       4.8 %      16.1 s  20 %",
        "spin lock  acquired  contended  waited  held  verdict", "barrier  waits  waited  last  verdict",
        "rounds ×2  1,050  9.00 s  12", "unknown_rounds ×2  1,050  1.00 s  –"})
    EXPECT_TRUE(has(flat(text), flat(part))) << part << "\n" << text;
  EXPECT_FALSE(has(text, "join")) << text;  // the wait is not among the longest
  std::swap(r.rows[0], r.rows[4]);
  text = as_text(r, {});
  EXPECT_TRUE(has(text, "\njoin                  waits  waited  verdict\nmain server.cpp:7 ×2  1,050  200 ms  "))
      << text;
  EXPECT_FALSE(has(text, "waits at")) << text;
}

TEST(text, details_of_the_other_kinds) {
  const std::string text = as_text(other_kinds(), {10, true});
  expect_narrow(text);
  for (const char* part :
       {"1,050 acquisitions, 50 contended; 3 failed trylocks 1,000 acquisitions to read, 31 contended; waited 3.10 s, "
        "200 ms at the longest 50 acquisitions to write, 19 contended; waited 13.0 s, 500 ms at the longest readers "
        "waited 3.10 s behind a writer; writers waited 1.00 s behind a writer, 12.0 s behind readers 7 readers at once",
        "held to write 2.00 s in all; median 40.0 ms",
        "12 acquisitions came after failed trylocks, 3.40 s from the first failure, 1.10 s at the longest",
        "1,050 waits; thread 12 came last most often, 40 times waited 9.00 s in all",
        "object process acquired contended waited held table_lock 100 1,050", "object process waits waited rounds",
        "main server.cpp:7 ×2", "waits at (100 % of the waiting, 200 ms): main server.cpp:7"})
    EXPECT_TRUE(has(flat(text), flat(part))) << part << "\n" << text;
}

TEST(text, the_rest_is_counted) {
  report r = sample();
  judge(r);
  const std::string text = as_text(r, {1, false});
  EXPECT_TRUE(has(text, "and 2 mutexes more, waited 500 ms in all; --top 3 shows them\n")) << text;
  expect_narrow(as_text(r, {0, false}));
}

TEST(text, the_plus_is_explained_where_there_is_one) {
  report r = sample();
  judge(r);
  EXPECT_TRUE(has(as_text(r, {}), "+: and what"));
  EXPECT_FALSE(has(as_text(r, {1, false}), "+: and what"));  // the row is not shown
  r.rows[1].seen.waiting_is_hidden = false;
  EXPECT_FALSE(has(as_text(r, {}), "+: and what")) << "log_mutex has a dash";
}

TEST(text, a_program_that_runs_on) {
  report r = sample();
  r.rows.resize(1);
  r.rows[0].objects = 1;
  judge(r);
  EXPECT_FALSE(has(as_text(r, {}), "LOAD"));
  r.rows[0].seen.held_share = 0.5;
  r.runs_on = true;
  judge(r);
  const std::string text = as_text(r, {});
  expect_narrow(text);
  EXPECT_TRUE(has(text, "\nNext: usher try --until 'LOAD' -- ./server --threads 8\n  LOAD stands for a command"))
      << text;
}

TEST(text, much_that_others_took) {
  report r = sample();
  for (const auto& [share, is_said] : {std::pair(0.11, true), std::pair(0.1, false), std::pair(0.0, false)}) {
    r.others_cpu_share = share;
    judge(r);
    EXPECT_EQ(has(flat(as_text(r, {})), "hypervisor took 11 % of the CPU time meanwhile."), is_said) << share;
    EXPECT_EQ(as_json(r)["others_cpu_share"], share);
  }
  r.others_cpu_share.reset();
  EXPECT_FALSE(has(as_text(r, {}), "hypervisor"));
  EXPECT_TRUE(as_json(r)["others_cpu_share"].is_null());
}

TEST(text, a_module_without_symbols) {
  report r = sample();
  judge(r);
  EXPECT_FALSE(has(as_text(r, {}), "gives no names"));
  r.rows[0].holders = {stack_of({frame_of("", "", 0, "/usr/sbin/slapd"), frame_of("main", "", 0)}, 900, 20)};
  r.rows.push_back(r.rows[0]);
  judge(r);
  const std::string text = flat(as_text(r, {})), hint = "slapd gives no names to these places";
  const std::size_t at = text.find(hint);
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find(hint, at + 1), std::string::npos);  // the hint occurs once
  for (row& i : r.rows) i.seen.waiting.total = 0.001, i.seen.threads.clear();
  judge(r);
  EXPECT_FALSE(has(flat(as_text(r, {})), hint)) << "no row is hot";
}

TEST(text, a_number_and_its_unit_are_on_one_line) {
  EXPECT_EQ(support::broken("took 0.3 % of it", 8), (std::vector<std::string>{"took", "0.3 % of", "it"}));
  EXPECT_EQ(support::broken("after 10 s, ended", 8), (std::vector<std::string>{"after", "10 s,", "ended"}));
  EXPECT_EQ(support::broken("one s of it", 5), (std::vector<std::string>{"one s", "of it"}));
  report r = sample();
  r.remarks = {std::string(75, 'x') + " 0.3 % of"};
  EXPECT_TRUE(has(as_text(r, {}), "x\n  0.3 % of\n"));
}

TEST(text, under_one_of_our_locks) {
  report r = sample();
  r.lock = "loiter";
  r.processes = 3;
  r.command.clear();
  judge(r);
  EXPECT_TRUE(as_text(r, {}).starts_with("process 100\n10.0 s under loiter; 9 threads in 3 processes\n"));
}

TEST(text, nothing) {
  report r;
  judge(r);
  const std::string text = as_text(r, {});
  EXPECT_TRUE(has(text, "Verdict: no call of a pthread lock")) << text;
  expect_narrow(text);
}

TEST(text, odd_bytes) {
  report r = sample();
  r.rows[0].name = "a\xff\x1b[31m";
  r.rows[0].holders[0].where.frames[1].function = "f\xff\x1b";
  r.command = {"\xff", "\x1b"};
  r.remarks = {"\xff"};
  judge(r);
  const std::string text = as_text(r, {10, true});
  EXPECT_FALSE(has(text, "\x1b")) << text;
  EXPECT_FALSE(has(text, "\xff")) << text;
}

TEST(text, printable_shows_what_a_terminal_would_obey) {
  EXPECT_EQ(support::printable("a\x1b[31mb\x07\r\x7f"), "a\\x1b[31mb\\x07\\x0d\\x7f");
  EXPECT_EQ(support::printable("\u009b2J \u202eevil\u202c \u2066 \u2028 \u200f \u061c"),
            "\\u009b2J \\u202eevil\\u202c \\u2066 \\u2028 \\u200f \\u061c");
  EXPECT_EQ(support::printable("µ – … € 日本 𝄞 \u00a0"), "µ – … € 日本 𝄞 \u00a0");
  EXPECT_EQ(support::printable("\xff\xc3 \xed\xa0\x80"), "?? ???");
  EXPECT_EQ(support::printable("a\tb\nc"), "a b\nc");
  EXPECT_EQ(support::printable_line("a\tb\nc"), "a b\\x0ac");
  EXPECT_EQ(support::printable(support::printable("\x1b\u009b\xff")), support::printable("\x1b\u009b\xff"));
}

TEST(text, a_command_is_one_line_for_a_shell) {
  EXPECT_EQ(support::shell_line({"sh", "-c", "it's 1"}), R"(sh -c 'it'\''s 1')");
  EXPECT_EQ(support::shell_line({"python3", "-c", "a = 'x\\n'\nb\x1b\x7f"}),
            R"(python3 -c $'a = \'x\\n\'\nb\033\177')");
}

/// The recorded program may be an attacker: it chooses its arguments and the names of its functions, objects, files and
/// threads, and it writes the record. No such text may reach the terminal as an escape sequence or as an additional
/// line.
TEST(text, names_are_no_escape_sequences_and_no_further_lines) {
  const std::string evil = "e\x1b]0;title\x07\x1b[2J\u009b\u202e\r\nForged: the program is fine";
  report r = sample();
  r.command = {evil, evil};
  r.lock = evil;
  r.remarks = {evil};
  for (row& one : r.rows) {
    one.name = one.module = evil;
    for (object_row& o : one.each) o.name = evil;
    for (auto* stacks : {&one.waiters, &one.holders})
      for (charged_stack& s : *stacks)
        for (frame& f : s.where.frames) f.function = f.file = f.module = evil;
    for (frame& f : one.place.frames) f.function = f.file = f.module = evil;
  }
  deadlock d = circle();
  for (auto& t : d.threads) t.waits_for = evil;
  r.deadlocks = {d};
  judge(r);
  for (row& one : r.rows) one.verdict = one.command = evil;
  r.verdict = r.next = evil;
  std::istringstream lines(as_text(r, {10, true}));
  std::string before;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line, support::printable_line(line));
    EXPECT_FALSE(line.starts_with("Forged")) << before << "\n" << line;
    before = line;
  }
}

TEST(text, a_deadlock) {
  const deadlock d = circle();
  EXPECT_EQ(as_line(d), "deadlock: 2 threads have waited 1.25 s for each other: 12 for right, 13 for left");
  EXPECT_EQ(as_text(d), R"(deadlock: 2 threads have waited 1.25 s for each other: 12 for right, 13 for left
  thread 12 waits for right, which thread 13 holds:
    first  deadlock.cpp:10
  thread 13 waits for left, which thread 12 holds:
    (its stack is not known)
)");
  report r = sample();
  r.deadlocks = {d};
  judge(r);
  EXPECT_TRUE(has(as_text(r, {}), "\n  thread 12 waits for right"));
  deadlock self = d;
  self.threads.resize(1);
  EXPECT_EQ(as_line(self), "deadlock: thread 12 has waited 1.25 s for right, which it holds itself");
}

TEST(json, everything) {
  report r = sample();
  r.deadlocks = {circle()};
  judge(r);
  const auto j = as_json(r);
  EXPECT_EQ(j["version"], 1);
  EXPECT_EQ(j["command"][2], "8");
  EXPECT_EQ(j["lock"], "pthread");
  EXPECT_EQ(j["rule"], "deadlock");
  EXPECT_TRUE(j["next"].is_null());
  EXPECT_EQ(j["waited"]["mutex"], 25.5);
  ASSERT_EQ(j["rows"].size(), 5u);
  const auto& hot = j["rows"][0];
  EXPECT_EQ(hot["kind"], "mutex");
  EXPECT_EQ(hot["acquisitions"], 12'345'678);
  EXPECT_EQ(hot["waiting"]["p99"], 250e-6);
  EXPECT_EQ(hot["holding"]["exact"], false);
  EXPECT_EQ(hot["held_share"], 0.93);
  EXPECT_EQ(hot["threads"][0]["tid"], 1000);
  EXPECT_EQ(hot["order"]["lwss"], 5.2);
  EXPECT_EQ(hot["each"].size(), 1024u);
  EXPECT_EQ(hot["each"][1]["address"], "0x1028");
  EXPECT_EQ(hot["holders"][0]["frames"][1]["line"], 120);
  EXPECT_EQ(hot["holders"][0]["frames"][0]["inlined"], true);
  EXPECT_TRUE(hot["holders"][0]["frames"][3]["function"].is_null());
  EXPECT_EQ(hot["place"]["frames"].size(), 0u);
  EXPECT_TRUE(j["rows"][1]["holding"].is_null());
  EXPECT_TRUE(j["rows"][1]["held_share"].is_null());
  EXPECT_TRUE(j["rows"][1]["waiting"]["median"].is_null());
  EXPECT_EQ(j["rows"][1]["waiting"]["hidden"], true);
  EXPECT_EQ(j["rows"][1]["by_init"], true);
  EXPECT_EQ(j["rows"][3]["woken"], 4000);
  EXPECT_FALSE(j["rows"][3].contains("holding"));
  EXPECT_EQ(j["rows"][4]["signals"], 1000);
  EXPECT_FALSE(j["rows"][4].contains("herd"));
  EXPECT_EQ(j["deadlocks"][0]["threads"][0]["stack"]["frames"][0]["function"], "first(int)");
  EXPECT_EQ(nlohmann::ordered_json::parse(j.dump()), j);
}

TEST(json, the_other_kinds) {
  const auto j = as_json(other_kinds());
  EXPECT_EQ(j["waited"]["rwlock"], 16.1);
  EXPECT_EQ(j["waited"]["barrier"], 10);
  EXPECT_EQ(j["waited"]["mutex"], 0.1);
  const auto& table = j["rows"][0];
  EXPECT_EQ(table["kind"], "rwlock");
  EXPECT_EQ(table["sides"]["writing"]["behind_readers"], 12);
  EXPECT_EQ(table["sides"]["most_readers"], 7);
  EXPECT_EQ(table["held_share"], 0.2);
  EXPECT_EQ(table["each"][0]["sides"]["reading"]["acquisitions"], 1000);
  EXPECT_EQ(j["rows"][1]["tries"]["total"], 3.4);
  EXPECT_EQ(j["rows"][2]["last"]["tid"], 12);
  EXPECT_EQ(j["rows"][2]["last"]["times"], 40);
  EXPECT_TRUE(j["rows"][3]["last"].is_null());
  EXPECT_TRUE(j["rows"][3]["each"][0]["last"]["tid"].is_null());
  EXPECT_EQ(j["rows"][3]["each"][0]["last"]["own_tid"], 3);
  EXPECT_EQ(j["rows"][4]["kind"], "join");
  for (const char* key : {"sides", "tries", "holding", "signals", "last", "failed_tries"})
    EXPECT_FALSE(j["rows"][4].contains(key)) << key;
}

TEST(json, is_utf8_whatever_the_names_are) {
  report r = sample();
  r.command = {"\xff\x01"};
  r.rows[0].name = "\xc3";
  r.rows[0].holders[0].where.frames[0].file = "\xe2\x82";
  r.remarks = {"\xf0\x9f"};
  judge(r);
  EXPECT_NO_THROW({ EXPECT_TRUE(has(as_json(r).dump(), "\"?\\u0001\"")); });
}

}  // namespace
}  // namespace usher::reader
