// Waits on a process-shared condition variable, which is the C library's, with a mutex of ours. Only threads of this
// process can use that mutex, but other processes may signal.
//
// The C library's wait would unlock our mutex with its own code. So it is given a helper mutex, which is the C
// library's:
//
//     wait      lock the helper mutex; unlock the program's; wait with the helper; unlock it; lock the program's
//     signal    lock the helper mutex; signal; unlock it
//
// A signal is not lost: a thread that signals after it has locked the program's mutex finds the helper locked until
// the waiter is in the C library's list. The helpers are a table, hashed by the condition variable's address.
#pragma once

#include <pthread.h>
#include <time.h>

namespace usher::preload::mixed_wait {

/// As pthread_cond_clockwait(). `until` may be null: no deadline. `clock` < 0: the clock of the condition variable.
int wait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until);

// Called for every process-shared condition variable, because it is not known which have waiters in wait().
int signal(pthread_cond_t* c);
int broadcast(pthread_cond_t* c);

/// Makes all helpers free in the child of a fork, where the threads that held them do not exist.
void renew_in_child();

}  // namespace usher::preload::mixed_wait
