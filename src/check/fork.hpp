// A process that forks, in the middle of an execution, which goes on in the child.
//
// The thread that forks is the only one that goes on. All others vanish where they are, in the middle of what they do or
// asleep: they do not run again, nobody finds them asleep or polling, and what they had on their stacks is gone. The words stay
// as they are, and all that was written is seen by the child. Threads of the child's own begin after that.
//
// Threads have *generations*: one of generation 1 exists from the first fork on. relacy knows all of them from the beginning,
// and they must all end before it asks what is left. So
//
//     before its generation   a thread is blocked
//     vanished                it is blocked, too: relacy sees a deadlock where none of the living can run
//     at the end              who is the last of the living to end releases the others, one after the other. Those that have
//                             not begun end at once. The others do not go on where they were: they leave all of it by a longjmp
#pragma once

#include <setjmp.h>

#include <array>
#include <cstdint>

namespace rl {
class thread_info_base;
}

namespace usher::check {

/// What the child has of nodes (platform/native/nodes.hpp).
enum class node_pool : std::uint8_t {
  anew,   ///< none of the parent's, as where locks are made anew in a child
  copied  ///< the same, as where locks stay in use
};

/// A handler that interrupts a thread's sleep, and forks.
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

  // The calling thread's, in this order.
  /// Waits for the thread's generation. False: there is none any more.
  bool begins();
  jmp_buf& way_out();
  void ends();

  // By the thread that forks.
  /// The threads of the parent. Says of which they are.
  std::array<bool, most_threads> vanish();
  void start_threads();

 private:
  bool anyone_lives() const;
  void release(unsigned thread);

  unsigned forks_ = 0, started_ = 0;  // start_threads() has been called after so many forks
  bool over_ = false;
  std::array<unsigned, most_threads> born_{}, record_;
  std::array<bool, most_threads> gone_{}, ended_{}, waits_{}, runs_{};
  std::array<rl::thread_info_base*, most_threads> info_{};
  std::array<jmp_buf, most_threads> ways_out_;
};

}  // namespace usher::check
