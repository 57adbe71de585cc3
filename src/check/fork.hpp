// A fork in the middle of an execution, which continues in the child.
//
// Only the thread that forks continues. All others vanish where they are, in the middle of an operation or
// asleep: they do not run again, no wake-up or write finds them, and their stack objects are gone. Words keep
// their values, and the child sees all that was written. Threads of the child begin after that.
//
// Threads have *generations*: a thread of generation 1 exists from the first fork on. relacy has all threads from the
// beginning, and all must end before it looks for leaks. Therefore
//
//     before its generation   a thread is blocked
//     vanished                it is blocked, too: relacy reports a deadlock if no living thread can run
//     at the end              the last living thread that ends releases the others, one after the other. Those that have
//                             not begun end at once. The others do not continue: they unwind by a longjmp
#pragma once

#include <setjmp.h>

#include <array>
#include <cstdint>

namespace rl {
class thread_info_base;
}

namespace usher::check {

/// The nodes of the child (platform/native/nodes.hpp).
enum class node_pool : std::uint8_t {
  anew,   ///< none of the parent's: where a child renews its locks
  copied  ///< the parent's: where locks stay in use
};

/// A signal handler that interrupts a thread's sleep and forks.
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

  // Called by each thread, in this order.
  /// Waits for the thread's generation. False: the execution ended before.
  bool begins();
  jmp_buf& way_out();
  void ends();

  // Called by the thread that forks.
  /// Blocks the parent's threads for good, and returns which these are.
  std::array<bool, most_threads> vanish();
  void start_threads();

 private:
  bool anyone_lives() const;
  void release(unsigned thread);

  unsigned forks_ = 0, started_ = 0;  // started_: the forks before the last start_threads()
  bool over_ = false;
  std::array<unsigned, most_threads> born_{}, record_;
  std::array<bool, most_threads> gone_{}, ended_{}, waits_{}, runs_{};
  std::array<rl::thread_info_base*, most_threads> info_{};
  std::array<jmp_buf, most_threads> ways_out_;
};

}  // namespace usher::check
