// Finds the same objects in several recordings, which may be of different builds and of other numbers of threads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "watch/reader/compare/compared_run.hpp"

namespace usher::reader {

/// Objects of several runs that are taken for the same one.
struct subject {
  std::vector<const compared_object*> in;  ///< by run; null: the run does not have it

  const compared_object& latest() const;
};

/// How much of the code that waits for the objects or holds them is the same, 0 to 1.
double overlap(const compared_object& a, const compared_object& b);

/// Each object of each run is in one subject. Objects are the same if they are of a kind and have the same symbol, or the
/// same function and file; of several, the first is the first, or if one side has more, that on the nearest line. What
/// is left is the same if at least half of the code that waits and holds is the same.
std::vector<subject> match(std::span<const compared_run> runs);

}  // namespace usher::reader
