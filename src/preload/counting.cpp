#include "preload/counting.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "preload/selection.hpp"
#include "usher/platform/native.hpp"

namespace usher::preload {
namespace {

constinit thread_local counter_file::slot* slot_of_thread = nullptr;
constinit thread_local std::uint32_t slot_stamp = 0;

/// A call, and whether it got the mutex at once.
void count_lock(bool at_once) {
  counter_file& f = *counters.load(std::memory_order_acquire);
  counter_file::slot& mine = own_slot(f);
  const bool shared = &mine == &f.of[counter_file::slots - 1];
  add_one(mine.locks, shared);
  if (!at_once) add_one(mine.contended, shared);
}

void count_in_open(int descriptor) {
  if (syscall(SYS_lseek, descriptor, 0, SEEK_END) != long{sizeof(counter_file)}) return;
  void* const memory = mmap(nullptr, sizeof(counter_file), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return;
  auto* const f = static_cast<counter_file*>(memory);
  counter_file* none = nullptr;
  if (counters.compare_exchange_strong(none, f, std::memory_order_acq_rel))
    f->processes.fetch_add(1, std::memory_order_relaxed);
  else
    munmap(memory, sizeof(counter_file));
}

/// Our own descriptor of the number that the path ends in, if that is the counters' file; else -1.
int inherited(const char* path) {
  constexpr std::size_t longest = 9;
  const char* const slash = std::strrchr(path, '/');
  if (slash == nullptr || slash[1] == '\0' || std::strlen(slash + 1) > longest) return -1;
  int number = 0;
  for (const char* c = slash + 1; *c != '\0'; ++c) {
    if (*c < '0' || *c > '9') return -1;
    number = number * 10 + (*c - '0');
  }
  char own[32] = "/proc/self/fd/", target[64] = {};
  std::strcat(own, slash + 1);
  if (syscall(SYS_readlinkat, AT_FDCWD, own, target, sizeof target - 1) < 0) return -1;
  constexpr std::size_t prefix = sizeof "/memfd:" - 1;
  if (std::strncmp(target, "/memfd:", prefix) != 0) return -1;
  return std::strncmp(target + prefix, counter_file::name, std::strlen(counter_file::name)) == 0 ? number : -1;
}

}  // namespace

constinit std::atomic<counter_file*> counters{nullptr};

counter_file::slot& own_slot(counter_file& file) {
  // A child must not count in its parent's slot.
  const std::uint32_t stamp = native::fork_stamp();
  if (slot_of_thread == nullptr || slot_stamp != stamp) [[unlikely]] {
    if (slot_stamp != stamp && slot_stamp != 0) file.processes.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t next = file.taken.fetch_add(1, std::memory_order_relaxed);
    slot_of_thread = &file.of[next < counter_file::slots - 1 ? next : counter_file::slots - 1];
    slot_stamp = stamp;
  }
  return *slot_of_thread;
}

void count_in(const char* file) {
  const int saved = errno;
  // Not open(), which is a cancellation point.
  const long descriptor = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC);
  if (descriptor >= 0) {
    count_in_open(static_cast<int>(descriptor));
    syscall(SYS_close, descriptor);
  } else if (const int own = inherited(file); own >= 0) {
    count_in_open(own);  // and stays open, for those that this process starts
  }
  errno = saved;
}

int counted_lock(pthread_mutex_t* m) {
  const int result = selected().trylock(m);
  count_lock(result != EBUSY);
  return result != EBUSY ? result : selected().lock(m);
}

int counted_trylock(pthread_mutex_t* m) {
  const int result = selected().trylock(m);
  count_lock(result != EBUSY);
  return result;
}

int counted_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  const int result = selected().trylock(m);
  count_lock(result != EBUSY);
  return result != EBUSY ? result : selected().clocklock(m, clock, until);
}

}  // namespace usher::preload
