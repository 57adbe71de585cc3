// Tests the parts of `usher stat -p` that need no recorded process: reading seccomp filters, child processes with a
// time limit, stopping threads.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "watch/reader/attach/in_child.hpp"
#include "watch/reader/attach/standing_deadlocks.hpp"
#include "watch/reader/attach/stopped_process.hpp"
#include "watch/reader/attach/system_call_filter.hpp"
#include "watch/reader/attach/target_memory.hpp"

namespace usher::reader {
namespace {

using namespace std::chrono_literals;

const auto never = [] { return false; };

// ---- filters --------------------------------------------------------------------------------------------------------

sock_filter statement(int code, std::uint32_t k) {
  return BPF_STMT(static_cast<std::uint16_t>(code), k);
}
sock_filter jump(int code, std::uint32_t k, std::uint8_t yes, std::uint8_t no) {
  return BPF_JUMP(static_cast<std::uint16_t>(code), k, yes, no);
}
const sock_filter load_number = statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
const sock_filter allow = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

/// A seccomp filter that returns `action` for the system call with this number, and permits all others.
filter_program only(int number, std::uint32_t action) {
  return {load_number, jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
          statement(BPF_RET | BPF_K, action), allow};
}

TEST(Filters, WhatKillsIsFound) {
  EXPECT_EQ(objection_of({}), "");
  EXPECT_EQ(objection_of({{allow}}), "");
  for (const std::uint32_t action :
       {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP, SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF})
    for (const system_call& c : calls_of_recording())
      EXPECT_EQ(objection_of({{allow}, only(c.number, action)}), std::string("it does not permit ") + c.name);
}

TEST(Filters, AnErrorOrALogEntryDoesNoHarm) {
  for (const std::uint32_t action : {SECCOMP_RET_ERRNO | 1, SECCOMP_RET_LOG})
    for (const system_call& c : calls_of_recording()) EXPECT_EQ(objection_of({only(c.number, action)}), "") << c.name;
}

TEST(Filters, CallsThatARecordingDoesNotMakeDoNotMatter) {
  EXPECT_EQ(objection_of({only(SYS_openat, SECCOMP_RET_KILL_PROCESS)}), "");
}

TEST(Filters, ArgumentsCount) {
  // A filter like those of sandboxes that forbid executable memory: it kills the process if mmap() is called with one
  // of these protection bits.
  constexpr std::uint32_t protection = offsetof(seccomp_data, args) + 16;
  const auto for_protection = [&](std::uint32_t bits) {
    return filter_program{load_number,
                          jump(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
                          statement(BPF_LD | BPF_W | BPF_ABS, protection),
                          jump(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
                          statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                          allow};
  };
  EXPECT_EQ(objection_of({for_protection(4)}), "");
  EXPECT_EQ(objection_of({for_protection(2)}), "") << "the file is mapped without access at first";
  const system_call writable{"mmap", SYS_mmap, {0, 4096, 3, 1, 3, 0}};
  EXPECT_EQ(run_filter(for_protection(2), writable), SECCOMP_RET_KILL_PROCESS);
}

TEST(Filters, WhatCannotBeKnownIsNotPermitted) {
  const filter_program by_place = {statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, instruction_pointer)),
                                   jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
                                   statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), allow};
  EXPECT_NE(objection_of({by_place}).find("cannot be known"), std::string::npos);
  const filter_program endless = {load_number};
  EXPECT_FALSE(run_filter(endless, calls_of_recording()[0]));
  const filter_program beyond = {jump(BPF_JMP | BPF_JA, 4000, 0, 0), allow};
  EXPECT_FALSE(run_filter(beyond, calls_of_recording()[0]));
}

TEST(Filters, AMachineComputesAsTheKernels) {
  const system_call call{"", 7, {0x1122334455667788, 0, 0, 0, 0, 0}};
  const filter_program sum = {load_number,
                              statement(BPF_ALU | BPF_MUL | BPF_K, 6),
                              statement(BPF_ST, 3),
                              statement(BPF_LDX | BPF_MEM, 3),
                              statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
                              statement(BPF_ALU | BPF_XOR | BPF_X, 0),
                              statement(BPF_RET | BPF_A, 0)};
  EXPECT_EQ(run_filter(sum, call), 0x55667788u ^ 42u);
  EXPECT_FALSE(run_filter({statement(BPF_LD | BPF_IMM, 5), statement(BPF_ALU | BPF_DIV | BPF_K, 0), allow}, call));
}

// ---- children with a limit ------------------------------------------------------------------------------------------

TEST(InChild, GivesTheResult) {
  EXPECT_EQ(in_child([] { return std::string(100'000, 'x'); }, 10s, never), std::string(100'000, 'x'));
  EXPECT_EQ(in_child([] { return std::string(); }, 10s, never), "");
}

TEST(InChild, WorkThatNeverEndsIsKilled) {
  const auto hangs = [] {
    for (;;) pause();
    return std::string();
  };
  EXPECT_EQ(in_child(hangs, 50ms, never), std::nullopt);
  EXPECT_EQ(in_child(hangs, 1h, [] { return true; }), std::nullopt);
  EXPECT_EQ(in_child([]() -> std::string { abort(); }, 10s, never), std::nullopt);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

// ---- stopped threads ------------------------------------------------------------------------------------------------

/// A child process that calls the function `does`. The destructor kills the process.
class other_process {
 public:
  explicit other_process(void (*does)()) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    does();
    _exit(0);
  }
  ~other_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

void runs() {
  for (;;) asm volatile("");
}

TEST(StoppedProcess, TheResultIsThatOfTheWork) {
  const other_process p(runs);
  const stand_still s = while_stopped(
      p.pid(), [](const std::vector<pid_t>& threads) { return std::to_string(threads.size()); }, never);
  EXPECT_EQ(s.error, "1");
  EXPECT_EQ(s.threads, 1u);
  EXPECT_FALSE(s.is_busy);
}

TEST(StoppedProcess, TwoTracersExcludeEachOther) {
  const other_process p(runs);
  const stand_still outer = while_stopped(
      p.pid(),
      [&](const std::vector<pid_t>&) {
        const stand_still inner = while_stopped(
            p.pid(), [](const std::vector<pid_t>&) { return std::string("both"); }, never);
        return std::string(inner.is_busy ? "busy" : "not busy") + inner.error;
      },
      never);
  EXPECT_EQ(outer.error.substr(0, 4), "busy");
}

TEST(StoppedProcess, AStopThatIsInterruptedLetsGo) {
  const other_process p(runs);
  const stand_still s = while_stopped(
      p.pid(),
      [](const std::vector<pid_t>&) {
        for (;;) pause();
        return std::string();
      },
      [] { return true; });
  EXPECT_NE(s.error, "");
  // A second attempt succeeds, because the interrupted attempt no longer traces the process.
  EXPECT_EQ(while_stopped(
                p.pid(), [](const std::vector<pid_t>&) { return std::string(); }, never)
                .error,
            "");
}

// ---- memory ---------------------------------------------------------------------------------------------------------

alignas(16) const char needle[17] = "a test's needle!";
alignas(16) char haystack[1 << 17];

TEST(TargetMemory, FindsAtMultiplesOf16Only) {
  const target_memory own(getpid());
  const auto begin = reinterpret_cast<std::uint64_t>(haystack);
  support::loaded_library in;
  in.data = {{8, 4096}, {begin, begin + sizeof haystack}};  // the first range is not mapped
  EXPECT_FALSE(own.find(in, needle));
  std::copy(needle, needle + 16, haystack + 70'008);
  EXPECT_FALSE(own.find(in, needle));
  std::copy(needle, needle + 16, haystack + 90'000);
  EXPECT_EQ(own.find(in, needle), begin + 90'000);
}

TEST(TargetMemory, WhatIsNotMappedIsAnError) {
  const target_memory own(getpid());
  std::uint64_t word = 0;
  EXPECT_FALSE(own.read(8, word));
  EXPECT_FALSE(own.write(8, &word, sizeof word));
  EXPECT_TRUE(own.read(reinterpret_cast<std::uint64_t>(needle), word));
}

/// While an observer is attached, an attacker may make the process execute a program with more rights. The observer
/// must not write into that program.
TEST(TargetMemory, AfterAnExecNothingIsWritten) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char c;
    if (read(ends[0], &c, 1) == 1) execl("/bin/sleep", "sleep", "60", nullptr);
    _exit(1);
  }
  close(ends[0]);
  const target_memory memory(child);
  ASSERT_EQ(memory.error(), 0);
  std::uint64_t word = 0;
  const auto at = reinterpret_cast<std::uint64_t>(haystack);
  EXPECT_TRUE(memory.read(at, word));
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  while (memory.read(at, word)) usleep(1000);  // until the program has called exec
  EXPECT_FALSE(memory.write(at, &word, sizeof word));
  support::loaded_library in;
  in.data = {{at, at + 4096}};
  EXPECT_FALSE(memory.find(in, needle));
  close(ends[1]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// ---- deadlocks that are older than the recording --------------------------------------------------------------------

std::string futex_line(const std::string& arguments) {
  return std::to_string(SYS_futex) + " " + arguments + " 0x0 0xffffffff 0x7ffd2f7a46d8 0x7fa74da61503\n";
}

TEST(Standing, FutexCallsWithoutALimit) {
  const auto call = futex_sleep_of(futex_line("0x7f0000001000 0x80 0x2 0x0"));
  ASSERT_TRUE(call);
  EXPECT_EQ(call->address, 0x7f0000001000u);
  EXPECT_EQ(call->value, 2u);
  EXPECT_TRUE(call->is_private);
  EXPECT_FALSE(call->inherits_priority);
  EXPECT_TRUE(futex_sleep_of(futex_line("0x1000 0x189 0x2 0x0")));  // WAIT_BITSET, private, on the real-time clock
  EXPECT_TRUE(futex_sleep_of(futex_line("0x1000 0x6 0x0 0x0"))->inherits_priority);
  for (const std::string& line :
       {futex_line("0x1000 0x80 0x2 0x7ffd00"), futex_line("0x1002 0x80 0x2 0x0"), futex_line("0x1000 0x81 0x2 0x0"),
        std::to_string(SYS_futex) + " 0x1000 0x80 0x2", futex_line(""), std::string("running\n"), std::string(),
        std::string("\n"), std::string("-1 0x7ffc 0x7fff\n"), std::to_string(SYS_futex),
        std::string("0 0x0 0x1 0x2 0x0 0x0 0x0 0x1 0x2"), std::string(100000, '9'), std::string(300, '\0')}) {
    EXPECT_FALSE(futex_sleep_of(line)) << line.substr(0, 80);
  }
}

TEST(Standing, CallsWithALimitThatTheDefaultLockMakes) {
  const auto call = [](const std::string& operation, const std::string& mask) {
    return futex_sleep_of(std::to_string(SYS_futex) + " 0x1000 " + operation + " 0xd 0x7ffd00 0x0 " + mask +
                          " 0x7ffc 0x7fff\n");
  };
  for (const std::string mask : {"0x1", "0x4"}) {
    ASSERT_TRUE(call("0x89", mask));
    EXPECT_TRUE(call("0x89", mask)->looks);
    EXPECT_FALSE(call("0x80", mask));  // FUTEX_WAIT has no mask
  }
  for (const std::string mask : {"0x0", "0x2", "0x5", "0xffffffff"}) EXPECT_FALSE(call("0x89", mask));
  EXPECT_FALSE(futex_sleep_of(futex_line("0x1000 0x89 0x2 0x0"))->looks);
  // After a stop.
  const auto restarted = [](const std::string& arguments) {
    return futex_sleep_of(std::to_string(SYS_restart_syscall) + " " + arguments + " 0x7ffc 0x7fff\n");
  };
  ASSERT_TRUE(restarted("0x1000 0x89 0xd 0x7ffd00 0x0 0x4"));
  EXPECT_TRUE(restarted("0x1000 0x89 0xd 0x7ffd00 0x0 0x4")->looks);
  for (const char* other :
       {"0x1000 0x89 0xd 0x7ffd00 0x0 0xffffffff", "0x1000 0x80 0x2 0x0 0x0 0x0", "0x1 0x0 0x7ffd00 0x7ffd10 0x0 0x4"})
    EXPECT_FALSE(restarted(other)) << other;
}

TEST(Standing, LooksDoNotEndASleep) {
  sleeping_thread first;
  first.tid = 7, first.address = 0x1000, first.switches = 10;
  sleeping_thread now = first;
  EXPECT_TRUE(has_slept_on(first, now, 1));
  now.switches = 11;
  EXPECT_FALSE(has_slept_on(first, now, 1));
  first.looks = now.looks = true;
  for (const unsigned switches : {11u, 14u}) {
    now.switches = switches;
    EXPECT_TRUE(has_slept_on(first, now, 1)) << switches;
  }
  for (const unsigned switches : {9u, 15u, 30u}) {
    now.switches = switches;
    EXPECT_FALSE(has_slept_on(first, now, 1)) << switches;
  }
  now.switches = 11;
  now.address = 0x2000;
  EXPECT_FALSE(has_slept_on(first, now, 1));
}

constexpr futex_sleep private_wait{0x1000, 2, true, false};

std::uint32_t c_library_owner(const mutex_words& m, const futex_sleep& call = private_wait) {
  const mutex_owner o = owner_in(m, call, false);
  EXPECT_EQ(o.tag, 0u);
  return o.tid;
}

TEST(Standing, MutexesOfTheCLibrary) {
  EXPECT_EQ(c_library_owner({2, 0, 12, 1, 0, 0}), 12u);
  EXPECT_EQ(c_library_owner({2, 3, 12, 1, 1, 0}), 12u);   // recursive
  EXPECT_EQ(c_library_owner({2, 0, 12, 1, 2, 0}), 12u);   // checking
  EXPECT_EQ(c_library_owner({2, 0, 12, 1, 3, 70}), 12u);  // adaptive, with its spins
  EXPECT_EQ(c_library_owner({2, 0, 12, 1, 0x80, 0}, {0x1000, 2, false, false}), 12u);
  const std::uint32_t word = 0x80000000 + 12;
  EXPECT_EQ(c_library_owner({word, 1, 12, 1, 0x90, 0}, {0x1000, word, false, false}), 12u);  // robust
  EXPECT_EQ(c_library_owner({word, 1, 12, 1, 0x20, 0}, {0x1000, 0, true, true}), 12u);       // priority-inheriting
}

TEST(Standing, WordsThatAreNoMutexThatIsWaitedFor) {
  const mutex_words good{2, 0, 12, 1, 0, 0};
  for (const std::uint32_t odd : {1u, 2u, 3u, 4u, 0x40u, 0x400u, 0x10000u, 0x7fffffffu, 0x80000000u, 0xffffffffu})
    for (std::uint32_t mutex_words::*field :
         {&mutex_words::lock, &mutex_words::count, &mutex_words::users, &mutex_words::kind, &mutex_words::epoch}) {
      mutex_words m = good;
      if (m.*field == odd) continue;
      m.*field = odd;
      const bool may_be = field == &mutex_words::users  ? odd <= 0x10000
                          : field == &mutex_words::kind ? odd == 2 || odd == 3
                                                        : false;
      EXPECT_EQ(c_library_owner(m), may_be ? 12u : 0u) << odd;
    }
  EXPECT_EQ(c_library_owner({1, 0, 12, 1, 0, 0}), 0u);              // held, but not waited for
  EXPECT_EQ(c_library_owner({2, 0, 12, 0, 0, 0}), 0u);              // no thread has it
  EXPECT_EQ(c_library_owner({2, 0, 12, 1, 1, 0}), 0u);              // recursive, depth 0
  EXPECT_EQ(c_library_owner(good, {0x1000, 1, true, false}), 0u);   // another value
  EXPECT_EQ(c_library_owner(good, {0x1000, 2, false, false}), 0u);  // a shared futex
  EXPECT_EQ(c_library_owner(good, {0x1000, 2, true, true}), 0u);    // another call
  EXPECT_EQ(c_library_owner({0x80000000 + 13, 1, 12, 1, 0x20, 0}, {0x1000, 0, true, true}), 0u);
  EXPECT_EQ(c_library_owner({12, 1, 12, 1, 0x20, 0}, {0x1000, 0, true, true}), 0u);  // no thread waits
}

TEST(Standing, MutexesOfUsher) {
  const auto owner = [](const mutex_words& m, const futex_sleep& call = private_wait) {
    return owner_in(m, call, true);
  };
  EXPECT_EQ(owner({5, 0x1f81, 0, 0, 0, 7}), (mutex_owner{0, 0x1f81}));
  // for this kind of mutex, the word at offset 8 (here 99) is no owner's id
  EXPECT_EQ(owner({5, 0x1f81, 99, 0, 3, 7}), (mutex_owner{0, 0x1f81}));
  EXPECT_EQ(owner({5, 2, 12, 0, 1, 7}), (mutex_owner{12, 0}));  // recursive
  EXPECT_EQ(owner({5, 1, 12, 0, 2, 7}), (mutex_owner{12, 0}));  // checking
  for (const mutex_words& none : {mutex_words{0, 0x1f81, 0, 0, 0, 7}, mutex_words{5, 0x1f81, 0, 0, 0, 0},
                                  mutex_words{5, 0, 12, 0, 1, 7}, mutex_words{5, 2, 12, 0, 2, 7}})
    EXPECT_EQ(owner(none), mutex_owner{});
  EXPECT_EQ(owner({5, 0x1f81, 0, 0, 0, 7}, {0x1000, 2, false, false}), mutex_owner{});
  EXPECT_EQ(owner({2, 0, 12, 1, 0x80, 0}, {0x1000, 2, false, false}), (mutex_owner{12, 0}));  // the C library's
}

TEST(Standing, ThreadsForWhichThereIsNoTimeAreCounted) {
  constexpr unsigned others = 3;
  std::mutex held;
  held.lock();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < others; i++) threads.emplace_back([&] { const std::lock_guard lock(held); });
  const target_memory memory(getpid());
  const thread_reading cut = read_threads(getpid(), memory, {}, std::chrono::milliseconds(0));
  EXPECT_EQ(cut.threads, others + 1);
  EXPECT_EQ(cut.unread, others);
  const thread_reading whole = read_threads(getpid(), memory, {}, std::chrono::hours(1));
  EXPECT_EQ(whole.threads, others + 1);
  EXPECT_EQ(whole.unread, 0u);
  held.unlock();
  for (std::thread& t : threads) t.join();
}

TEST(Standing, Circles) {
  const auto thread = [](std::int32_t tid, std::uint32_t owner) {
    sleeping_thread t;
    t.tid = tid;
    t.own = static_cast<std::uint32_t>(tid) + 100;
    t.owner = owner == 0 ? 0 : owner + 100;
    return t;
  };
  const auto ids = [](const std::vector<sleeping_thread>& threads) {
    std::vector<std::vector<std::int32_t>> all;
    for (const auto& circle : circles_of(threads)) {
      all.emplace_back();
      for (const sleeping_thread& t : circle) all.back().push_back(t.tid);
    }
    return all;
  };
  using found = std::vector<std::vector<std::int32_t>>;
  EXPECT_EQ(ids({}), found{});
  EXPECT_EQ(ids({thread(1, 2), thread(2, 0), thread(3, 9)}), found{});  // 9 does not sleep
  EXPECT_EQ(ids({thread(1, 1)}), (found{{1}}));
  // thread 4 waits for a thread of the circle
  EXPECT_EQ(ids({thread(5, 3), thread(4, 3), thread(3, 5)}), (found{{3, 5}}));
  EXPECT_EQ(ids({thread(1, 3), thread(3, 2), thread(2, 1), thread(8, 7), thread(7, 8)}), (found{{1, 3, 2}, {7, 8}}));
  std::vector<sleeping_thread> same(5, thread(1, 1));  // forged ids
  EXPECT_LE(circles_of(same).size(), 5u);
  std::vector<sleeping_thread> many;
  for (std::int32_t i = 1; i <= 4096; i++) many.push_back(thread(i, static_cast<std::uint32_t>(i)));
  EXPECT_EQ(circles_of(many).size(), 64u);
}

}  // namespace
}  // namespace usher::reader
