// The scheduler picks the thread that runs next, and makes all other random choices: the value that a weak load
// returns, spurious wake-ups, the scenarios' choices. It has three ways to search the possibilities:
//
// random   Each execution is drawn from its number. relacy's own random scheduler picks any runnable thread at each
//          step, so it hardly ever delays one thread for long, although many races need that. Here each execution draws
//          one of three ways:
//
//            any      like relacy: any runnable thread at each step
//            runs     a thread continues for a while, then any other runs
//            ranks    threads have ranks and the highest runnable one runs. At a few random steps the running thread
//                     gets the lowest rank, as does a thread that yields (Burckhardt, Kothari, Musuvathi & Nagarakatte,
//                     "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010)
//
// bound    The scenarios' choices are drawn from a number, the *program*. The search visits all executions of the
//          program that differ from the plain execution at a limited number of places. In the plain execution a thread
//          runs until it waits, yields or ends, and then the next thread of a circle runs; each load returns the newest
//          value; no wake-up is spurious. Each of these is one difference: another thread at such a point, an older
//          value, a spurious wake-up (Emmi, Qadeer & Rakamarić, "Delay-Bounded Scheduling", POPL 2011). After a
//          program, the search continues with the next one.
//
// full     The same without a limit on the differences, so that the search visits all executions of a program. This is
//          possible for two threads that acquire once.
//
// Fair schedules are for scenarios of progress. One thread is held back, but runs at least every few steps, most often
// while another thread holds the lock. The other threads usually run until they wait.
//
// An adversary is a fair schedule in which the thread that is held back loses each race that it can lose, so that luck
// cannot help it:
//
//   beats    Before each compare-and-swap of the thread, other threads run until the word differs from the value that
//            the thread expects. If the scenario demands it, the thread takes other steps only while no other thread
//            holds or wants the lock.
//   late     The thread runs only while another thread holds the lock and as many threads wait for it as the scenario
//            demands. It then runs until it pauses: once, or a few times on the way to a doorway from which others can
//            keep it.
//
// Both give way after some hundred steps of the others, or when none of the others can run.
#pragma once

#include "check/engine/checked_platform.hpp"

namespace usher::check {

/// The kind of search and its present state. There is one search at a time.
struct search {
  // The parameters of the search.
  bool bounded = false;
  unsigned differences = 2;    ///< bound: the most differences in an execution
  std::uint64_t programs = 0;  ///< bound: the search ends after this number of programs; 0: no limit
  bool fair = false;

  // The present execution. Its state and the report of a crash are made from these members.
  std::uint64_t number = 0, program = 0;
  struct choice {
    std::uint8_t taken, of;
  };
  static constexpr unsigned most_choices = 1 << 14;
  std::array<choice, most_choices> choices;
  unsigned made = 0, known = 0;
  std::uint64_t programs_done = 0;
  struct difference {
    unsigned at, taken;
  };
  std::array<difference, 128> replayed;
  unsigned to_replay = 0;
  bool replays = false;

  // Scenarios with a fair schedule write these members.
  bool held = false;       ///< a thread other than `held_back` owns the lock
  unsigned held_back = 0;  ///< the thread that is held back
  /// The held-back thread is on its way to a doorway which other threads can keep it from reaching. Until it has passed
  /// that doorway, it is not held back.
  bool helped = false;

  /// If true, the thread `held_back` is not held back but runs whenever it can.
  bool favoured = false;
  enum class adversary : std::uint8_t { none, beats, late };
  adversary against = adversary::none;
  unsigned turn = 0;          ///< late: the thread runs until it has paused this number of times
  bool if_free = false;       ///< beats: the thread takes other steps only while the lock is free
  unsigned inside = 0;        ///< other threads between lock() and the end of unlock()
  bool reads_newest = false;  ///< each load returns the newest value
  /// The compare-and-swap that the held-back thread is about to execute, for the adversary `beats`.
  struct {
    bool (*succeeds)(const void* word, std::uint64_t expected) = nullptr;  ///< null: none
    const void* word = nullptr;
    std::uint64_t expected = 0;
    unsigned steps = 0;
  } attempt;

