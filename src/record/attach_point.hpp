// How `usher stat -p` switches the recording on in a running process: it stops all threads, writes `path` and `wanted`,
// sets the pointers to their first values, and lets the threads run. The next call of each function then decides again
// which code the pointers lead to.
//
// The launcher finds the object by its symbol, usher_attach_v1, whose version rises with the layout.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace usher::preload {

struct attach_point {
  static constexpr std::uint64_t expected = 0x3168637461737375;  // "usstach1"
  using function = int (*)(pthread_mutex_t*);
  struct pointer {
    std::atomic<function>* where;
    function first;  ///< its value at the beginning
  };
  std::uint64_t magic;
  std::atomic<std::uint32_t> wanted;  ///< 1, written by the launcher: record into `path`
  std::uint32_t undecided;            ///< the value of *owner at the beginning
  void* owner;                        ///< 32 bits
  pointer pointers[3];
  char path[256];
};

}  // namespace usher::preload

extern "C" [[gnu::visibility("default")]] usher::preload::attach_point usher_attach_v1;
