// Tests the parsers of the kernel's files in /proc with valid and hostile text, the check whether an address follows a
// call instruction, and the names and sentences of samples.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <random>

#include "support/process/running_process.hpp"
#include "synthetic.hpp"
#include "watch/reader/judge/rule_facts.hpp"
#include "watch/reader/print/text.hpp"
#include "watch/reader/read/cpu_use.hpp"
#include "watch/reader/read/off_cpu.hpp"

namespace usher::reader {
namespace {

TEST(Sleeps, EntriesOfSystemCalls) {
  const auto e = parse_entry("202 0x7f01 0x80 0x2 0x0 0x0 0xffffffff 0x7ffc1000 0x7f02\n");
  ASSERT_TRUE(e);
  EXPECT_FALSE(e->is_running);
  EXPECT_EQ(e->number, 202);
  EXPECT_EQ(e->arguments[1], 0x80u);
  EXPECT_EQ(e->sp, 0x7ffc1000u);
  EXPECT_EQ(e->pc, 0x7f02u);
  EXPECT_TRUE(parse_entry("running\n")->is_running);
  const auto fault = parse_entry("-1 0x7ffc1000 0x7f02");
  ASSERT_TRUE(fault);
  EXPECT_EQ(name_of_call(fault->number), "page fault");
  for (const char* bad : {"", "\n", "run", "-2 0x1 0x2", "1", "1 0x1 0x1 0x1 0x1 0x1 0x1 0x1", "-1 0x1", "x 0x1 0x2",
                          "1 0x1 0x1 0x1 0x1 0x1 0x1 0x1 0x11111111111111111", "99999999999999999999 0x1 0x2"})
    EXPECT_FALSE(parse_entry(bad)) << bad;
}

TEST(Sleeps, NamesOfSystemCalls) {
  EXPECT_EQ(name_of_call(SYS_futex), "futex");
  EXPECT_EQ(name_of_call(SYS_clock_nanosleep), "clock_nanosleep");
  EXPECT_EQ(name_of_call(100000), "system call 100000");
}

TEST(Sleeps, AThreadThatIsAwaited) {
  kernel_entry e;
  e.number = SYS_futex;
  e.arguments = {0x7f00, 265, 4711, 0, 0, 0xffffffff};  // FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, shared
  EXPECT_EQ(awaited_thread(e), 4711u);
  e.arguments[1] = 265 | 128;
  EXPECT_EQ(awaited_thread(e), 0u);
  e.arguments[1] = 1;  // a wake-up
  EXPECT_EQ(awaited_thread(e), 0u);
}

TEST(Sleeps, Mappings) {
  const auto m = support::read_mapping("7f00-8f00 r-xp 00002000 fe:01 42   /usr/lib/lib a.so (deleted)\n");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->rights, "r-xp");
  EXPECT_EQ(m->range.begin, 0x7f00u);
  EXPECT_EQ(m->range.end, 0x8f00u);
  EXPECT_EQ(m->offset, 0x2000u);
  EXPECT_EQ(m->path, "/usr/lib/lib a.so (deleted)");
  EXPECT_TRUE(m->is_of_file);
  EXPECT_EQ(support::read_mapping("7f00-8f00 r-xp 0 0:0 0")->path, "");
  EXPECT_EQ(support::read_mapping("7f00-8f00 r-xp 0 0:0 0 [vdso]")->path, "[vdso]");
  for (const char* none :
       {"7f00-8f00 r-xp 0 0:0 0", "7f00-8f00 r-xp 0 0:0 0 [vdso]", "7f00-8f00 r-xp 0 0:0 0 /no/inode"})
    EXPECT_FALSE(support::read_mapping(none)->is_of_file) << none;
  EXPECT_EQ(support::read_mapping("7f00-8f00 rw-p 0 fe:01 1 /a\\012b")->path, "/a\\012b");
  for (const char* bad : {"", "-", "7f00 r-xp 0 0:0 1 /a", "8f00-7f00 r-xp 0 0:0 1 /a", "7f00-8f00 r 0 0:0 1 /a",
                          "7f00-8f00 r-xp x 0:0 1 /a", "7f00-fffffffffffffffff r-xp 0 0:0 1 /a", "7f00-8f00 r-xp 0"})
    EXPECT_FALSE(support::read_mapping(bad)) << bad;
}

TEST(Sleeps, LibrariesThatArePassedOver) {
  for (const char* path : {"/lib/libc.so.6", "/lib/libc-2.31.so", "/lib64/ld-linux-x86-64.so.2", "/x/libusher.so",
                           "/usr/lib/libstdc++.so.6", "/lib/libc.so.6 (deleted)"})
    EXPECT_TRUE(is_passed_over(path)) << path;
  for (const char* path : {"", "/lib/libglib-2.0.so.0", "/bin/server", "/lib/libcurl.so.4", "/libc.so.6/server"})
    EXPECT_FALSE(is_passed_over(path)) << path;
  EXPECT_TRUE(is_library("/usr/lib/libgomp.so.1.0.0"));
  EXPECT_TRUE(is_library("/opt/x/plugin.so (deleted)"));
  EXPECT_FALSE(is_library("/opt/x.so/bin/server"));
  EXPECT_TRUE(is_futex(SYS_futex));
  EXPECT_FALSE(is_futex(SYS_read));
  EXPECT_FALSE(is_futex(-1));
}

#if defined(__x86_64__)
TEST(Sleeps, CallInstructions) {
  const auto is_code = [](std::uint64_t a) { return a >= 0x1000 && a < 0x2000; };
  const auto ends = [&](std::array<unsigned char, bytes_before> bytes, std::uint64_t at = 0x1800) {
    return ends_in_call(std::span<const unsigned char, bytes_before>(bytes), at, is_code);
  };
  EXPECT_TRUE(ends({0, 0, 0xe8, 0x10, 0, 0, 0}));           // call 0x1810
  EXPECT_TRUE(ends({0, 0, 0xe8, 0xf0, 0xff, 0xff, 0xff}));  // call 0x17f0
  EXPECT_FALSE(ends({0, 0, 0xe8, 0, 0, 0, 0x10}));          // into no code
  EXPECT_TRUE(ends({0, 0, 0, 0, 0, 0xff, 0xd0}));           // call *%rax
  EXPECT_TRUE(ends({0, 0, 0, 0, 0x41, 0xff, 0xd4}));        // call *%r12
  EXPECT_TRUE(ends({0, 0xff, 0x15, 1, 2, 3, 4}));           // call *0x4030201(%rip)
  EXPECT_TRUE(ends({0, 0, 0, 0, 0xff, 0x50, 0x18}));        // call *0x18(%rax)
  EXPECT_TRUE(ends({0, 0, 0, 0xff, 0x54, 0x24, 0x08}));     // call *8(%rsp)
  EXPECT_TRUE(ends({0, 0, 0, 0, 0xff, 0x14, 0xc8}));        // call *(%rax,%rcx,8)
  EXPECT_TRUE(ends({0xff, 0x94, 0xc8, 1, 2, 3, 4}));        // call *0x4030201(%rax,%rcx,8)
  EXPECT_TRUE(ends({0xff, 0x14, 0xc5, 1, 2, 3, 4}));        // call *0x4030201(,%rax,8)
  EXPECT_FALSE(ends({0, 0, 0, 0, 0, 0xff, 0xe0}));          // jmp *%rax
  EXPECT_FALSE(ends({0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3}));
}
#endif

TEST(Sleeps, TimesOfProcesses) {
  const auto t = parse_times("12 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 15 16 17 18 99 20\n");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->state, 'S');
  EXPECT_EQ(t->own, 120u);
  EXPECT_EQ(t->children, 7u);
  EXPECT_EQ(t->started, 99u);
  EXPECT_EQ(parse_times("1 (x) R 1 2 3 4 5 6 7 8 9 10 18446744073709551615 5 1 1 1 1 1 1 1")->own, ~std::uint64_t{0});
  for (const char* bad : {"", ")", "1 (x)", "1 (x) ", "1 (x) S", "1 (x) S 1 2 3 4 5 6 7 8 9 10 1 2 3",
                          "1 (x) S 1 2 3 4 5 6 7 8 9 10 -1 2 3 4 15 16 17 18 99", "1 (x S 1 2 3"})
    EXPECT_FALSE(parse_times(bad)) << bad;
}

