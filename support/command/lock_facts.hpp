// Facts about locks for `usher list` that are not in their traits. The build (cmake/lock_facts.cmake) makes them from the catalogue and
// the record of tests/cost.
#pragma once

#include <span>
#include <string_view>

namespace usher::support {

struct lock_facts {
  std::string_view family;
  std::string_view heading;  ///< of the lock's group in the catalogue
  std::string_view header;   ///< "twa.hpp", in include/usher/locks
  bool is_usual;             ///< in libusher.so, and not only in libusher-all.so
  bool has_section;          ///< in docs/locks.md: locks that a user has added may have none
  double instructions;       ///< on average, of an uncontended lock and unlock; 0: not recorded
  double locked;             ///< of these: locked instructions
};

/// All locks, in the catalogue's order.
std::span<const lock_facts> all_lock_facts();

/// Null if the catalogue has no lock of that plain name.
const lock_facts* facts_of(std::string_view family);

/// Whether only libusher-all.so has the lock of that plain name. One that is not in the catalogue counts as usual.
inline bool is_unusual(std::string_view family) {
  const lock_facts* const facts = facts_of(family);
  return facts != nullptr && !facts->is_usual;
}

/// The version of the compiler that made the code whose instructions were counted.
extern const std::string_view counted_with;

}  // namespace usher::support
