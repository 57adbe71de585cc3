/* What the waiting programs share. A program starts its threads by WAITER, HOLDER and STANDBY, and calls is_ready() at
 * the end of main(): it waits until each waiter sleeps in a system call, prints one line of JSON, and waits.
 *
 *     {"case": "mutex-normal", "pid": 7, "object": "0x5581…", "threads": [{"role": "waiter", "tid": 9, "pid": 7,
 *      "function": "locks_mutex"}, …]}
 *
 * SIGTERM ends the program, and so does SIGALRM after a minute: a test that dies leaves no program behind. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { most_threads = 16 };

struct part {
  const char *role, *function;
  void* (*run)(void*);
  void* argument;
  pthread_t thread;
  _Atomic pid_t tid;
  pid_t pid;
};

static struct part parts[most_threads];
static int part_count;
static _Atomic int holds; /* the number of holders that have what they hold */

static void* begin(void* of) {
  struct part* part = of;
  part->pid = getpid();
  part->tid = (pid_t)syscall(SYS_gettid);
  return part->run(part->argument);
}

static struct part* start(const char* role, const char* function, void* (*run)(void*), void* argument) {
  struct part* part = &parts[part_count++];
  part->role = role;
  part->function = function;
  part->run = run;
  part->argument = argument;
  if (pthread_create(&part->thread, NULL, begin, part) != 0) abort();
  return part;
}

#define WAITER(function, argument) start("waiter", #function, function, argument)
/* Waits until the thread has called now_holds(). */
#define HOLDER(function, argument) (start("holder", #function, function, argument), await_holders(1))
/* A thread that neither waits for the object nor holds it. */
#define STANDBY(function, argument) start("other", #function, function, argument)

static inline void await_holders(int more) {
  static int wanted;
  wanted += more;
  while (holds < wanted) usleep(500);
}

static inline void now_holds(void) {
  holds++;
}

static inline void sleep_for_ever(void) {
  for (;;) pause();
}

/* Reads as the kernel's answer for a thread in a system call "202 0x… …", for others "running". 1 where /proc does not
 * have the file. */
static int is_asleep(const struct part* part) {
  char name[64], text[64] = "";
  snprintf(name, sizeof name, "/proc/%d/task/%d/syscall", (int)part->pid, (int)part->tid);
  FILE* file = fopen(name, "r");
  if (!file) return part->tid != 0 && access("/proc/self/syscall", F_OK) != 0;
  const char* read = fgets(text, sizeof text, file);
  fclose(file);
  return read && text[0] >= '0' && text[0] <= '9';
}

static void await_waiters(void) {
  for (int i = 0; i < part_count; i++) {
    while (parts[i].tid == 0 || !is_asleep(&parts[i])) usleep(1000);
  }
}

static void is_ready(const char* name, const void* object) {
  await_waiters();
  printf("{\"case\": \"%s\", \"pid\": %d, \"object\": \"0x%lx\", \"threads\": [", name, (int)getpid(),
         (unsigned long)(uintptr_t)object);
  for (int i = 0; i < part_count; i++) {
    printf("%s{\"role\": \"%s\", \"tid\": %d, \"pid\": %d, \"function\": \"%s\"}", i ? ", " : "", parts[i].role,
           (int)parts[i].tid, (int)parts[i].pid, parts[i].function);
  }
  puts("]}");
  fflush(stdout);
  sleep_for_ever();
}
