// The condition variable functions, which cond.cpp and cond_with_version.cpp export.
#pragma once

#include <pthread.h>
#include <time.h>

namespace usher::preload {

int cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes);
int cond_destroy(pthread_cond_t* c);
int cond_wait(pthread_cond_t* c, pthread_mutex_t* m);
int cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until);
int cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until);
int cond_signal(pthread_cond_t* c);
int cond_broadcast(pthread_cond_t* c);

}  // namespace usher::preload
