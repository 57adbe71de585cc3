// Calls of the C library's own functions, which libusher.so's exports of the same names hide from the program.
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

/// Each call of mutex_lock, mutex_trylock or mutex_unlock above tests a weak reference to the C library's function for
/// null. without_check() saves the test: for these three it returns the C library's function itself if that is not
/// null. It returns any other function unchanged.
int (*without_check(int (*)(pthread_mutex_t*)))(pthread_mutex_t*);

int mutex_timedlock(pthread_mutex_t*, const timespec*);
int mutex_clocklock(pthread_mutex_t*, clockid_t, const timespec*);

/// If the C library lacks the function, *shared or *clock keeps its value.
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

/// Looks up, before their first call, the functions that are not linked to. A signal handler may call sem_post() but
/// not dlsym(). A lock call must not call dlsym() either: dlsym() waits while another thread runs a library's
/// constructors in dlopen(), and these may wait for the caller.
void look_up_all();

/// Registers f as a handler that fork() calls in the child. _Fork() and clone() do not call it.
void register_child_handler(void (*f)());

/// Whether the program's C library is glibc. Other C libraries (musl) lay out pthread types differently.
bool is_glibc();

}  // namespace usher::preload::c_library