  /// Makes the thread unrunnable, for execution::fork(). Neither a time-out nor a spurious wake-up wakes it any more;
  /// only relacy's unpark_thread() does. Returns false if the thread has finished.
  bool (*take_away)(unsigned thread) = nullptr;

  /// Writes the present execution's state for relacy and `usher check --replay`: "4711", or "4711:program:12.1:40.2"
  /// for a bounded search. There 12 and 40 are the numbers of the choices that differ, and 1 and 2 the alternatives
  /// taken.
  void write(char* buffer, std::size_t size) const;
  /// Reads the part of a state that follows the execution's number.
  void read(std::istream& s);
};
inline search the_search;

template <rl::thread_id_t Threads>
class scheduler : public rl::scheduler<scheduler<Threads>, rl::scheduler_thread_info, Threads> {
  using base = rl::scheduler<scheduler<Threads>, rl::scheduler_thread_info, Threads>;

 public:
  struct task_t {};

  scheduler(rl::test_params& params, typename base::shared_context_t& shared, rl::thread_id_t dynamic_threads)
      : base(params, shared, dynamic_threads) {}

  rl::thread_id_t iteration_begin_impl() {
    the_search.number = this->iter_;
    the_search.held = the_search.helped = the_search.favoured = false;
    the_search.turn = 0;
    the_search.against = search::adversary::none;
    the_search.attempt = {};
    the_search.if_free = the_search.reads_newest = false;
    the_search.inside = 0;
    late_ = 0;
    current_ = this;
    the_search.take_away = [](unsigned t) { return current_->take_away(rl::thread_id_t(t)); };
    the_search.held_back = 0;  // until the scenario sets it; otherwise the value of the previous execution would remain
    // All random choices of an execution derive from its number, so that a failed execution can be repeated for its
    // history.
    state_ = ((the_search.bounded ? the_search.program : this->iter_) + 1) * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 4; i++) random();
    this->thread_ = nullptr;
    step_ = 0;
    lowest_ = 0;
    way_ = std::array{any, runs, ranks, ranks}[random() % 4];
    stay_ = 4u << random() % 4;
    for (auto& r : rank_) r = 1 + int(random() % 1000000);
    const unsigned span = 16u << random() % 5;
    for (auto& c : changes_) c = 1 + random() % span;
    held_back_ = 0;
    steps_held_back_ = 4u << random() % 3 * 2;
    if (the_search.bounded) {
      the_search.made = differs_ = 0;
      for (auto& s : scenario_state_) s = std::uint64_t{random()} << 32 | random() | 1;
      first_ = random() % Threads;
    }
    if (the_search.bounded) return first_;
    rl::unpark_reason reason;
    return schedule_impl(reason, 0);
  }

  bool iteration_end_impl() {
    if (the_search.bounded) next_execution();
    return this->iter_ == this->params_.iteration_count ||
           (the_search.bounded && the_search.programs != 0 && the_search.programs_done == the_search.programs);
  }
  rl::iteration_t iteration_count_impl() { return this->params_.iteration_count; }

  rl::thread_id_t schedule_impl(rl::unpark_reason& reason, unsigned yield) {
    if (the_search.bounded) return within_bounds(reason, yield);
    const auto runnable = unsigned(this->running_threads_count);
    const auto stray = unsigned(this->spurious_thread_count_);
    const auto& timed = those_whose_time_may_end();
    if (timed.count != 0 && (runnable == 0 || random() % 16 == 0)) {
      reason = rl::unpark_reason_timeout;
      return roused(timed.threads[random() % timed.count]);
    }
    if (runnable == 0) report_deadlock();
    if (stray != 0 && runnable != 0 && random() % 8 == 0) {
      reason = rl::unpark_reason_spurious;
      return roused(this->spurious_threads_[random() % stray]->index_);
    }
    reason = rl::unpark_reason_normal;
    const auto* const current = this->thread_;
    const bool goes_on = current != nullptr && current->state_ == rl::thread_state_running;
    step_++;
    if (the_search.fair) return fair(goes_on && yield == 0);
    if (way_ == ranks) {
      if (current != nullptr && (yield != 0 || std::ranges::find(changes_, step_) != changes_.end()))
        rank_[current->index_] = --lowest_;
      return *std::max_element(this->running_threads.begin(), this->running_threads.end(),
                               [&](auto a, auto b) { return rank_[a] < rank_[b]; });
    }
    if (way_ == runs && goes_on && yield == 0 && random() % stay_ != 0) return current->index_;
    return this->running_threads[random() % runnable];
  }

