// A plan is the list of steps that simulated threads replay. It is made from a recording and from changes of the
// program whose effect is to be predicted.
//
// The streams of all threads of a role, one after another, are the role's *tape*. A replayed thread begins at a random
// place of its role's tape and reads it in a circle, so that long runs have the recorded frequencies for any number of
// threads.
//
// A *slot* is the operand of a lock step. It has one lock, that of a recorded object, or it has several locks, and each
// section draws one of them:
//   - an array of mutexes: the objects of one site, if each object is used by less than half of the threads that use
//     the site. A section draws by the recorded frequencies
//   - the parts of a split object, with equal probabilities
//
// A step may acquire a slot while the thread holds others. The most frequent of such nested acquisitions define an
// order of slots. A thread never waits for a slot against this order, since the replay could deadlock where the program
// does not: it tries to lock, and on failure goes on without the lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/predict/signal_rules.hpp"
#include "lab/recordings/recording.hpp"

namespace usher::predict {

/// The reason why a recording cannot be replayed, in one line.
struct bad_recording : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct plan_changes {
  std::set<std::uint32_t> halved_objects, halved_sites;
  std::map<std::uint32_t, unsigned> split;  ///< object: number of parts
  /// The number of threads of some roles, by index of the role; the other roles share the remaining threads.
  std::map<std::uint32_t, unsigned> fixed_roles;
  unsigned work_percent = 100;  ///< work of all steps, within and outside of sections
};

enum class step_kind : std::uint8_t {
  pass,  ///< work only
  lock,
  unlock,
  wait,   ///< takes a token of a condition
  sleep,  ///< releases the mutex for a time; without a mutex, only sleeps
  notify,
  read_lock,
  write_lock,
  read_write_unlock,
  semaphore_wait,
  semaphore_post,
  barrier_wait,
};

/// One step of a replayed thread: computes for `work`, then is off the CPU for `away`, then posts tokens, then makes a
/// call.
struct step {
  std::uint64_t work = 0, away = 0;  ///< ns
  std::uint64_t asleep = 0;          ///< of `sleep`, ns
  std::uint32_t on = none;      ///< lock, read-write lock: the slot; wait, notify: the condition; semaphore; barrier
  std::uint32_t takes = none;   ///< of `lock`: the condition from which the section takes a token
  std::uint32_t tokens = none;  ///< the first of the tokens to post, in replay_plan::tokens
  std::uint32_t ends =
      none;  ///< of `unlock`: the condition that is signalled if the section is the last one of a round
  step_kind what = step_kind::pass;
  std::uint8_t held =
      no_mutex;              ///< the lock's place among those that the thread holds; of `sleep` and `wait`: the mutex's
  bool tries = false;        ///< only tries to lock: a wait would contradict the order of slots
  bool to_all = false;       ///< of `notify`
  bool opens = false;        ///< of `notify`: it opens a round
  bool handed_over = false;  ///< of an unlock: another thread had the object before, when the program was recorded
  bool may_start = false;    ///< the thread holds nothing before this step

  static constexpr std::uint8_t no_mutex = 0xff;
};

/// Tokens that a step posts. A token permits one wait on the condition to end.
struct token {
  std::uint32_t condition = none;
  std::uint32_t count = 0;
  bool to_all = false;        ///< of a broadcast: `count`, or as many as threads wait, if these are more
  std::uint32_t next = none;  ///< the next tokens of the same step
};

struct slot {
  bool is_read_write = false;
  bool has_condition = false;
  std::vector<std::uint32_t> objects;  ///< by lock of the slot: the recorded object
  std::vector<std::uint64_t> up_to;    ///< by lock: the sum of the frequencies up to and with this one
  unsigned parts = 1;                  ///< the number of parts of a split object
  // Counts of the recording:
  std::uint64_t operations = 0, section_ns = 0;  ///< section_ns: the sum over all sections
  /// Limits of the estimate how many cache lines a section moves if another CPU had the lock before (lines_of()).
  double least_lines = 0, most_lines = 0;
  bool lines_measured = false;
};

struct role {
  std::string name;
  unsigned threads = 0;  ///< of the recording
  std::vector<step> tape;
  std::vector<std::uint32_t> starts;       ///< steps before which a thread holds nothing
  std::vector<std::uint64_t> start_times;  ///< the tape's time before each of them
  std::uint64_t time = 0;                  ///< of the whole tape, without waits
  std::uint64_t operations = 0;
  std::uint64_t work = 0;
};

/// The credits of a semaphore, or the tokens of a condition under the rule *counted*. They are used *in pairs* if a
/// thread posts only what it has taken before, as with a limited number of connections. A replayed thread then begins
/// without a credit.
struct semaphore_facts {
  std::uint64_t waits = 0, posts = 0;
  bool in_pairs = false;
  std::uint32_t at_first = 0;
  bool balanced = true;  ///< false: its waits are replayed as sleeps
};

/// Counts of events that are not replayed as they were recorded.
struct left_out {
  std::uint64_t unknown_waits =
      0;  ///< waits that no recorded signal has ended; replayed as sleeps of the recorded length
  std::uint64_t timed_out_waits = 0;          ///< the same
  std::uint64_t unknown_semaphore_waits = 0;  ///< the same
  std::uint64_t joins = 0;                    ///< the same
  std::uint64_t failed_tries = 0;             ///< replayed as their work
  std::uint64_t unlocks_without_lock = 0;     ///< left out: the section began before the window
  std::uint64_t held_at_end = 0;              ///< sections that the window's end cuts
  std::uint64_t recursive = 0;                ///< flattened
  std::uint64_t too_deep = 0;                 ///< locks beyond the eighth that a thread held at once
  std::uint64_t impossible = 0;               ///< events whose objects do not exist or are of another kind; left out
  std::uint64_t lost = 0;                     ///< events for which the recorder had no room
  std::uint64_t idle_streams = 0;             ///< streams without work and without a call
  std::uint64_t against_order = 0;            ///< lock steps that only try
};

struct replay_plan {
  std::vector<role> roles;
  std::vector<slot> slots;
  std::vector<token> tokens;
  std::vector<recording::object> objects;
  std::vector<condition_facts> conditions;                         ///< by object
  std::map<std::uint32_t, std::set<std::uint32_t>> waiting_roles;  ///< by condition: the roles that take its tokens
  std::set<std::uint32_t> paired_conditions;
  std::set<std::uint32_t> opening_roles;  ///< roles whose threads open rounds; these roles keep their number of threads
  std::map<std::uint32_t, semaphore_facts> semaphores;
  std::map<std::uint32_t, std::set<std::uint32_t>> barriers;  ///< by barrier: the roles that use it
  recording::recorded_on machine;
  left_out left;
  // Figures of the recording:
  unsigned threads = 0;
  double operations_per_second = 0;
  double seconds = 0;
  std::size_t windows = 0;
  bool sleeps = false;  ///< some step needs a scheduler
};

inline constexpr std::size_t most_held = 8;

/// Throws bad_recording.
replay_plan make_plan(const recording::recording& r, const plan_changes& changes = {});

/// Returns how many of `threads` threads have each role: in the recorded proportion, and at least one for each role if
/// there are enough. Throws bad_recording.
std::vector<unsigned> threads_of_roles(const replay_plan& p, const plan_changes& changes, unsigned threads);

/// Returns the object's name in messages, "mutex 3 (site 2)"; if the recording has names, "queue_lock".
std::string name_of(const std::vector<recording::object>& objects, std::uint32_t object);

}  // namespace usher::predict
