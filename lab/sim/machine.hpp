// A simulated machine as data, read from a file such as machines/x5-2.toml. Times are in cycles of the machine's clock.
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

/// The number of distances between two cores: the same complex (the cores behind one last-level cache), another complex
/// of the same socket, and one, two or three hops between sockets.
inline constexpr unsigned distances = 5;
inline constexpr unsigned most_sockets = 16, most_complexes = 64, most_cores = 512;
inline constexpr unsigned most_store_entries = 64;

/// The cache that supplies a clean line if several caches have a copy.
enum class protocol {
  mesi,   ///< the line's home
  mesif,  ///< the nearest complex with a copy
  moesi,  ///< the complex that wrote the line last
};

/// How long a line's home accepts no other request for the line, after a request that goes to another complex or to
/// memory.
enum class home_agent : std::uint8_t {
  none,           ///< not at all: caches ask each other (source snooping)
  until_answer,   ///< until the one cache named by the directory has answered: the request's own latency
  until_answers,  ///< until all caches have answered (home snooping): the machine's longest latency
};

/// The time at which a retired store requests ownership of its line.
enum class ownership : std::uint8_t {
  in_turn,  ///< when all older stores are written
  ahead,    ///< at once
  /// As soon as it retires, unless the store buffer contains a store that hit between this store and an older store
  /// that still waits.
  ahead_until_a_hit,
};

struct machine {
  std::string name, title;
  std::string file;  ///< the machine's file; empty if it was read from a text
  /// The SHA-256 of the file's keys and values after the requested changes, in 64 hexadecimal digits: two machines of
  /// one name differ if their values do. Sources, comments and layout do not count.
  std::string hash;
  unsigned mhz = 0;

  // ---- topology ----
  unsigned sockets = 1, cores = 1 /* a socket */, hardware_threads = 1 /* a core */;
  unsigned complexes = 1;  ///< per socket. A complex is the cores that share a last-level cache
  unsigned nodes = 1;      ///< NUMA nodes per socket, as locks and the operating system see them
  unsigned group = 0;  ///< sockets per group: one hop within a group, two between groups. 0: one hop between any two
  std::vector<std::vector<unsigned>> hops;  ///< between sockets, instead of `group`
  unsigned used_cores = 0;                  ///< cores per socket that a compact placement fills first. 0: all
  bool fetch_add = true, swap = true;       ///< false: a loop of compare-and-swap instead
  cycles spin = 0;                          ///< how long a waiter polls before it parks; 0: as natively, 5555 ns
  /// The cost of a step of std::mt19937, the programs' unit of work, in 1/1024 cycles. 9 cycles were measured natively;
  /// they include a step's share of the twist, the generator's regular refill.
  unsigned step = 9 * 1024;

  // ---- coherence ----
  protocol coherence = protocol::mesif;
  cycles hit = 0;     ///< a load that hits
  cycles modify = 0;  ///< a read-modify-write, in addition to a store
  std::array<cycles, distances> clean{}, dirty{}, invalidate{}, memory{};
  cycles per_sharer = 0;    ///< added to an invalidation for each copy in the complex
  cycles per_read = 0;      ///< how long a complex is busy with supplying a line
  cycles poll_period = 0;   ///< period of a spin loop
  cycles exit_penalty = 0;  ///< from the load that ends a spin loop to the next instruction
  /// Entries of a hardware thread's store buffer: retired stores that are not written yet. 0: the thread waits for each
  /// store.
  unsigned store_entries = 1;
  ownership asks = ownership::in_turn;
  /// True: a store to a line that the same core has just loaded from another core's cache needs no second transfer if
  /// no third core has a copy, because ownership is requested together with the load.
  bool load_then_store_at_once = false;
  unsigned jitter = 0;        ///< share of a one-way latency that is random, with an exponential tail, in 1/1024
  bool through_home = false;  ///< requests to another complex go via the line's home
  /// Accesses that leave the complex travel via the socket of the line's home.
  bool through_homes_socket = false;
  home_agent homes = home_agent::none;
  std::optional<unsigned> home;  ///< the home complex of all lines; else that of a line's first access
  /// An atomic operation on a line that the core does not own is executed at the line's home, which then has the only
  /// copy (a far atomic). If false, the core fetches the line first (a near atomic).
  bool far_atomics = false;
  /// Cycles from the write of a word until a waiter that monitors the word's line continues. 0: such a waiter polls
  /// like others.
  cycles monitor_wake = 0;

  // ---- hardware threads of a core ----
  unsigned pipelines = 1;
  // For cores with one pipeline: the factor, in 1/1024, by which a computation takes longer while another hardware
  // thread of the core works (slowed_by_work) or only spins (slowed_by_spin).
  unsigned slowed_by_work = 1024;
  unsigned slowed_by_spin = 1024;
  unsigned weight_of_spin = 1024;  ///< with several pipelines: the share of one that a spinning hardware thread takes
  unsigned alone = 1024;           ///< with several pipelines: the speed of a hardware thread that is alone on its core