  unsigned rand_impl(unsigned limit, rl::sched_type type) {
    if (type == rl::sched_type_atomic_load && the_search.reads_newest) return 0;
    if (!the_search.bounded) return random() % limit;
    switch (type) {
      case rl::sched_type_atomic_load:
        return choose(limit);
      case rl::sched_type_cas_fail:  // 0 means a spurious failure
        return choose(2) == 0 ? limit - 1 : 0;
      case rl::sched_type_user:
        return next(scenario_state_[this->thread_ == nullptr ? Threads : this->thread_->index_]) % limit;
      default:
        return limit - 1;
    }
  }

  void get_state_impl(std::ostream& s) {
    char text[2048];
    the_search.write(text, sizeof text);
    s << text + std::strcspn(text, ":");  // relacy writes the number itself
  }
  void set_state_impl(std::istream& s) {
    if (the_search.bounded) the_search.read(s);
  }
  void on_thread_block(rl::thread_id_t, bool) {}

 private:
  enum way { any, runs, ranks };

  struct some_threads {
    std::array<rl::thread_id_t, Threads> threads{};
    unsigned count = 0;
  };
  some_threads those_whose_time_may_end() const {
    some_threads some;
    for (unsigned i = 0; i < unsigned(this->timed_thread_count_); i++)
      if (const auto t = this->timed_threads_[i]->index_; execution::current().may_time_out(t))
        some.threads[some.count++] = t;
    return some;
  }
  /// Reports a deadlock here and not by relacy, because relacy would assume that a thread that may time out does time
  /// out.
  [[noreturn]] static void report_deadlock() {
    fail("deadlock: every thread waits, and no thread is left to wake them", rl::test_result_deadlock,
         place::current());
  }

  rl::thread_id_t roused(rl::thread_id_t t) {
    this->unpark_thread(t);
    return t;
  }

  bool take_away(rl::thread_id_t t) {
    if (this->threads_[t].state_ == rl::thread_state_finished) return false;
    if (this->threads_[t].state_ == rl::thread_state_blocked) this->unpark_thread(t);
    this->block_thread(t, false);
    return true;
  }

  // ---- fair -------------------------------------------------------------------------------------------------

  rl::thread_id_t fair(bool goes_on) {
    const auto victim = rl::thread_id_t(the_search.held_back);
    const auto& can_run = this->running_threads;
    const auto others = unsigned(std::ranges::count_if(can_run, [victim](auto t) { return t != victim; }));
    // If the thread pauses, another thread runs for a step, because the pause may wait for that other thread.
    const bool pauses = this->thread_ != nullptr && this->thread_->index_ == victim && !goes_on;
    const bool victim_can = others != can_run.size();
    if ((the_search.helped || the_search.favoured) && victim_can && (others == 0 || !pauses)) return victim;
    if (the_search.against != search::adversary::none && !the_search.helped) {
      if (victim_can && (others == 0 || beaten_or_in_turn(pauses))) return victim;
      return another(goes_on, others);
    }
    if (others != can_run.size() &&
        (others == 0 || ++held_back_ > steps_held_back_ || (the_search.held && random() % 4 == 0))) {
      held_back_ = 0;
      return victim;
    }
    return another(goes_on, others);
  }

  rl::thread_id_t another(bool goes_on, unsigned others) {
    const auto victim = rl::thread_id_t(the_search.held_back);
    if (goes_on && this->thread_->index_ != victim && random() % 32 != 0) return this->thread_->index_;
    unsigned which = random() % others;
    for (const auto t : this->running_threads)
      if (t != victim && which-- == 0) return t;
    return victim;  // not reached
  }

