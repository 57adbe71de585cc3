// The suggestion of a similar name, with which a message about an unknown name ends.
#pragma once

#include <string>
#include <string_view>

namespace usher::inline v2 {

/// Returns the end of the message, such as ": did you mean 'twa'?"; nothing if `near` is empty.
inline std::string did_you_mean(std::string_view near) {
  return near.empty() ? "" : ": did you mean '" + std::string(near) + "'?";
}

}  // namespace usher::inline v2
