// Whether the process has one thread, by the C library's flag __libc_single_threaded (glibc 2.32 and newer). As long as
// the process has one thread, no operation on its own mutexes needs to be atomic.
//
// Every way to make a thread (pthread_create, thrd_create, timers, aio, getaddrinfo_a) is pthread_create inside the C
// library, which sets the flag to 0 before anything else. So:
//
//     the only thread          flag is 1;  load and store a mutex's words                 (1)
//     the same thread          pthread_create: flag = 0; clone                            (2)
//     any thread               flag is 0, because clone follows in (2): atomic operations (3)
//
// (1) is before (2) in one thread's program order, and (2) before (3) by the clone: no other thread runs during a plain
// access. (1) and (3) leave the same words in a mutex, so a mutex that was locked by (1) may be unlocked by (3), and
// the other way round.
//
// - Handlers. A signal handler is the same thread, in the middle of (1). If it locks and unlocks, it leaves the words
//   as it found them. If it returns with the very mutex locked whose lock it has interrupted, which no lock allows,
//   both calls get the mutex; with atomic operations the interrupted call would wait for ever. The C library, which
//   does (1) itself, behaves alike. A handler may not make threads: pthread_create is not safe there.
// - Forks. The child has a copy of the flag and of all memory. If the flag is 1, the parent had one thread, and (1) can
//   only have been interrupted by the handler that forked. (1) and (3) both compare the mutex's epoch, and a mutex of
//   the parent's is reset. If the flag is 0, it stays 0 with the C libraries that we know, although the child has one
//   thread.
// - vfork. The parent does not run meanwhile.
// - Threads that the C library does not make (clone with CLONE_VM) break (1), as they break malloc, stdio and the C
//   library's mutexes.
// - Several C libraries (dlmopen). Each has its own flag, and the loader sets an inner one's to 0. The flag read here
//   is that of this library's namespace. Threads made by an inner one that use mutexes outside of it break the C
//   library's, too.
// - By its definition the flag may become 1 again when a thread knows that no other is left; glibc 2.36 never sets it
//   again. The ended threads' writes are then visible to the remaining one.
// - Process-shared mutexes are the C library's.
// - Other C libraries have no such flag: (1) is never done.
#pragma once

// Null with C libraries that do not have the flag: the reference is weak.
extern "C" [[gnu::weak]] char __libc_single_threaded;  // NOLINT(bugprone-reserved-identifier)

namespace usher::preload {

/// Reads the flag by one load. May be called only if the C library is known to have it.
inline bool still_has_one_thread() {
  return __atomic_load_n(&__libc_single_threaded, __ATOMIC_RELAXED) != 0;
}

inline bool has_one_thread() {
  return &__libc_single_threaded != nullptr && still_has_one_thread();
}

}  // namespace usher::preload
