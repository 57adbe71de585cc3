// Chooses the advice for each row and for the program. Each table is searched from the top, and the first rule that
// applies gives the verdict.
//
// The thresholds are chosen, not measured. They apply to waiting times, to the threads that waited, and to the time
// for which the mutex was held meanwhile, not to the number of lock calls or of contended ones.
#include "stat/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <vector>

#include "catalog/names.hpp"
#include "stat/stat_quantities.hpp"
#include "support/text/words.hpp"

namespace usher::cli::stat {
namespace {

// The column "when" of the tables states these thresholds in words: change both together.
constexpr double worth_of_all = 0.01;      // of all threads' time
constexpr double worth_of_thread = 0.05;   // of the record's time, waited by one thread
constexpr double long_wait = 0.1;          // seconds
constexpr double rare_factor = 100;        // longest wait, relative to the wait that 99 % do not exceed
constexpr double beyond_holds = 10;        // longest wait, relative to the longest hold
constexpr double beyond_longest_hold = 3;  // the same if one thread waits most
constexpr double passed_over = 20;         // longest wait, relative to hold × waiters
constexpr double of_one_thread = 0.75;     // of the waiting
constexpr std::uint64_t enough_locked = 100;
constexpr double in_allocator = 0.5;  // of the waiting, by the waiters' stacks
constexpr std::uint64_t many_objects = 8;
constexpr double of_one_object = 0.5;   // of the waiting
constexpr double slow_hold = 1e-3;      // seconds
constexpr double mostly_held = 0.8;     // of the time
constexpr double held_in_median = 0.5;  // of the time, if all holds took the median; and without the longest
constexpr double stands_for = 64;       // about one hold in 64 is timed: record/recorded_mutex.cpp
constexpr std::size_t spread_over = 4;
constexpr double nearly_all = 0.9;        // of the waiting for one object
constexpr std::uint64_t seldom = 100;     // waits for one object
constexpr double long_for_a_gate = 1e-3;  // seconds, of a wait
constexpr double at_once = 0.9;           // of the credits
constexpr double wake_factor = 4;         // mean wait, relative to hold × waiters
constexpr double wake_cost = 20e-6;       // seconds
constexpr double short_hold = 10e-6;      // seconds
constexpr std::uint64_t enough_woken = 100;
constexpr double herd_size = 4;     // woken by one signal
constexpr double slow_wake = 1e-3;  // seconds
constexpr std::uint64_t enough_signals = 1000;
constexpr double mostly_unheard = 0.9;

/// A row with the quantities that the rules compare.
struct row_facts {
  const row& r;
  const report& all;
  double of_all = 0;      ///< its waiting time, relative to all threads' time
  double of_thread = 0;   ///< the longest waiting time of one thread, relative to the record's time
  double mean_wait = 0;   ///< seconds
  double mean_hold = -1;  ///< below 0: not known
  double waiters = 1;     ///< the most at the same time

