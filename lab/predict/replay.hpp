// Replays a plan (replay_plan.hpp) on a simulated machine, with any number of threads and any lock of the catalogue.
//
// The work of a step takes the recorded time, whatever the clock rate of the simulated machine is. A mutex is the
// chosen lock. If threads wait on conditions with the mutex, the lock is followed by the words of wait morphing
// (core/wait_morphing.hpp), and the conditions are core/condition_core.hpp, as in libusher.so. Read-write locks are
// always phase-fair, and semaphores are core/semaphore_core.hpp, whatever lock is chosen. Posting and taking tokens
// costs no simulated time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lab/predict/replay_plan.hpp"
#include "lab/predict/requeueing_lock.hpp"
#include "lab/sim/simulated_lock.hpp"
#include "lab/sim/world.hpp"
#include "usher/core/condition_core.hpp"
#include "usher/core/semaphore_core.hpp"
#include "usher/locks/phase_fair.hpp"

namespace usher::predict {

/// The number of cache lines that a critical section moves from the previous owner's CPU.
struct moved_lines {
  bool most = false;              ///< the upper limit of the recording's estimates, else the lower one
  std::optional<unsigned> fixed;  ///< this number of lines in each section, instead of the recording's estimates
};

/// Returns the mean number of lines that a section of the slot moves.
double lines_of(const slot& s, const moved_lines& lines);

/// Measurements of one lock in the measured time.
struct lock_use {
  std::uint32_t object = none;
  unsigned part = 0;  ///< the number of the part, if the recorded object is split; otherwise 0
  std::uint64_t operations = 0;
  sim::cycles held = 0;    ///< in sum
  sim::cycles wanted = 0;  ///< time in which a thread held it or waited for it
  sim::cycles waits = 0, longest = 0;
  std::vector<std::uint16_t> history;  ///< threads in the order of their admissions
};

class replay {
 public:
  /// `p` must outlive the replay.
  replay(sim::world& w, const replay_plan& p, const std::vector<unsigned>& threads_of_roles,
         const sim::simulated_lock& table, const moved_lines& lines);

  /// Replays one thread until the measured time is over.
  void run(sim::world::thread& t);

  /// Returns the measurements of all locks. To be called once, after the run.
  std::vector<lock_use> uses(sim::cycles end);
  sim::cycles waited_for_tokens() const { return waited_for_tokens_; }
  /// The number of acquisitions that were skipped: the lock was not free, and a wait for it would have contradicted the
  /// order of slots.
  std::uint64_t not_acquired() const { return not_acquired_; }
  /// The number of waits that were ended without a token to avoid a deadlock, because all other threads waited, too.
  std::uint64_t stalls() const { return stalls_; }

 private:
  using P = sim::simulated;

  template <waiting_kind K>
  using fair = phase_fair<P, waiting<P, K>>;

  /// A read-write lock whose waiters sleep if the machine has a scheduler.
  struct read_write_lock {
    fair<waiting_kind::spin>* spinning = nullptr;
    fair<waiting_kind::spin_then_park>* parking = nullptr;
    void lock(bool reads);
    void unlock(bool reads);
  };

  struct condition {
    basic_condition_variable<P>* it = nullptr;
    std::uint64_t tokens = 0;
    unsigned waiting = 0;
    // For a condition that opens rounds:
    std::uint64_t round = 0;
    unsigned members = 0, done = 0;  ///< threads that take part in each round; those that have finished this round
  };

  /// A POSIX barrier: the last thread of a round releases all others.
  struct barrier {
    P::atomic<std::uint32_t>* arrived = nullptr;
    P::atomic<std::uint32_t>* round = nullptr;
    unsigned members = 0, waiting = 0;
  };

  /// One of the locks of a slot.
  struct instance {
    std::optional<requeueing_lock> exclusive;
    read_write_lock read_write;
    lock_use use;
    std::vector<P::plain<std::uint64_t>*> lines;
    std::uint64_t sections = 0;
    unsigned wanting = 0;  ///< threads that hold it or wait for it
    sim::cycles since = 0;
  };

  struct held_instance {
    instance* it = nullptr;
    sim::cycles since = 0;
    bool reads = false;
  };

  struct reader {
    const role* of = nullptr;
    std::uint32_t at = 0;
    held_instance held[most_held];
    std::map<std::uint32_t, std::uint64_t> rounds;  ///< by condition: the last round whose opening the thread has seen
    std::map<std::uint32_t, std::uint64_t> done;    ///< by condition: the last round that the thread has finished
    double owed = 0;  ///< ns of line transfers to subtract from the recorded work of later sections
  };

  void make_slots(sim::world& w, const sim::simulated_lock& table, const moved_lines& lines);
  void compute(sim::world::thread& t, std::uint64_t ns);
  void sleep(std::uint64_t ns);
  void sleep_without(held_instance& h, std::uint64_t ns);
  void take(sim::world::thread& t, reader& me, const step& s);
  void release(held_instance& h);
  void arrives(instance& i, sim::cycles now);
  void leaves(instance& i, sim::cycles now);
  void admitted(instance& i, sim::cycles arrived);
  instance& drawn(const slot& s, std::uint32_t first, sim::world::thread& t);
  void wait_awhile(condition& c, instance& i);
  void wait_for_token(sim::world::thread& t, instance* i, std::uint32_t condition);
  void wait_for_round(sim::world::thread& t, reader& me, instance& i, std::uint32_t condition);
  void end_round(reader& me, std::uint32_t condition);
  void post(std::uint32_t first);
  void wait_at(sim::world::thread& t, barrier& b);
  void wait_for_semaphore(sim::world::thread& t, semaphore_core<P>& s);
  void notify(const step& s);
  std::uint64_t work_without_transfers(reader& me, const step& s);
  void call(sim::world::thread& t, reader& me, const step& s);
  void step_on(sim::world::thread& t, reader& me, const step& s);
  bool measured(sim::cycles t) const { return t > begin_ && t <= end_; }
  sim::cycles clipped(sim::cycles from, sim::cycles to) const;

  const replay_plan& plan_;
  const sim::cycles begin_, end_;
  const bool has_scheduler_;
  std::vector<std::uint32_t> role_of_;  // by thread
  std::vector<std::uint32_t> first_;    // by slot: the index of its first instance
  std::vector<std::unique_ptr<instance>> instances_;
  std::vector<double> lines_;          // by slot: the lines that a section moves
  std::vector<condition> conditions_;  // by object
  std::vector<std::optional<barrier>> barriers_;
  std::vector<semaphore_core<P>*> semaphores_;
  sim::cycles waited_for_tokens_ = 0;
  /// Whether the calling thread would deadlock by waiting: all other threads wait, and no token or credit is left.
  bool is_stalled() const { return waiting_ + 1 == role_of_.size() && free_ <= 0; }

  std::size_t waiting_ = 0;  ///< threads that wait for tokens, credits or a barrier
  std::int64_t free_ = 0;    ///< tokens and credits that no thread has taken
  std::uint64_t not_acquired_ = 0, stalls_ = 0;
};

}  // namespace usher::predict