TEST(Sleeps, TimesOfScheduling) {
  const auto t = parse_schedule("5 7 9\n");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->waited, 7u);
  EXPECT_EQ(t->runs, 9u);
  for (const char* bad : {"", "1 2", "1 x 3", "99999999999999999999 1 1"}) EXPECT_FALSE(parse_schedule(bad)) << bad;
}

TEST(Sleeps, QuotasOfControlGroups) {
  EXPECT_EQ(parse_quota("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_quota("150000\n 100000\n"), 1.5);  // cgroup version 1 has two files
  for (const char* none : {"max 100000", "-1\n 100000", "", "0 100000", "1 0", "5"})
    EXPECT_FALSE(parse_quota(none)) << none;
  EXPECT_EQ(group_of("0::/a/b\n", ""), "/a/b");
  EXPECT_EQ(group_of("3:memory:/m\n1:cpuacct,cpu:/c:d\n0::/\n", "cpu"), "/c:d");
  EXPECT_EQ(group_of("0::/../../etc\n", ""), "");
  EXPECT_EQ(group_of("0::a\n", ""), "");
  EXPECT_EQ(group_of("1:cpuset:/a\nbad\n::\n", "cpu"), "");
}

TEST(Sleeps, ParsersAcceptAnyBytes) {
  std::mt19937 random(1);
  const std::string_view pieces[] = {"0x",  "1", " ", "\n", "-", ")",       "(",    "S",
                                     "max", ":", "/", ",",  "x", "running", "\xff", "18446744073709551616"};
  for (int i = 0; i < 100000; i++) {
    std::string text;
    for (unsigned n = random() % 24; n > 0; n--) text += pieces[random() % std::size(pieces)];
    parse_entry(text);
    support::read_mapping(text);
    parse_times(text);
    parse_schedule(text);
    parse_quota(text);
    group_of(text, "cpu");
    is_passed_over(text);
  }
}

report slept(std::initializer_list<std::tuple<const char*, const char*, std::uint64_t>> places) {
  report r;
  r.asleep.emplace();
  for (const auto& [call, module, samples] : places) {
    off_cpu::place p;
    p.call = call;
    p.module = module;
    p.samples = samples;
    r.asleep->places.push_back(p);
    r.asleep->samples += samples;
  }
  r.asleep->observations = r.asleep->samples;
  return r;
}

TEST(Sleeps, Sentences) {
  report r = slept({{"poll", "/bin/server", 400},
                    {"read", "/bin/server", 80},
                    {"poll", "/lib/libx.so", 90},
                    {"futex", "/lib/libglib-2.0.so.0", 120},
                    {"write", "/bin/server", 9}});
  r.asleep->recorded[contract::index_of(kind::mutex)] = 300;
  r.asleep->recorded[contract::index_of(kind::rwlock)] = 5;
  r.asleep->samples += 305;
  r.asleep->observations = 1000;
  EXPECT_EQ(off_cpu_text(r),
            "of the time that threads slept, 49 % was in poll, 30 % for recorded locks, 12 % in futexes of "
            "libglib-2.0.so.0, 8 % in read and 1 % elsewhere");
  EXPECT_DOUBLE_EQ(unseen_share(r), 120.0 / 1004);
  r.asleep->observations = 230;
  EXPECT_TRUE(off_cpu_text(r).ends_with(" (230 samples)"));
  r.asleep->of_a_part = true;
  EXPECT_NE(off_cpu_text(r).find("a random part"), std::string::npos);
  EXPECT_EQ(off_cpu_text(slept({{"futex", "", 10}})),
            "of the time that threads slept, 100 % was in futexes of unknown code (10 samples)");
  EXPECT_EQ(off_cpu_text(slept({})), "");
  EXPECT_EQ(off_cpu_text(report{}), "");
  EXPECT_EQ(unseen_share(report{}), 0);
}

TEST(Sleeps, PercentagesAddUp) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; i++) {
    const report r = slept({{"poll", "a", random() % 100 + 1},
                            {"read", "a", random() % 100},
                            {"futex", "a", random() % 100},
                            {"futex", "b", random() % 3},
                            {"write", "a", random() % 100}});
    const std::string text = off_cpu_text(r);
    unsigned sum = 0;
    for (std::size_t at = 0; (at = text.find(" %", at)) != std::string::npos; at++) {
      const std::size_t begin = text.find_last_not_of("0123456789", at - 1) + 1;
      sum += static_cast<unsigned>(std::stoul(text.substr(begin, at - begin)));
    }
    EXPECT_EQ(sum, 100u) << text;
  }
}

