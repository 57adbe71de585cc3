// Waits on a process-shared condition variable, which is the C library's, with a mutex of ours. Only threads of this
// process can use that mutex, but other processes may signal.
//
// The C library's wait would unlock our mutex by its own code. So it is given a helper mutex, which is the C library's:
//
//     wait      lock the helper mutex; unlock the program's; wait with the helper; unlock it; lock the program's
//     signal    lock the helper mutex; signal; unlock it
//
// A thread that signals after it has had the program's mutex finds the helper locked until the waiter is in the C
// library's list, so the signal is not lost. The helpers are a table, hashed by the condition variable's address.
#pragma once

#include <pthread.h>
#include <time.h>

namespace usher::preload::mixed_wait {

/// As pthread_cond_clockwait(); `until` may be null. `clock` < 0: the condition variable's own.
int wait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until);

// For all process-shared condition variables: whether threads wait here is not known.
int signal(pthread_cond_t* c);
int broadcast(pthread_cond_t* c);

/// Frees the helpers in the child of a fork, where the threads that held them may not exist.
void renew_in_child();

}  // namespace usher::preload::mixed_wait
