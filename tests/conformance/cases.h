// A small framework for test programs of named cases. Each case runs in a process of its own under a time limit.
//
// A program prints one line for each case, `PASS name`, `FAIL name: why` or `SKIP name: why`, and at the end `N passed,
// N failed, N skipped`. It exits with 1 if a case failed. Options:
//
//     --list        prints the names of the cases
//     --only NAME   runs this case, or all its variants (`trylock_held` means `trylock_held/recursive`); repeatable
//     --fresh       runs each case in a fresh image (fork and exec) instead of a fork of the parent
//     --here NAME   runs this case in the program's own process, without a limit: for debuggers
//     --limit N     the seconds that a case may take (100)
//
// The framework itself uses no mutex and no thread, so that the first lock that a case takes is the first of its
// process.
#ifndef USHER_TESTS_CASES_H
#define USHER_TESTS_CASES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*case_body)(const void* argument);

/// Adds a case; constructors call it through the macros below. `variant` may be null.
void add_case(const char* name, const char* variant, case_body body, const void* argument);

/// CASE(id) { … } defines and registers a case.
#define CASE(id)                                                 \
  static void id(void);                                          \
  static void id##_body(const void* unused) {                    \
    (void)unused;                                                \
    id();                                                        \
  }                                                              \
  __attribute__((constructor)) static void id##_register(void) { \
    add_case(#id, 0, id##_body, 0);                              \
  }                                                              \
  static void id(void)

/// CASE_FOR(id, struct mutex_kind, kind, kinds) { … } defines a case for each entry of the array `kinds`. In the body,
/// `kind` points to the entry, which must have a member `name`. CASE_WHERE defines cases only for the entries that
/// fulfil a condition.
#define CASE_FOR(id, type, parameter, table) CASE_WHERE(id, type, parameter, table, true)
#define CASE_WHERE(id, type, parameter, table, condition)                                                     \
  static void id(const type* parameter);                                                                      \
  static void id##_body(const void* argument) {                                                               \
    id((const type*)argument);                                                                                \
  }                                                                                                           \
  __attribute__((constructor)) static void id##_register(void) {                                              \
    for (const type* parameter = table; parameter != table + sizeof(table) / sizeof((table)[0]); ++parameter) \
      if (condition) add_case(#id, parameter->name, id##_body, parameter);                                    \
  }                                                                                                           \
  static void id(const type* parameter)

/// Each of these functions ends the whole case, from any of its threads and processes.
void fail_case(const char* file, int line, const char* format, ...) __attribute__((noreturn, format(printf, 3, 4)));
void skip_case(const char* format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/// Describes the next step of the case, for cases that loop over several calls. The text is added to the reason of a
/// failure.
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) fail_case(__FILE__, __LINE__, "not true: %s", #condition); \
  } while (0)

/// Checks the result of a pthread call. A failure is reported with the names of the error numbers.
#define CHECK_CODE(call, expected) check_code(__FILE__, __LINE__, #call, (call), (expected))
#define CHECK_OK(call) CHECK_CODE(call, 0)
void check_code(const char* file, int line, const char* text, int code, int expected);

#define CHECK_NUMBER(value, expected) \
  check_number(__FILE__, __LINE__, #value, (long long)(value), (long long)(expected))
void check_number(const char* file, int line, const char* text, long long value, long long expected);

/// Checks a call that reports errors in errno: it returns 0 and leaves errno unchanged, or returns -1 with that error
/// in errno.
#define CHECK_SUCCESS(call) CHECK_ERROR(call, 0)
#define CHECK_ERROR(call, expected)                                            \
  do {                                                                         \
    errno = USHER_TESTS_ERRNO;                                                 \
    const int result_of_call = (call);                                         \
    check_errno(__FILE__, __LINE__, #call, result_of_call, errno, (expected)); \
  } while (0)
#define USHER_TESTS_ERRNO 4711
void check_errno(const char* file, int line, const char* text, int result, int error, int expected);

// -- threads --

typedef void* (*thread_body)(void*);

pthread_t start_thread(thread_body body, void* argument);
void* join_thread(pthread_t thread);

/// Runs `body` in a new thread and returns what it returned.
void* in_new_thread(thread_body body, void* argument);

/// Runs `body` in `count` threads, the i-th with `arguments + i * size`, and joins them. The threads call `body`
/// together, when the last one has started: the start of a thread may take longer than its work.
void run_threads(int count, thread_body body, void* arguments, size_t size);

/// Waits until the thread, or the process, with this id sleeps in the kernel. Returns false if it has not fallen asleep
/// after some time, since a waiter may also spin.
bool await_asleep(pid_t thread_id);

/// Waits until `count` threads of the process, not counting the caller, sleep in the kernel. Returns false after 20 ms,
/// since waiters may also spin. Use it only if the other threads do nothing but wait.
bool await_sleepers(int count);

// Integers that serve as flags between threads. C and C++ have different atomics; the compiler's builtins are the same
// in both.
static inline int flag_get(const int* flag) {
  return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}
static inline void flag_set(int* flag, int value) {
  __atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}
static inline int flag_add(int* flag, int value) {
  return __atomic_add_fetch(flag, value, __ATOMIC_SEQ_CST);
}

/// Sleeps until the flag is `at_least` or larger.
void await_flag(const int* flag, int at_least);

/// Like await_flag, but polls more often, at first without sleep. Returns false if the flag does not reach the value
/// within five seconds. It is for cases that would hang if a wake-up is lost, and for loops of many short rounds.
bool flag_comes(const int* flag, int at_least);

// -- time --

struct timespec now(clockid_t clock);
struct timespec later(struct timespec from, long milliseconds);

/// Whether libusher.so is preloaded.
static inline bool under_usher(void) {
  const char* preloads = getenv("LD_PRELOAD");
  return preloads != NULL && strstr(preloads, "libusher") != NULL;
}
/// Returns the error number of a wait with invalid nanoseconds. Under Usher any time before the clock's epoch counts as
/// past, so the wait times out.
static inline int invalid_or_past(struct timespec t) {
  return t.tv_sec < 0 && under_usher() ? ETIMEDOUT : EINVAL;
}
bool before(struct timespec a, struct timespec b);
void sleep_ms(long milliseconds);
double seconds(void);  ///< monotonic
/// Computes for a short time without a system call.
void compute(unsigned steps);
/// Takes some time, so that other threads find the lock held and must wait. Computes, and in every eighth step yields
/// the CPU.
void linger(long step);

// -- memory and processes --

/// Returns a zeroed page that is shared with all children created later. Never returns null.
void* shared_page(void);

/// Starts a child that runs `body` and then calls _exit(0). The child is killed when its parent dies or when the case's
/// time limit passes.
pid_t start_child(void (*body)(void*), void* argument);
/// Must be the first call in a child that was not created by start_child (except after vfork or exec).
void be_a_child(void);
/// Fails the case unless the child exited with this status.
#define CHECK_CHILD(pid, status) check_child(__FILE__, __LINE__, (pid), (status))
void check_child(const char* file, int line, pid_t child, int status);

#ifdef __cplusplus
}
#endif
#endif
