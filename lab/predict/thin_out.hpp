// Reduces a long recording to what a replay needs.
#pragma once

#include <cstddef>

#include "lab/recordings/recording.hpp"

namespace usher::predict {

struct thinned_recording {
  recording::recording made;
  std::size_t windows = 0;  ///< the number of windows that were kept
  double share = 1;         ///< the kept share of the windows' time, if the kept windows had to be cut
};

/// Keeps windows at equal distances or, if one window alone has too many events, the beginning of one window, so that
/// about `events` events are left.
thinned_recording thin_out(recording::recording r, std::size_t events);

}  // namespace usher::predict
