// Tests how the threads of slots are found in /proc. A program that writes into its slots may claim any ids.
#include "lab/recordings/living_threads.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "support/process/owned_descriptor.hpp"

namespace usher::recording {
namespace {

using life = raw_thread::life;

struct mapped_file {
  support::owned_descriptor file{memfd_create("living_threads_test", MFD_CLOEXEC)};
  void* memory = nullptr;

  mapped_file() {
    if (ftruncate(file.get(), 4096) == 0) memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.get(), 0);
  }
  ~mapped_file() { munmap(memory, 4096); }
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory); }
};

raw_thread thread_of(std::uint32_t process, std::int64_t pid, std::int64_t tid, std::uint64_t mapped_at) {
  raw_thread t;
  t.process = process;
  t.pid = static_cast<std::uint32_t>(pid);
  t.tid = static_cast<std::uint32_t>(tid);
  t.mapped_at = mapped_at;
  return t;
}

TEST(living_threads, those_of_a_process_that_maps_the_file_at_the_slots_address) {
  const mapped_file m;
  living_threads living(m.file.get());
  std::vector<raw_thread> all = {thread_of(1, getpid(), getpid(), m.address()),
                                 thread_of(2, getpid(), getpid(), m.address() + 4096),
                                 thread_of(3, getppid(), getppid(), m.address())};
  living.look(all);
  EXPECT_EQ(all[0].is, life::lives);
  EXPECT_EQ(all[0].seen_pid, getpid());
  EXPECT_EQ(all[1].is, life::over) << "it executed another program before it was first looked at";
  EXPECT_EQ(all[2].is, life::over) << "another process has its id";
}

TEST(living_threads, one_that_ended) {
  const mapped_file m;
  living_threads living(m.file.get());
  pid_t tid = 0;
  std::thread([&] { tid = static_cast<pid_t>(syscall(SYS_gettid)); }).join();
  while (syscall(SYS_tgkill, getpid(), tid, 0) == 0) usleep(1000);
  std::vector<raw_thread> all = {thread_of(1, getpid(), getpid(), m.address()),
                                 thread_of(1, getpid(), tid, m.address())};
  living.look(all);
  EXPECT_EQ(all[0].is, life::lives);
  EXPECT_EQ(all[1].is, life::over);
}

TEST(living_threads, those_of_a_process_that_executes_another_program) {
  const mapped_file m;
  living_threads living(m.file.get());
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(go[1]);
    char c = 0;
    if (read(go[0], &c, 1) == 1) execl("/bin/sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  ASSERT_GT(child, 0);
  std::vector<raw_thread> all = {thread_of(7, child, child, m.address())};
  living.look(all);
  EXPECT_EQ(all[0].is, life::lives);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  for (int i = 0; i < 60'000 && all[0].is != life::over; i++) {
    usleep(1000);
    living.look(all);
  }
  EXPECT_EQ(all[0].is, life::over);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int end : go) close(end);
}

TEST(living_threads, of_one_process_the_last_program) {
  const mapped_file m;
  living_threads living(m.file.get());
  std::vector<raw_thread> all = {thread_of(4, getpid(), getpid(), m.address()),
                                 thread_of(9, getpid(), getpid(), m.address())};
  living.look(all);
  EXPECT_EQ(all[0].is, life::over);
  EXPECT_EQ(all[1].is, life::lives);
}

// The recorded program, the attacker, may write any numbers into its slots. They must only lead to reads of /proc.
TEST(living_threads, forged_ids) {
  const mapped_file m;
  living_threads living(m.file.get());
  const std::int64_t ids[] = {0, 1, -1, std::numeric_limits<std::int32_t>::max(), std::int64_t{1} << 31};
  std::vector<raw_thread> all;
  for (std::uint32_t process = 0; process < 300; process++)
    for (const std::int64_t pid : ids)
      for (const std::int64_t tid : ids)
        all.push_back(thread_of(process % 3 == 0 ? ~process : process, pid, tid, process % 2 == 0 ? 0 : m.address()));
  for (int i = 0; i < 3; i++) living.look(all);
  for (const raw_thread& t : all) EXPECT_NE(t.is, life::lives);
  std::vector<raw_thread> own = {thread_of(1, getpid(), -1, 0), thread_of(1, getpid(), 1, 0)};
  living.look(own);
  for (const raw_thread& t : own) EXPECT_EQ(t.is, life::over);
}

}  // namespace
}  // namespace usher::recording
