// What `usher list` says of locks beyond their traits: made by the build (cmake/lock_facts.cmake) from the catalogue and the record of
// tests/cost.
#pragma once

#include <string_view>

namespace usher::cli {

struct lock_facts {
  std::string_view family;
  std::string_view heading;  ///< that it stands under
  double instructions;       ///< on average, of an uncontended lock and unlock through libusher.so; 0: not recorded
  double locked;             ///< of these: locked instructions
};

/// Null where the catalogue has none of that plain name.
const lock_facts* facts_of(std::string_view family);

/// The version of the compiler by whose code instructions were counted.
extern const std::string_view counted_with;

}  // namespace usher::cli
