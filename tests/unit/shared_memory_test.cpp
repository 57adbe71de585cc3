// Locks in memory that processes share. The tests use real processes, forked and executed, which map the region at
// different addresses.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "team.hpp"
#include "usher/locks/clh.hpp"
#include "usher/locks/cohort.hpp"
#include "usher/locks/k42.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcsg.hpp"
#include "usher/locks/mcsg_plus.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/shared_memory.hpp"
#include "waiters.hpp"

namespace usher {
namespace {

using namespace std::chrono_literals;

using region = shared_region<>;
template <class W>
using on_nodes = mcs_with_node<shared_memory<void>, W>;
using park_here = waiting<shared_memory<void>, waiting_kind::park>;

constexpr unsigned limit_s = 60;  // the limit for every process of these tests

struct file {
  int fd = memfd_create("usher", MFD_CLOEXEC);
  ~file() { close(fd); }
};

/// Starts a process that runs f and leaves by _exit: status 0 if f returns true, 1 otherwise.
pid_t start(const std::function<bool()>& f) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(limit_s);
  _exit(f() ? 0 : 1);
}
/// Waits for the process and returns its wait status. Kills the process if it exceeds the time limit.
int end_of(pid_t child) {
  int status = -1;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limit_s);;) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    if (std::chrono::steady_clock::now() > end) kill(child, SIGKILL);
    std::this_thread::sleep_for(1ms);  // polls
  }
}

// ---- all locks, three processes with two threads each

constexpr unsigned rounds = 250, processes = 4;

template <class Mutex>
struct shared_state {
  Mutex lock;
  std::atomic<std::uint32_t> arrived;
  std::uint64_t first, second;
  std::uintptr_t at[processes];
};

template <class Mutex>
void work(const region& r, unsigned me) {
  auto& s = r.at<shared_state<Mutex>>(0);
  s.at[me] = reinterpret_cast<std::uintptr_t>(r.data());
  s.arrived.fetch_add(1);
  test::eventually([&] { return s.arrived >= processes; });
  test::in_threads(2, [&](unsigned thread) {
    for (unsigned i = 0; i < rounds; i++) {
      if constexpr (requires { s.lock.lock_as_guest(); })
        thread == 1 && i % 2 ? s.lock.lock_as_guest() : s.lock.lock();
      else
        s.lock.lock();
      s.first++;
      if (i % 32 == 0) std::this_thread::sleep_for(100us);  // so long a hold that the other threads sleep
      s.second++;
      s.lock.unlock();
    }
  });
}

