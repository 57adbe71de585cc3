// The papers' benchmark programs. Each program is written once, over a `world`: either this computer or a simulated
// machine.
//
// A program is a class template over the world. Its function about() describes it. It is constructed once for each run,
// and then every thread calls it repeatedly until the measured time is over. Then each thread calls finish(), if the
// program has this function. Locks, shared words, arrays, delays and random numbers come from the world and from the
// calling thread, so that the same code runs on the simulated machine and on the hardware.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "usher/core/platform.hpp"
#include "usher/core/traits.hpp"

namespace usher::workloads {

/// The placement of threads on CPUs.
enum class placement {
  scattered,  ///< sockets in turn, first hardware threads of all cores first: as a scheduler spreads threads
  compact,    ///< one socket after another, second hardware threads last
  even,       ///< the same number of consecutive threads on each socket
};

struct parameter {
  const char* name;
  long value;  ///< the default
  long least, most;
  const char* meaning;
};

struct description {
  const char* name;
  const char* summary;
  const char* source;  ///< paper, section
  std::vector<parameter> parameters;
  placement where = placement::scattered;
  bool arrays = false;           ///< reads arrays so large that cache capacity matters
  bool one_lock = true;          ///< has one lock whose admissions are of interest
  bool metered = false;          ///< waits and holds are of interest: natively, the clock is read for them
  bool guards = false;           ///< would corrupt its data, not only miscount, under a lock that does not exclude
  const char* some = nullptr;    ///< if threads are of two kinds: the name of the threads of one kind
  const char* others = nullptr;  ///< the name of the threads of the other kind
};

/// The reason why a program cannot be run with these parameters, in one line.
struct bad_program : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws bad_program if there are more guests (threads that lock without a queue node) than threads, or if the lock
/// admits no guests.
void check_guests(const std::map<std::string, long>& asked, unsigned threads, const char* lock, bool admits_guests);

/// Throws bad_program for an unknown parameter, and for a value out of bounds.
void check_parameters(const description& d, const std::map<std::string, long>& asked);

/// Throws bad_program if the program needs mutual exclusion and the lock does not provide it.
void check_exclusion(const description& d, std::string_view lock, const lock_traits& traits);

/// The requested parameters, with default values for all others.
std::map<std::string, long> with_defaults(const description& d, std::map<std::string, long> asked);

/// The requirements of a program on its world and on the calling thread.
template <class W>
concept world = platform<typename W::platform> &&
                requires(W w, typename W::thread t, typename W::lock l, typename W::block b, typename W::generator g,
                         typename W::template spaced<int> s, const char* name, std::size_t n, std::uint32_t below,
                         std::span<typename W::platform::template plain<std::uint64_t>* const> counters) {
                  { w.threads() } -> std::convertible_to<unsigned>;
                  { w.parameter(name) } -> std::convertible_to<long>;
                  /// A lock of the measured kind, on cache lines of its own. The first lock is metered: its waits and
                  /// holds are measured.
                  { w.make_lock() } -> std::same_as<typename W::lock>;
                  { w.admits_guests() } -> std::convertible_to<bool>;
                  /// A block of bytes that are only read. The arguments are its size and the page size.
                  { w.make_block(n, n) } -> std::same_as<typename W::block>;
                  /// An object on cache lines of its own.
                  { w.template make<int>() } -> std::same_as<int&>;
                  /// Objects at a given distance in bytes, on pages of a given size. The arguments are the number of
                  /// objects, the distance and the page size. The bytes between the objects can be cleared.
                  { w.template make_spaced<int>(n, n, n) } -> std::same_as<typename W::template spaced<int>>;

                  l.lock();
                  l.unlock();
                  l.lock_as_guest();

                  { t.index() } -> std::convertible_to<unsigned>;
                  /// Counts an operation of the thread.
                  t.count();
                  /// Whether the measured time is over.
                  { t.over() } -> std::convertible_to<bool>;
                  /// A random number in [0, below), or 0 if that range is empty. On the hardware it costs a step of a
                  /// generator, on the simulated machine nothing.
                  { t.uniform(below) } -> std::convertible_to<std::uint32_t>;
                  /// Makes n steps of the thread's own std::mt19937, or of one that the threads share under a lock.
                  t.steps(n);
                  t.steps(g, n);
                  /// Iterations of an empty loop.
                  t.delay(n);
                  /// Adds the cost of the surrounding code, in cycles of a simulated machine. On the hardware it does
                  /// nothing, since the code itself takes its time.
                  t.overhead(n, n);
                  /// Adds one to each of several words on different lines. On the simulated machine the loads of these
                  /// words overlap.
                  t.increment(counters);
                  /// Loads from a block: one at an offset, or n at random places.
                  t.fetch(b, n);
                  t.fetch_at_random(b, n);
                  /// Lets the line of a byte use cache capacity. On the hardware the accesses to objects already do
                  /// that.
                  t.touch(s, n);
                  /// Clears n bytes from the given byte on.
                  t.clear(s, n, n);
                };

/// A benchmark program compiled for a world: this computer or a simulated machine.
template <world W>
struct compiled_program {
  description about;
  /// Constructs the program for one run. Each thread calls the returned function, which returns when the measured time
  /// is over.
  std::function<std::function<void(typename W::thread&)>(W& w)> make;
  /// Returns whether a thread belongs to the group that `about.some` names; all others belong to `about.others`. Null
  /// if all threads do the same.
  bool (*is_one_of_some)(W& w, unsigned thread);
};

/// A lock held for a scope.
template <class Lock>
class held {
 public:
  explicit held(Lock& l) : lock_(l) { lock_.lock(); }
  held(const held&) = delete;
  held& operator=(const held&) = delete;
  ~held() { lock_.unlock(); }

 private:
  Lock& lock_;
};

}  // namespace usher::workloads
