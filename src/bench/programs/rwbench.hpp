// Threads read data under a read-write lock, and some of the time change it.
//
// A thread draws whether it reads or writes, locks, accesses the data, computes inside, unlocks, and computes outside.
// The read-write lock is one of Usher's, by number; 4 is the measured lock, which readers then hold alone, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bench/programs/program.hpp"
#include "usher/locks/phase_fair.hpp"
#include "usher/locks/ticket.hpp"

namespace usher::workloads {

template <world W>
class rwbench {
 public:
  static description about() {
    return {.name = "rwbench",
            .summary = "readers and writers of a read-write lock",
            .source = "as RWBench of BRAVO (ATC 2019, section 5.3), with computing in place of random numbers",
            .parameters = {{"rwlock", 0, 0, 4,
                            "0 phase-fair, 1 phase-fair-recursive, 2 bravo, 3 bravo-recursive, 4 the lock of --lock"},
                           {"writes", 10, 0, 1000, "writes in a thousand operations"},
                           {"inside", 100, 0, 1000000, "iterations of an empty loop inside"},
                           {"outside", 100, 0, 1000000, "iterations outside"}},
            .one_lock = false};
  }

  explicit rwbench(W& w)
      : first_(w.template make<number>()),
        second_(w.template make<number>()),
        which_(w.parameter("rwlock")),
        writes_(std::uint32_t(w.parameter("writes"))),
        inside_(std::size_t(w.parameter("inside"))),
        outside_(std::size_t(w.parameter("outside"))) {
    if (which_ == 0) fair_ = &w.template make<phase_fair<P, how>>();
    if (which_ == 1) fair_recursive_ = &w.template make<phase_fair_recursive<P, how>>();
    if (which_ == 2) bravo_ = &w.template make<bravo<P, how>>();
    if (which_ == 3) bravo_recursive_ = &w.template make<bravo_recursive<P, how>>();
    if (which_ == 4) exclusive_.emplace(w.make_lock());
  }

  void operator()(typename W::thread& t) {
    const bool writes = t.uniform(1000) < writes_;
    switch (which_) {
      case 0:
        use(*fair_, writes, t);
        break;
      case 1:
        use(*fair_recursive_, writes, t);
        break;
      case 2:
        use(*bravo_, writes, t);
        break;
      case 3:
        use(*bravo_recursive_, writes, t);
        break;
      default:
        exclusive_->lock();
        section(writes, t);
        exclusive_->unlock();
    }
    t.count();
    t.delay(outside_);
    t.overhead(10, 4);  // assumed
  }

 private:
  using P = typename W::platform;
  using how = waiting<P, waiting_kind::spin_then_park>;
  using number = typename P::template plain<std::uint64_t>;

  template <class Lock>
  void use(Lock& lock, bool writes, typename W::thread& t) {
    if (writes) {
      lock.lock();
      section(true, t);
      lock.unlock();
    } else {
      lock.lock_shared();
      section(false, t);
      lock.unlock_shared();
    }
  }

  void section(bool writes, typename W::thread& t) {
    const std::uint64_t seen = first_.get();
    if (writes) first_.set(seen + 1);
    t.delay(inside_);
    if (second_.get() != seen) wrong_ = true;
    if (writes) second_.set(seen + 1);
    if (wrong_) throw bad_program("a reader has seen half of a writer's change");
  }

  number& first_;
  number& second_;
  const long which_;
  const std::uint32_t writes_;
  const std::size_t inside_, outside_;
  bool wrong_ = false;
  phase_fair<P, how>* fair_ = nullptr;
  phase_fair_recursive<P, how>* fair_recursive_ = nullptr;
  bravo<P, how>* bravo_ = nullptr;
  bravo_recursive<P, how>* bravo_recursive_ = nullptr;
  std::optional<typename W::lock> exclusive_;
};

}  // namespace usher::workloads
