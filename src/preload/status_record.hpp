// What the library says of itself in a process, for `usher status`. The launcher finds it by its magic in the library's data: in the memory of
// the process, where it may read that, else in the library's file, where only the version is filled in.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace usher::preload {

/// What came of USHER_LOCK.
enum class outcome : std::uint32_t {
  undecided,
  ours,               ///< a lock of Usher's
  c_library,          ///< the C library's, as it was asked for
  not_set,            ///< nothing was asked for
  unknown,            ///< no lock has that name
  measurements_only,  ///< that is no lock
  not_glibc,          ///< a program of another C library
};

struct alignas(16) status_record {
  using text = std::array<char, 16>;
  static constexpr text expected{"usher status v1"};  // the number rises with the layout

  text magic;
  text version;                   ///< as 0.1.0
  std::atomic<const char*> lock;  ///< the name of the one that is in use, of at most `longest_name` characters
  std::atomic<outcome> decided;
  std::uint32_t recorded;  ///< the value of *owner while `usher stat` records
  const void* owner;       ///< 32 bits

  static constexpr std::size_t longest_name = 39;
};
static_assert(sizeof(status_record) == 64 && offsetof(status_record, decided) == 40);

}  // namespace usher::preload
