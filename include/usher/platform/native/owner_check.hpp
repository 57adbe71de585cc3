// The checks of USHER_DEBUG for misuse of a mutex.
//
// Three errors end the program with one line and abort(): a thread locks a mutex that it holds, and would wait for
// itself; a thread unlocks a free mutex, and may end another thread's critical section; a thread destroys a held mutex,
// which its owner could then not unlock. Any thread may unlock, so another thread's unlock is no error. But a thread
// that locks a mutex twice, because another thread is going to unlock it, counts as one that waits for itself.
#pragma once

#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "usher/core/wait_morphing.hpp"
#include "usher/platform/native.hpp"

namespace usher::inline v2::native_detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void die_of_misuse(const char* operation, const void* mutex,
                                                                 const char* why) {
  char address[2 + 2 * sizeof(void*)] = {'0', 'x'};
  auto bits = reinterpret_cast<std::uintptr_t>(mutex);
  for (std::size_t i = sizeof address; i-- > 2; bits >>= 4) address[i] = "0123456789abcdef"[bits & 15];
  const auto part = [](const char* text) { return iovec{const_cast<char*>(text), std::strlen(text)}; };
  const iovec line[] = {
      part("usher: "), part(operation), part(" of the mutex at "), {address, sizeof address}, part(": "),
      part(why),       part("\n")};
  [[maybe_unused]] const ssize_t n = writev(STDERR_FILENO, line, sizeof line / sizeof *line);
  abort();
}

inline constexpr const char* relocked = "the calling thread holds it, and would wait for itself";
inline constexpr const char* not_locked = "it is not locked";
inline constexpr const char* still_locked = "it is still locked";

/// The checks for a mutex that has an owner tag (wait_morphing.hpp).
struct tag_check {
  using word = owner_tags<native>::word;

  static void before_lock(const char* operation, const void* mutex, const word& tag) {
    native::ensure_owner_tag();
    const std::uint32_t me = native::owner_tag();
    if (me != owner_tags<native>::unknown && tag.load(std::memory_order_relaxed) == me)
      die_of_misuse(operation, mutex, relocked);
  }
  static void before_unlock(const char* operation, const void* mutex, const word& tag) {
    if (tag.load(std::memory_order_relaxed) == owner_tags<native>::none) die_of_misuse(operation, mutex, not_locked);
  }
  static void before_destruction(const char* operation, const void* mutex, const word& tag) {
    if (tag.load(std::memory_order_relaxed) != owner_tags<native>::none) die_of_misuse(operation, mutex, still_locked);
  }
};

/// An owner tag for a mutex that has none of its own. Only the thread that holds the mutex writes the tag.
class checked_owner {
 public:
  constexpr checked_owner() = default;
  ~checked_owner() { tag_check::before_destruction("destruction", this, tag_); }

  void before_lock() const { tag_check::before_lock("lock()", this, tag_); }
  void locked() {
    native::ensure_owner_tag();
    tag_.store(native::owner_tag(), std::memory_order_relaxed);
  }
  void before_unlock() {
    tag_check::before_unlock("unlock()", this, tag_);
    tag_.store(owner_tags<native>::none, std::memory_order_relaxed);
  }

 private:
  tag_check::word tag_{};
};

}  // namespace usher::inline v2::native_detail
