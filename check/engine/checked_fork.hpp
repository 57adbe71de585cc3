// A fork in the middle of an execution. The execution continues in the child.
//
// Only the thread that forks continues. All other threads vanish wherever they are, even asleep or in the middle of an
// operation: they do not run again, no wake-up or write of theirs follows, and their stack objects end. Words keep
// their values, and the child sees everything that was written. The child's threads begin after the fork.
//
// Threads have *generations*: a thread of generation 1 exists from the first fork on. relacy has all threads from the
// beginning, and all must end before it searches for leaks. Therefore a thread is in one of these states:
//
//     before its generation   the thread is blocked
//     vanished                it is blocked, too: relacy reports a deadlock if no living thread can run
//     at the end              the last living thread that ends releases the others, one after the other. Threads that
//                             have not begun end at once. The others do not continue: they unwind by a longjmp
#pragma once

#include <setjmp.h>

#include <array>
#include <cstdint>

namespace rl {
class thread_info_base;
}

namespace usher::check {

/// The child's nodes (platform/native/nodes.hpp).
enum class node_pool : std::uint8_t {
  anew,   ///< new nodes, if a child renews its locks
  copied  ///< the parent's nodes, if locks stay in use
};

/// A signal handler that interrupts a thread's sleep and forks the process.
struct fork_in_wait {
  void (*fork)(void* context, void* waiter) = nullptr;
  void* context = nullptr;
};
inline fork_in_wait forks_in_wait;

class generations {
 public:
  static constexpr unsigned most_threads = 4;

  generations();

  void begins_after(unsigned thread, unsigned forks) { born_[thread] = forks; }
  unsigned forks() const { return forks_; }
  unsigned record_of(unsigned thread) const { return record_[thread]; }

  // Each thread calls the next functions in this order.
  bool begins();
  jmp_buf& way_out();
  void ends();

  // The thread that forks calls these functions.
  /// Blocks the parent's threads for good, and returns which threads these are.
  std::array<bool, most_threads> vanish();
  void start_threads();

  /// Blocks a thread for good. Returns false if it has ended.
  bool stop(unsigned thread);

 private:
  bool anyone_lives() const;
  void release(unsigned thread);

  unsigned forks_ = 0, started_ = 0;  // started_: the number of forks before the last start_threads()
  bool over_ = false;
  std::array<unsigned, most_threads> born_{}, record_;
  std::array<bool, most_threads> gone_{}, ended_{}, waits_{}, runs_{};
  std::array<rl::thread_info_base*, most_threads> info_{};
  std::array<jmp_buf, most_threads> ways_out_;
};

}  // namespace usher::check
