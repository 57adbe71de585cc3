// A record of the locks selected in a process, for `usher status`. The launcher finds it in the library's data by its
// magic number: in the process's memory or, if it may not read that, in the library's file, which has only the version.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace usher::preload {

/// The result of the selection by USHER_LOCK.
enum class outcome : std::uint32_t {
  undecided,
  ours,               ///< a lock of Usher's
  c_library,          ///< the C library's locks, by name
  not_set,            ///< the C library's locks: USHER_LOCK is not set
  unknown,            ///< the C library's locks: no lock has the name in USHER_LOCK
  measurements_only,  ///< the C library's locks: the named lock excludes no thread
  not_glibc,          ///< the C library's locks: the program runs on another C library than glibc
  missing,            ///< the C library's locks: libusher.so lacks the lock in USHER_LOCK, which libusher-all.so has
};

struct alignas(16) status_record {
  using text = std::array<char, 16>;
  static constexpr text expected{"usher status v2"};  // the number increases if the layout changes

  text magic;
  text version;                   ///< such as 0.1.0
  std::atomic<const char*> lock;  ///< the name of the lock in use, of at most `longest_name` characters
  std::atomic<outcome> decided;
  std::uint32_t reserved;  ///< 0
  const void* recorder;    ///< points to 64 bits that are not 0 while `usher stat` records
  std::atomic<const char*>
      rwlock;  ///< the name of the read-write lock in use; null: the C library's. In older versions these
               ///< bytes are 0

  static constexpr std::size_t longest_name = 39;
};
static_assert(sizeof(status_record) == 64 && offsetof(status_record, decided) == 40 &&
              offsetof(status_record, rwlock) == 56);

}  // namespace usher::preload
