// The base of the programs in which one thread, the held-back one, acquires the lock once, and the others acquire it
// repeatedly until that thread has it.
#pragma once

#include "check/scenarios/lock/lock_program.hpp"

namespace usher::check {

class progress_program : public lock_program {
 public:
  using lock_program::lock_program;
  void thread(unsigned t) override;

 protected:
  void choose_course() override;
  void check_end() override {}  // the number of acquisitions is open

  /// Whether the thread does not come at all.
  virtual bool stays_away(unsigned t) { return t == stays_home; }
  /// The held-back thread gets the lock.
  virtual void come_in();
  /// Another thread is about to come, gets the lock, has it, keeps it for a while. `over`: the held-back thread has had it.
  virtual void approach() {}
  virtual void pass_in() { the_lock->lock(state()); }
  virtual void see_pass(bool) {}
  virtual void linger() {}

  unsigned stays_home = nobody;
  unsigned passes = 0;  ///< others in a row, while the thread under test waits

 private:
  void come_once();
  void come_again();
};

}  // namespace usher::check
