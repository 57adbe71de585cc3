// Identifies the object behind a futex call by three kinds of evidence: the operation and its arguments, the words around
// the futex, and the names of the functions that made the call. A verdict says by which (`known_by`), and nothing more
// than they show.
//
// Sources: the structs of <bits/pthreadtypes.h> of glibc 2.36; the condition variable of 2.41, which has lost its two
// reference counts and so has its other words 8 bytes lower; musl 1.2's pthread_impl.h.
//
// The attacker is the process: it chooses the words, the arguments and the names. So each field is compared with what
// the kernel says (the operation, the living threads), a struct counts only if all of its fields agree, and everything
// is looked at in one copy. What a forged struct can reach is a wrong sentence about its own process.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "watch/reader/look/look_report.hpp"
#include "watch/reader/read/off_cpu.hpp"

namespace usher::reader {

/// The words around a futex, copied once.
struct futex_words {
  static constexpr int before = 16, after = 16;  ///< words
  std::array<std::uint32_t, before + after> word{};
  std::uint32_t known = 0;  ///< bits

  /// The word at a distance of so many bytes from the futex; nullopt: it could not be read.
  std::optional<std::uint32_t> at(int bytes) const {
    const int i = before + bytes / 4;
    if (bytes % 4 != 0 || i < 0 || i >= before + after || (known >> i & 1) == 0) return std::nullopt;
    return word[static_cast<std::size_t>(i)];
  }
  /// The same, or 0xdeadbeef, which fits no field.
  std::uint32_t or_odd(int bytes) const { return at(bytes).value_or(0xdeadbeef); }
  bool operator==(const futex_words&) const = default;
};

/// The arguments of a futex call that waits.
struct futex_call {
  std::uint64_t address = 0;
  std::uint32_t value = 0, mask = 0;
  bool is_private = false, has_time_limit = false;
  bool inherits_priority = false;  ///< FUTEX_LOCK_PI
  bool has_mask = false;           ///< FUTEX_WAIT_BITSET
};
/// Nullopt: the call is no futex call that waits. A call with a time limit that went on after a stop counts as what its
/// registers still say.
std::optional<futex_call> futex_call_of(const kernel_entry& e);

enum class c_library : std::uint8_t { unknown, glibc, musl };

struct surroundings {
  c_library libc = c_library::unknown;
  bool is_under_usher = false;
  std::function<bool(std::uint32_t)>
      is_thread;  ///< whether the process has a living thread with this id, as it sees it
};

struct verdict {
  awaited what = awaited::futex;
  std::string library, kind, known_by, seen;
  std::uint64_t object = 0;  ///< address of the struct
  wanted_side side = wanted_side::none;
  std::uint32_t owner = 0;  ///< the thread that the words name, by its own id; 0: none. A join: the awaited thread
  std::optional<bool> is_free;
  bool is_shared = false;        ///< by processes
  bool has_ended_owner = false;  ///< the words name a thread that is not alive
};

/// `functions`: the frames of the call, innermost first; empty: no names yet.
verdict identify(const futex_call& call, const futex_words& words, const surroundings& around,
                 std::span<const frame> functions);

/// The object that a function waits for, by its name; nullopt: it is none of those that are known.
struct named_wait {
  awaited what;
  const char* library;  ///< "": the C library's
  const char* kind;
  wanted_side side;
};
std::optional<named_wait> wait_of_function(std::string_view function);
/// The same by the innermost frames of a stack, up to the first function that is not the lock's.
std::optional<named_wait> wait_of_functions(std::span<const frame> functions);

}  // namespace usher::reader
