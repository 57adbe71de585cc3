#include "library/preload/status.hpp"

#include <sys/auxv.h>

#include <string_view>

#include "library/preload/message.hpp"
#include "library/preload/selection.hpp"

namespace usher::preload {
namespace {

[[gnu::used]] constinit status_record record{
    .magic = status_record::expected,
    .version = {USHER_PRELOAD_VERSION},
    .lock = nullptr,
    .decided = outcome::undecided,
    .reserved = 0,
    .recorder = &behind_recorded.recording,
    .rwlock = nullptr,
};

constexpr const char* c_librarys = "the C library's locks";

/// The reason why the C library's locks serve, as a part of the message.
const char* reason(outcome what) {
  switch (what) {
    case outcome::not_set:
      return ": USHER_LOCK is not set";
    case outcome::unknown:
      return ": USHER_LOCK names no lock";
    case outcome::measurements_only:
      return ": USHER_LOCK names what is no lock";
    case outcome::not_glibc:
      return ": this program has another C library than glibc";
    case outcome::missing:
      return ": USHER_LOCK names a lock of libusher-all.so";
    default:
      return "";
  }
}

}  // namespace

void note_selection(outcome what, const char* lock) {
  record.lock.store(lock, std::memory_order_relaxed);
  record.decided.store(what, std::memory_order_release);
}

void note_rwlocks(const char* lock) {
  record.rwlock.store(lock, std::memory_order_relaxed);
}

void say_selection_if_verbose() {
  const std::string_view wanted = variable("USHER_VERBOSE");
  if (wanted.empty() || wanted == "0" || getauxval(AT_SECURE) != 0) return;
  char digits[16], *pid = digits + sizeof digits;
  *--pid = '\0';
  for (auto rest = unsigned(getpid()); rest != 0; rest /= 10) *--pid = char('0' + rest % 10);
  const outcome what = record.decided.load(std::memory_order_acquire);
  const char* const lock = record.lock.load(std::memory_order_relaxed);
  constexpr const char* version = " " USHER_PRELOAD_VERSION ": ";
  const char* const rwlock = record.rwlock.load(std::memory_order_relaxed);
  const char* const and_rwlock = rwlock != nullptr ? "; read-write locks: " : "";
  const char* const its_name = rwlock != nullptr ? rwlock : "";
  if (what == outcome::ours)
    say(version, "lock ", lock, " for mutexes, condition variables, semaphores", and_rwlock, its_name, " (pid ", pid,
        ")");
  else if (what == outcome::c_library && std::string_view(lock) != "pthread")
    say(version, c_librarys, ", as ", lock, and_rwlock, its_name, " (pid ", pid, ")");
  else
    say(version, c_librarys, reason(what), and_rwlock, its_name, " (pid ", pid, ")");
}

}  // namespace usher::preload