TEST(Sleeps, SentencesAboutCpus) {
  report r;
  EXPECT_EQ(cpu_text(r), "");
  r.cpu = cpu_use{2, 1.94, 3.2};
  EXPECT_EQ(cpu_text(r), "used 1.9 of 2 CPUs; 3.2 threads on average were ready and waited for one");
  r.cpu = cpu_use{1, 0.5, 0.9999};
  EXPECT_EQ(cpu_text(r), "used 0.5 of 1 CPU; 1 thread on average was ready and waited for one");
  r.cpu = cpu_use{1.5, 0.5, 0};
  const std::string text = as_text(r, {});
  EXPECT_NE(text.find("\nUsed 0.5 of 1.5 CPUs; 0 threads on average were ready and waited for one\n"),
            std::string::npos)
      << text;
}

TEST(Sleeps, PlacesOfOneFunctionAreOne) {
  synthetic s;
  made_up_names names(s.view);
  sampled_sleeps sleeps;
  sleeps.modules.push_back({0, 0x1000, 0x2000, 0x1000, 1, "/lib/libx.so"});
  sleeps.modules.push_back({0, 0x3000, 0x4000, 0x3000, 1, std::string(5000, 'x')});  // too long for the record's text
  const std::vector<std::uint32_t> numbers = add_modules(s.view, sleeps.modules);
  ASSERT_EQ(numbers, (std::vector<std::uint32_t>{1, 0}));
  names.code[contract::word_of(0x1010, 1)] = {frame_of("f", "x.c", 1)};
  names.code[contract::word_of(0x1020, 1)] = {frame_of("f", "x.c", 2)};
  names.code[contract::word_of(0x1030, 1)] = {frame_of("__lll_lock_wait_private", "", 0)};
  const module_offset none, a{1, 0x10}, b{1, 0x20}, internal{1, 0x30}, forged{77, 5}, unnamed{2, 8};
  sleeps.places = {{SYS_futex, false, none, a, 40'400},   {SYS_futex, false, b, b, 20'400},
                   {SYS_futex, false, internal, a, 1000}, {SYS_futex, true, none, a, 2000},
                   {SYS_read, false, none, forged, 3000}, {SYS_read, false, none, unnamed, 4000},
                   {-1, false, none, none, 100}};
  sleeps.recorded[contract::index_of(kind::mutex)] = 5000;
  sleeps.unreadable = 6000;
  const off_cpu o = named(sleeps, numbers, names);
  EXPECT_EQ(o.samples, 82u - 1 + 1);
  EXPECT_EQ(o.in_futexes(), 62u);
  ASSERT_EQ(o.places.size(), 5u);
  EXPECT_EQ(o.places[0].samples, 61u);
  EXPECT_EQ(o.places[0].module, "/lib/libx.so");
  EXPECT_FALSE(o.places[0].is_certain);
  EXPECT_EQ(o.places[1].module, std::string(5000, 'x'));
  EXPECT_EQ(o.places[2].module, "");
  EXPECT_EQ(o.places[3].call, "join");
  EXPECT_EQ(o.places[4].where.frames[0].function, "__lll_lock_wait_private");
}

