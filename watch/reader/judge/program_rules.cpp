#include <fmt/format.h>

#include <array>

#include "watch/reader/judge/rule_facts.hpp"
#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::reader {
namespace {

// The beginnings of sentences that several rules share, for the documentation.
constexpr const char* hottest_says =
    "threads waited 31 % of their time for recorded locks, 97 % of that for NAME: its verdict";
constexpr const char* besides_says =
    "threads waited 0.1 % of their time for recorded locks, and 24 % for NAME: its verdict";

std::string waited_text(const program_facts& f) {
  return fmt::format("{} waited {} of their time for recorded locks",
                     is_c_library(f.r) ? "threads" : "under " + f.r.lock + " threads", small_share_text(f.of_all));
}

/// The waiting for locks, and the waiting for an object that is not a lock, with the object's verdict.
std::string besides_text(const program_facts& f, const row& r) {
  return fmt::format("{}, and {} for {}: {}", waited_text(f),
                     share_text(f.r.thread_seconds > 0 ? r.seen.waiting.total / f.r.thread_seconds : 0), r.name,
                     r.verdict);
}

/// The waiting for locks, the hottest lock, and its verdict.
std::string hottest_text(const program_facts& f) {
  const row& h = *f.hottest;
  const counts& c = h.seen;
  std::string text = waited_text(f);
  if (says(h, {"polled"})) return fmt::format("{}, but {} was tried repeatedly: {}", text, h.name, h.verdict);
  if (f.of_all < worth_of_all && !c.threads.empty() && f.r.seconds > 0 &&
      c.threads.front().waited >= worth_of_thread * f.r.seconds)
    text +=
        fmt::format(", but thread {} waited {}", id_text(c.threads.front().tid), time_text(c.threads.front().waited));
  const double all = f.of_all * f.r.thread_seconds;
  if (all > 0)
    text += fmt::format(", {} of that for {}",
                        c.waiting.total > 0.995 * all ? "all" : share_text(c.waiting.total / all), h.name);
  return text + ": " + h.verdict;
}

bool is_hottest(const program_facts& f, kind k) {
  return f.hottest != nullptr && f.hottest->what == k;
}

std::string next_of(const row* r) {
  return r == nullptr ? "" : r->command;
}
std::string no_next(const program_facts&) {
  return "";
}
std::string next_of_hottest(const program_facts& f) {
  return next_of(f.hottest);
}
std::string next_of_herd(const program_facts& f) {
  return next_of(f.herd);
}

std::string full_text(const program_facts& f) {
  return "; the CPUs are full: " + full_cpus_text(*f.r.cpu);
}

/// The limit of what other locks can save. Empty if calls were not seen.
std::string saving_text(const program_facts& f) {
  return f.r.not_seen.calls != 0 ? "" : ": other locks save no more waiting than that";
}

/// The end of the sentence on a program that loses little time to locks.
std::string rest_text(const program_facts& f) {
  std::string text = are_cpus_full(f.r) ? full_text(f) : "";
  text += unseen_text(f.r);
  if (f.herd != nullptr) text += fmt::format(". {}: {}", f.herd->name, f.herd->verdict);
  return text;
}

std::string wake_ups_text(const program_facts& f) {
  const row& c = f.herd != nullptr ? *f.herd : *f.waited_at;
  std::string text = fmt::format("{}, and {} from signals to running, for a CPU or for the mutex; most for {}",
                                 waited_text(f), share_text(f.to_run), f.waited_at->name);
  if (!says(c, {"condition"})) text += fmt::format("{}: {}", &c == f.waited_at ? "" : "; " + c.name, c.verdict);
  if (are_cpus_full(f.r)) text += full_text(f);
  return text;
}

constexpr double little_waking = 0.1;  // of the program's CPU time

bool has_wake_ups(const program_facts& f) {
  return f.waited_at != nullptr && f.to_run >= worth_of_all;
}

bool has_herd(const program_facts& f) {
  return f.herd != nullptr && says(*f.herd, {"herd"});
}

bool has_costly_herd(const program_facts& f) {
  return has_herd(f) && f.hottest != nullptr && f.herd->seen.waiting.total > f.hottest->seen.waiting.total;
}

/// An upper bound of the CPU time that waits for signals took.
double work_of_signals(const program_facts& f) {
  std::uint64_t waits = 0, acquisitions = 0;
  for (const row& r : f.r.rows) {
    if (r.what == kind::condition) waits += r.seen.acquisitions;
    if (r.what == kind::mutex) waits += r.seen.contended, acquisitions += r.seen.acquisitions;
  }
  return most_work(f.r, waits, acquisitions);
}

bool is_one_at_a_time(const program_facts& f) {
  if (f.hottest != nullptr) return says(*f.hottest, {"one-at-a-time"});
  return f.credits == nullptr && f.barrier == nullptr && has_wake_ups(f) && !has_herd(f) && is_c_library(f.r) &&
         runs_one_at_a_time(f.r) && work_of_signals(f) <= little_waking;
}

std::string one_at_a_time_text(const program_facts& f) {
  if (f.hottest != nullptr) return hottest_text(f);
  return fmt::format(
      "the program used {} CPUs, as if one thread ran at a time; {} of the threads' time was from signals to running, "
      "most for {}; all waits and acquisitions, at 10 µs and 100 ns each, make {} of the CPU time: other locks can "
      "hardly gain more",
      cpus_text(*f.r.cpu), share_text(f.to_run), f.waited_at->name, small_share_text(work_of_signals(f)));
}

const std::string no_calls = "no call of a pthread lock, condition variable or semaphore was recorded";

const std::array program_rules_in_order = {
    program_rule{
        {"deadlock", "deadlock",
         "threads waited for each other in a circle for a second or more, none with a deadline, and the circle "
         "was there at the end",
         "threads 12 and 13 wait for each other, without a deadline: lock in the same order everywhere"},
        [](const program_facts& f) { return !f.r.deadlocks.empty(); },
        [](const program_facts& f) {
          const deadlock& d = f.r.deadlocks.front();
          std::string names;
          for (const deadlock::thread& t : d.threads) names += (names.empty() ? "" : ", ") + t.waits_for;
          return deadlock_text(d) + " (" + names + ")";
        },
        no_next},
    program_rule{{"cpus-full", "CPUs are full",
                  "the row's rule of the lock that threads waited for longest is `cpus-full`", hottest_says},
                 [](const program_facts& f) { return f.hottest != nullptr && says(*f.hottest, {"cpus-full"}); },
                 hottest_text,
                 no_next},
    program_rule{{"cpus-taken", "CPUs were taken", "that rule is `cpus-taken`", hottest_says},
                 [](const program_facts& f) { return f.hottest != nullptr && says(*f.hottest, {"cpus-taken"}); },
                 hottest_text,
                 no_next},
    program_rule{
        {"one-at-a-time", "one at a time",
         "that rule is `one-at-a-time`; or `wake-ups` applies, no condition variable has a herd, the program "
         "has 2 CPUs and threads or more and used 0.85 to 1.1 CPUs, less than one thread waited for one, and at "
         "the costs of `cpus-full` all waits and acquisitions had 10 % of that at most",
         "the program used 1.0 of 2 CPUs, as if one thread ran at a time; 11 % of the threads' time was from "
         "signals to running, most for NAME; all waits and acquisitions, at 10 µs and 100 ns each, make 4.6 % of "
         "the CPU time: other locks can hardly gain more"},
        is_one_at_a_time,
        one_at_a_time_text,
        no_next},
    program_rule{
        {"hot-mutex", "hot",
         "the verdict of a mutex says more than that it is not in the way, and no condition variable has a herd "
         "that took more time from its signals to running",
         hottest_says},
        [](const program_facts& f) { return is_hottest(f, kind::mutex) && !has_costly_herd(f); },
        hottest_text,
        next_of_hottest},
    program_rule{{"hot-rwlock", "hot", "the same of a read-write lock, for which threads waited longer", hottest_says},
                 [](const program_facts& f) { return is_hottest(f, kind::rwlock); },
                 hottest_text,
                 no_next},
    program_rule{{"hot-spin", "hot", "the same of a spin lock", hottest_says},
                 [](const program_facts& f) { return is_hottest(f, kind::spin); },
                 hottest_text,
                 no_next},
    program_rule{{"credits", "out of credits", "the verdict of a semaphore says more than that it is not in the way",
                  besides_says},
                 [](const program_facts& f) { return f.credits != nullptr; },
                 [](const program_facts& f) { return besides_text(f, *f.credits); },
                 next_of_herd},
    program_rule{{"barrier", "waits for others", "the verdict of a barrier says more than that it is not in the way",
                  besides_says},
                 [](const program_facts& f) { return f.barrier != nullptr; },
                 [](const program_facts& f) { return besides_text(f, *f.barrier); },
                 no_next},
    program_rule{{"wake-ups", "slow to wake", "1 % of all threads' time or more was from signals to running",
                  "threads waited 0.1 % of their time for recorded locks, and 12 % from signals to running, for a CPU "
                  "or for the mutex; most for NAME: its verdict"},
                 has_wake_ups,
                 wake_ups_text,
                 [](const program_facts& f) {
                   if (are_cpus_full(f.r)) return std::string();
                   return f.herd != nullptr ? f.herd->command : try_command(f.r);
                 }},
    program_rule{
        {"scattered", "scattered", "1 % of all threads' time or more was waited for locks, but for none of them much",
         "threads waited 2.2 % of their time for recorded locks, for no one of them much: other locks save no "
         "more waiting than that"},
        [](const program_facts& f) { return f.of_all >= worth_of_all; },
        [](const program_facts& f) {
          return waited_text(f) + ", for no one of them much" + saving_text(f) + rest_text(f);
        },
        next_of_herd},
    program_rule{{"unseen-futexes", "not seen",
                  "10 % or more of the sampled sleeps were in futex calls that no recorded "
                  "object explains",
                  "threads waited 0.01 % of their time for recorded locks; 40 % of the time that threads slept was in "
                  "futex calls, the largest part in libgomp.so.1, probably most of it below sum.cpp:12 (sum), which no "
                  "recorded object explains"},
                 [](const program_facts& f) { return unseen_share(f.r) >= much_unseen; },
                 [](const program_facts& f) { return (f.r.rows.empty() ? no_calls : waited_text(f)) + rest_text(f); },
                 [](const program_facts& f) { return details_command(f.r); }},
    program_rule{{"no-calls", "no calls", "nothing was recorded",
                  "no call of a pthread lock, condition variable or semaphore was recorded"},
                 [](const program_facts& f) { return f.r.rows.empty(); },
                 [](const program_facts& f) { return no_calls + rest_text(f); },
                 no_next},
    program_rule{{"cold", "cold", "any other program",
                  "threads waited 0.01 % of their time for recorded locks: other locks save no more waiting than that"},
                 [](const program_facts&) { return true; },
                 [](const program_facts& f) { return waited_text(f) + saving_text(f) + rest_text(f); },
                 next_of_herd},
};

}  // namespace

std::span<const program_rule> program_rules() {
  return program_rules_in_order;
}

}  // namespace usher::reader
