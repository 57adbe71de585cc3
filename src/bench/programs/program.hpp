// The papers' benchmark programs, each written once: over a world that is this computer or a simulated machine.
//
// A program is a class template over the world. It says what it is (about()), is made once for each run, and is then called by
// every thread again and again until the measured time is over. All that it needs, locks, shared words, arrays, delays, chance,
// comes from the world and from the thread that calls it, so that what is simulated is what runs natively.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "usher/core/platform.hpp"
#include "usher/core/traits.hpp"

namespace usher::workloads {

/// Which CPU the n-th thread begins on.
enum class placement {
  scattered,  ///< round the sockets, every core's first hardware thread before any second: as a scheduler spreads threads
  compact,    ///< socket after socket, CPUs of a core last
  even,       ///< an equal part of the threads to each socket, the first threads to the first
};

struct parameter {
  const char* name;
  long value;  ///< unless another is asked for
  long least, most;
  const char* meaning;
};

struct description {
  const char* name;
  const char* summary;
  const char* source;  ///< paper, section
  std::vector<parameter> parameters;
  placement where = placement::scattered;
  bool arrays = false;           ///< reads arrays so large that caches matter
  bool one_lock = true;          ///< whose admissions are of interest
  bool metered = false;          ///< waits and holds are of interest: natively the clock is read for them
  bool guards = false;           ///< breaks where a lock does not exclude, rather than being counted wrong
  const char* some = nullptr;    ///< what threads are called that do something else than the others, if there are such
  const char* others = nullptr;  ///< and the others
};

/// A program cannot be run like that. One line.
struct bad_program : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws bad_program where more threads than there are shall be guests, or guests come to a lock that takes none.
void check_guests(const std::map<std::string, long>& asked, unsigned threads, const char* lock, bool admits_guests);

/// Throws bad_program for a parameter that the program does not have, and for a value out of bounds.
void check_parameters(const description& d, const std::map<std::string, long>& asked);

/// Throws bad_program for a lock that does not exclude under a program that breaks without.
void check_exclusion(const description& d, std::string_view lock, const lock_traits& traits);

/// What was asked, and the usual value of what was not.
std::map<std::string, long> with_defaults(const description& d, std::map<std::string, long> asked);

/// What a program asks of its world, and of the thread that calls it.
template <class W>
concept world = platform<typename W::platform> &&
                requires(W w, typename W::thread t, typename W::lock l, typename W::block b, typename W::generator g,
                         const char* name, std::size_t n, std::uint32_t below) {
                  { w.threads() } -> std::convertible_to<unsigned>;
                  { w.parameter(name) } -> std::convertible_to<long>;
                  /// A lock of the kind that is measured, on lines of its own. The first is the one that is watched.
                  { w.make_lock() } -> std::same_as<typename W::lock>;
                  { w.admits_guests() } -> std::convertible_to<bool>;
                  /// So many bytes that are only read, on large pages or one element a page.
                  { w.make_block(n, n) } -> std::same_as<typename W::block>;
                  /// An object on lines of its own.
                  { w.template make<int>() } -> std::same_as<int&>;

                  l.lock();
                  l.unlock();
                  l.lock_as_guest();

                  { t.index() } -> std::convertible_to<unsigned>;
                  /// The thread has done one operation, or two or three …
                  t.count();
                  /// Is the measured time over?
                  { t.over() } -> std::convertible_to<bool>;
                  /// Uniform in [0, below); 0 if that is empty. Costs what a step costs natively, nothing simulated.
                  { t.uniform(below) } -> std::convertible_to<std::uint32_t>;
                  /// Steps of the thread's own std::mt19937, or of one that threads share under a lock.
                  t.steps(n);
                  t.steps(g, n);
                  /// Iterations of an empty loop.
                  t.delay(n);
                  /// What the loop around costs. Nothing natively, where it costs what it costs.
                  t.overhead(n, n);
                  /// Loads of a block: one, and so many at random places.
                  t.fetch(b, n);
                  t.fetch_at_random(b, n);
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