/// Maps other memory at the addresses that the region would otherwise get in this process, so that the region is mapped
/// at a different address.
void take_addresses() {
  for (int i = 0; i < 8; i++)  // including the address at which the region has been until now
    ASSERT_NE(mmap(nullptr, 1u << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
}

template <class Mutex>
void join_and_work(int fd, unsigned me) {
  take_addresses();
  const region r = region::join(fd);
  work<Mutex>(r, me);
}

template <template <class, class> class Lock, waiting_kind K = waiting_kind::spin_then_park>
using mutex_of = shared_mutex_in<Lock, void, K>;

using of_mcs = mutex_of<mcs>;
using of_mcsg = mutex_of<mcsg>;
using of_mcsg_plus = mutex_of<mcsg_plus>;
using of_mcsg_plus_plus = mutex_of<mcsg_plus_plus>;
using of_clh = mutex_of<clh>;
using of_clh_tls = mutex_of<clh_tls>;
using of_k42 = mutex_of<k42>;
using of_k42_tls = mutex_of<k42_tls>;
using of_ticket = mutex_of<ticket>;
using of_c_mcsg_mcs = mutex_of<c_mcsg_mcs>;

using every_mutex = testing::Types<of_mcs, of_mcsg, of_mcsg_plus, of_mcsg_plus_plus, of_clh, of_clh_tls, of_k42,
                                   of_k42_tls, of_ticket, of_c_mcsg_mcs, mutex_of<mcs, waiting_kind::park>,
                                   mutex_of<mcsg_plus_plus, waiting_kind::park>, mutex_of<k42_tls, waiting_kind::park>,
                                   mutex_of<clh, waiting_kind::park>, mutex_of<mcsg, waiting_kind::park>>;

/// Runs in a program that a test has executed: uses the lock with the number `which`.
template <class... Mutexes>
bool work_by_number(testing::Types<Mutexes...>, unsigned which, int fd, unsigned me) {
  unsigned i = 0;
  return ((i++ == which && (join_and_work<Mutexes>(fd, me), true)) || ...);
}
template <class Mutex, class... Mutexes>
constexpr unsigned number_of(testing::Types<Mutexes...>) {
  unsigned i = 0;
  return (void)((std::is_same_v<Mutex, Mutexes> || (i++, false)) || ...), i;
}

/// Not a test by itself: other tests execute this program with USHER_TEST_WORK set and only this test selected.
TEST(executed, works) {
  const char* const order = getenv("USHER_TEST_WORK");
  if (order == nullptr) return;
  alarm(limit_s);
  unsigned which = 0, me = 0;
  int fd = -1;
  ASSERT_EQ(sscanf(order, "%u %d %u", &which, &fd, &me), 3);
  EXPECT_TRUE(work_by_number(every_mutex{}, which, fd, me));
}

bool execute(unsigned which, int fd, unsigned me) {
  const int open_fd = dup(fd);  // without close-on-exec
  const std::string order = std::to_string(which) + " " + std::to_string(open_fd) + " " + std::to_string(me);
  setenv("USHER_TEST_WORK", order.c_str(), 1);
  if (freopen("/dev/null", "w", stdout) == nullptr) return false;
  execl("/proc/self/exe", "shared_memory_test", "--gtest_filter=executed.works", "--gtest_brief=1", nullptr);
  return false;
}

template <class Mutex>
class between_processes : public testing::Test {};
TYPED_TEST_SUITE(between_processes, every_mutex);

TYPED_TEST(between_processes, excludes) {
  const file f;
  constexpr unsigned which = number_of<TypeParam>(every_mutex{});
  std::optional<region> r(region::create(f.fd, sizeof(shared_state<TypeParam>)));
  const pid_t forked = start([&] {
    work<TypeParam>(*r, 1);
    r.reset();
    return true;
  });
  const pid_t elsewhere = start([&] {
    r.reset();
    join_and_work<TypeParam>(f.fd, 2);
    return !testing::Test::HasFailure();
  });
  const pid_t executed = start([&] { return execute(which, f.fd, 3); });
  work<TypeParam>(*r, 0);
  EXPECT_EQ(end_of(forked), 0);
  EXPECT_EQ(end_of(elsewhere), 0);
  EXPECT_EQ(end_of(executed), 0);

  auto& s = r->at<shared_state<TypeParam>>(0);
  EXPECT_EQ(s.first, 2u * rounds * processes);
  EXPECT_EQ(s.second, 2u * rounds * processes);
  EXPECT_EQ(s.at[0], s.at[1]) << "a child has the region where its parent has it";
  EXPECT_NE(s.at[2], s.at[0]);
  EXPECT_NE(s.at[3], s.at[0]);
  EXPECT_EQ(r->nodes_in_use(), 0u);
  EXPECT_EQ(r->lost(), 0u) << "all processes have left";
  EXPECT_TRUE(s.lock.try_lock());
  EXPECT_FALSE(s.lock.try_lock());
  s.lock.unlock();
}

// ---- nodes

TEST(nodes, of_a_child_are_its_own) {
  const file f;
  const region r = region::create(f.fd, 64);
  const shared_node<> mine;
  EXPECT_GE(node_handle(mine), 64u);
  auto& theirs = r.at<std::atomic<node_handle>>(0);
  ASSERT_EQ(end_of(start([&] { return (theirs = node_handle(shared_node<>{})) != 0; })), 0);
  EXPECT_NE(theirs / 64, mine / 64) << "the node is in another share";
}

TEST(nodes, are_brought_by_who_has_them) {
  const file f;
  const region r = region::create(f.fd, 4096);  // a page with a lock somewhere in it
  auto& lock = r.at<on_nodes<park_here>>(128);
  static_assert(sizeof lock == 4);
  const auto counter = [&]() -> std::uint64_t& { return r.at<std::uint64_t>(256); };
  const auto add = [&] {
    const shared_node<> mine;
    for (int i = 0; i < 500; i++) {
      lock.lock(mine);
      counter()++;
      lock.unlock(mine);
    }
    return true;
  };
  const pid_t a = start(add), b = start(add);
  add();
  EXPECT_EQ(end_of(a), 0);
  EXPECT_EQ(end_of(b), 0);
  EXPECT_EQ(counter(), 1500u);
}

/// A thread that cannot get a queue node acquires an MCSg lock as a guest, without a node (row G8 of
/// lab/pages/claims.md).
TEST(nodes, may_run_out) {
  const file f;
  const region r = region::create(f.fd, 256);
  auto& takes_guests = r.at<of_mcsg>(0);
  auto& takes_none = r.at<of_mcs>(64);
  std::vector<std::unique_ptr<shared_node<>>> all;
  try {
    for (;;) all.push_back(std::make_unique<shared_node<>>());
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::no_buffer_space);
  }
  EXPECT_EQ(all.size(), 17u * 64);
  EXPECT_FALSE(takes_none.try_lock());
  takes_guests.lock();
  EXPECT_EQ(end_of(start([&] {
              if (takes_guests.try_lock()) return false;
              takes_none.lock();
              takes_none.unlock();
              return true;
            })),
            0)
      << "another process has free nodes";
  takes_guests.unlock();
  all.pop_back();
  takes_none.lock();
  takes_none.unlock();
}

// ---- processes that begin and end

TEST(processes, may_be_many_one_after_the_other) {
  const file f;
  const region r = region::create(f.fd, 256);
  auto& lock = r.at<of_clh>(0);
  auto& kept = r.at<of_clh_tls>(128);
  for (int i = 0; i < 400; i++)  // there are 255 shares
    ASSERT_EQ(end_of(start([&] {
                lock.lock();
                kept.lock();
                kept.unlock();
                lock.unlock();
                return true;  // the process ends without giving its share back; one node stays with its last thread
              })),
              0)
        << i;
  EXPECT_LE(r.nodes_in_use(), 400u) << "one node for each process";
  EXPECT_TRUE(lock.try_lock());
}

TEST(processes, that_die_leave_what_they_held_locked_and_nothing_else) {
  const file f;
  const region r = region::create(f.fd, 256);
  auto& held = r.at<of_mcs>(0);
  auto& other = r.at<of_mcs>(64);
  auto& ready = r.at<std::atomic<bool>>(128);
  const pid_t child = start([&]() -> bool {
    held.lock();
    ready = true;
    for (;;) pause();
  });
  EXPECT_TRUE(test::eventually([&] { return ready.load(); }));
  EXPECT_EQ(r.lost(), 0u);
  kill(child, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(end_of(child)));
  EXPECT_EQ(r.lost(), 1u);
  EXPECT_FALSE(held.try_lock()) << "the lock stays held: no process is notified";
  EXPECT_EQ(r.nodes_in_use(), 1u);
  other.lock();
  other.unlock();
  ASSERT_EQ(end_of(start([&] {
              other.lock();  // takes over the dead process's share of nodes, but not the node that is still in a queue
              other.unlock();
              return r.nodes_in_use() == 1;
            })),
            0);
}

/// If a process dies at any moment while it takes or gives back a node, all lists stay intact.
TEST(processes, may_be_killed_at_any_moment) {
  const file f;
  const region r = region::create(f.fd, 256);
  for (int i = 0; i < 60; i++) {
    const pid_t child = start([]() -> bool {
      for (;;) shared_memory<void>::give_node(shared_memory<void>::take_node());
    });
    // The time differs from round to round, so that the process is killed at different points.
    std::this_thread::sleep_for(std::chrono::microseconds(1500 + 37 * i));
    kill(child, SIGKILL);
    end_of(child);
  }
  EXPECT_LE(r.nodes_in_use(), 60u) << "at most the one node that each process had";
  auto& lock = r.at<of_mcs>(0);
  lock.lock();
  lock.unlock();
}

// ---- creating and joining

template <class F>
std::error_code error_of(F f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code();
  }
  return {};
}

