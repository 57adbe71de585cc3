// The names of the read-write locks for whole programs, without the locks' code: `phase-fair` and `bravo`, whose writers
// queue on the default lock, and phase-fair-LOCK and bravo-LOCK, whose writers queue on another one. libusher.so serves the
// first two, and libusher-all.so all.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

/// Calls writers(type, name) for each lock on which writers may queue, but the default. The lock has at most 16 bytes.
#define USHER_WRITERS_LOCKS(writers)                                                                            \
  writers(ticket, "ticket") writers(mcs, "mcs") writers(clh, "clh") writers(twa, "twa") writers(mcscr, "mcscr") \
      writers(loiter, "loiter") writers(fairlock, "fairlock") writers(futex, "futex") writers(ttas, "ttas")

namespace usher::inline v2 {

// NOLINTBEGIN(bugprone-macro-parentheses): string literals that are to be joined
#define USHER_READ_WRITE_NAMES(type, name) "phase-fair-" name, "bravo-" name,
/// In the order in which `usher list` shows them.
inline constexpr std::string_view read_write_names[] = {"phase-fair", "bravo",
                                                        USHER_WRITERS_LOCKS(USHER_READ_WRITE_NAMES)};
#undef USHER_READ_WRITE_NAMES
// NOLINTEND(bugprone-macro-parentheses)

/// Whether libusher.so lacks the read-write lock of this name.
constexpr bool is_unusual_read_write_lock(std::string_view name) {
  constexpr std::size_t usual = 2;  // they are the first
  for (std::size_t i = usual; i < std::size(read_write_names); i++)
    if (name == read_write_names[i]) return true;
  return false;
}

}  // namespace usher::inline v2
