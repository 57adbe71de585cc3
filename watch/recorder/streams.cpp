#include "watch/recorder/streams.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "watch/recorder/inherited_file.hpp"
#include "watch/recorder/others.hpp"

namespace usher::recorder {

constinit std::atomic<contract::stream_header*> stream_file{nullptr};

namespace {

using contract::stream_chunk;
using contract::stream_header;
using contract::stream_room;
using contract::stream_slot;

/// The process's number in the file and its fork epoch, as one word: number << 32 | epoch.
constinit std::atomic<std::uint64_t> own_process{0};

std::byte* base() {
  return reinterpret_cast<std::byte*>(&stream_head());
}
stream_slot& slot(std::uint32_t i) {
  return reinterpret_cast<stream_slot*>(base() + contract::stream_threads_at)[i];
}

/// The capacities, which are read only once: another process of the program could later change them in the file, and
/// this process would then access memory outside of its mapping.
constinit stream_room room{};

/// Whether the file may be one that an observer has made: an outdated variable may name any file. It must belong to
/// this process's user or to root, and be sealed against shrinking: an access beyond its end would raise SIGBUS.
bool is_trusted(int descriptor, std::uint64_t& size) {
  struct stat s {};
  if (syscall(SYS_fstat, descriptor, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size < off_t{sizeof(stream_header)})
    return false;
  size = std::uint64_t(s.st_size);
  const long seals = syscall(SYS_fcntl, descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return false;
  return s.st_uid == 0 || s.st_uid == uid_t(syscall(SYS_geteuid));
}

bool map(int descriptor) {
  std::uint64_t size = 0;
  if (!is_trusted(descriptor, size)) return false;
  void* const first = mmap(nullptr, sizeof(stream_header), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (first == MAP_FAILED) return false;
  auto& head = *static_cast<stream_header*>(first);
  const stream_room wanted = head.room;
  const bool fits = head.magic == contract::stream_magic && head.version == contract::stream_version &&
                    contract::is_possible(wanted) && contract::stream_file_size(wanted) == size;
  if (head.magic == contract::stream_magic && head.version != contract::stream_version)
    head.refused.store(contract::stream_version, std::memory_order_relaxed);
  munmap(first, sizeof(stream_header));
  if (!fits) return false;
  // Without access rights first: see map_file() in recording.cpp.
  void* const memory = mmap(nullptr, size, PROT_NONE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return false;
  if (mprotect(memory, size, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, size);
    return false;
  }
  auto* const mapped = static_cast<stream_header*>(memory);
  room = wanted;
  if (mapped->opened.fetch_add(1, std::memory_order_relaxed) == 0)
    std::strncpy(mapped->lock, preload::selected().name, sizeof mapped->lock - 1);
  if (&usher_companion_v3 == nullptr) mapped->partial.store(1, std::memory_order_relaxed);
  stream_file.store(mapped, std::memory_order_release);
  return true;
}

std::uint32_t process_number(std::uint32_t epoch) {
  std::uint64_t seen = own_process.load(std::memory_order_acquire);
  if (seen != 0 && std::uint32_t(seen) == epoch) return std::uint32_t(seen >> 32);
  const std::uint64_t number = stream_head().processes.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!own_process.compare_exchange_strong(seen, number << 32 | epoch, std::memory_order_acq_rel) &&
      std::uint32_t(seen) == epoch)
    return std::uint32_t(seen >> 32);
  return std::uint32_t(number);
}

/// A slot that has not been used, or the slot of a thread whose end the observer has recorded.
stream_slot* take_slot() {
  stream_header& head = stream_head();
  if (head.threads.load(std::memory_order_relaxed) < room.threads) {
    const std::uint32_t i = head.threads.fetch_add(1, std::memory_order_relaxed);
    if (i < room.threads) return &slot(i);
  }
  for (std::uint32_t i = 0; i < room.threads; i++) {
    std::uint32_t over = 1;
    if (slot(i).over.load(std::memory_order_relaxed) == 1 &&
        slot(i).over.compare_exchange_strong(over, 2, std::memory_order_acq_rel))
      return &slot(i);
  }
  head.no_slot.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

/// The name of the process at its start.
constinit char first_name[16] = {};

void read_first_name() {
  const long comm = syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC);
  if (comm < 0) return;
  const long n = syscall(SYS_read, comm, first_name, sizeof first_name - 1);
  if (n > 0 && first_name[n - 1] == '\n') first_name[n - 1] = '\0';
  syscall(SYS_close, comm);
}

/// Whether the thread may make system calls for the recording.
bool may_ask(const stream_writer& me) {
  const auto& unfiltered = stream_head().unfiltered[me.process % stream_header::processes_at_once];
  return me.process != 0 && unfiltered.load(std::memory_order_relaxed) == me.process;
}

/// Writes the calling thread's name into its slot.
void note_name(const stream_writer& me, stream_slot& s) {
  char name[16];
  std::uint64_t words[2];
  static_assert(sizeof words == sizeof name && sizeof s.name == sizeof name);
  std::memcpy(name, first_name, sizeof name);
  if (may_ask(me) && syscall(SYS_prctl, PR_GET_NAME, name, 0, 0, 0) != 0) return;
  std::memcpy(words, name, sizeof words);
  for (unsigned i = 0; i < 2; i++) s.name[i].store(words[i], std::memory_order_relaxed);
}

}  // namespace

void stream_into(const char* path) {
  const int saved = errno;
  // A system call, as in record_in(): open() is a cancellation point.
  const long descriptor = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  bool is_open = false;
  if (descriptor >= 0) {
    is_open = map(static_cast<int>(descriptor));
    syscall(SYS_close, descriptor);
  }
  if (!is_open)
    if (const int own = inherited_file(path, contract::stream_file_name); own >= 0) is_open = map(own);
  if (is_open) read_first_name();
  errno = saved;
}

stream_writer* begin_writer(stream_writer& me) {
  const std::uint32_t epoch = native::fork_epoch();
  const std::uint64_t word = std::uint64_t{epoch} << 32 | 4;
  if (me.epoch_word == word) return me.slot != nullptr ? &me : nullptr;
  if (me.beginning == word) return nullptr;  // called by a signal handler that has interrupted this function
  std::atomic_ref(me.beginning).store(word, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const int saved = errno;
  stream_slot* const s = take_slot();
  if (s != nullptr) {
    for (auto* w : {&s->busy, &s->call}) w->store(0, std::memory_order_relaxed);
    me.process = process_number(epoch);
    s->process.store(me.process, std::memory_order_relaxed);
    s->pid.store(std::uint32_t(syscall(SYS_getpid)), std::memory_order_relaxed);
    note_name(me, *s);
    s->self.store(std::uint64_t(pthread_self()), std::memory_order_relaxed);
    s->mapped_at.store(reinterpret_cast<std::uintptr_t>(base()), std::memory_order_relaxed);
    s->tid.store(std::uint32_t(syscall(SYS_gettid)), std::memory_order_release);
    s->over.store(0, std::memory_order_release);
  }
  me.slot = s;
  me.window = 0;
  me.is_waiting = false;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::atomic_ref(me.epoch_word).store(word, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::atomic_ref(me.beginning).store(std::uint64_t{0}, std::memory_order_relaxed);
  errno = saved;
  return s != nullptr ? &me : nullptr;
}

void close_window(std::uint64_t window) {
  stream_header& head = stream_head();
  std::uint64_t open = window;
  if (head.window.compare_exchange_strong(open, 0, std::memory_order_acq_rel))
    head.closed_at.store(stream_ticks(), std::memory_order_release);
  if (open == window || open == 0) head.lost.fetch_add(1, std::memory_order_relaxed);
}

bool take_chunk(stream_writer& me, std::uint64_t window) {
  stream_header& head = stream_head();
  if (head.window.load(std::memory_order_acquire) != window) return false;
  const std::uint32_t i = head.next_chunk.load(std::memory_order_relaxed) < room.chunks
                              ? head.next_chunk.fetch_add(1, std::memory_order_relaxed)
                              : room.chunks;
  if (i >= room.chunks) {
    close_window(window);
    return false;
  }
  auto* const chunks = reinterpret_cast<stream_chunk*>(base() + contract::stream_chunks_at(room));
  stream_chunk& c = chunks[contract::first_chunk(room, window) + i];
  c.window.store(window, std::memory_order_relaxed);
  c.thread.store(std::uint32_t(me.slot - &slot(0)) + 1, std::memory_order_release);
  if (me.window != window) {  // the thread may have been named since the last window
    const int saved = errno;
    note_name(me, *me.slot);
    errno = saved;
  }
  me.next = &c.calls[0];
  me.end = &c.calls[stream_chunk::length];
  me.window = window;
  return true;
}

void note_cpu_time(stream_writer& me, std::uint64_t window) {
  if (!may_ask(me)) return;
  const int saved = errno;
  timespec t{};
  const std::uint64_t begin = stream_ticks();
  rusage used{};
  const bool is_counted = syscall(SYS_getrusage, RUSAGE_THREAD, &used) == 0;
  if (syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t) == 0)
    append(me, window,
           contract::word_of_call(contract::verb::cpu_clock, is_counted ? 1 + std::uint64_t(used.ru_nvcsw) : 0),
           std::uint64_t(t.tv_sec) * 1'000'000'000 + std::uint64_t(t.tv_nsec), begin, stream_ticks());
  errno = saved;
}

void end_call(std::uint64_t window, std::uint64_t word, std::uint64_t other, std::uint64_t begin) {
  stream_writer& me = this_writer;
  const std::uint64_t now = stream_ticks();
  append(me, window, word, other, begin, now);
  if (now - begin >= contract::long_call_us * stream_head().ticks_a_ms / 1000) [[unlikely]]
    note_cpu_time(me, window);
}

}  // namespace usher::recorder