TEST(errors, are_told_apart) {
  struct second_region;
  using second = shared_region<second_region>;
  const file f, garbage;
  EXPECT_EQ(error_of([&] { region::join(-1); }), std::errc::bad_file_descriptor);
  EXPECT_EQ(error_of([&] { region::join(f.fd); }), std::errc::resource_unavailable_try_again)
      << "the region does not exist yet";
  const region r = region::create(f.fd, 1);
  EXPECT_EQ(r.size(), 4096u);
  EXPECT_EQ(error_of([&] { region::create(f.fd, 1); }), std::errc::file_exists);
  EXPECT_EQ(error_of([&] { region::join(f.fd); }), std::errc::device_or_resource_busy);
  EXPECT_EQ(error_of([&] { second::join(f.fd); }), std::error_code()) << "another name";
  ASSERT_EQ(ftruncate(garbage.fd, 4096), 0);
  EXPECT_EQ(error_of([&] { second::join(garbage.fd); }), std::errc::invalid_argument) << "too short";
  ASSERT_EQ(ftruncate(garbage.fd, off_t(4096 + sizeof(shared_memory_detail::layout))), 0);
  EXPECT_EQ(error_of([&] { second::join(garbage.fd); }), std::errc::resource_unavailable_try_again) << "not ready";
  ASSERT_EQ(pwrite(garbage.fd, "garbage", 7, 0), 7);
  EXPECT_EQ(error_of([&] { second::join(garbage.fd); }), std::errc::invalid_argument);
  EXPECT_EQ(error_of([&] { second::join(f.fd); }), std::error_code()) << "the failed calls have left no file behind";
}