/// Two functions of the program call a library that waits on a futex. The report has a place for each of the two
/// functions.
TEST(Sleeps, CallersOfALibrary) {
  synthetic s;
  made_up_names names(s.view);
  sampled_sleeps sleeps;
  sleeps.modules.push_back({0, 0x1000, 0x2000, 0x1000, 1, "/lib/libgomp.so.1"});
  sleeps.modules.push_back({0, 0x3000, 0x4000, 0x3000, 2, "/bin/solver"});
  const std::vector<std::uint32_t> numbers = add_modules(s.view, sleeps.modules);
  names.code[contract::word_of(0x1010, 1)] = {frame_of("gomp_wait", "wait.c", 1)};
  names.code[contract::word_of(0x3010, 2)] = {frame_of("sum", "sum.cpp", 12)};
  names.code[contract::word_of(0x3020, 2)] = {frame_of("sum", "sum.cpp", 13)};
  names.code[contract::word_of(0x3030, 2)] = {frame_of("product", "sum.cpp", 40)};
  const module_offset a{1, 0x10}, sum{2, 0x10}, also_sum{2, 0x20}, product{2, 0x30}, forged{77, 5};
  sleeps.places = {{SYS_futex, false, a, a, 9000, sum},
                   {SYS_futex, false, a, a, 8000, also_sum},
                   {SYS_futex, false, a, a, 7000, product},
                   {SYS_futex, false, a, a, 6000, forged}};
  const off_cpu o = named(sleeps, numbers, names);
  ASSERT_EQ(o.places.size(), 3u);
  EXPECT_EQ(o.places[0].samples, 17u);
  EXPECT_EQ(o.places[0].where.place()->function, "gomp_wait");
  EXPECT_EQ(o.places[0].below.place()->function, "sum");
  EXPECT_EQ(o.places[1].below.place()->function, "product");
  EXPECT_TRUE(o.places[2].below.frames.empty());
}

}  // namespace
}  // namespace usher::reader
