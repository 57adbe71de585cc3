// Tests whether the process has only one thread, by the C library's flag __libc_single_threaded (glibc 2.32 and newer).
// As long as it has, the operations on its mutexes need not be atomic.
//
// All ways to make a thread (pthread_create, thrd_create, timers, aio, getaddrinfo_a) call pthread_create in the C
// library, which first sets the flag to 0. So:
//
//     the only thread          flag is 1: loads and stores a mutex's words, not atomically            (1)
//     the same thread          pthread_create: flag = 0; clone                                        (2)
//     any thread               flag is 0, because (2) clears it before the clone: atomic operations   (3)
//
// (1) precedes (2) in one thread's program order, and the clone orders (2) before (3): so no other thread runs during
// (1). (1) and (3) write the same values, so a mutex that was locked by (1) may be unlocked by (3), and vice versa.
//
// - Handlers. A signal handler may interrupt the thread within (1). If it locks and unlocks a mutex, it leaves the
//   words as it found them. It may return with the very mutex locked whose lock call it has interrupted, although no
//   lock allows this. Then both calls return success; with atomic operations the interrupted one would wait for ever.
//   The C library, which does (1) itself, behaves alike. A handler may not make threads: pthread_create is not safe
//   there.
// - Forks. The child has a copy of the flag and of all memory. If the flag is 1, the parent had one thread, so only a
//   handler that forked can have interrupted (1). Both (1) and (3) compare the mutex's epoch, and reset a mutex of the
//   parent's. If the flag is 0, it stays 0 in the child with all C libraries that we know, although the child has one
//   thread.
// - vfork. The parent does not run while the child uses its memory.
// - Threads that the C library does not make (clone with CLONE_VM) break (1), as they break malloc, stdio and the C
//   library's mutexes.
// - Several C libraries (dlmopen). Each has its own flag, and the loader sets those of inner namespaces to 0. This code
//   reads the flag of its own namespace. Threads that an inner C library has made break (1) if they use mutexes of this
//   namespace; they break the C library's mutexes, too.
// - The definition of the flag lets it become 1 again when the calling thread is the only one left; glibc 2.36 never
//   sets it again. The ended threads' writes are then visible to the remaining thread.
// - Process-shared mutexes. The C library serves them.
// - Other C libraries. They have no such flag, so (1) is never done.
#pragma once

// A weak reference: null if the C library has no such flag.
extern "C" [[gnu::weak]] char __libc_single_threaded;  // NOLINT(bugprone-reserved-identifier)

namespace usher::preload {

/// Reads the flag. The caller must know that the C library has it.
inline bool still_has_one_thread() {
  return __atomic_load_n(&__libc_single_threaded, __ATOMIC_RELAXED) != 0;
}

inline bool has_one_thread() {
  return &__libc_single_threaded != nullptr && still_has_one_thread();
}

}  // namespace usher::preload
