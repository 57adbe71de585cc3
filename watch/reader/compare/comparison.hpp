// What two sides of recordings, A and B, show about the waiting for each object.
//
// The waiting is a share of the threads' time, so that recordings of other lengths and numbers of threads can be compared. One
// run of each side: the interval comes from the windows of both and an assumed variation from run to run. More runs: it
// comes from the differences between the runs of a side.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "support/measure/statistics.hpp"
#include "watch/reader/compare/compared_run.hpp"

namespace usher::reader {

/// The probability that all intervals of a comparison contain their true differences. The error is divided by the number
/// of intervals (Bonferroni).
inline constexpr double confidence = 0.95;
/// The standard deviation that is assumed from one run to the next, if one run of a side is given: a share of the object's
/// waiting, and a part of the difference between A and B in the time that threads were ready and had no CPU, since a holder
/// without a CPU lets others wait. Chosen after pairs of runs of one program (docs/watch.md).
inline constexpr double between_runs = 0.05, between_ready = 0.5;
/// Objects for which threads wait less than this share of their time on both sides are not judged, so that hundreds of
/// quiet objects do not widen the intervals of the others. Chosen.
inline constexpr double least_judged = 0.001;
inline constexpr std::size_t most_judged = 50;  ///< the hottest. Chosen
/// If the observer came late for more than this share of a run's time, the machine had no CPU for it, nor for the program at
/// times. Chosen after pairs of runs on a machine with a load of 200.
inline constexpr double most_late = 0.25;
inline constexpr double shortest_run = 2;  ///< seconds, of one run on each side. Chosen

/// An object on one side: means over its runs.
struct side_figures {
  bool is_there = false;
  std::string name;
  double share = 0;                 ///< of the threads' time, waited
  double rate = 0;                  ///< acquisitions a second
  std::optional<double> wait_each;  ///< seconds waited for each acquisition; nullopt: none
  std::optional<double> contended;  ///< share of the acquisitions
  std::optional<double> held;       ///< share of the time
};

enum class shown_change { not_judged, none, hotter, cooler };

struct change {
  kind what = kind::none;
  side_figures a, b;
  support::interval limits{};  ///< of b.share − a.share; infinite if not judged
  shown_change shown = shown_change::not_judged;

  double difference() const { return b.share - a.share; }
  const std::string& name() const { return b.is_there ? b.name : a.name; }
};

struct comparison {
  std::vector<compared_run> a, b;
  std::vector<change> changes;  ///< what became hotter, then cooler, the largest change first; then all others
  std::size_t judged = 0;
  std::string cannot_show;  ///< the reason why no change is judged; empty: none

  bool is_of_single_runs() const { return a.size() == 1 && b.size() == 1; }
  std::vector<const change*> all(shown_change s) const;
  /// The judged change whose growth is certain to be largest, by its interval's lower end; null: nothing is judged.
  const change* surest_growth() const;
};

/// Both sides have at least one run.
comparison compare(std::vector<compared_run> a, std::vector<compared_run> b);

/// The assumed standard deviation from run to run besides `between_runs`, as a share of the threads' time.
double assumed_for_cpus(const comparison& c);

/// What the user must know about the recordings before the figures, a sentence each.
std::vector<std::string> cautions(const comparison& c);

}  // namespace usher::reader
