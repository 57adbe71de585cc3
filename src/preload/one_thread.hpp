// Whether the process has one thread, as the C library knows it (glibc 2.32 and newer): then nothing that is done with a mutex of
// the process's own needs an atomic operation.
//
// Every way to make a thread (pthread_create, thrd_create, timers, aio, getaddrinfo_a) is pthread_create inside the C library, which
// sets the flag to 0 before anything else. So:
//
//     thread that is alone     flag is 1;  load and store a mutex's words                 (1)
//     the same thread          pthread_create: flag = 0; clone                            (2)
//     any thread               flag is 0, for clone comes after (2): atomic operations    (3)
//
// (1) is before (2) in one thread's program order, and (2) before (3) by the clone: no plain access has a thread beside it. A
// mutex has the same words after (1) as after (3), so one that is locked alone may be unlocked in company, and the other way round.
//
// - Handlers. A signal handler is the same thread, in the middle of (1). One that locks and unlocks there leaves the words as it has
//   found them. One that returns while it holds the very mutex whose lock it has interrupted does what no lock allows: here the
//   interrupted call gets it, too, otherwise that would wait for ever. The same is so in the C library, which does (1) itself.
//   A handler may not make threads: pthread_create is not safe there.
// - Forks. The child has a copy of the flag, and of everything else. If it is 1 then the parent had one thread, and (1) was not
//   interrupted but by the handler that forked. The mutex's epoch is compared in either way, and a mutex of the parent's
//   made anew. If it is 0, it stays 0 with the C libraries that we know, although the child has one thread.
// - vfork. The parent does not run.
// - Threads that the C library does not make (clone with CLONE_VM) break it, as they break malloc, stdio and the C library's mutexes.
// - Several C libraries (dlmopen). Each has its flag, and the loader sets an inner one's to 0. Ours is that of the namespace in
//   which this library is. Threads made by an inner one that come to mutexes outside of it break the C library's, too.
// - The flag may become 1 again, by its definition, when a thread knows that no other is left; glibc 2.36 never does it.
//   What such threads have written is then visible to the one that is left.
// - Processes that share a mutex: those mutexes are the C library's.
// - Other C libraries have no such flag: never alone.
#pragma once

// Weak: older C libraries have none.
extern "C" [[gnu::weak]] char __libc_single_threaded;  // NOLINT(bugprone-reserved-identifier)

namespace usher::preload {

/// Where it is known that the C library has the flag. A load.
inline bool still_has_one_thread() {
  return __atomic_load_n(&__libc_single_threaded, __ATOMIC_RELAXED) != 0;
}

inline bool has_one_thread() {
  return &__libc_single_threaded != nullptr && still_has_one_thread();
}

}  // namespace usher::preload
