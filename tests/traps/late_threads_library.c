// The library of late_threads.c.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int served;

static void* serve(void* argument) {
  (void)argument;
  if (sem_wait(&semaphore) != 0) return "sem_wait in a thread";
  pthread_mutex_lock(&normal);
  served = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&normal);
  return NULL;
}

static const char* with_kind(int protocol) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutexattr_setprotocol(&attributes, protocol);
  if (pthread_mutex_init(&mutex, &attributes) != 0) return "pthread_mutex_init";
  for (int i = 0; i < 3; i++)
    if (pthread_mutex_trylock(&mutex) != 0) return "pthread_mutex_trylock";
  for (int i = 0; i < 3; i++)
    if (pthread_mutex_unlock(&mutex) != 0) return "pthread_mutex_unlock";
  return pthread_mutex_destroy(&mutex) == 0 ? NULL : "pthread_mutex_destroy";
}

const char* failure(void);
const char* failure(void) {
  const char* failed = with_kind(PTHREAD_PRIO_NONE);
  if (failed == NULL) failed = with_kind(PTHREAD_PRIO_INHERIT);
  if (failed != NULL) return failed;
  if (sem_init(&semaphore, 0, 0) != 0) return "sem_init";
  if (sem_trywait(&semaphore) != -1 || errno != EAGAIN) return "sem_trywait";
  pthread_t thread;
  if (pthread_create(&thread, NULL, serve, NULL) != 0) return "pthread_create";
  if (sem_post(&semaphore) != 0) return "sem_post";
  pthread_mutex_lock(&normal);
  while (!served) pthread_cond_wait(&condition, &normal);
  pthread_mutex_unlock(&normal);
  void* result = NULL;
  if (pthread_join(thread, &result) != 0) return "pthread_join";
  return result;
}
