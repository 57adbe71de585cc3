// The C library's own versions of the functions that libusher.so exports.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

namespace usher::preload::c_library {

int mutex_init(pthread_mutex_t*, const pthread_mutexattr_t*);
int mutex_destroy(pthread_mutex_t*);
int mutex_lock(pthread_mutex_t*);
int mutex_trylock(pthread_mutex_t*);
int mutex_unlock(pthread_mutex_t*);

/// The functions mutex_lock, mutex_trylock and mutex_unlock check at each call whether the C library's function is
/// linked to. If it is, returns the C library's function in their place. Any other function is returned as it is.
int (*without_check(int (*)(pthread_mutex_t*)))(pthread_mutex_t*);

int mutex_timedlock(pthread_mutex_t*, const timespec*);
int mutex_clocklock(pthread_mutex_t*, clockid_t, const timespec*);

/// If the function is missing, *shared or *clock keeps its value.
int condattr_getpshared(const pthread_condattr_t*, int* shared);
int condattr_getclock(const pthread_condattr_t*, clockid_t* clock);
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

/// Looks up all functions that are not linked to, before one is called. A signal handler may call sem_post() but not
/// dlsym(); and dlsym() waits for a dlopen() of another thread, whose constructors may wait for this thread.
void look_up_all();

/// Registers f to be called in every child that fork() makes (not in children of _Fork() and clone()).
void register_child_handler(void (*f)());

/// Whether the program runs on glibc. Other C libraries (musl) lay out pthread types differently.
bool is_glibc();

}  // namespace usher::preload::c_library