  // ---- operating system; without this section a CPU has at most one thread ----
  struct scheduler {
    cycles slice = 0;           ///< how long a thread runs while others wait for its CPU
    cycles context_switch = 0;  ///< from one thread to another on a CPU
    cycles syscall = 0;         ///< a futex call or a yield, of the caller's time
    cycles wake = 0;            ///< a wake-up, of the waker's time in addition to `syscall`
    cycles wake_queued = 0;     ///< the same where no CPU is idle and the thread is queued at once; 0: as `wake`
    cycles yields_after = 0;    ///< polls after which a waiter that will park yields between polls; 0: never
    cycles latency_least = 0, latency_mean = 0;  ///< from the wake-up until the thread may run
    /// A CPU that has been idle for at least idle_after[i] cycles needs idle_exit[i] additional cycles before it runs a
    /// thread.
    std::vector<cycles> idle_after{}, idle_exit{};
    bool migrate = true;
    // Interruptions of CPUs that run a thread; a period of 0: none.
    cycles tick_period = 0, tick = 0;  ///< of the timer, and how long its interrupt takes
    unsigned tick_cpus = 0;            ///< so many CPUs have a timer; 0: all
    cycles daemon_period = 0,
           daemon = 0;       ///< between other processes, and their time: means of exponential distributions
    cycles least_sleep = 0;  ///< a sleep with a time limit lasts at least so long, unless a wake-up ends it
    // True: Solaris' time-sharing class (time_sharing.hpp). Priorities instead of `slice` then decide which thread has
    // a CPU.
    bool time_sharing = false;
    cycles clock_tick = 0;
    unsigned update_ticks = 0;    ///< between two updates of all priorities
    unsigned rechoose_ticks = 0;  ///< a thread that left its CPU longer ago may be queued at another CPU
    unsigned first_priority = 0;  ///< of a thread that begins
  };
  std::optional<scheduler> os;

  // ---- cache capacity, for large arrays ----
  struct cache {
    std::uint64_t bytes = 0;  ///< the last-level cache of a complex
    unsigned ways = 16, line = 64;
    std::uint64_t private_bytes = 0;  ///< the private cache of a core; 0: not modelled
    unsigned private_ways = 8;
    cycles access = 0;         ///< pipeline time of a load and the loop around it
    cycles hit = 0;            ///< stall of a load that hits the last-level cache
    cycles miss = 0;           ///< stall of a load from memory, in addition to `hit`
    cycles channel = 0;        ///< how long a miss occupies the socket's memory channels
    unsigned tlb_entries = 0;  ///< per core; 0: not modelled
    cycles tlb_miss = 0;
  };
  std::optional<cache> caches;

  // ---- parts of the model that tests switch off, to show their effect (docs/simulation.md); no file sets them ----

  /// Misses are served in order of arrival. If false: in order of departure, so that near cores have no advantage.
  bool ordered_by_arrival = true;
  /// For a line that a core got from another core, one request at a time is under way. If false, the next request is
  /// answered as soon as the core of the present request has the line.
  bool one_request_to_owner = true;
  bool keeps_for_retry = true;  ///< a compare-and-swap that is retried at once after a failure hits
  bool merges_fills = true;     ///< a read waits for another hardware thread's fill of the line; false: it hits at once
  /// Sharing a core also slows the instructions of locks. If false, it slows only the work of programs.
  bool hardware_threads_slow_all = true;
  /// After a write, spinners load the word again at random moments of their loops. If false: all at once, in the order
  /// of the threads' numbers.
  bool random_refetch = true;

  std::vector<std::string> fitted;  ///< keys that were fitted to a figure of a paper

  /// The machine's name in errors.
  const std::string& file_or_name() const { return file.empty() ? name : file; }

  unsigned all_cores() const { return sockets * cores; }
  unsigned all_complexes() const { return sockets * complexes; }
  unsigned all_nodes() const { return sockets * nodes; }
  unsigned cpus() const { return all_cores() * hardware_threads; }
  unsigned complex_of(unsigned core) const { return core / (cores / complexes); }
  unsigned node_of(unsigned core) const { return core / (cores / nodes); }
  cycles from_ns(std::uint64_t ns) const { return ns * mhz / 1000; }
  std::uint64_t to_ns(cycles c) const { return c * 1000 / mhz; }

  /// Returns the number of hops between two sockets; 0 for the same one.
  unsigned hops_between(unsigned a, unsigned b) const {
    if (a == b) return 0;
    if (!hops.empty()) return hops[a][b];
    return group == 0 || a / group == b / group ? 1 : 2;
  }
  /// Returns the index into the machine's lists of costs for an access between two complexes. If each socket is one
  /// complex, the lists have no entry for "another complex of the socket".
  unsigned distance(unsigned a, unsigned b) const {
    if (a == b) return 0;
    return hops_between(a / complexes, b / complexes) + (complexes > 1 ? 1 : 0);
  }
  /// Returns the largest index into the lists of costs that this machine uses.
  unsigned farthest() const {
    unsigned most = complexes > 1 ? 1 : 0;
    for (unsigned c = 0; c < all_complexes(); c += complexes)
      for (unsigned d = 0; d < all_complexes(); d += complexes) most = std::max(most, distance(c, d));
    return most;
  }
};

/// An error in a machine's file: one line that names the file and the key.
struct bad_machine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads a machine's file. `changes` maps section.key to the value that replaces the file's, as TOML or as a bare word
/// ("coherence.per_read" → "0", "coherence.clean" → "[50, 240]", "coherence.protocol" → "MESI"); the source that the
/// file gives for the number stays. Throws bad_machine.
machine read_machine(const std::string& file, const std::map<std::string, std::string>& changes = {});

/// The values of a machine's file, by section.key, in the form of JSON. Throws bad_machine.
std::map<std::string, std::string> machine_values(const std::string& file);

/// Reads a machine from the text of such a file. `name` becomes the machine's name, also in error messages.
machine read_machine_text(const std::string& text, const std::string& name,
                          const std::map<std::string, std::string>& changes = {});

}  // namespace usher::sim
