// Threads that share a table and a log, for the test of `usher diff`: diff_pairs.py builds a copy in which the table's
// section is longer and all lines are others. With "sleep" the sections sleep, as if for a disk, and the waiting hardly
// depends on other programs; else they compute.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { threads = 4, outside = 40, table_section = 20, log_section = 4 };  // in units of 50 us, or 200 turns

struct table {
  pthread_mutex_t lock;
  unsigned long value;
};

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static struct table* shared;
static struct timespec end;
static int sleeps;

static void work(unsigned units) {
  if (sleeps) {
    const struct timespec length = {0, units * 50000L};
    nanosleep(&length, NULL);
    return;
  }
  for (volatile unsigned i = 0; i < units * 200; i++) {
  }
}

static struct table* make_table(void) {
  struct table* t = malloc(sizeof *t);
  pthread_mutex_init(&t->lock, NULL);
  t->value = 0;
  return t;
}

static void change_table(struct table* t) {
  pthread_mutex_lock(&t->lock);
  work(table_section);
  t->value++;
  pthread_mutex_unlock(&t->lock);
}

static void write_log(void) {
  pthread_mutex_lock(&log_lock);
  work(log_section);
  pthread_mutex_unlock(&log_lock);
}

static int is_over(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
}

static void* run(void* seed) {
  unsigned random = *(unsigned*)seed;
  while (!is_over()) {
    work(outside / 2 + (unsigned)rand_r(&random) % outside);
    change_table(shared);
    write_log();
  }
  return NULL;
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 2;
  sleeps = argc > 2 && strcmp(argv[2], "sleep") == 0;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += (time_t)seconds;
  end.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
  shared = make_table();
  pthread_t all[threads];
  unsigned seeds[threads];
  for (int i = 0; i < threads; i++) {
    seeds[i] = (unsigned)i;
    pthread_create(&all[i], NULL, run, &seeds[i]);
  }
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
  printf("%lu\n", shared->value);
  return 0;
}
