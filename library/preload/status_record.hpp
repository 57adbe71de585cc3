// A record of the locks that the library has chosen in a process, for `usher status`. The launcher searches the library's data for
// the record's magic number: in the memory of the process, if it may read that memory, else in the library's file,
// where only the version is filled in.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace usher::preload {

/// The selection by USHER_LOCK.
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
  static constexpr text expected{"usher status v2"};  // the number rises with the layout

  text magic;
  text version;                   ///< as 0.1.0
  std::atomic<const char*> lock;  ///< the name of the lock in use, of at most `longest_name` characters
  std::atomic<outcome> decided;
  std::uint32_t reserved;  ///< 0
  const void* recorder;    ///< 64 bits, which are not 0 while `usher stat` records
  std::atomic<const char*>
      rwlock;  ///< the name of the read-write lock in use; null: the C library's. Older versions have
               ///< no field here, but zero bytes

  static constexpr std::size_t longest_name = 39;
};
static_assert(sizeof(status_record) == 64 && offsetof(status_record, decided) == 40 &&
              offsetof(status_record, rwlock) == 56);

}  // namespace usher::preload
