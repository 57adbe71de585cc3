// The names of the read-write locks that libusher.so serves, without the locks' code: `phase-fair` and `bravo`, whose
// writers queue on the default lock, and phase-fair-LOCK and bravo-LOCK, whose writers queue on another one.
#pragma once

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

}  // namespace usher::inline v2
