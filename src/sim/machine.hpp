// A machine as data: what machines/*.toml says, in cycles of its clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace usher::sim {

using cycles = std::uint64_t;

/// Same complex; another of the same socket; one, two and three hops between sockets.
inline constexpr unsigned distances = 5;
inline constexpr unsigned most_sockets = 16, most_complexes = 64, most_cores = 512;
inline constexpr unsigned most_store_entries = 64;

/// Who supplies a line that several caches have.
enum class protocol {
  mesi,   ///< its home
  mesif,  ///< the nearest socket that has it
  moesi,  ///< whoever wrote it last
};

/// When a store that has retired asks for its line.
enum class ownership : std::uint8_t {
  in_turn,            ///< when all older ones are written
  ahead,              ///< at once
  ahead_until_a_hit,  ///< at once, unless a store that hit stands between it and an older one that still waits
};

struct machine {
  std::string name, title;
  std::string file;  ///< that it was read from
  unsigned mhz = 0;

  // ---- topology ----
  unsigned sockets = 1, cores = 1 /* a socket */, hardware_threads = 1 /* a core */;
  unsigned complexes = 1;  ///< of a socket: cores that share a last-level cache
  unsigned nodes = 1;      ///< NUMA nodes of a socket, as locks and the system see them
  unsigned group = 0;      ///< sockets that are one hop apart; others are two. 0: all are one hop apart
  std::vector<std::vector<unsigned>> hops;  ///< between sockets, instead of groups
  unsigned used_cores = 0;                  ///< of each socket, by threads that are placed compactly. 0: all
  bool fetch_add = true, swap = true;       ///< else: loops of compare-and-swap
  cycles spin = 0;                          ///< how long a waiter that parks spins first; 0: as natively, 5555 ns
  unsigned step = 9 * 1024;  ///< of a std::mt19937, the programs' unit of work, in 1/1024. 9: measured for the
                             ///< prototype (natively, twisting spread over the steps)

  // ---- coherence ----
  protocol coherence = protocol::mesif;
  cycles hit = 0;     ///< a load that hits
  cycles modify = 0;  ///< what a read-modify-write takes beyond a store
  std::array<cycles, distances> clean{}, dirty{}, invalidate{}, memory{};
  cycles per_sharer = 0;    ///< an invalidation, for each cache of the complex that has the line
  cycles per_read = 0;      ///< what a complex is busy for when it supplies a line
  cycles directory = 0;     ///< what a line's home is busy for with a request from a complex to another, or to memory
  cycles poll_period = 0;   ///< period of a spin loop
  cycles exit_penalty = 0;  ///< from the load that ends a spin loop to the next instruction
  unsigned store_entries =
      1;  ///< stores of a hardware thread that have retired and wait to be written; 0: it waits for each
  ownership asks = ownership::in_turn;
  /// A store to a line that the same core has just read from another's cache, and that no third one has, makes no second journey: its
  /// request was sent with the load's.
  bool load_then_store_at_once = false;
  unsigned jitter = 0;           ///< mean of the exponential tail of a one-way latency, in 1/1024 of it
  bool through_home = false;     ///< what another socket has is asked for by way of the line's home
  std::optional<unsigned> home;  ///< the complex at which all lines are at home; else where they were first used

  // ---- hardware threads of a core ----
  unsigned pipelines = 1;
  unsigned slowed_by_work =
      1024;  ///< with one pipeline: computing takes so many 1/1024 while another hardware thread works …
  unsigned slowed_by_spin = 1024;  ///< … or only spins
  unsigned weight_of_spin = 1024;  ///< with more pipelines: a spinning hardware thread's part of one
  unsigned alone = 1024;           ///< and a hardware thread that is alone on its core computes so many 1/1024 as fast

