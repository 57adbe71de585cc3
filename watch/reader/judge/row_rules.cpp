#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "library/catalog/names.hpp"
#include "watch/reader/judge/rule_facts.hpp"
#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::reader {
namespace {

constexpr double long_wait = 0.1;          // seconds
constexpr double rare_factor = 100;        // longest wait, relative to the 99th percentile of waits
constexpr double beyond_holds = 10;        // longest wait, relative to the longest hold
constexpr double beyond_longest_hold = 3;  // the same, if one thread waits most
constexpr double passed_over = 20;         // longest wait, relative to hold × waiters
constexpr double of_one_thread = 0.75;     // of the waiting
constexpr std::uint64_t enough_locked = 100;
constexpr double failures_a_success = 3;  // of trylocks
constexpr double soon_again = 50e-6;      // seconds from one failed trylock to the next
constexpr double in_allocator = 0.5;      // of the waiting, by the waiters' stacks
constexpr double little_work = 0.05;      // of the program's CPU time
constexpr std::uint64_t many_objects = 8;
constexpr double of_one_object = 0.5;   // of the waiting
constexpr double slow_hold = 1e-3;      // seconds
constexpr double short_hold = 10e-6;    // seconds
constexpr double mostly_held = 0.8;     // of the time
constexpr double half_held = 0.5;       // of the time
constexpr double held_in_median = 0.5;  // of the time, if all holds took the median; and without the longest
constexpr double stands_for = 64;       // one hold in about 64 is timed: watch/recorder/holding.cpp
constexpr double uneven = 5;            // mean hold, relative to the median
constexpr double often_yielding = 0.1;  // of the timed holds
constexpr std::size_t spread_over = 4;
constexpr double nearly_all = 0.9;        // of the waiting for one object
constexpr std::uint64_t seldom = 100;     // waits for one object
constexpr double long_for_a_gate = 1e-3;  // seconds, of a wait
constexpr double at_once = 0.9;           // of the credits
constexpr double wake_factor = 4;         // mean wait, relative to hold × waiters
constexpr double wake_cost = 20e-6;       // seconds
constexpr double mostly_last = 0.75;      // of the rounds of a barrier
constexpr double worth_a_share = 0.15;    // of all threads' time, waited at a barrier
constexpr std::uint64_t enough_woken = 100;
constexpr double herd_size = 4;     // woken by one signal
constexpr double slow_wake = 1e-3;  // seconds
constexpr std::uint64_t enough_signals = 1000;
constexpr double mostly_unheard = 0.9;

bool is_mutex(const row_facts& f) {
  return f.is(kind::mutex);
}

// ---- deadlocks and trylocks ---------------------------------------------------------------------------------

bool is_in(const row& r, const deadlock& d) {
  return std::any_of(d.threads.begin(), d.threads.end(), [&](const deadlock::thread& t) {
    // Another process, for example a forked one, has other objects at the same addresses.
    const auto is_it = [&t](const object_row& o) {
      return o.address == t.address && (o.pid.seen == t.pid.seen || o.pid.seen == 0 || t.pid.seen == 0);
    };
    return t.address != 0 && std::any_of(r.each.begin(), r.each.end(), is_it);
  });
}

const deadlock* deadlock_of(const row_facts& f) {
  if (!is_lock(f.r.what)) return nullptr;
  for (const deadlock& d : f.all.deadlocks)
    if (is_in(f.r, d)) return &d;
  return nullptr;
}

std::string polled_text(const row_facts& f) {
  const counts& c = f.r.seen;
  std::string text = fmt::format(
      "{} trylocks failed, and {} came {} after the first failure: threads that only try again meanwhile wait here, "
      "and "
      "use CPU time",
      exact_count(c.failed_tries), with_noun(c.tries.count, "acquisition"),
      time_text(c.tries.total / static_cast<double>(c.tries.count)));
  if (f.held() >= half_held)
    text += fmt::format("; held {} of the time: shorten the critical section at {}", held_text(c), holder_place(f.r));
  return text;
}

/// Whether the time between failed trylocks and acquisitions is significant.
bool delays_by_tries(const row_facts& f) {
  const double total = f.r.seen.tries.total;
  return total >= worth_of_all * f.all.thread_seconds || total >= worth_of_thread * f.all.seconds;
}

std::string uncontended_text(const row_facts& f) {
  const std::uint64_t failed = f.r.seen.failed_tries;
  return failed == 0
             ? "no wait for it was recorded"
             : fmt::format("no wait for it was recorded; {} trylock{} failed", exact_count(failed),
                           failed == 1 ? "" : "s") +
                   (delays_by_tries(f) ? fmt::format(", {} apart: what the threads did meanwhile was not seen",
                                                     time_text(f.r.seen.tries.total / static_cast<double>(failed)))
                                       : "");
}

/// Whether the holder called sched_yield() in a large share of the holds.
bool yields(const row_facts& f) {
  return is_mutex(f) && f.r.seen.yielding_share.value_or(0) >= often_yielding;
}

// ---- full CPUs ----------------------------------------------------------------------------------------------

bool is_limited_by_cpus(const row_facts& f) {
  return is_mutex(f) && are_cpus_full(f.all) && most_lock_work(f) <= little_work && !yields(f);
}

std::string work_text(const row_facts& f) {
  return fmt::format("its waits and acquisitions, at 10 µs and 100 ns each, make {} of that CPU time",
                     small_share_text(most_lock_work(f)));
}

// ---- allocators ---------------------------------------------------------------------------------------------

bool is_allocator(const frame& f) {
  static constexpr std::array modules = {"jemalloc", "tcmalloc", "mimalloc", "rpmalloc", "libhoard", "scalloc"};
  const std::string module(support::file_name(f.module)), name = short_name(f.function);
  for (const char* m : modules)
    if (module.find(m) != std::string::npos) return true;
  for (const char* end : {"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "operator new", "operator new[]"})
    if (name.ends_with(end)) return true;
  static constexpr std::array frees = {"free",    "cfree",    "je_free",         "tc_free",
                                       "mi_free", "sdallocx", "operator delete", "operator delete[]"};
  return std::find(frees.begin(), frees.end(), name) != frees.end();
}

/// The share of the row's waiting time in lock calls by malloc() or free(), 0–1.
double share_in_allocator(const row& r) {
  double all = 0, inside = 0;
  for (const charged_stack& s : r.waiters) {
    all += s.waited;
    if (std::any_of(s.where.frames.begin(), s.where.frames.end(), is_allocator)) inside += s.waited;
  }
  return all > 0 ? inside / all : 0;
}

// ---- how the waiting is divided -----------------------------------------------------------------------------

double part_of_first(const row& r) {
  return r.each.empty() || r.seen.waiting.total <= 0 ? 0 : r.each.front().seen.waiting.total / r.seen.waiting.total;
}

std::uint64_t objects_waited_for(const row& r) {
  return static_cast<std::uint64_t>(
      std::count_if(r.each.begin(), r.each.end(), [](const object_row& o) { return o.seen.waiting.total > 0; }));
}

double part_of_first_thread(const counts& c) {
  return c.waiting.total > 0 && !c.threads.empty() ? c.threads.front().waited / c.waiting.total : 0;
}

/// Whether the objects are used as gates: for each object one thread waits, seldom and long.
bool is_gate(const row_facts& f) {
  if (f.mean_wait < long_for_a_gate || f.r.seen.waiting.total <= 0 || f.r.seen.waiting_is_hidden) return false;
  double known = 0;
  for (const object_row& o : f.r.each) {
    const counts& c = o.seen;
    if (c.waiting.total <= 0) continue;
    if (part_of_first_thread(c) < nearly_all || c.contended > seldom) return false;
    known += c.waiting.total;
  }
  return known >= 0.99 * f.r.seen.waiting.total;  // the rest was for objects that no longer exist
}

std::string one_of_many_text(const row_facts& f) {
  const object_row& o = f.r.each.front();
  std::string text = fmt::format("one of {} ({}) has {} of the waiting: spread what it guards over the others",
                                 exact_count(f.r.objects), o.name, share_text(part_of_first(f.r)));
  if (o.seen.held_share.value_or(0) >= mostly_held)
    text += fmt::format(", or shorten the critical section at {}: it is held {} of the time", holder_place(f.r),
                        held_text(o.seen));
  return text;
}

// ---- holds --------------------------------------------------------------------------------------------------

/// Whether the longest wait is `factor` times as long as the longest hold, so that no hold explains it.
bool outlasts_holds(const row_facts& f, double factor) {
  const counts& c = f.r.seen;
  return c.waiting.longest >= long_wait && f.holds_known() && c.waiting.longest >= factor * c.holding.longest;
}

bool is_rare_wait(const row_facts& f) {
  const counts& c = f.r.seen;
  return is_mutex(f) && outlasts_holds(f, beyond_holds) && c.waiting.p99 && *c.waiting.p99 > 0 &&
         c.waiting.longest >= rare_factor * *c.waiting.p99;
}

bool is_starving(const row_facts& f) {
  const counts& c = f.r.seen;
  return is_mutex(f) && outlasts_holds(f, beyond_longest_hold) && c.acquisitions >= enough_locked &&
         !c.threads.empty() && part_of_first_thread(c) >= of_one_thread &&
         c.waiting.longest >= passed_over * f.mean_hold * f.waiters;
}

/// Whether threads repeat trylocks until one succeeds, for a time that is significant and longer than the recorded
/// waits.
bool is_polled(const row_facts& f) {
  const counts& c = f.r.seen;
  const bool most_wait_here = c.tries.total > c.waiting.total && !is_rare_wait(f) && !is_starving(f);
  const auto failed = static_cast<double>(c.failed_tries);
  return c.tries.count != 0 && delays_by_tries(f) && most_wait_here && c.tries.total <= soon_again * failed &&
         failed >= failures_a_success * static_cast<double>(c.tries.count);
}

double typical_hold(const row_facts& f) {
  return f.r.seen.holding.median.value_or(0);
}

std::string sleeping_hold_text(const row_facts& f) {
  return fmt::format(
      "held {} at a time{}: does it sleep, or do I/O, with the mutex held? Move that out of the critical section at "
      "{}; another lock does not shorten it",
      time_text(typical_hold(f) >= slow_hold ? typical_hold(f) : f.mean_hold),
      f.r.seen.held_share ? ", " + held_text(f.r.seen) + " of the time" : "", holder_place(f.r));
}

/// Whether the share of held time is reliable. About one hold in 64 is timed and counts as 64, so the share could come
/// from a few timed holds that were preempted, or from many if threads lack CPUs.
bool is_sound(const row_facts& f) {
  const counts& c = f.r.seen;
  const bool by_median = c.holding.median && *c.holding.median / f.mean_hold * *c.held_share >= held_in_median;
  if (lacks_cpus(f.all)) return by_median;
  if (c.holding_is_exact || !c.holding.median || f.mean_hold >= short_hold) return true;
  return by_median || *c.held_share * (1 - stands_for * c.holding.longest / c.holding.total) >= held_in_median;
}

/// Whether holds take long for another reason than that some holders lost their CPU.
bool is_slow(const row_facts& f) {
  if (!is_mutex(f) || !f.holds_known()) return false;
  return typical_hold(f) >= slow_hold || (f.mean_hold >= slow_hold && !lacks_cpus(f.all));
}

/// Possible causes of a wait that is much longer than the longest hold.
std::string long_wait_text(const row_facts& f) {
  if (!lacks_cpus(f.all))
    return "others overtake, or an untimed hold took so long; a lock that bounds waiting may help";
  return "others overtake, an untimed hold took so long, or a thread had no CPU: " + lacking_cpus_text(*f.all.cpu);
}

/// Whether some holds are much longer than most, and make up a large share of the time.
bool is_uneven(const row_facts& f) {
  return is_mutex(f) && f.holds_known() && f.held() >= half_held && typical_hold(f) > 0 &&
         f.mean_hold >= uneven * typical_hold(f) && f.r.seen.holding.longest < long_wait;
}

// ---- read-write locks, semaphores, condition variables ------------------------------------------------------

/// Whether only waits were recorded that had not ended at the end of the recording, for example of a writer that
/// readers overtake.
bool has_only_unfinished(const counts& c) {
  return c.still_waiting != 0 && c.waiting.count <= c.still_waiting;
}

std::string sides_text(const row_facts& f) {
  const counts& c = f.r.seen;
  const lock_sides& s = *c.sides;
  if (has_only_unfinished(c))
    return fmt::format(
        "{} waited for it, {} in all, and still did at the end; meanwhile there were {} acquisition{} to read and {} "
        "to "
        "write",
        c.still_waiting == 1 ? "one thread" : with_noun(c.still_waiting, "thread"), time_text(c.waiting.total),
        exact_count(s.reading.acquisitions), s.reading.acquisitions == 1 ? "" : "s",
        exact_count(s.writing.acquisitions));
  return fmt::format("readers waited {}, writers {} ({} of that for readers)", time_text(s.reading.waited),
                     time_text(s.writing.waited), time_text(s.writing.behind_readers));
}

/// Whether the semaphore is used as a lock: credits are returned as often as taken, and most are taken without waiting.
bool is_used_as_lock(const counts& c) {
  const auto taken = static_cast<double>(c.acquisitions), posted = static_cast<double>(c.signals);
  return c.contended >= seldom && taken - static_cast<double>(c.contended) >= at_once * taken &&
         std::abs(taken - posted) <= 0.01 * taken && c.threads.size() > 1;
}

/// The number of signals and broadcasts that found a waiter.
double heard(const counts& c) {
  return static_cast<double>(c.signals - std::min(c.signals, c.unheard));
}

bool is_herd(const row_facts& f) {
  const counts& c = f.r.seen;
  return f.is(kind::condition) && c.woken >= enough_woken && c.herd >= herd_size && heard(c) > 0 &&
         static_cast<double>(c.woken) >= herd_size * heard(c);
}

/// Whether the same thread came last in most rounds of a barrier.
bool is_usually_last(const row_facts& f) {
  const counts& c = f.r.seen;
  // Each round has one last thread. `most_waiting` is not the number of threads in a round: a thread may arrive for the
  // next round before the others have left the last one.
  const auto rounds = std::accumulate(c.threads.begin(), c.threads.end(), std::uint64_t{0},
                                      [](auto n, const thread_share& t) { return n + t.waits; });
  return c.last && static_cast<double>(c.last->waits) >= mostly_last * static_cast<double>(rounds);
}

// ---- the table ----------------------------------------------------------------------------------------------

std::string no_command(const row_facts&) {
  return "";
}
std::string a_trial(const row_facts& f) {
  return try_command(f.all);
}
std::string under_a_bounding_lock(const row_facts& f) {
  return stat_command_under(f.all, default_lock, "twa");
}

const std::array rules_in_order = {
    row_rule{{"deadlock", "deadlock", "a thread in a circle of waiting threads waits for it, or holds it",
              "threads 12 and 13 wait for each other, without a deadline: lock in the same order everywhere"},
             [](const row_facts& f) { return deadlock_of(f) != nullptr; },
             [](const row_facts& f) { return deadlock_text(*deadlock_of(f)); },
             no_command},
    row_rule{{"polled", "tried repeatedly",
              "a mutex, spin lock or semaphore; 3 trylocks or more failed for each acquisition after a failure, 50 µs "
              "or less apart on average, and "
              "the time from the first failure to the acquisition is 1 % of all threads' time or more, or 5 % of the "
              "record's, and longer than the recorded waits; `rare-wait` and `starving` do not apply",
              "1,200 trylocks failed, and 40 acquisitions came 2.1 ms after the first failure: threads that only try "
              "again meanwhile wait here, and use CPU time; held 97 % of the time: shorten the critical section at "
              "server.cpp:120 (worker)"},
             is_polled,
             polled_text,
             no_command},
    row_rule{{"uncontended", "uncontended", "a lock or semaphore without a recorded wait",
              "no wait for it was recorded; 3 trylocks failed"},
             [](const row_facts& f) {
               return (is_lock(f.r.what) || f.is(kind::semaphore)) && f.r.seen.waiting.count == 0 &&
                      !f.r.seen.waiting_is_hidden;
             },
             uncontended_text,
             no_command},
    row_rule{
        {"rare-wait", "rare long wait",
         "a mutex; the longest wait was 100 ms or more, 100 times the 99 % and 10 times the longest hold",
         "one wait took 230 ms, 99 % took less than 40 µs: others overtake, or an untimed hold took so long; a lock "
         "that bounds waiting may help"},
        is_rare_wait,
        [](const row_facts& f) {
          return fmt::format("one wait took {}, 99 % took less than {}: {}", time_text(f.r.seen.waiting.longest),
                             time_text(*f.r.seen.waiting.p99), long_wait_text(f));
        },
        under_a_bounding_lock},
    row_rule{{"cool", "not in the way",
              "a lock, semaphore or barrier; less than 1 % of all threads' time was waited for it, and no thread "
              "waited 5 % of the time",
              "threads waited 0.2 % of their time for it"},
             [](const row_facts& f) { return !f.is(kind::condition) && !f.is(kind::join) && !f.matters(); },
             [](const row_facts& f) {
               if (f.r.seen.waiting.count == 0)
                 return std::string("no wait for it was recorded; the C library's pthread_cond_wait hides some waits");
               return fmt::format("threads waited {} of their time for it", small_share_text(f.of_all));
             },
             no_command},
    row_rule{{"allocator", "in the allocator", "half of the waiting or more is below malloc, free, new or delete",
              "inside the allocator: allocate less often, or use an allocator that keeps memory for each thread"},
             [](const row_facts& f) { return is_mutex(f) && share_in_allocator(f.r) >= in_allocator; },
             [](const row_facts&) {
               return std::string(
                   "inside the allocator: allocate less often, or use an allocator that keeps memory for each thread");
             },
             no_command},
    row_rule{
        {"starving", "a thread starves",
         "one thread has 75 % of the waiting or more; its longest wait was 100 ms or more, 3 times the longest "
         "hold, and 20 times what the holds of all waiters take",
         "thread 13 has 98 % of the waiting, 340 ms at the longest: others overtake, or an untimed hold took so long; "
         "a lock that bounds waiting may help"},
        is_starving,
        [](const row_facts& f) {
          const counts& c = f.r.seen;
          return fmt::format("thread {} has {} of the waiting, {} at the longest: {}", id_text(c.threads.front().tid),
                             share_text(part_of_first_thread(c)), time_text(c.waiting.longest), long_wait_text(f));
        },
        under_a_bounding_lock},
    row_rule{{"cpus-full", "CPUs are full",
              "a mutex under the C library's lock; the program used 90 % of its CPUs or more, half a thread or more "
              "waited for a CPU on average, and at 10 µs for a wait and 100 ns for an acquisition the mutex had 5 % of "
              "the CPU time at most; no `uneven-hold` by sched_yield()",
              "the CPUs are full (2.0 of 2 used, 3.2 threads ready without one), and its waits and acquisitions, "
              "at 10 µs and 100 ns each, make 1.2 % of that CPU time: another lock can hardly gain more"},
             is_limited_by_cpus,
             [](const row_facts& f) {
               return fmt::format("the CPUs are full ({}), and {}: another lock can hardly gain more",
                                  full_cpus_text(*f.all.cpu), work_text(f));
             },
             no_command},
    row_rule{{"one-of-many", "one of many", "8 objects or more are in the row; one has half of the waiting or more",
              "one of 1,024 (locks+0x28) has 90 % of the waiting: spread what it guards over the others"},
             [](const row_facts& f) {
               return is_mutex(f) && f.r.objects >= many_objects && part_of_first(f.r) >= of_one_object;
             },
             one_of_many_text,
             no_command},
    row_rule{{"sleeping-hold", "slow holds",
              "a hold takes 1 ms or more, in the median or, unless threads lack CPUs as for `cpus-taken`, on average",
              "held 5 ms at a time: does it sleep, or do I/O, with the mutex held? Move that out of the critical "
              "section at server.cpp:120 (worker); another lock does not shorten it"},
             is_slow,
             sleeping_hold_text,
             no_command},
    row_rule{{"long-hold", "held too long",
              "the mutex is held 80 % of the time or more; where that is an estimate of holds below 10 µs, their "
              "median alone makes it 50 % or more, or all but the longest do; where threads lack CPUs as for "
              "`cpus-taken`, their median alone; no `uneven-hold` by sched_yield()",
              "held 93 % of the time: shorten the critical section at server.cpp:120 (worker); a lock gains little"},
             [](const row_facts& f) {
               return is_mutex(f) && f.holds_known() && f.held() >= mostly_held && is_sound(f) && !yields(f);
             },
             [](const row_facts& f) {
               return fmt::format("held {} of the time: shorten the critical section at {}; a lock gains little",
                                  held_text(f.r.seen), holder_place(f.r));
             },
             no_command},
    row_rule{{"gate", "stops a thread",
              "one thread has 90 % of the waiting for each object of the row or more, which had 100 waits at most; "
              "the mean wait is 1 ms or more",
              "one thread waits for it, 14 times in all, 100 ms at a time: it stops that thread, or its holder lost "
              "the CPU; another lock changes neither"},
             [](const row_facts& f) { return is_mutex(f) && is_gate(f); },
             [](const row_facts& f) {
               return fmt::format(
                   "one thread waits for {}, {} in all, {} at a time: it stops that thread, or its holder lost the "
                   "CPU; another lock changes neither",
                   objects_waited_for(f.r) > 1 ? "each" : "it", with_noun(f.r.seen.waiting.count, "time"),
                   time_text(f.mean_wait));
             },
             no_command},
    row_rule{{"spread", "spread over many",
              "4 objects of the row or more were waited for, none for half of the time or more",
              "the waiting is spread over 60 of 64: if they divide one table, more of them (buckets, shards) make it "
              "less; if each thread or connection has its own, shorten the critical section at server.cpp:120 "
              "(worker)"},
             [](const row_facts& f) {
               return is_mutex(f) && objects_waited_for(f.r) >= spread_over && part_of_first(f.r) < of_one_object;
             },
             [](const row_facts& f) {
               return fmt::format(
                   "the waiting is spread over {} of {}: if they divide one table, more of them (buckets, shards) make "
                   "it less; if each thread or connection has its own, shorten the critical section at {}",
                   exact_count(objects_waited_for(f.r)), exact_count(f.r.objects), holder_place(f.r));
             },
             a_trial},
    row_rule{
        {"cpus-taken", "CPUs were taken",
         "a mutex; half a thread or more waited for a CPU on average, as many as ran or more (half as many if others "
         "took 10 % of the CPU time), while the program used less than 90 % of its CPUs; no `uneven-hold` by "
         "sched_yield()",
         "1.7 threads were ready without a CPU, while the program used 1.0 of 2: others had the rest, or its threads "
         "are bound to one CPU or woken on one; the waits and holds contain that time: record again where they have "
         "CPUs"},
        [](const row_facts& f) { return is_mutex(f) && lacks_cpus(f.all) && !yields(f); },
        [](const row_facts& f) {
          return lacking_cpus_text(*f.all.cpu) +
                 ": others had the rest, or its threads are bound to one CPU or woken on one; the waits and holds "
                 "contain that time: record again where they have CPUs";
        },
        no_command},
    row_rule{{"uneven-hold", "holder pauses",
              "a mutex; the holder called sched_yield() in 10 % of the timed holds or more; or the mutex is held half "
              "of the "
              "time or more, the mean hold is 5 times the median or more, and the longest is below 100 ms",
              "in 72 % of the timed holds the holder called sched_yield(), and others ran while it had the mutex: "
              "yield outside "
              "of the critical section at server.cpp:120 (worker)"},
             [](const row_facts& f) { return yields(f) || is_uneven(f); },
             [](const row_facts& f) {
               if (yields(f))
                 return fmt::format(
                     "in {} of the timed holds the holder called sched_yield(), and others ran while it had the mutex: "
                     "yield "
                     "outside of the critical section at {}",
                     share_text(*f.r.seen.yielding_share), holder_place(f.r));
               return fmt::format(
                   "half of its holds take {} or less, but the mean is {}, and it is held {} of the time: in some its "
                   "holder does not run; does it yield, or fault pages, at {}?",
                   time_text(typical_hold(f)), time_text(f.mean_hold), held_text(f.r.seen), holder_place(f.r));
             },
             [](const row_facts& f) { return yields(f) ? "" : try_command(f.all); }},
    row_rule{
        {"one-at-a-time", "one at a time",
         "a mutex under the C library's lock; the program has 2 CPUs and threads or more and used 0.85 to 1.1 "
         "CPUs, less than one thread waited for one, and at the costs of `cpus-full` the mutex had 5 % of that at "
         "most",
         "the program used 1.0 of 2 CPUs, as if one thread ran at a time, and its waits and acquisitions, at "
         "10 µs and 100 ns each, make 0.8 % of that CPU time: another lock can hardly gain more"},
        [](const row_facts& f) { return is_mutex(f) && runs_one_at_a_time(f.all) && most_lock_work(f) <= little_work; },
        [](const row_facts& f) {
          return fmt::format(
              "the program used {} CPUs, as if one thread ran at a time, and {}: another lock can hardly gain more",
              cpus_text(*f.all.cpu), work_text(f));
        },
        no_command},
    row_rule{{"convoy", "wake-ups cost",
              "the mean wait is 20 µs or more, and 4 times what the holds of all waiters take, or more; the mutex is "
              "held half of the time at most",
              "a wait takes 350 µs, a hold 900 ns: woken waiters find it taken, or it waits for them to wake; try a "
              "lock that wakes fewer"},
             [](const row_facts& f) {
               return is_mutex(f) && f.holds_known() && f.mean_wait >= wake_cost && f.held() <= half_held &&
                      f.mean_wait >= wake_factor * f.mean_hold * f.waiters;
             },
             [](const row_facts& f) {
               return fmt::format(
                   "a wait takes {}, a hold {}: woken waiters find it taken, or it waits for them to wake; try "
                   "a lock that wakes fewer",
                   time_text(f.mean_wait), time_text(f.mean_hold));
             },
             a_trial},
    row_rule{{"hot-short", "hot, short holds", "a hold takes less than 10 µs on average",
              "hot, and held 900 ns at a time: waiters that stay awake, or fewer of them, may help; try other locks"},
             [](const row_facts& f) { return is_mutex(f) && f.holds_known() && f.mean_hold < short_hold; },
             [](const row_facts& f) {
               return fmt::format(
                   "hot, and held {} at a time: waiters that stay awake, or fewer of them, may help; try other "
                   "locks",
                   time_text(f.mean_hold));
             },
             a_trial},
    row_rule{{"hot", "hot", "any other mutex that is waited for",
              "hot: shorten or split the critical section at server.cpp:120 (worker), or try other locks"},
             is_mutex,
             [](const row_facts& f) {
               return fmt::format("hot: shorten or split the critical section at {}, or try other locks",
                                  holder_place(f.r));
             },
             a_trial},
    row_rule{{"writers-hold", "held to write", "a read-write lock that is held to write half of the time or more",
              "held to write 70 % of the time: shorten the critical section at server.cpp:120 (worker), or divide what "
              "it guards"},
             [](const row_facts& f) { return f.is(kind::rwlock) && f.held() >= half_held; },
             [](const row_facts& f) {
               return fmt::format(
                   "held to write {} of the time: shorten the critical section at {}, or divide what it guards",
                   held_text(f.r.seen), holder_place(f.r));
             },
             no_command},
    row_rule{{"readers-writers", "hot", "any other read-write lock that is waited for",
              "readers waited 3.1 s, writers 12 s (11 s of that for readers): hold it for a shorter time, or divide "
              "what it guards"},
             [](const row_facts& f) { return f.is(kind::rwlock); },
             [](const row_facts& f) {
               return (f.r.seen.sides ? sides_text(f) : std::string("threads wait for it")) +
                      ": hold it for a shorter time, or divide what it guards";
             },
             no_command},
    row_rule{{"spun", "spun for", "any other spin lock that is waited for",
              "threads spent 31 % of their time in its loop, on a CPU or ready for one; 3.2 threads were ready without "
              "a CPU: a holder that loses its CPU makes the others spin"},
             [](const row_facts& f) { return f.is(kind::spin); },
             [](const row_facts& f) {
               std::string text = fmt::format("threads spent {} of their time in its loop, on a CPU or ready for one",
                                              share_text(f.of_all));
               if (are_cpus_full(f.all))
                 text += fmt::format(
                     "; {:.1f} threads were ready without a CPU: a holder that loses its CPU makes the others spin",
                     f.all.cpu->waiting);
               return text;
             },
             no_command},
    row_rule{{"semaphore-lock", "used as a lock",
              "a semaphore; 90 % of the credits or more were had at once, as many were posted as taken, and threads "
              "waited 100 times or more",
              "threads waited 31 % of their time for it, and 99 % of its credits were there at once: it is used as a "
              "lock, or to share a pool; shorten what is done with the credit"},
             [](const row_facts& f) { return f.is(kind::semaphore) && is_used_as_lock(f.r.seen); },
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               const double missed = static_cast<double>(c.contended) / static_cast<double>(c.acquisitions);
               return fmt::format(
                   "threads waited {} of their time for it, and {} of its credits were there at once: it is used as a "
                   "lock, or to share a pool; shorten what is done with the credit",
                   share_text(f.of_all),
                   missed < 0.005 ? "all but " + small_share_text(missed) : share_text(1 - missed));
             },
             no_command},
    row_rule{{"no-credits", "out of credits", "any other semaphore that is waited for",
              "threads waited 31 % of their time for credits: for work, for a turn or for a resource; which of these "
              "was not seen"},
             [](const row_facts& f) { return f.is(kind::semaphore); },
             [](const row_facts& f) {
               return fmt::format(
                   "threads waited {} of their time for credits: for work, for a turn or for a resource; which of "
                   "these was not seen",
                   share_text(f.of_all));
             },
             no_command},
    row_rule{
        {"last-one", "one comes last",
         "a barrier at which 15 % of all threads' time or more was waited; the same thread came last in 75 % of the "
         "rounds or more",
         "threads waited 31 % of their time here, and thread 12 came last 950 times: give it less work"},
        [](const row_facts& f) { return f.is(kind::barrier) && f.of_all >= worth_a_share && is_usually_last(f); },
        [](const row_facts& f) {
          return fmt::format(
              "threads waited {} of their time here, and thread {} came last {} times: give it less work",
              share_text(f.of_all), id_text(f.r.seen.last->tid), exact_count(f.r.seen.last->waits));
        },
        no_command},
    row_rule{{"barrier", "waits for others", "any other barrier that is waited for",
              "threads waited 31 % of their time here, and different threads came last: their work differs from round "
              "to round, or the rounds are short"},
             [](const row_facts& f) { return f.is(kind::barrier); },
             [](const row_facts& f) {
               return fmt::format("threads waited {} of their time here{}", share_text(f.of_all),
                                  !f.r.seen.last       ? ""
                                  : is_usually_last(f) ? ", mostly for the same thread"
                                                       : ", and different threads came last: their work differs from "
                                                         "round to round, or the rounds are short");
             },
             no_command},
    row_rule{{"herd", "herd",
              "a condition variable; 100 threads or more were woken, 4 or more by each signal that had a waiter",
              "40 threads wake for each broadcast: if one is enough, and all wait for the same, signal one"},
             is_herd,
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               return fmt::format(
                   "{:.0f} threads wake for each broadcast: if one is enough, and all wait for the same, signal one",
                   static_cast<double>(c.woken) / heard(c));
             },
             a_trial},
    row_rule{{"slow-wake", "slow to wake",
              "a condition variable; 100 threads or more were woken, and half of them ran only 1 ms or more after the "
              "signal",
              "1.2 ms from signal to running: woken threads wait for a CPU, or for the mutex that the signaller still "
              "holds"},
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               return f.is(kind::condition) && c.woken >= enough_woken && c.waiting.median.value_or(0) >= slow_wake;
             },
             [](const row_facts& f) {
               return fmt::format(
                   "{} from signal to running: woken threads wait for a CPU, or for the mutex that the "
                   "signaller still holds",
                   time_text(*f.r.seen.waiting.median));
             },
             a_trial},
    row_rule{{"unheard", "often unheard",
              "a condition variable; 1,000 signals or more, 90 % of them or more without a waiter",
              "93 % of its signals had no waiter"},
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               return f.is(kind::condition) && c.signals >= enough_signals &&
                      static_cast<double>(c.unheard) >= mostly_unheard * static_cast<double>(c.signals);
             },
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               return fmt::format("{} of its signals had no waiter",
                                  share_text(static_cast<double>(c.unheard) / static_cast<double>(c.signals)));
             },
             no_command},
    row_rule{
        {"condition", "waits for work", "any other condition variable", "threads wait here for something to happen"},
        [](const row_facts& f) { return f.is(kind::condition); },
        [](const row_facts&) -> std::string { return "threads wait here for something to happen"; },
        no_command},
    row_rule{{"join", "waits for threads", "a place where threads wait for others to end",
              "threads wait here for others to end"},
             [](const row_facts&) { return true; },
             [](const row_facts&) -> std::string { return "threads wait here for others to end"; },
             no_command},
};

}  // namespace

std::span<const row_rule> row_rules() {
  return rules_in_order;
}

}  // namespace usher::reader
