// Waits on a process-shared condition variable, which the C library serves, with a mutex that Usher serves. Only
// threads of this process can use the mutex, but other processes may signal the condition variable.
//
// The C library's wait would unlock Usher's mutex by its own code. So it gets a *helper*, a mutex of the C library's:
//
//     wait      lock helper; unlock the program's mutex; wait with helper; unlock helper; lock the program's mutex
//     signal    lock helper; signal; unlock helper
//
// No signal is lost: a thread that signals after it has locked the program's mutex cannot lock the helper until the
// waiter is in the C library's list. A hash of the condition variable's address selects the helper from a table.
#pragma once

#include <pthread.h>
#include <time.h>

namespace usher::preload::mixed_wait {

/// As pthread_cond_clockwait(). `until` null: no deadline. `clock` < 0: the condition variable's own clock.
int wait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until);

// These functions signal every process-shared condition variable, because any may have waiters in wait().
int signal(pthread_cond_t* c);
int broadcast(pthread_cond_t* c);

/// Makes all helpers free in the child of a fork: the threads that held them do not exist there.
void renew_in_child();

}  // namespace usher::preload::mixed_wait
