// A library whose threads sleep in futex calls that the library makes itself, as GLib does.
#include "sleeping_library.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

extern "C" [[gnu::noinline]] void sleep_in_library(std::atomic<std::uint32_t>* word) {
  while (word->load() == 0) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
}

extern "C" void wake_in_library(std::atomic<std::uint32_t>* word) {
  word->store(1);
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}
