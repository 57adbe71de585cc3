#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "startup_library.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

struct early_report library_report;
pthread_mutex_t locked_by_constructor = PTHREAD_MUTEX_INITIALIZER;
int* library_destructor_result;

struct early_scene {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int turn, inside, count;
  struct early_report* report;
};

static void expect(struct early_report* report, int code, int expected, int line) {
  if (code == expected || report->first_code != 0) return;
  report->first_code = code ? code : -1;
  report->line = line;
}
#define EXPECT(call, expected) expect(report, (call), (expected), __LINE__)

static void* early_thread(void* argument) {
  struct early_scene* scene = argument;
  struct early_report* report = scene->report;
  EXPECT(pthread_mutex_lock(&scene->mutex), 0);
  scene->turn = 1;
  EXPECT(pthread_cond_signal(&scene->condition), 0);
  while (scene->turn != 2) EXPECT(pthread_cond_wait(&scene->condition, &scene->mutex), 0);
  EXPECT(pthread_mutex_unlock(&scene->mutex), 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT(pthread_mutex_lock(&scene->mutex), 0);
    EXPECT(__atomic_exchange_n(&scene->inside, 1, __ATOMIC_RELAXED), 0);
    ++scene->count;
    __atomic_store_n(&scene->inside, 0, __ATOMIC_RELAXED);
    EXPECT(pthread_mutex_unlock(&scene->mutex), 0);
  }
  return NULL;
}

void use_everything(struct early_report* report) {
  static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
  static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
  static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
  EXPECT(pthread_mutex_lock(&normal), 0);
  EXPECT(pthread_mutex_trylock(&normal), EBUSY);
  EXPECT(pthread_mutex_unlock(&normal), 0);
  EXPECT(pthread_mutex_lock(&adaptive), 0);
  EXPECT(pthread_mutex_trylock(&adaptive), EBUSY);
  EXPECT(pthread_mutex_unlock(&adaptive), 0);
  EXPECT(pthread_mutex_lock(&recursive), 0);
  EXPECT(pthread_mutex_trylock(&recursive), 0);
  EXPECT(pthread_mutex_unlock(&recursive), 0);
  EXPECT(pthread_mutex_unlock(&recursive), 0);
  EXPECT(pthread_mutex_unlock(&recursive), EPERM);
  EXPECT(pthread_mutex_lock(&errorcheck), 0);
  EXPECT(pthread_mutex_lock(&errorcheck), EDEADLK);
  EXPECT(pthread_mutex_unlock(&errorcheck), 0);

  struct early_scene scene = {.condition = PTHREAD_COND_INITIALIZER, .report = report};
  const struct timespec past = {0, 0};
  EXPECT(pthread_mutex_init(&scene.mutex, NULL), 0);
  EXPECT(pthread_mutex_timedlock(&scene.mutex, &past), 0);
  EXPECT(pthread_mutex_clocklock(&scene.mutex, CLOCK_MONOTONIC, &past), ETIMEDOUT);
  EXPECT(pthread_cond_timedwait(&scene.condition, &scene.mutex, &past), ETIMEDOUT);
  EXPECT(pthread_cond_clockwait(&scene.condition, &scene.mutex, CLOCK_MONOTONIC, &past), ETIMEDOUT);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, early_thread, &scene), 0);
  while (scene.turn != 1) EXPECT(pthread_cond_wait(&scene.condition, &scene.mutex), 0);
  scene.turn = 2;
  EXPECT(pthread_cond_broadcast(&scene.condition), 0);
  EXPECT(pthread_mutex_unlock(&scene.mutex), 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT(pthread_mutex_lock(&scene.mutex), 0);
    EXPECT(__atomic_exchange_n(&scene.inside, 1, __ATOMIC_RELAXED), 0);
    ++scene.count;
    __atomic_store_n(&scene.inside, 0, __ATOMIC_RELAXED);
    EXPECT(pthread_mutex_unlock(&scene.mutex), 0);
  }
  EXPECT(pthread_join(thread, NULL), 0);
  EXPECT(scene.count, 200);
  EXPECT(pthread_cond_destroy(&scene.condition), 0);
  EXPECT(pthread_mutex_destroy(&scene.mutex), 0);
  ++report->runs;
}

__attribute__((constructor)) static void library_constructor(void) {
  use_everything(&library_report);
  expect(&library_report, pthread_mutex_lock(&locked_by_constructor), 0, __LINE__);
}

__attribute__((destructor)) static void library_destructor(void) {
  if (!library_destructor_result) return;
  struct early_report report = {0, 0, 0};
  use_everything(&report);
  *library_destructor_result = report.runs == 1 && report.first_code == 0;
}
