// The suggestion in a message about an unknown name.
#pragma once

#include <string>
#include <string_view>

namespace usher::inline v2 {

/// The end of the message: ": did you mean 'twa'?", or nothing if `near` is empty.
inline std::string did_you_mean(std::string_view near) {
  return near.empty() ? "" : ": did you mean '" + std::string(near) + "'?";
}

}  // namespace usher::inline v2
