// What a message says of the name that may have been meant.
#pragma once

#include <string>
#include <string_view>

namespace usher::inline v1 {

/// To follow a message: ": did you mean 'twa'?", or nothing where no name is near.
inline std::string did_you_mean(std::string_view near) {
  return near.empty() ? "" : ": did you mean '" + std::string(near) + "'?";
}

}  // namespace usher::inline v1