  bool matters() const { return of_all >= worth_of_all || of_thread >= worth_of_thread; }
  bool holds_known() const { return r.seen.holding.count != 0 && mean_hold >= 0; }
};

row_facts facts_of(const row& r, const report& all) {
  row_facts f{r, all};
  const counts& c = r.seen;
  if (all.thread_seconds > 0) f.of_all = c.waiting.total / all.thread_seconds;
  if (all.seconds > 0 && !c.threads.empty()) f.of_thread = c.threads.front().waited / all.seconds;
  if (c.waiting.count != 0) f.mean_wait = c.waiting.total / static_cast<double>(c.waiting.count);
  if (c.holding.count != 0 && c.acquisitions != 0) f.mean_hold = c.holding.total / static_cast<double>(c.acquisitions);
  f.waiters = std::max(1.0, static_cast<double>(c.most_waiting));
  return f;
}

std::string place_text(const frame& f) {
  const std::string function = short_name(f.function);
  if (!f.function.empty() && !f.file.empty()) return fmt::format("{}:{} ({})", file_name(f.file), f.line, function);
  if (!f.function.empty()) return fmt::format("{} in {}", function, file_name(f.module));
  if (!f.module.empty()) return fmt::format("{}+{:#x}", file_name(f.module), f.offset);
  return hexadecimal(f.address);
}

/// The first place in the stacks of holders, at which the mutex was held while others waited; if there is none, the
/// row's name.
std::string holder_place(const row& r) {
  for (const charged_stack& s : r.holders)
    if (const frame* f = s.where.place()) return place_text(*f);
  return r.name;
}

std::string held_text(const counts& c) {
  return (c.holding_is_exact ? "" : "about ") + share_text(c.held_share.value_or(0));
}

bool is_c_library(const report& all) {
  return all.lock.empty() || all.lock.starts_with("pthread");
}

/// The recommended `usher try` command. It has no --locks, since `usher try` selects the locks that suit the program.
std::string try_command(const report& all) {
  return fmt::format("usher try {}-- {}", all.runs_on ? until_load + std::string(" ") : "",
                     all.command.empty() ? "CMD" : shell_line(all.command));
}

std::string stat_command_under(const report& all, const char* lock, const char* other) {
  return fmt::format("usher stat --lock {} -- {}", all.lock == lock ? other : lock,
                     all.command.empty() ? "CMD" : shell_line(all.command));
}

bool is_allocator(const frame& f) {
  static constexpr std::array modules = {"jemalloc", "tcmalloc", "mimalloc", "rpmalloc", "libhoard", "scalloc"};
  const std::string module(file_name(f.module)), name = short_name(f.function);
  for (const char* m : modules)
    if (module.find(m) != std::string::npos) return true;
  for (const char* end : {"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "operator new", "operator new[]"})
    if (name.ends_with(end)) return true;
  static constexpr std::array frees = {"free",    "cfree",    "je_free",         "tc_free",
                                       "mi_free", "sdallocx", "operator delete", "operator delete[]"};
  return std::find(frees.begin(), frees.end(), name) != frees.end();
}

/// The part of the row's waiting time that was spent in lock calls by malloc() or free(), 0–1.
double share_in_allocator(const row& r) {
  double all = 0, inside = 0;
  for (const charged_stack& s : r.waiters) {
    all += s.waited;
    if (std::any_of(s.where.frames.begin(), s.where.frames.end(), is_allocator)) inside += s.waited;
  }
  return all > 0 ? inside / all : 0;
}

bool is_in(const row& r, const deadlock& d) {
  return std::any_of(d.threads.begin(), d.threads.end(), [&](const deadlock::thread& t) {
    return t.address != 0 &&
           std::any_of(r.each.begin(), r.each.end(), [&](const object_row& o) { return o.address == t.address; });
  });
}

const deadlock* deadlock_of(const row_facts& f) {
  if (f.r.what != kind::mutex) return nullptr;
  for (const deadlock& d : f.all.deadlocks)
    if (is_in(f.r, d)) return &d;
  return nullptr;
}

std::string tids_text(const deadlock& d) {
  std::string text;
  for (std::size_t i = 0; i < d.threads.size(); i++)
    text += (i == 0 ? "" : i + 1 == d.threads.size() ? " and " : ", ") + id_text(d.threads[i].tid);
  return text;
}

std::string deadlock_text(const deadlock& d) {
  if (d.threads.size() == 1)
    return fmt::format("deadlock: thread {} locks it again while it holds it: a recursive mutex, or one lock call less",
                       tids_text(d));
  return fmt::format("deadlock: threads {} wait for each other for ever: lock in the same order everywhere",
                     tids_text(d));
}

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

/// Whether the objects are used as gates: each has one thread that waits for it, seldom and long.
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

/// Whether the semaphore is used as a lock: credits are returned as often as taken, and most are taken without
/// waiting.
bool is_used_as_lock(const counts& c) {
  const auto taken = static_cast<double>(c.acquisitions), posted = static_cast<double>(c.signals);
  return c.contended >= seldom && taken - static_cast<double>(c.contended) >= at_once * taken &&
         std::abs(taken - posted) <= 0.01 * taken && c.threads.size() > 1;
}

bool is_mutex(const row_facts& f) {
  return f.r.what == kind::mutex;
}

/// Whether the longest wait is too long to be explained even by the longest hold: `factor` times as long.
bool outlasts_holds(const row_facts& f, double factor) {
  const counts& c = f.r.seen;
  return c.waiting.longest >= long_wait && f.holds_known() && c.waiting.longest >= factor * c.holding.longest;
}

/// Whether the share of held time is reliable. About one hold in 64 is timed and counts for 64, so a few timed holds
/// that were interrupted could make up the share.
bool is_sound(const row_facts& f) {
  const counts& c = f.r.seen;
  if (c.holding_is_exact || !c.holding.median || f.mean_hold >= short_hold) return true;
  if (*c.held_share * (1 - stands_for * c.holding.longest / c.holding.total) >= held_in_median) return true;
  return *c.holding.median / f.mean_hold * *c.held_share >= held_in_median;
}

struct row_rule {
  rule said;
  bool (*fits)(const row_facts&);
  std::string (*sentence)(const row_facts&);
  std::string (*command)(const row_facts&);
};

std::string no_command(const row_facts&) {
  return "";
}

const std::array row_rules = {
    row_rule{{"deadlock", "deadlock", "a thread in a circle of waiting threads waits for it, or holds it",
              "threads 12 and 13 wait for each other for ever: lock in the same order everywhere"},
             [](const row_facts& f) { return deadlock_of(f) != nullptr; },
             [](const row_facts& f) { return deadlock_text(*deadlock_of(f)); },
             no_command},
    row_rule{{"uncontended", "uncontended", "a mutex or semaphore that nobody had to wait for", "nobody waited for it"},
             [](const row_facts& f) {
               return f.r.what != kind::condition && f.r.seen.waiting.count == 0 && !f.r.seen.waiting_is_hidden;
             },
             [](const row_facts&) -> std::string { return "nobody waited for it"; },
             no_command},
    row_rule{{"rare-wait", "rare long wait",
              "a mutex; the longest wait was 100 ms or more, 100 times the 99 % and 10 times the longest hold",
              "one wait took 230 ms, 99 % took less than 40 µs: others overtake; a lock that bounds waiting may help"},
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               return is_mutex(f) && outlasts_holds(f, beyond_holds) && c.waiting.p99 && *c.waiting.p99 > 0 &&
                      c.waiting.longest >= rare_factor * *c.waiting.p99;
             },
             [](const row_facts& f) {
               return fmt::format(
                   "one wait took {}, 99 % took less than {}: others overtake; a lock that bounds waiting may help",
                   time_text(f.r.seen.waiting.longest), time_text(*f.r.seen.waiting.p99));
             },
             [](const row_facts& f) { return stat_command_under(f.all, default_lock, "twa"); }},
    row_rule{
        {"cool", "not in the way",
         "a mutex or semaphore; less than 1 % of all threads' time was waited for it, and no thread waited 5 % of the "
         "time",
         "threads waited 0.2 % of their time for it: not worth your time"},
        [](const row_facts& f) { return f.r.what != kind::condition && !f.matters(); },
        [](const row_facts& f) {
          if (f.r.seen.waiting.count == 0)
            return std::string("nobody was seen to wait for it; the C library's pthread_cond_wait hides some waits");
          return fmt::format("threads waited {} of their time for it: not worth your time", small_share_text(f.of_all));
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
    row_rule{{"one-of-many", "one of many", "8 objects or more are in the row; one has half of the waiting or more",
              "one of 1,024 (locks+0x28) has 90 % of the waiting: spread what it guards over the others"},
             [](const row_facts& f) {
               return is_mutex(f) && f.r.objects >= many_objects && part_of_first(f.r) >= of_one_object;
             },
             [](const row_facts& f) {
               const object_row& o = f.r.each.front();
               std::string text =
                   fmt::format("one of {} ({}) has {} of the waiting: spread what it guards over the others",
                               exact_count(f.r.objects), o.name, share_text(part_of_first(f.r)));
               if (o.seen.held_share.value_or(0) >= mostly_held)
                 text += fmt::format(", or shorten the critical section at {}: it is held {} of the time",
                                     holder_place(f.r), held_text(o.seen));
               return text;
             },
             no_command},
    row_rule{
        {"starving", "a thread starves",
         "one thread has 75 % of the waiting or more; its longest wait was 100 ms or more, 3 times the longest hold, "
         "and "
         "20 times what the holds of all waiters take",
         "thread 13 has 98 % of the waiting, 340 ms at the longest: others lock again before it; try a lock that "
         "bounds "
         "waiting"},
        [](const row_facts& f) {
          const counts& c = f.r.seen;
          return is_mutex(f) && outlasts_holds(f, beyond_longest_hold) && c.acquisitions >= enough_locked &&
                 !c.threads.empty() && part_of_first_thread(c) >= of_one_thread &&
                 c.waiting.longest >= passed_over * f.mean_hold * f.waiters;
        },
        [](const row_facts& f) {
          const counts& c = f.r.seen;
          return fmt::format(
              "thread {} has {} of the waiting, {} at the longest: others lock again before it; try a lock that bounds "
              "waiting",
              id_text(c.threads.front().tid), share_text(part_of_first_thread(c)), time_text(c.waiting.longest));
        },
        [](const row_facts& f) { return stat_command_under(f.all, default_lock, "twa"); }},
    row_rule{
        {"sleeping-hold", "slow holds", "a hold takes 1 ms or more, in the median or on average",
         "held 5 ms at a time: does it sleep, or do I/O, with the mutex held? Move that out of the critical section at "
         "server.cpp:120 (worker); no lock helps"},
        [](const row_facts& f) {
          return is_mutex(f) && f.holds_known() &&
                 std::max(f.r.seen.holding.median.value_or(0), f.mean_hold) >= slow_hold;
        },
        [](const row_facts& f) {
          const double median = f.r.seen.holding.median.value_or(0);
          return fmt::format(
              "held {} at a time{}: does it sleep, or do I/O, with the mutex held? Move that out of the critical "
              "section at {}; no lock helps",
              time_text(median >= slow_hold ? median : f.mean_hold),
              f.r.seen.held_share ? ", " + held_text(f.r.seen) + " of the time" : "", holder_place(f.r));
        },
        no_command},
    row_rule{{"long-hold", "held too long",
              "the mutex is held 80 % of the time or more; where that is an estimate of holds below 10 µs, their "
              "median alone makes it 50 % or more, or all but the longest do",
              "held 93 % of the time: shorten the critical section at server.cpp:120 (worker); a lock gains little"},
             [](const row_facts& f) {
               return is_mutex(f) && f.holds_known() && f.r.seen.held_share.value_or(0) >= mostly_held && is_sound(f);
             },
             [](const row_facts& f) {
               return fmt::format("held {} of the time: shorten the critical section at {}; a lock gains little",
                                  held_text(f.r.seen), holder_place(f.r));
             },
             no_command},
    row_rule{
        {"gate", "stops a thread",
         "one thread has 90 % of the waiting for each object of the row or more, which had 100 waits at most; the mean "
         "wait is 1 ms or more",
         "one thread waits for it, 14 times in all, 100 ms at a time: it stops that thread, or its holder lost the "
         "CPU; no lock helps"},
        [](const row_facts& f) { return is_mutex(f) && is_gate(f); },
        [](const row_facts& f) {
          return fmt::format(
              "one thread waits for {}, {} in all, {} at a time: it stops that thread, or its holder lost the CPU; "
              "no lock helps",
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
             [](const row_facts& f) { return try_command(f.all); }},
    row_rule{{"convoy", "wake-ups cost",
              "the mean wait is 20 µs or more, and 4 times what the holds of all waiters take, or more",
              "a wait takes 350 µs, a hold 900 ns: woken waiters find it taken, or it waits for them to wake; try a "
              "lock that "
              "wakes fewer"},
             [](const row_facts& f) {
               return is_mutex(f) && f.holds_known() && f.mean_wait >= wake_cost &&
                      f.mean_wait >= wake_factor * f.mean_hold * f.waiters;
             },
             [](const row_facts& f) {
               return fmt::format(
                   "a wait takes {}, a hold {}: woken waiters find it taken, or it waits for them to wake; try "
                   "a lock that wakes fewer",
                   time_text(f.mean_wait), time_text(f.mean_hold));
             },
             [](const row_facts& f) { return try_command(f.all); }},
    row_rule{{"hot-short", "hot, short holds", "a hold takes less than 10 µs on average",
              "hot, and held 900 ns at a time: waiters that stay awake, or fewer of them, may help; try other locks"},
             [](const row_facts& f) { return is_mutex(f) && f.holds_known() && f.mean_hold < short_hold; },
             [](const row_facts& f) {
               return fmt::format(
                   "hot, and held {} at a time: waiters that stay awake, or fewer of them, may help; try other "
                   "locks",
                   time_text(f.mean_hold));
             },
             [](const row_facts& f) { return try_command(f.all); }},
    row_rule{{"hot", "hot", "any other mutex that is waited for",
              "hot: shorten or split the critical section at server.cpp:120 (worker), or try other locks"},
             is_mutex,
             [](const row_facts& f) {
               return fmt::format("hot: shorten or split the critical section at {}, or try other locks",
                                  holder_place(f.r));
             },
             [](const row_facts& f) { return try_command(f.all); }},
    row_rule{
        {"semaphore-lock", "used as a lock",
         "a semaphore; 90 % of the credits or more were had at once, as many were posted as taken, and threads waited "
         "100 times or more",
         "threads waited 31 % of their time for it, and 99 % of its credits were there at once: it is used as a lock, "
         "or to share a pool; shorten what is done with the credit, or have more"},
        [](const row_facts& f) { return f.r.what == kind::semaphore && is_used_as_lock(f.r.seen); },
        [](const row_facts& f) {
          const counts& c = f.r.seen;
          const double missed = static_cast<double>(c.contended) / static_cast<double>(c.acquisitions);
          return fmt::format(
              "threads waited {} of their time for it, and {} of its credits were there at once: it is used as a "
              "lock, or to share a pool; shorten what is done with the credit, or have more",
              share_text(f.of_all), missed < 0.005 ? "all but " + small_share_text(missed) : share_text(1 - missed));
        },
        no_command},
    row_rule{{"no-credits", "out of credits", "any other semaphore that is waited for",
              "threads waited 31 % of their time for credits: for work, if it counts work; else there are too few"},
             [](const row_facts& f) { return f.r.what == kind::semaphore; },
             [](const row_facts& f) {
               return fmt::format(
                   "threads waited {} of their time for credits: for work, if it counts work; else there are too few",
                   share_text(f.of_all));
             },
             no_command},
    row_rule{{"herd", "herd",
              "a condition variable; 100 threads or more were woken, 4 or more by each signal that had a waiter",
              "40 threads wake for each broadcast: if only one of them can go on, signal one"},
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               const auto heard = static_cast<double>(c.signals - std::min(c.signals, c.unheard));
               return f.r.what == kind::condition && c.woken >= enough_woken && c.herd >= herd_size && heard > 0 &&
                      static_cast<double>(c.woken) >= herd_size * heard;
             },
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               const auto heard = static_cast<double>(c.signals - std::min(c.signals, c.unheard));
               return fmt::format("{:.0f} threads wake for each broadcast: if only one of them can go on, signal one",
                                  static_cast<double>(c.woken) / heard);
             },
             [](const row_facts& f) { return try_command(f.all); }},
    row_rule{{"slow-wake", "slow to wake",
              "a condition variable; 100 threads or more were woken, and half of them ran only 1 ms or more after the "
              "signal",
              "1.2 ms from signal to running: woken threads wait for a CPU, or for the mutex that the signaller still "
              "holds"},
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               return f.r.what == kind::condition && c.woken >= enough_woken &&
                      c.waiting.median.value_or(0) >= slow_wake;
             },
             [](const row_facts& f) {
               return fmt::format(
                   "{} from signal to running: woken threads wait for a CPU, or for the mutex that the "
                   "signaller still holds",
                   time_text(*f.r.seen.waiting.median));
             },
             [](const row_facts& f) { return try_command(f.all); }},
    row_rule{{"unheard", "often unheard",
              "a condition variable; 1,000 signals or more, 90 % of them or more without a waiter",
              "93 % of its signals have no waiter: cheap, but a look at the state before would save them"},
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               return f.r.what == kind::condition && c.signals >= enough_signals &&
                      static_cast<double>(c.unheard) >= mostly_unheard * static_cast<double>(c.signals);
             },
             [](const row_facts& f) {
               const counts& c = f.r.seen;
               return fmt::format(
                   "{} of its signals have no waiter: cheap, but a look at the state before would save them",
                   share_text(static_cast<double>(c.unheard) / static_cast<double>(c.signals)));
             },
             no_command},
    row_rule{{"condition", "waits for work", "any other condition variable",
              "threads wait here for something to happen; no lock changes that"},
             [](const row_facts&) { return true; },
             [](const row_facts&) -> std::string {
               return "threads wait here for something to happen; no lock changes that";
             },
             no_command},
};

// ---- the program ------------------------------------------------------------------------------------------------

/// The quantities of the program that its rules compare. To be made when all rows have their verdicts.
struct program_facts {
  const report& r;
  double of_all = 0;               ///< waiting time for mutexes, relative to all threads' time
  const row* hottest = nullptr;    ///< mutex that matters
  const row* credits = nullptr;    ///< semaphore that matters
  const row* herd = nullptr;       ///< condition variable with a verdict
  const row* waited_at = nullptr;  ///< the first condition variable
  double to_run = 0;               ///< time between a signal and the waiter's running, relative to all threads' time
};

bool says(const row& r, std::initializer_list<const char*> rules) {
  return std::any_of(rules.begin(), rules.end(), [&](const char* name) { return r.rule == name; });
}

program_facts facts_of(const report& r) {
  program_facts f{r};
  if (r.thread_seconds > 0) {
    f.of_all = r.waited[int(kind::mutex) - 1] / r.thread_seconds;
    f.to_run = r.waited[int(kind::condition) - 1] / r.thread_seconds;
  }
  for (const row& i : r.rows) {
    if (i.what == kind::mutex && f.hottest == nullptr && !says(i, {"cool", "uncontended"})) f.hottest = &i;
    if (i.what == kind::semaphore && f.credits == nullptr && says(i, {"no-credits", "semaphore-lock"})) f.credits = &i;
    if (i.what == kind::condition && f.waited_at == nullptr) f.waited_at = &i;
    if (i.what == kind::condition && f.herd == nullptr && says(i, {"herd", "slow-wake"})) f.herd = &i;
  }
  return f;
}

std::string waited_text(const program_facts& f) {
  return fmt::format("{} waited {} of their time for locks",
                     is_c_library(f.r) ? "threads" : "under " + f.r.lock + " threads", small_share_text(f.of_all));
}

struct program_rule {
  rule said;
  bool (*fits)(const program_facts&);
  std::string (*sentence)(const program_facts&);
  std::string (*next)(const program_facts&);
};

std::string no_next(const program_facts&) {
  return "";
}
std::string next_of(const row* r) {
  return r == nullptr ? "" : r->command;
}

const std::array program_rules = {
    program_rule{{"deadlock", "deadlock", "threads waited for each other in a circle for a second or more",
                  "threads 12 and 13 wait for each other for ever: lock in the same order everywhere"},
                 [](const program_facts& f) { return !f.r.deadlocks.empty(); },
                 [](const program_facts& f) {
                   const deadlock& d = f.r.deadlocks.front();
                   std::string names;
                   for (const deadlock::thread& t : d.threads) names += (names.empty() ? "" : ", ") + t.waits_for;
                   return deadlock_text(d) + " (" + names + ")";
                 },
                 no_next},
    program_rule{
        {"no-calls", "no calls", "nothing was recorded",
         "the program used no pthread mutex, condition variable or semaphore: no lock can make it faster"},
        [](const program_facts& f) { return f.r.rows.empty(); },
        [](const program_facts&) -> std::string {
          return "the program used no pthread mutex, condition variable or semaphore: no lock can make it faster";
        },
        no_next},
    program_rule{{"hot-mutex", "hot", "the verdict of a mutex says more than that it is not in the way",
                  "threads waited 31 % of their time for locks, 97 % of that for NAME: its verdict"},
                 [](const program_facts& f) { return f.hottest != nullptr; },
                 [](const program_facts& f) {
                   const row& h = *f.hottest;
                   std::string text = waited_text(f);
                   const double all = f.r.waited[int(kind::mutex) - 1];
                   const counts& c = h.seen;
                   if (f.of_all < worth_of_all && !c.threads.empty() && f.r.seconds > 0 &&
                       c.threads.front().waited >= worth_of_thread * f.r.seconds)
                     text += fmt::format(", but thread {} waited {}", id_text(c.threads.front().tid),
                                         time_text(c.threads.front().waited));
                   if (all > 0)
                     text +=
                         fmt::format(", {} of that for {}",
                                     c.waiting.total > 0.995 * all ? "all" : share_text(c.waiting.total / all), h.name);
                   return text + ": " + h.verdict;
                 },
                 [](const program_facts& f) { return next_of(f.hottest); }},
    program_rule{{"credits", "out of credits", "the verdict of a semaphore says more than that it is not in the way",
                  "threads waited 0.1 % of their time for locks, and 24 % for credits of NAME: for work, if it counts "
                  "work; else "
                  "there are too few"},
                 [](const program_facts& f) { return f.credits != nullptr; },
                 [](const program_facts& f) {
                   if (says(*f.credits, {"semaphore-lock"}))
                     return fmt::format("{}, but {}: {}", waited_text(f), f.credits->name, f.credits->verdict);
                   return fmt::format(
                       "{}, and {} for credits of {}: for work, if it counts work; else there are too few",
                       waited_text(f),
                       share_text(f.r.thread_seconds > 0 ? f.credits->seen.waiting.total / f.r.thread_seconds : 0),
                       f.credits->name);
                 },
                 [](const program_facts& f) { return next_of(f.herd); }},
    program_rule{
        {"wake-ups", "slow to wake", "1 % of all threads' time or more was from signals to running",
         "threads waited 0.1 % of their time for locks, and 12 % from signals to running, for a CPU or for the mutex; "
         "most for NAME: its verdict"},
        [](const program_facts& f) { return f.waited_at != nullptr && f.to_run >= worth_of_all; },
        [](const program_facts& f) {
          const row& c = f.herd != nullptr ? *f.herd : *f.waited_at;
          std::string text = fmt::format("{}, and {} from signals to running, for a CPU or for the mutex; most for {}",
                                         waited_text(f), share_text(f.to_run), f.waited_at->name);
          if (!says(c, {"condition"})) text += fmt::format("{}: {}", &c == f.waited_at ? "" : "; " + c.name, c.verdict);
          return text;
        },
        [](const program_facts& f) { return f.herd != nullptr ? f.herd->command : try_command(f.r); }},
    program_rule{
        {"scattered", "scattered", "1 % of all threads' time or more was waited for locks, but for none of them much",
         "threads waited 2.2 % of their time for locks, for no one of them much: better locks gain that at most"},
        [](const program_facts& f) { return f.of_all >= worth_of_all; },
        [](const program_facts& f) {
          return waited_text(f) + ", for no one of them much: better locks gain that at most";
        },
        [](const program_facts& f) { return next_of(f.herd); }},
    program_rule{{"cold", "cold", "any other program",
                  "threads waited 0.01 % of their time for locks: no lock can make this program faster"},
                 [](const program_facts&) { return true; },
                 [](const program_facts& f) {
                   std::string text = waited_text(f) + ": no lock can make this program faster";
                   if (f.herd != nullptr) text += fmt::format(". {}: {}", f.herd->name, f.herd->verdict);
                   return text;
                 },
                 [](const program_facts& f) { return next_of(f.herd); }},
};

template <class Rules>
std::vector<rule> texts_of(const Rules& rules) {
  std::vector<rule> all;
  for (const auto& r : rules) all.push_back(r.said);
  return all;
}

}  // namespace

std::span<const rule> rules_of_rows() {
  static const std::vector<rule> all = texts_of(row_rules);
  return all;
}

std::span<const rule> rules_of_programs() {
  static const std::vector<rule> all = texts_of(program_rules);
  return all;
}

const rule* find_rule(const std::string& name) {
  for (const auto rules : {rules_of_rows(), rules_of_programs()})
    for (const rule& r : rules)
      if (name == r.name) return &r;
  return nullptr;
}

void judge(report& r) {
  for (row& i : r.rows) {
    const row_facts f = facts_of(i, r);
    const auto& found = *std::find_if(row_rules.begin(), row_rules.end(), [&](const row_rule& x) { return x.fits(f); });
    std::string verdict = found.sentence(f), command = found.command(f);
    i.rule = found.said.name;
    i.verdict = std::move(verdict);
    if (!i.embedded) i.command = std::move(command);  // it would try other locks by USHER_LOCK
  }
  const program_facts f = facts_of(r);
  const auto& found =
      *std::find_if(program_rules.begin(), program_rules.end(), [&](const program_rule& x) { return x.fits(f); });
  std::string verdict = found.sentence(f), next = found.next(f);
  r.rule = found.said.name;
  r.verdict = std::move(verdict);
  r.next = std::move(next);
}

}  // namespace usher::cli::stat
