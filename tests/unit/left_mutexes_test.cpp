// Tests is_held_by_c_library() (library/preload/left_mutexes.hpp), which tells whether a mutex was locked by the C
// library's functions, while another thread writes the words that it reads.
#include "library/preload/left_mutexes.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace usher::preload {
namespace {

/// A mutex that is valid in this process, and whose first word says that it is held.
struct valid_mutex {
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  valid_mutex() {
    field<std::atomic<std::uint32_t>>(&m, 0).store(1);
    kind_and_epoch(&m).store(std::uint64_t{native::fork_epoch()} << 32);
  }
  void set(std::uint32_t word4, std::uint32_t word8) {
    const std::uint64_t both = std::uint64_t{word8} << 32 | word4;
    std::memcpy(reinterpret_cast<unsigned char*>(&m) + 4, &both, sizeof both);
  }
};

TEST(left_mutexes, one_of_the_c_librarys_with_this_owner) {
  valid_mutex v;
  v.set(0, static_cast<std::uint32_t>(native::thread_id()));
  EXPECT_TRUE(leave_if_locked_in_c_library(&v.m));
  EXPECT_FALSE(is_ours(kind_of(&v.m)));
}

TEST(left_mutexes, one_of_the_c_librarys_with_another_owner) {
  valid_mutex v;
  v.set(0, static_cast<std::uint32_t>(native::thread_id()) + 1);
  EXPECT_FALSE(leave_if_locked_in_c_library(&v.m));
  EXPECT_TRUE(is_ours(kind_of(&v.m)));
}

/// The owner of a mutex of Usher's stores and deletes a waiter's address, whose upper half equals the testing thread's
/// id. If the function read the two halves at different moments, it could see a mutex of the C library's.
TEST(left_mutexes, the_address_of_a_waiter_is_no_owner) {
  valid_mutex v;
  const auto id = static_cast<std::uint32_t>(native::thread_id());
  std::atomic<bool> is_over{false};
  std::thread owner([&] {
    while (!is_over.load(std::memory_order_relaxed)) {
      for (const std::uint32_t upper : {id, 0u}) {
        v.set(upper == 0 ? 0 : 0x12345678, upper);
        for (int i = 0; i < 30; i++) std::atomic_thread_fence(std::memory_order_seq_cst);
      }
    }
  });
  int taken = 0;
  for (int i = 0; i < 20'000'000 && taken == 0; i++) taken += leave_if_locked_in_c_library(&v.m);
  is_over.store(true);
  owner.join();
  EXPECT_EQ(taken, 0);
}

}  // namespace
}  // namespace usher::preload
