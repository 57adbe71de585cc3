// Which thread runs next. relacy's own random scheduler picks any runnable thread at each step, so that it
// hardly ever delays one thread for long; many races need just that. Here each execution draws one of three
// ways:
//
//   any        as relacy: any runnable thread at each step
//   runs       a thread goes on for a while, then any other
//   ranks      threads have ranks and the highest that can run does; at a few random steps the running one
//   becomes the
//              lowest (Burckhardt, Kothari, Musuvathi & Nagarakatte, "A Randomized Scheduler with
//              Probabilistic Guarantees of Finding Bugs", ASPLOS 2010); one that yields becomes the lowest,
//              too
#pragma once

#include "check/relacy_platform.hpp"

namespace usher::check {

template <rl::thread_id_t Threads>
class scheduler : public rl::scheduler<scheduler<Threads>, rl::scheduler_thread_info, Threads> {
  using base = rl::scheduler<scheduler<Threads>, rl::scheduler_thread_info, Threads>;

 public:
  struct task_t {};

  scheduler(rl::test_params& params, typename base::shared_context_t& shared, rl::thread_id_t dynamic_threads)
      : base(params, shared, dynamic_threads) {}

  rl::thread_id_t iteration_begin_impl() {
    // All chance of an execution comes from its number, so that a failing one can be run again for its
    // history.
    state_ = (this->iter_ + 1) * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 4; i++) random();
    this->thread_ = nullptr;
    step_ = 0;
    lowest_ = 0;
    way_ = std::array{any, runs, ranks, ranks}[random() % 4];
    stay_ = 4u << random() % 4;
    for (auto& r : rank_) r = 1 + int(random() % 1000000);
    const unsigned span = 16u << random() % 5;
    for (auto& c : changes_) c = 1 + random() % span;
    rl::unpark_reason reason;
    return schedule_impl(reason, 0);
  }

  bool iteration_end_impl() { return this->iter_ == this->params_.iteration_count; }
  rl::iteration_t iteration_count_impl() { return this->params_.iteration_count; }

  rl::thread_id_t schedule_impl(rl::unpark_reason& reason, unsigned yield) {
    const auto runnable = unsigned(this->running_threads_count);
    const auto timed = unsigned(this->timed_thread_count_), stray = unsigned(this->spurious_thread_count_);
    if (timed != 0 && (runnable == 0 || random() % 16 == 0)) {
      reason = rl::unpark_reason_timeout;
      return roused(this->timed_threads_[random() % timed]->index_);
    }
    if (stray != 0 && runnable != 0 && random() % 8 == 0) {
      reason = rl::unpark_reason_spurious;
      return roused(this->spurious_threads_[random() % stray]->index_);
    }
    reason = rl::unpark_reason_normal;
    const auto* const current = this->thread_;
    const bool goes_on = current != nullptr && current->state_ == rl::thread_state_running;
    step_++;
    if (way_ == ranks) {
      if (current != nullptr && (yield != 0 || std::ranges::find(changes_, step_) != changes_.end()))
        rank_[current->index_] = --lowest_;
      return *std::max_element(this->running_threads.begin(), this->running_threads.end(),
                               [&](auto a, auto b) { return rank_[a] < rank_[b]; });
    }
    if (way_ == runs && goes_on && yield == 0 && random() % stay_ != 0) return current->index_;
    return this->running_threads[random() % runnable];
  }

  unsigned rand_impl(unsigned limit, rl::sched_type) { return random() % limit; }

  void get_state_impl(std::ostream&) {}
  void set_state_impl(std::istream&) {}
  void on_thread_block(rl::thread_id_t, bool) {}

 private:
  enum way { any, runs, ranks };

  rl::thread_id_t roused(rl::thread_id_t t) {
    this->unpark_thread(t);
    return t;
  }

  unsigned random() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return unsigned((state_ * 0x2545f4914f6cdd1du) >> 33);
  }

  std::uint64_t state_ = 1;
  way way_ = any;
  unsigned step_ = 0, stay_ = 4;
  int lowest_ = 0;
  std::array<int, Threads> rank_{};
  std::array<unsigned, 4> changes_{};
};

}  // namespace usher::check
