// The names of the read-write locks that the preload libraries offer, without the locks' code. The writers of
// `phase-fair` and `bravo` queue on the default lock; those of phase-fair-LOCK and bravo-LOCK queue on LOCK.
// libusher.so has the first two, libusher-all.so has all.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

/// Calls writers(type, name) for each lock, except the default, on which writers may queue (at most 16 bytes).
#define USHER_WRITERS_LOCKS(writers)                                                                            \
  writers(ticket, "ticket") writers(mcs, "mcs") writers(clh, "clh") writers(twa, "twa") writers(mcscr, "mcscr") \
      writers(loiter, "loiter") writers(fairlock, "fairlock") writers(futex, "futex") writers(ttas, "ttas")

namespace usher::inline v2 {

// NOLINTBEGIN(bugprone-macro-parentheses): adjacent string literals, which the compiler joins
#define USHER_READ_WRITE_NAMES(type, name) "phase-fair-" name, "bravo-" name,
/// `usher list` shows the names in this order.
inline constexpr std::string_view read_write_names[] = {"phase-fair", "bravo",
                                                        USHER_WRITERS_LOCKS(USHER_READ_WRITE_NAMES)};
#undef USHER_READ_WRITE_NAMES
// NOLINTEND(bugprone-macro-parentheses)

/// Whether libusher.so lacks the read-write lock of this name.
constexpr bool is_unusual_read_write_lock(std::string_view name) {
  constexpr std::size_t usual = 2;  // `phase-fair` and `bravo`, the first names
  for (std::size_t i = usual; i < std::size(read_write_names); i++)
    if (name == read_write_names[i]) return true;
  return false;
}

}  // namespace usher::inline v2
