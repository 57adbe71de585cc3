// Reduces a long recording to what a replay needs.
#pragma once

#include <cstddef>

#include "lab/recordings/recording.hpp"

namespace usher::predict {

struct thinned_recording {
  recording::recording made;
  std::size_t windows = 0;  ///< that were kept
  double share = 1;         ///< of their time, if one window alone has more events
};

/// Keeps windows at equal distances, or the beginning of one window, so that at most `events` events are left.
thinned_recording thin_out(recording::recording r, std::size_t events);

}  // namespace usher::predict
