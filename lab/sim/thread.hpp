// The state of a simulated thread, which the engine, the scheduler and the memory accesses share. The comment above a
// group of fields names the classes that mainly use it.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <functional>

#include "lab/sim/machine.hpp"
#include "lab/sim/random.hpp"
#include "lab/sim/store_buffer.hpp"
#include "lab/sim/time_sharing.hpp"

namespace usher::sim {

struct line;

/// A condition on a word that a spinning or sleeping thread waits for.
struct condition {
  bool (*holds)(void* context, const void* word);
  void* context;
  const void* word;
  unsigned size;          ///< of the word
  cycles period = 0;      ///< of a spinning thread's loads; 0: the machine's poll_period
  bool monitors = false;  ///< waits by an instruction that monitors the word's line
};

enum class activity : std::uint8_t { works, spins, sleeps, ended };

/// After a failed compare-and-swap, the core keeps the line for a retry. The thread's next access ends this state,
/// unless it is a load of the same word, a retry, or a store to another word: any other access could return a value
/// that is newer than the value found.
struct retry {
  const void* word = nullptr;
  std::uint64_t found = 0;
  cycles until = 0;
  unsigned left = 0;  ///< retries that may still hit
};

struct simulated_thread {
  simulated_thread(unsigned i, std::uint64_t seed) : id(i), chance(seed) {}

  // ---- all ----
  unsigned id, cpu = 0, core = 0, socket = 0;
  activity does = activity::works;
  std::uint32_t epoch = 0;  ///< events of an earlier epoch are void
  cycles now = 0;

  // ---- scheduler ----
  bool on_cpu = false;
  bool urgent = false;
  cycles owed = 0;  ///< preempted in the middle of an operation: the operation's remaining time
  cycles on_cpu_since = 0;
  std::uint32_t mask = 0;  ///< of wake-ups that end its sleep
  time_share share;        ///< on a machine with the time-sharing class

  // ---- access and scheduler: waiting on a word ----
  condition waits_for{};
  bool timed_out = false;
  cycles deadline = 0;
  line* watched = nullptr;

  // ---- access ----
  cycles last_poll = 0;
  store_queue stores;
  retry again;
  const line* fetched = nullptr;  ///< the line of its last load that missed
  cycles fetched_at = 0;
  std::uint64_t forwarded = 0;

  // ---- engine ----
  cycles synced = 0;  ///< when the thread last let earlier events happen
  random chance;
  std::function<void()> body;
  boost::context::fiber context;  ///< the last field: its destructor unwinds the fiber, which uses the others
};

}  // namespace usher::sim