  /// Returns whether the adversary lets the held-back thread run now.
  bool beaten_or_in_turn(bool pauses) {
    if (the_search.against == search::adversary::beats) {
      if (auto& a = the_search.attempt; a.succeeds != nullptr)
        return !a.succeeds(a.word, a.expected) || ++a.steps > most_steps;
      if (the_search.if_free && the_search.inside != 0 && ++late_ <= most_steps) return false;
      late_ = 0;
      return !pauses;
    }
    if (pauses && the_search.turn != 0) the_search.turn--;
    if (the_search.turn == 0 && ++late_ > most_steps) the_search.turn = 1;
    if (the_search.turn != 0) late_ = 0;
    return the_search.turn != 0;
  }

  // ---- bound ------------------------------------------------------------------------------------------------

  rl::thread_id_t within_bounds(rl::unpark_reason& reason, unsigned yield) {
    std::array<rl::thread_id_t, 3 * Threads> options;
    unsigned n = 0;
    const auto* const current = this->thread_;
    const bool goes_on = current->state_ == rl::thread_state_running;
    const rl::thread_id_t from = current->index_;
    const bool stays = goes_on && yield == 0;
    if (stays) options[n++] = from;
    for (rl::thread_id_t i = 1; i < Threads; i++)
      if (const auto t = (from + i) % Threads; this->threads_[t].state_ == rl::thread_state_running) options[n++] = t;
    if (goes_on && !stays && n == 0) options[n++] = from;
    const unsigned normal = n;
    const auto& timed = those_whose_time_may_end();
    for (unsigned i = 0; i < timed.count; i++) options[n++] = timed.threads[i];
    if (n == 0) report_deadlock();
    const unsigned with_timed = n;
    for (unsigned i = 0; normal != 0 && i < unsigned(this->spurious_thread_count_); i++)
      options[n++] = this->spurious_threads_[i]->index_;
    const unsigned which = choose(n);
    reason = which < normal       ? rl::unpark_reason_normal
             : which < with_timed ? rl::unpark_reason_timeout
                                  : rl::unpark_reason_spurious;
    return which < normal ? options[which] : roused(options[which]);
  }

  /// Returns a choice from 0 to n - 1. 0 is the choice of the plain execution.
  unsigned choose(unsigned n) {
    search& s = the_search;
    if (s.made == search::most_choices) return 0;
    const unsigned at = s.made++;
    if (s.replays) {
      unsigned taken = 0;
      for (unsigned i = 0; i < s.to_replay; i++)
        if (s.replayed[i].at == at) taken = s.replayed[i].taken;
      s.choices[at] = {std::uint8_t(taken < n ? taken : 0), std::uint8_t(n)};
    } else if (at >= s.known) {
      s.choices[at] = {0, std::uint8_t(differs_ < s.differences ? n : 1)};
      s.known = at + 1;
    }
    differs_ += s.choices[at].taken != 0 ? 1 : 0;
    return s.choices[at].taken;
  }

  /// Depth-first search: takes the next alternative of the last choice that has one.
  void next_execution() {
    search& s = the_search;
    for (; s.known != 0; s.known--)
      if (auto& c = s.choices[s.known - 1]; c.taken + 1 < c.of) {
        c.taken++;
        return;
      }
    s.program++;
    s.programs_done++;
  }

  static unsigned next(std::uint64_t& state) {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return unsigned((state * 0x2545f4914f6cdd1du) >> 33);
  }
  unsigned random() { return next(state_); }

  static inline scheduler* current_ = nullptr;
  std::uint64_t state_ = 1;
  /// The random states of each thread's choices and of the choices during the set-up.
  std::array<std::uint64_t, Threads + 1> scenario_state_{};
  way way_ = any;
  unsigned step_ = 0, stay_ = 4;
  int lowest_ = 0;
  std::array<int, Threads> rank_{};
  std::array<unsigned, 4> changes_{};
  static constexpr unsigned most_steps = 400;  // steps of the others before an adversary gives way; chosen
  unsigned held_back_ = 0, steps_held_back_ = 4, late_ = 0;
  unsigned differs_ = 0;
  rl::thread_id_t first_ = 0;
};

}  // namespace usher::check
