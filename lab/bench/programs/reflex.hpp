// Reflex (Fairlocks §6.3): sets of tasks pass tokens through pipes and compute nothing, so that most of the work is
// scheduling, under the one lock of the kernel's run queue. The threads of this program are the CPUs. They execute the
// parts of a Linux 2.4 kernel that take the lock:
//
//     write to the pipe   lock; insert the reader into the run queue, notify an idle CPU; unlock
//     read, blocks        lock; unless the token is there already, remove the task from the run queue,
//                         and search all tasks in the queue for the next; unlock
//
// An operation is one token passed.
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class reflex {
 public:
  static description about() {
    return {.name = "reflex",
            .summary = "tasks pass tokens: the run-queue lock of a kernel",
            .source = "Fairlocks, section 6.3, table 4 and figure 9",
            .parameters = {{"sets", 12, 1, 1000, "that pass a token each"},
                           {"members", 4, 2, 1000, "tasks of a set"},
                           {"work", 300, 0, 1000000, "cycles of a system call outside of the lock, on average"}},
            .metered = true,
            .guards = true};
  }

  explicit reflex(W& w)
      : lock_(w.make_lock()),
        members_(static_cast<std::uint32_t>(w.parameter("members"))),
        work_(static_cast<std::uint32_t>(w.parameter("work"))),
        runnable_(w.template make<word>()) {
    const auto sets = static_cast<std::uint32_t>(w.parameter("sets"));
    queue_ = w.template make_array<word>(sets * members_);
    for (std::uint32_t i = 0; i < sets * members_; i++) tasks_.push_back(&w.template make<task>());
    for (unsigned i = 0; i < w.threads(); i++) cpus_.push_back(&w.template make<cpu>());
    first_.assign(w.threads(), true);
    sets_ = sets;
  }

  void operator()(typename W::thread& t) {
    cpu& here = *cpus_[t.index()];
    if (first_[t.index()] != 0) {  // each CPU writes its part of the tokens
      first_[t.index()] = 0;
      for (std::uint32_t s = t.index(); s < sets_; s += static_cast<std::uint32_t>(cpus_.size())) wake(t, s * members_);
    }
    if (const std::uint32_t mine = here.runs.get(); mine != 0) {
      call(t);
      wake(t, neighbour(mine - 1));
      t.count();
      call(t);
    }
    schedule(t, here);
    if (t.over())
      for (cpu* c : cpus_) c->told.store(1, std::memory_order_release);  // ends the idle CPUs' wait
  }

 private:
  template <class T>
  using plain = typename W::platform::template plain<T>;
  using word = plain<std::uint32_t>;

  struct task {
    word place;    // in the run queue, from 1 on; 0: not in it
    word has_cpu;  // whether the task runs
    word last;     // the CPU that it ran on
    word token;    // whether its pipe has one
  };
  struct cpu {
    word runs;  // a task, from 1 on; 0: idle
    word idle;  // whether the CPU waits for `told`; protected by the lock
    typename W::platform::template atomic<std::uint32_t> told;
  };

  std::uint32_t neighbour(std::uint32_t task) const {
    return task / members_ * members_ + (task % members_ + 1) % members_;
  }

  /// A system call takes a random time. With a constant time the CPUs would run in step.
  void call(typename W::thread& t) { t.delay(work_ / 2 + t.uniform(work_)); }

  void wake(typename W::thread& t, std::uint32_t id) {
    cpu* tell = nullptr;
    {
      const held guard(lock_);
      tasks_[id]->token.set(1);
      if (tasks_[id]->place.get() != 0) return;  // the task has not blocked yet; the token is there when it would
      const std::uint32_t end = runnable_.get();
      queue_[end].set(id);
      runnable_.set(end + 1);
      tasks_[id]->place.set(end + 1);
      cpu& before = *cpus_[tasks_[id]->last.get()];
      if (before.idle.get() != 0) tell = &before;
      for (std::size_t i = 0; tell == nullptr && i < cpus_.size(); i++)
        if (cpus_[i]->idle.get() != 0) tell = cpus_[i];
      if (tell != nullptr) tell->idle.set(0);
      t.overhead(20, 4);
    }
    if (tell != nullptr) tell->told.store(1, std::memory_order_release);
  }

  /// Blocks the CPU's task. The CPU then runs another task, or is idle until another CPU notifies it.
  void schedule(typename W::thread& t, cpu& here) {
    bool idle;
    {
      const held guard(lock_);
      if (const std::uint32_t mine = here.runs.get(); mine != 0) {
        if (tasks_[mine - 1]->token.get() != 0) {
          tasks_[mine - 1]->token.set(0);
          return;
        }
        remove(mine - 1);
      }
      const std::uint32_t end = runnable_.get();
      std::uint32_t best = 0, goodness = 0;
      for (std::uint32_t i = 0; i < end; i++) {
        const std::uint32_t id = queue_[i].get();
        const task& candidate = *tasks_[id];
        t.overhead(10, 2);
        if (candidate.has_cpu.get() != 0) continue;
        // Linux 2.4 prefers a task whose last CPU was this one.
        const std::uint32_t value = 1 + (candidate.last.get() == t.index() ? 15u : 0u);
        if (value > goodness) {
          goodness = value;
          best = id + 1;
        }
      }
      here.runs.set(best);
      idle = best == 0;
      here.idle.set(idle ? 1 : 0);
      if (!idle) {
        tasks_[best - 1]->has_cpu.set(1);
        tasks_[best - 1]->token.set(0);
        tasks_[best - 1]->last.set(t.index());
      }
    }
    if (!idle) return;
    // `told` is set by the thread that has cleared `idle`, and at the end of the run. (1) acquire: pairs with both
    // release stores. The store of 0 below may overwrite the store made at the end of the run, but over() reports the
    // end, too.
    W::platform::await(
        here.told, [&t](std::uint32_t v) { return v != 0 || t.over(); }, std::memory_order_acquire, pacing::polling);
    here.told.store(0, std::memory_order_relaxed);
  }

  void remove(std::uint32_t id) {
    const std::uint32_t at = tasks_[id]->place.get() - 1, end = runnable_.get() - 1, last = queue_[end].get();
    queue_[at].set(last);
    tasks_[last]->place.set(at + 1);
    tasks_[id]->place.set(0);
    tasks_[id]->has_cpu.set(0);
    runnable_.set(end);
  }

  typename W::lock lock_;
  std::uint32_t members_, sets_ = 0;
  std::uint32_t work_;
  word& runnable_;
  word* queue_ = nullptr;  // includes the running tasks
  std::vector<task*> tasks_;
  std::vector<cpu*> cpus_;
  std::vector<char> first_;
};

}  // namespace usher::workloads
