// How often a program locks, and how often it has to wait for that: counted by libusher.so in a file that the launcher has
// passed on (USHER_COUNTERS). Memory shared by all processes that the program consists of.
//
// The variable is a path that ends in the number of a descriptor, /proc/PID/fd/N. Who may not open that, because it runs as
// another user by then, finds the file under its own descriptor N, if it has inherited it; by its name, since N may be
// another file by then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace usher::inline v1 {

/// What has been counted, of everything together.
struct counted_calls {
  std::uint64_t locks = 0;       ///< pthread_mutex_lock, trylock, timedlock and clocklock
  std::uint64_t contended = 0;   ///< of these: did not get the mutex at once
  std::uint64_t waits = 0;       ///< pthread_cond_*wait
  std::uint64_t semaphores = 0;  ///< sem_post and sem_*wait, of semaphores that belong to one process
  std::uint64_t processes = 0;   ///< that had the library
};

struct counter_file {
  static constexpr const char* name = "usher counters";  ///< of the file in memory

  /// Of one thread, so that counting is cheap. The last one is everybody's who has found none.
  struct alignas(64) slot {
    std::atomic<std::uint64_t> locks, contended, waits, semaphores;
  };
  static constexpr std::size_t slots = 4095;

  std::atomic<std::uint32_t> taken;  ///< slots
  std::atomic<std::uint32_t> processes;
  slot of[slots];

  counted_calls sum() const {
    counted_calls s;
    for (const slot& t : of) {
      s.locks += t.locks.load(std::memory_order_relaxed);
      s.contended += t.contended.load(std::memory_order_relaxed);
      s.waits += t.waits.load(std::memory_order_relaxed);
      s.semaphores += t.semaphores.load(std::memory_order_relaxed);
    }
    s.processes = processes.load(std::memory_order_relaxed);
    return s;
  }
};
static_assert(sizeof(counter_file) == std::size_t{4096} * 64);

}  // namespace usher::inline v1