TEST(region, is_prepared_before_others_join) {
  const file f;
  const region r = region::create(f.fd, 64, [&](void* data) {
    EXPECT_EQ(error_of([&] { shared_region<int>::join(f.fd); }), std::errc::resource_unavailable_try_again);
    *static_cast<int*>(data) = 7;
  });
  EXPECT_EQ(end_of(start([&] { return shared_region<int>::join(f.fd).at<int>(0) == 7; })), 0);
}

off_t size_of(int fd) {
  return lseek(fd, 0, SEEK_END);
}

TEST(region, can_be_created_after_a_failure) {
  struct refused {};
  const file f;
  EXPECT_THROW(region::create(f.fd, 64, [](void*) { throw refused(); }), refused);
  EXPECT_EQ(size_of(f.fd), 0);
  EXPECT_EQ(error_of([&] { region::join(f.fd); }), std::errc::resource_unavailable_try_again);
  const region r = region::create(f.fd, 64);
  const file second;
  EXPECT_EQ(error_of([&] { region::create(second.fd, 64); }), std::errc::device_or_resource_busy);
  EXPECT_EQ(size_of(second.fd), 0);
}

TEST(region, has_the_size_that_was_asked_for_or_none) {
  const file f;
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2, SIZE_MAX / 2 - 8192})
    EXPECT_EQ(error_of([&] { region::create(f.fd, bytes); }), std::errc::file_too_large) << bytes;
  // No machine has this much memory. Without a check of the size, posix_fallocate() would allocate all memory that
  // exists, and exceed the test's time limit.
  EXPECT_EQ(error_of([&] { region::create(f.fd, std::size_t{1} << 50); }), std::errc::not_enough_memory);
  EXPECT_EQ(size_of(f.fd), 0);
}

TEST(region, loses_no_process_for_want_of_descriptors) {
  const file f;
  const region r = region::create(f.fd, 64);
  int pipe_of_child[2];
  ASSERT_EQ(pipe(pipe_of_child), 0);
  const pid_t child = start([&] {
    shared_region<int> own = shared_region<int>::join(f.fd);
    const bool told = write(pipe_of_child[1], "j", 1) == 1;
    return told && pause() == 0;
  });
  char byte;
  ASSERT_EQ(read(pipe_of_child[0], &byte, 1), 1);
  EXPECT_EQ(r.lost(), 0u);
  rlimit before, none;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(r.lost(), 0u);
  kill(child, SIGKILL);
  end_of(child);
  EXPECT_EQ(r.lost(), 1u) << "the end of a process is detected without a descriptor";
  setrlimit(RLIMIT_NOFILE, &before);
  close(pipe_of_child[0]);
  close(pipe_of_child[1]);
}

TEST(region, can_be_left_and_joined_again) {
  const file f;
  {
    const region r = region::create(f.fd, 64);
    r.at<of_k42_tls>(0).lock();
    r.at<of_k42_tls>(0).unlock();
  }
  for (int i = 0; i < 300; i++) {
    const region r = region::join(f.fd);
    EXPECT_EQ(r.nodes_in_use(), 0u);
    r.at<of_clh_tls>(8).lock();
    r.at<of_clh_tls>(8).unlock();
  }
}

}  // namespace
}  // namespace usher