  // ---- operating system; without it there is one thread a CPU at the most ----
  struct scheduler {
    cycles slice = 0;           ///< how long a thread runs while others wait for its CPU
    cycles context_switch = 0;  ///< a context switch
    cycles syscall = 0;         ///< a futex call, of the caller's time
    cycles wake = 0;            ///< what waking costs the waker
    cycles wake_queued = 0;     ///< … where the thread finds no idle CPU: it is in a queue at once then.
                                ///< 0: as everywhere
    cycles yields_after = 0;    ///< looks after which a waiter that will sleep offers its CPU between looks; 0: never
    cycles latency_least = 0, latency_mean = 0;  ///< from the wake to when the thread may run
    /// A CPU that has been idle for idle_after[i] takes idle_exit[i] longer to begin.
    std::vector<cycles> idle_after{}, idle_exit{};
    bool migrate = true;
  };
  std::optional<scheduler> os;

  // ---- capacity ----
  struct cache {
    std::uint64_t bytes = 0;  ///< the last level of a complex
    unsigned ways = 16, line = 64;
    std::uint64_t private_bytes = 0;  ///< of a core, in front of it; 0: not modelled
    unsigned private_ways = 8;
    cycles access = 0;         ///< what a load and the loop around it take of the pipeline
    cycles hit = 0;            ///< a load that the last level answers waits for so long …
    cycles miss = 0;           ///< … and one that memory answers for so much longer
    cycles channel = 0;        ///< how long a miss keeps the socket's memory channels busy
    unsigned tlb_entries = 0;  ///< of a core; 0: not modelled
    cycles tlb_miss = 0;
  };
  std::optional<cache> caches;

  // ---- what can be left out, to see what breaks without it (docs/simulation.md). No file does ----
  bool ordered_by_arrival = true;         ///< misses; else by departure: the near ones have no advantage
  bool keeps_for_retry = true;            ///< a compare-and-swap that failed and is tried again at once hits
  bool merges_fills = true;               ///< a read joins another hardware thread's that is under way; else it hits
  bool hardware_threads_slow_all = true;  ///< instructions of locks, too; else only what programs compute
  bool random_refetch =
      true;  ///< spinners look again at a random moment of their loop; else together, in the order of their numbers

  std::vector<std::string> fitted;    ///< the keys that were set so that a figure came out
  std::vector<std::string> old_keys;  ///< that were given by names up to 0.2: "coherence.look (now …)"

  /// As complaints name it.
  const std::string& said() const { return file.empty() ? name : file; }

  unsigned all_cores() const { return sockets * cores; }
  unsigned all_complexes() const { return sockets * complexes; }
  unsigned all_nodes() const { return sockets * nodes; }
  unsigned cpus() const { return all_cores() * hardware_threads; }
  unsigned complex_of(unsigned core) const { return core / (cores / complexes); }
  unsigned node_of(unsigned core) const { return core / (cores / nodes); }
  cycles from_ns(std::uint64_t ns) const { return ns * mhz / 1000; }
  std::uint64_t to_ns(cycles c) const { return c * 1000 / mhz; }

  /// Between sockets: 0 for the same one.
  unsigned hops_between(unsigned a, unsigned b) const {
    if (a == b) return 0;
    if (!hops.empty()) return hops[a][b];
    return group == 0 || a / group == b / group ? 1 : 2;
  }
  /// Between complexes, as the lists of costs are ordered: where a socket is one complex, there is nothing between the same and one
  /// hop.
  unsigned distance(unsigned a, unsigned b) const {
    if (a == b) return 0;
    return hops_between(a / complexes, b / complexes) + (complexes > 1 ? 1 : 0);
  }
  /// Of the list of costs.
  unsigned farthest() const {
    unsigned most = complexes > 1 ? 1 : 0;
    for (unsigned c = 0; c < all_complexes(); c += complexes)
      for (unsigned d = 0; d < all_complexes(); d += complexes) most = std::max(most, distance(c, d));
    return most;
  }
};

/// What is wrong with a machine's file: one line that names the file and the key.
struct bad_machine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads a machine's file. `changes` maps section.key to the value that replaces the file's, as TOML or as a bare word
/// ("coherence.per_read" → "0", "coherence.clean" → "[50, 240]", "coherence.protocol" → "MESI"); its source stays. Throws
/// bad_machine.
machine read_machine(const std::string& file, const std::map<std::string, std::string>& changes = {});

/// Reads a machine from the text of such a file. `name` is the machine's, also in errors.
machine read_machine_text(const std::string& text, const std::string& name,
                          const std::map<std::string, std::string>& changes = {});

}  // namespace usher::sim
