// Threads read data under a read-write lock, and sometimes change it.
//
// A thread draws whether it reads or writes, locks, accesses the data, computes inside the section, unlocks, and
// computes outside. The parameter `rwlock` selects one of Usher's read-write locks by number. 4 is the measured lock,
// which readers then hold exclusively like writers. 5 executes what a reader of glibc's lock does while no thread
// writes (nptl/pthread_rwlock_common.c of glibc 2.36): an addition, and a load and compare-and-swap, to one word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "lab/bench/programs/program.hpp"
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
            .parameters = {{"rwlock", 0, 0, 5,
                            "0 phase-fair, 1 phase-fair-recursive, 2 bravo, 3 bravo-recursive, 4 the lock of --lock, "
                            "5 readers of glibc's, only with writes=0"},
                           {"sleep", 0, 0, 1,
                            "1: waiters poll, then sleep; on a simulated machine only with such a --lock"},
                           {"writes", 10, 0, 1000, "writes in a thousand operations"},
                           {"inside", 100, 0, 1000000, "iterations of an empty loop inside"},
                           {"outside", 100, 0, 1000000, "iterations outside"}},
            .one_lock = false};
  }

  explicit rwbench(W& w)
      : first_(w.template make<number>()),
        second_(w.template make<number>()),
        writes_(std::uint32_t(w.parameter("writes"))),
        inside_(std::size_t(w.parameter("inside"))),
        outside_(std::size_t(w.parameter("outside"))) {
    w.parameter("sleep") != 0 ? make<waiting_kind::spin_then_park>(w) : make<waiting_kind::spin>(w);
  }

  void operator()(typename W::thread& t) {
    const bool writes = t.uniform(1000) < writes_;
    std::visit([&](auto* lock) { use(*lock, writes, t); }, lock_);
    t.count();
    t.delay(outside_);
    t.overhead(10, 4);  // assumed
  }

 private:
  using P = typename W::platform;
  template <waiting_kind K>
  using how = waiting<P, K>;
  template <waiting_kind K>
  using fair = phase_fair<P, how<K>>;
  template <waiting_kind K>
  using fair_recursive = phase_fair_recursive<P, how<K>>;
  template <waiting_kind K>
  using biased = bravo<P, how<K>>;
  template <waiting_kind K>
  using biased_recursive = bravo_recursive<P, how<K>>;

  /// The measured lock in place of a read-write lock: readers hold it exclusively, too.
  struct exclusive {
    typename W::lock it;
    void lock() { it.lock(); }
    void unlock() { it.unlock(); }
    void lock_shared() { it.lock(); }
    void unlock_shared() { it.unlock(); }
  };

  /// The operations of readers of glibc's lock without writers.
  struct counted_readers {
    static constexpr std::uint32_t one_reader = 8;
    typename P::template atomic<std::uint32_t> readers;
    void lock() {}
    void unlock() {}
    void lock_shared() { readers.fetch_add(one_reader, std::memory_order_acquire); }
    void unlock_shared() {
      std::uint32_t seen = readers.load(std::memory_order_relaxed);
      while (!readers.compare_exchange_strong(seen, seen - one_reader, std::memory_order_release,
                                              std::memory_order_relaxed))
        P::backoff(0);
    }
  };

  template <waiting_kind K>
  void make(W& w) {
    switch (w.parameter("rwlock")) {
      case 0:
        lock_ = &w.template make<fair<K>>();
        break;
      case 1:
        lock_ = &w.template make<fair_recursive<K>>();
        break;
      case 2:
        lock_ = &w.template make<biased<K>>();
        break;
      case 3:
        lock_ = &w.template make<biased_recursive<K>>();
        break;
      case 5:
        if (writes_ != 0) throw bad_program("rwlock=5 has no writers: --set writes=0");
        lock_ = &w.template make<counted_readers>();
        break;
      default:
        exclusive_.emplace(exclusive{w.make_lock()});
        lock_ = &*exclusive_;
    }
  }
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
  const std::uint32_t writes_;
  const std::size_t inside_, outside_;
  bool wrong_ = false;
  static constexpr auto spin = waiting_kind::spin, sleep = waiting_kind::spin_then_park;
  std::optional<exclusive> exclusive_;
  std::variant<fair<spin>*, fair<sleep>*, fair_recursive<spin>*, fair_recursive<sleep>*, biased<spin>*, biased<sleep>*,
               biased_recursive<spin>*, biased_recursive<sleep>*, exclusive*, counted_readers*>
      lock_;
};

}  // namespace usher::workloads
