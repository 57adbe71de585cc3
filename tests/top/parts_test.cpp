// The parts of `usher top`, on words, calls and messages that the tests make: the identification of objects, the
// messages of the child, the report of a sighting, and the page.
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>

#include <cstring>
#include <random>
#include <set>

#include "support/text/utf8.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/look/identify.hpp"
#include "watch/reader/look/look_assembly.hpp"
#include "watch/reader/look/look_names.hpp"
#include "watch/reader/look/sighting.hpp"
#include "watch/reader/print/top_json.hpp"
#include "watch/reader/print/top_text.hpp"

namespace usher::reader {
namespace {

constexpr std::uint64_t place = 0x7f0000001000;
constexpr std::uint32_t alive = 4711, dead = 4712;
constexpr std::uint32_t private_wait = FUTEX_WAIT_PRIVATE,
                        private_masked = FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME;

surroundings around(c_library libc = c_library::glibc) {
  return {libc, false, [](std::uint32_t tid) { return tid == alive; }};
}

kernel_entry entry(std::uint32_t operation, std::uint32_t value, std::uint64_t at = place) {
  kernel_entry e;
  e.number = SYS_futex;
  e.arguments = {at, operation, value, 0, 0, 0xffffffff};
  e.sp = 0x7f0000100000;
  e.pc = 0x555500001000;
  return e;
}

/// A struct whose futex is at a distance from its beginning.
template <std::size_t n>
futex_words words(const std::uint32_t (&fields)[n], int futex) {
  futex_words w;
  for (std::size_t i = 0; i < n; i++) {
    const int at = futex_words::before - futex / 4 + static_cast<int>(i);
    if (at < 0 || at >= 32) continue;
    w.word[static_cast<std::size_t>(at)] = fields[i];
    w.known |= 1u << at;
  }
  return w;
}

frame function(const char* name) {
  frame f;
  f.function = name;
  return f;
}

verdict identified(std::uint32_t operation, std::uint32_t value, const futex_words& w,
                   const std::vector<frame>& functions = {}, c_library libc = c_library::glibc) {
  return identify(*futex_call_of(entry(operation, value)), w, around(libc), functions);
}

TEST(Identification, MutexesOfGlibc) {
  const auto held = words({2, 0, alive, 1, 0, 0}, 0);
  verdict v = identified(private_wait, 2, held);
  EXPECT_EQ(v.what, awaited::mutex);
  EXPECT_EQ(v.owner, alive);
  EXPECT_EQ(v.object, place);
  EXPECT_EQ(v.is_free, false);
  EXPECT_NE(v.known_by.find("words"), std::string::npos);
  EXPECT_EQ(identified(private_wait, 2, words({2, 3, alive, 1, 1, 0}, 0)).kind, "recursive");
  v = identified(FUTEX_WAIT, 0x80000000 | alive, words({0x80000000 | alive, 1, alive, 1, 0x90, 0}, 0));
  EXPECT_EQ(v.kind, "robust");
  EXPECT_EQ(v.owner, alive);
  v = identified(FUTEX_LOCK_PI_PRIVATE, 1, words({0x80000000 | alive, 1, alive, 1, 0x20, 0}, 0));
  EXPECT_EQ(v.kind, "priority-inheriting");
  EXPECT_EQ(v.owner, alive);
}

TEST(Identification, WordsThatContradictTheCallNameNobody) {
  // Another value than the one that waiters pass, a thread that does not live, an impossible kind, a call that is shared.
  for (const verdict& v :
       {identified(private_wait, 1, words({2, 0, alive, 1, 0, 0}, 0)),
        identified(private_wait, 2, words({2, 0, dead, 1, 0, 0}, 0)),
        identified(private_wait, 2, words({2, 0, alive, 1, 0x1000, 0}, 0)),
        identified(FUTEX_WAIT, 2, words({2, 0, alive, 1, 0, 0}, 0)),
        identified(private_wait, 2, words({3, 0, alive, 1, 0, 0}, 0)), identified(private_wait, 2, futex_words{})}) {
    EXPECT_EQ(v.what, awaited::futex) << v.seen;
    EXPECT_EQ(v.owner, 0u);
  }
}

TEST(Identification, AFunctionTellsTheKindAndTheWordsTheHolder) {
  const std::vector<frame> lock = {function("__lll_lock_wait"), function("pthread_mutex_lock@@GLIBC_2.2.5"),
                                   function("main")};
  verdict v = identified(private_wait, 2, words({2, 0, alive, 1, 0, 0}, 0), lock);
  EXPECT_EQ(v.what, awaited::mutex);
  EXPECT_EQ(v.owner, alive);
  EXPECT_EQ(v.known_by, "function pthread_mutex_lock@@GLIBC_2.2.5 and words");
  // The words are not those of a mutex: no holder.
  v = identified(private_wait, 2, words({7, 7, alive, 7, 7, 7}, 0), lock);
  EXPECT_EQ(v.what, awaited::mutex);
  EXPECT_EQ(v.owner, 0u);
  // A wait for a condition ends in the mutex.
  v = identified(private_wait, 2, words({2, 0, alive, 1, 0, 0}, 0), {function("pthread_cond_wait"), function("main")});
  EXPECT_EQ(v.what, awaited::mutex);
  EXPECT_EQ(v.owner, alive);
}

TEST(Identification, FunctionsBeyondForeignCodeTellNothing) {
  const frame call = function("syscall"), own = function("waits_for_an_event");
  const auto w = words({0, 0, 0, 0}, 0);
  for (const char* outer : {"__pthread_once_slow", "std::sys::sync::once::futex::Once::call", "parking_lot::once::Once",
                            "pthread_rwlock_rdlock", "std::sync::Once::call_once::{{closure}}"}) {
    const verdict v = identified(private_wait, 0, w, {call, own, function(outer), function("main")});
    EXPECT_EQ(v.what, awaited::futex) << outer;
    EXPECT_EQ(v.library, "") << outer;
  }
  // The call of pthread_once() itself, and one that it cannot make: then its function lies further out.
  EXPECT_EQ(identified(private_wait, 1, words({1}, 0), {function("__pthread_once_slow")}).what, awaited::once);
  EXPECT_EQ(identified(private_wait, 0, w, {function("__pthread_once_slow")}).what, awaited::futex);
  EXPECT_EQ(
      identified(private_wait, 2, words({2}, 0), {call, function("std::sys::sync::once::futex::Once::wait")}).what,
      awaited::once);
  // A lock inside of the function that once calls.
  EXPECT_EQ(identified(private_wait, 2, words({2, 0, alive, 1, 0, 0}, 0),
                       {function("pthread_mutex_lock"), own, function("__pthread_once_slow")})
                .what,
            awaited::mutex);
}

TEST(Identification, OtherObjectsOfGlibc) {
  // wseq 4, g1_start 2; 2.36 has two counts of references, 2.41 not.
  const auto old_condition = words({4, 0, 2, 0, 0, 0, 0, 0, 0, 8, 0, 0}, 40),
             new_condition = words({4, 0, 2, 0, 0, 0, 0, 8, 0, 0, 0, 0}, 32);
  EXPECT_EQ(identified(private_masked, 0, old_condition).what, awaited::condition);
  EXPECT_EQ(identified(private_masked, 0, old_condition).object, place - 40);
  EXPECT_EQ(identified(private_masked, 0, new_condition, {function("pthread_cond_wait")}).object, place - 32);
  EXPECT_EQ(identified(private_masked, 0, words({0, 1, 0, 0}, 0)).what, awaited::semaphore);
  const auto written = words({8, 0, 1, 0, 0, 0, alive, 0, 0, 0, 0, 0}, 8);
  verdict v = identified(private_masked, 3, written);
  EXPECT_EQ(v.what, awaited::rwlock);
  EXPECT_EQ(v.side, wanted_side::reading);
  EXPECT_EQ(v.owner, alive);
  v = identified(private_wait, 0, words({1, 0, 2, 0, 0}, 4));
  EXPECT_EQ(v.what, awaited::barrier);
  EXPECT_EQ(v.seen, "1 of 2 have come");
  v = identified(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, alive, words({alive}, 0));
  EXPECT_EQ(v.what, awaited::join);
  EXPECT_EQ(v.owner, alive);
}

TEST(Identification, MutexesOfMusl) {
  const auto w = words({1, 0x80000000 | alive, 1}, 4);
  const verdict v = identified(private_wait, 0x80000000 | alive, w, {}, c_library::musl);
  EXPECT_EQ(v.what, awaited::mutex);
  EXPECT_EQ(v.kind, "recursive");
  EXPECT_EQ(v.owner, alive);
  EXPECT_EQ(v.object, place - 4);
  EXPECT_EQ(identified(private_wait, 0x80000010, words({0, 0x80000010, 1}, 4), {}, c_library::musl).owner, 0u);
}

TEST(Identification, ConditionsAndBarriersOfMuslHaveNoAddress) {
  for (const char* name : {"pthread_cond_timedwait", "pthread_barrier_wait"}) {
    const verdict v = identified(private_wait, 2, words({2, 0}, 0), {function(name)}, c_library::musl);
    EXPECT_EQ(v.library, "musl");
    EXPECT_EQ(v.object, 0u);
    EXPECT_EQ(v.known_by, std::string("function ") + name);
    // A process-shared one has its futex in the object.
    EXPECT_EQ(identified(FUTEX_WAIT, 2, words({2, 0}, 0), {function(name)}, c_library::musl).object, place);
  }
  EXPECT_NE(identified(private_wait, 0, words({1, 0, 2, 0, 0}, 4), {function("pthread_barrier_wait")}).object, 0u);
}

TEST(Identification, OnlyACertainLayoutSaysThatALockIsFree) {
  const auto free_by = [](std::uint32_t value, std::uint32_t word, c_library libc) {
    return identified(private_wait, value, words({word, 1, 0}, 0), {function("sem_timedwait")}, libc).is_free;
  };
  // Of musl: 0 with waiters in older and newer versions, posted, and values that no version has.
  EXPECT_EQ(free_by(~0u, ~0u, c_library::musl), false);
  EXPECT_EQ(free_by(0x80000000, 0x80000000, c_library::musl), false);
  EXPECT_EQ(free_by(0x80000000, 0x80000001, c_library::musl), true);
  EXPECT_EQ(free_by(~0u, 1, c_library::musl), true);
  for (const std::uint32_t odd : {0x7fffffffu, 0xfffffffeu, 0x40000000u})
    EXPECT_FALSE(free_by(~0u, odd, c_library::musl)) << odd;
  EXPECT_FALSE(free_by(0, 1, c_library::musl));
  // Of glibc, and of a program that does not say which library it has.
  const auto posted = words({1, 1, 0, 0}, 0);
  EXPECT_EQ(identified(private_masked, 0, posted, {function("sem_wait")}).is_free, true);
  EXPECT_FALSE(identified(private_masked, 0, posted, {function("sem_wait")}, c_library::unknown).is_free);
  const frame rust = function("std::sys::sync::mutex::futex::Mutex::lock_contended");
  EXPECT_EQ(identified(private_masked, 2, words({0}, 0), {rust}).is_free, true);
  EXPECT_FALSE(identified(private_masked, 7, words({0}, 0), {rust}).is_free);
}

TEST(Identification, Runtimes) {
  const auto of = [](const char* name) {
    return identified(private_masked, 2, words({2}, 0), {function(name), function("main")});
  };
  EXPECT_EQ(of("std::sys::sync::mutex::futex::Mutex::lock_contended").library, "Rust std");
  EXPECT_EQ(of("std::sys::sync::mutex::futex::Mutex::lock_contended").what, awaited::mutex);
  EXPECT_EQ(of("parking_lot::raw_mutex::RawMutex::lock_slow").library, "parking_lot");
  EXPECT_EQ(of("runtime.futex.abi0").library, "Go");
  const verdict gil =
      identified(private_masked, 0, words({0}, 0), {function("pthread_cond_timedwait"), function("take_gil")});
  EXPECT_EQ(gil.library, "CPython");
  EXPECT_EQ(gil.kind, "the global interpreter lock");
}

TEST(Identification, AnEventOfJavaIsWhatTheNextFunctionSays) {
  const auto kind = [](std::initializer_list<const char*> names) {
    std::vector<frame> stack = {function("pthread_cond_timedwait")};
    for (const char* name : names) {
      stack.push_back(function(name));
      stack.back().module = "/usr/lib/jvm/lib/server/libjvm.so";
    }
    return identified(private_masked, 0, words({0}, 0), stack).kind;
  };
  EXPECT_EQ(kind({"os::PlatformEvent::park(long)", "JavaThread::sleep(long)", "JVM_Sleep"}), "Thread.sleep()");
  EXPECT_NE(
      kind({"os::PlatformEvent::park()", "ObjectMonitor::EnterI(JavaThread*)", "ObjectMonitor::enter(JavaThread*)"})
          .find("a monitor, to enter it"),
      std::string::npos);
  EXPECT_NE(
      kind({"os::PlatformEvent::park(long)", "ObjectMonitor::wait(long, bool, JavaThread*)"}).find("Object.wait()"),
      std::string::npos);
  EXPECT_EQ(kind({"os::PlatformEvent::park(long)", "Unknown::function()"}),
            "the Java VM's own wait (monitor, park or sleep)");
}

TEST(Identification, AnyWordsAndCalls) {
  std::minstd_rand random(std::random_device{}());
  constexpr std::uint32_t operations[] = {FUTEX_WAIT, private_wait, private_masked, FUTEX_WAIT_BITSET,
                                          FUTEX_LOCK_PI_PRIVATE};
  constexpr std::uint32_t liked[] = {0, 1, 2, 3, alive, dead, 0x80000000 | alive, 8, 16, 128, ~0u};
  for (int i = 0; i < 200000; i++) {
    futex_words w;
    for (std::uint32_t& one : w.word)
      one = random() % 4 != 0 ? liked[random() % std::size(liked)] : static_cast<std::uint32_t>(random());
    w.known = static_cast<std::uint32_t>(random()) | static_cast<std::uint32_t>(random()) << 16;
    const auto libc = random() % 2 != 0 ? c_library::glibc : c_library::musl;
    const verdict v = identified(operations[random() % 5], liked[random() % std::size(liked)], w, {}, libc);
    // Without a function only a living thread is named.
    ASSERT_TRUE(v.owner == 0 || v.owner == alive || v.is_shared) << v.seen;
    ASSERT_FALSE(v.known_by.empty());
  }
}

TEST(Calls, OfFutexes) {
  EXPECT_FALSE(futex_call_of(entry(FUTEX_WAKE, 1)));
  EXPECT_FALSE(futex_call_of(entry(private_wait, 0, place + 1)));
  EXPECT_TRUE(futex_call_of(entry(private_wait, 0))->is_private);
  EXPECT_TRUE(futex_call_of(entry(FUTEX_LOCK_PI, 0))->inherits_priority);
  kernel_entry other = entry(private_wait, 0);
  other.number = SYS_read;
  EXPECT_FALSE(futex_call_of(other));
}

// ---- the report -----------------------------------------------------------------------------------------------------------

/// Two threads that hold each other's mutexes.
sighting two_in_a_circle(bool is_confirmed) {
  sighting s;
  s.passes = 2;
  s.threads_seen = 2;
  for (std::uint32_t i = 0; i < 2; i++) {
    sighted_key k;
    k.entry = entry(private_wait, 2, place + 64 * i);
    k.words = words({2, 0, 11 - i, 1, 0, 0}, 0);
    k.has_words = true;
    k.samples = 1;
    s.keys.push_back(k);
    sighted_thread t;
    t.tid = static_cast<std::int32_t>(10 + i);
    t.own = 10 + i;
    t.name = "\x1b[31m<b>\xe2\x80\xae";
    t.state = 'S';
    t.has_entry = true;
    t.is_confirmed = is_confirmed;
    t.entry = k.entry;
    t.key = i + 1;
    t.waited = 3;
    s.threads.push_back(t);
  }
  return s;
}

look_report report_of(const sighting& s) {
  look_names names(process_place::own(), false);
  look_report r;
  r.process = "server";
  r.pid = {10, 0};
  r.looked = "from outside";
  assemble(s, names, {10, 0, c_library::glibc, false, {}}, r);
  return r;
}

TEST(Report, ACircleIsSaidIfASecondReadingConfirmsIt) {
  const look_report r = report_of(two_in_a_circle(true));
  ASSERT_EQ(r.findings.size(), 1u);
  EXPECT_EQ(r.findings[0].what, "circle");
  EXPECT_EQ(r.findings[0].threads.size(), 2u);
  EXPECT_DOUBLE_EQ(r.findings[0].seconds, 3);
  ASSERT_EQ(r.waits.size(), 2u);
  EXPECT_TRUE(r.waits[0].holder && r.waits[1].holder);
  const look_report unsure = report_of(two_in_a_circle(false));
  EXPECT_TRUE(unsure.findings.empty());
  EXPECT_FALSE(unsure.waits[0].holder || unsure.waits[1].holder);
}

TEST(Report, AFreeLockWithSleepersIsLostAfterTenSeconds) {
  sighting s = two_in_a_circle(true);
  for (sighted_key& k : s.keys) k.words = words({0, 0, 0, 0, 0, 0}, 0), k.unchanged = 12;
  // Without a function the words of a free mutex show no mutex.
  EXPECT_TRUE(report_of(s).findings.empty());
  for (sighted_key& k : s.keys) {
    k.words = words({0x80000000, 0, 0, 0, 0x20, 0}, 0);
    k.entry = entry(FUTEX_LOCK_PI_PRIVATE, 1, k.entry.arguments[0]);
  }
  EXPECT_TRUE(report_of(s).findings.empty());
}

TEST(Report, ThePageFitsAndIsPrintable) {
  sighting s = two_in_a_circle(true);
  for (std::uint32_t i = 0; i < 200; i++) {
    sighted_key k;
    k.entry = entry(private_wait, 7, place + 4096 + 64 * i);
    k.samples = 1;
    s.keys.push_back(k);
    sighted_thread t = s.threads[0];
    t.tid = static_cast<std::int32_t>(100 + i);
    t.own = 100 + i;
    t.entry = k.entry;
    t.key = static_cast<std::uint32_t>(s.keys.size());
    t.name = std::string(10000, 'x') + "\xff\n";
    s.threads.push_back(t);
  }
  const look_report r = report_of(s);
  const std::string page = as_page(r);
  EXPECT_LE(std::count(page.begin(), page.end(), '\n'), 60);
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t end = page.find('\n', at);
    EXPECT_LE(width_of(page.substr(at, end - at)), page_columns) << page.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_EQ(support::printable(page), page);
  const std::string table = as_table(r, 10);
  EXPECT_EQ(support::printable(table), table);
  EXPECT_EQ(as_json(r)["waits"].size(), r.waits.size());
}

TEST(Messages, EveryCutIsNoticed) {
  sighting s = two_in_a_circle(true);
  s.threads[0].stack.pc = {1, 2, 3};
  s.modules.push_back({1, 2, 3, 4, 5, "/lib/x"});
  s.files = {"/lib/x"};
  byte_writer w;
  w(s);
  sighting back;
  byte_reader whole(w.bytes);
  whole(back);
  ASSERT_TRUE(whole.is_at_end());
  EXPECT_EQ(back.threads[0].stack.pc, s.threads[0].stack.pc);
  EXPECT_EQ(back.threads[1].name, s.threads[1].name);
  EXPECT_EQ(back.modules[0].path, "/lib/x");
  for (std::size_t n = 0; n < w.bytes.size(); n++) {
    sighting cut;
    byte_reader r(std::string_view(w.bytes).substr(0, n));
    r(cut);
    EXPECT_FALSE(r.is_at_end());
  }
}

TEST(Messages, AnyBytes) {
  std::minstd_rand random(std::random_device{}());
  byte_writer w;
  sighting s = two_in_a_circle(true);
  w(s);
  for (int i = 0; i < 20000; i++) {
    std::string bytes = w.bytes;
    for (int flips = 0; flips < 8; flips++) bytes[random() % bytes.size()] = static_cast<char>(random());
    sighting read;
    byte_reader r(bytes);
    r(read);
    if (r.is_at_end() && i % 50 == 0) as_page(report_of(read));
  }
}

}  // namespace
}  // namespace usher::reader
