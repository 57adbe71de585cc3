// Usher's implementations of the exported functions, except for those in mutex_operations.hpp. While a lock of Usher's
// is selected, they receive all objects, and pass on those that the C library serves.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

namespace usher::preload::ours {

int mutex_timedlock(pthread_mutex_t*, const timespec*);
int mutex_clocklock(pthread_mutex_t*, clockid_t, const timespec*);
int mutex_init(pthread_mutex_t*, const pthread_mutexattr_t*);
int mutex_destroy(pthread_mutex_t*);

int cond_init(pthread_cond_t*, const pthread_condattr_t*);
int cond_destroy(pthread_cond_t*);
int cond_wait(pthread_cond_t*, pthread_mutex_t*);
int cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*);
int cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
int cond_signal(pthread_cond_t*);
int cond_broadcast(pthread_cond_t*);

int sem_init(sem_t*, int, unsigned);
int sem_destroy(sem_t*);
int sem_wait(sem_t*);
int sem_trywait(sem_t*);
int sem_timedwait(sem_t*, const timespec*);
int sem_clockwait(sem_t*, clockid_t, const timespec*);
int sem_post(sem_t*);
int sem_getvalue(sem_t*, int*);

}  // namespace usher::preload::ours
