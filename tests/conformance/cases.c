#include "cases.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>

struct test_case {
  char name[112];
  case_body body;
  const void* argument;
};

static struct test_case cases[1024];
static int case_count;

// the process of a case writes the reason of a failure to this descriptor; -1: standard error
static int report_fd = -1;
static int limit_seconds = 100;
static __thread char noted[160];

void add_case(const char* name, const char* variant, case_body body, const void* argument) {
  if (case_count == (int)(sizeof cases / sizeof cases[0])) abort();
  struct test_case* one = &cases[case_count++];
  snprintf(one->name, sizeof one->name, "%s%s%s", name, variant ? "/" : "", variant ? variant : "");
  one->body = body;
  one->argument = argument;
}

// -- outcomes --

// A single write of less than PIPE_BUF bytes is atomic, so that several threads and processes may fail at once.
static void report(char letter, const char* text) {
  char line[1024];
  int length = snprintf(line, sizeof line, "%c%s\n", letter, text);
  if (length >= (int)sizeof line) length = sizeof line - 1;
  ssize_t ignored = write(report_fd < 0 ? 2 : report_fd, line, (size_t)length);
  (void)ignored;
}

void fail_case(const char* file, int line, const char* format, ...) {
  char why[600], text[900];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  const char* slash = strrchr(file, '/');
  snprintf(text, sizeof text, "%s:%d: %s%s%s%s", slash ? slash + 1 : file, line, why, noted[0] ? " (" : "", noted,
           noted[0] ? ")" : "");
  report('F', text);
  _exit(1);
}

void skip_case(const char* format, ...) {
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  report('S', text);
  _exit(0);
}

void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(noted, sizeof noted, format, arguments);
  va_end(arguments);
}

extern __attribute__((weak)) const char* strerrorname_np(int); /* glibc 2.32 */

static const char* code_name(int code) {
  if (strerrorname_np == NULL) return strerror(code);
  const char* name = code == 0 ? "0" : strerrorname_np(code);
  return name ? name : "no error number";
}

void check_code(const char* file, int line, const char* text, int code, int expected) {
  if (code == expected) return;
  fail_case(file, line, "%s gave %s (%d), not %s", text, code_name(code), code, code_name(expected));
}

void check_number(const char* file, int line, const char* text, long long value, long long expected) {
  if (value != expected) fail_case(file, line, "%s is %lld, not %lld", text, value, expected);
}

void check_errno(const char* file, int line, const char* text, int result, int error, int expected) {
  if (result == (expected == 0 ? 0 : -1) && error == (expected == 0 ? USHER_TESTS_ERRNO : expected)) return;
  if (error == USHER_TESTS_ERRNO)
    fail_case(file, line, "%s gave %d without an error, not %s", text, result, code_name(expected));
  fail_case(file, line, "%s gave %d with %s (%d) in errno, not %s", text, result, code_name(error), error,
            code_name(expected));
}

// -- threads --

pthread_t start_thread(thread_body body, void* argument) {
  pthread_t thread;
  CHECK_OK(pthread_create(&thread, NULL, body, argument));
  return thread;
}

void* join_thread(pthread_t thread) {
  void* result = NULL;
  CHECK_OK(pthread_join(thread, &result));
  return result;
}

void* in_new_thread(thread_body body, void* argument) {
  return join_thread(start_thread(body, argument));
}

struct gated_thread {
  thread_body body;
  void* argument;
  const int* gate;
};

static void* wait_at_gate(void* argument) {
  const struct gated_thread* me = argument;
  while (!flag_get(me->gate)) sched_yield();
  return me->body(me->argument);
}

void run_threads(int count, thread_body body, void* arguments, size_t size) {
  pthread_t threads[128];
  struct gated_thread gated[128];
  int gate = 0;
  if (count > 128) abort();
  for (int i = 0; i < count; ++i) {
    gated[i] = (struct gated_thread){body, (char*)arguments + (size_t)i * size, &gate};
    threads[i] = start_thread(wait_at_gate, &gated[i]);
  }
  flag_set(&gate, 1);
  for (int i = 0; i < count; ++i) join_thread(threads[i]);
}

// `name` is a path below /proc. Returns 'S' for a thread that sleeps, and 0 if the thread does not exist.
static char state_of(const char* name) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%s/stat", name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = read(fd, line, sizeof line - 1);
  close(fd);
  if (length <= 0) return 0;
  line[length] = 0;
  const char* state = strrchr(line, ')');
  return state && state[1] == ' ' ? state[2] : 0;
}

bool await_asleep(pid_t thread_id) {
  char name[32];
  snprintf(name, sizeof name, "%d", (int)thread_id);
  for (int round = 0; round < 100; ++round) {
    const char state = state_of(name);
    if (state == 0) return false;
    if (state == 'S') return true;
    usleep(500);  // polls
  }
  return false;
}

// Counts the other threads that sleep. Allocates no memory, because some cases count the allocations of the process.
static int sleepers(void) {
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return 0;
  const int self = (int)gettid();
  int count = 0;
  _Alignas(struct dirent64) char entries[2048];
  for (ssize_t size; (size = getdents64(folder, entries, sizeof entries)) > 0;) {
    for (ssize_t at = 0; at < size;) {
      const struct dirent64* entry = (const struct dirent64*)(entries + at);
      at += entry->d_reclen;
      char name[32];
      snprintf(name, sizeof name, "%.20s", entry->d_name);
      if (atoi(name) > 0 && atoi(name) != self && state_of(name) == 'S') ++count;
    }
  }
  close(folder);
  return count;
}

bool await_sleepers(int count) {
  const double limit = seconds() + 0.02;
  for (;;) {
    if (sleepers() >= count) return true;
    if (seconds() > limit) return false;
    usleep(100);  // polls
  }
}

void await_flag(const int* flag, int at_least) {
  while (flag_get(flag) < at_least) usleep(200);  // the case has a time limit
}

bool flag_comes(const int* flag, int at_least) {
  const double limit = seconds() + 60;
  for (int round = 0; flag_get(flag) < at_least; ++round) {
    if (round < 200) {
      sched_yield();
    } else {
      if (seconds() > limit) return false;
      usleep(100);  // polls
    }
  }
  return true;
}

// -- time --

struct timespec now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time;
}

struct timespec later(struct timespec from, long milliseconds) {
  from.tv_sec += milliseconds / 1000;
  from.tv_nsec += milliseconds % 1000 * 1000000;
  if (from.tv_nsec >= 1000000000) {
    from.tv_sec += 1;
    from.tv_nsec -= 1000000000;
  }
  if (from.tv_nsec < 0) {
    from.tv_sec -= 1;
    from.tv_nsec += 1000000000;
  }
  return from;
}

bool before(struct timespec a, struct timespec b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

void sleep_ms(long milliseconds) {
  struct timespec rest = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&rest, &rest) != 0) {
  }
}

double seconds(void) {
  struct timespec time = now(CLOCK_MONOTONIC);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void linger(long step) {
  if (step % 8 == 0)
    sched_yield();
  else
    compute(60);
}

void compute(unsigned steps) {
  volatile unsigned value = 1;
  for (unsigned i = 0; i < steps; ++i) value = value * 1664525u + 1013904223u;
}

// -- memory and processes --

void* shared_page(void) {
  void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) fail_case(__FILE__, __LINE__, "no page could be shared");
  return page;
}

void be_a_child(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm((unsigned)limit_seconds);
}

pid_t start_child(void (*body)(void*), void* argument) {
  pid_t child = fork();
  if (child < 0) fail_case(__FILE__, __LINE__, "fork failed");
  if (child == 0) {
    be_a_child();
    body(argument);
    _exit(0);
  }
  return child;
}

void check_child(const char* file, int line, pid_t child, int status) {
  int result = 0;
  while (waitpid(child, &result, 0) < 0) {
    if (errno != EINTR) fail_case(file, line, "waitpid failed");
  }
  if (WIFSIGNALED(result))
    fail_case(file, line, "the child died of signal %d (%s)", WTERMSIG(result),
              WTERMSIG(result) == SIGALRM ? "its time limit: it hung" : strsignal(WTERMSIG(result)));
  if (WEXITSTATUS(result) != status)
    fail_case(file, line, "the child exited with %d, not %d", WEXITSTATUS(result), status);
}

// -- the program --

static void run_case(const struct test_case* one) {
  one->body(one->argument);
  fflush(NULL);
  // _exit() is called instead of exit(), because a case may have left threads that wait, and these must not influence
  // its result.
  _exit(0);
}

static void start_case(const struct test_case* one, bool fresh, int write_end) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  report_fd = write_end;
  if (!fresh) run_case(one);
  char fd_text[16], limit_text[16], here[] = "--here", to[] = "--report", limit[] = "--limit", self[] = "cases";
  snprintf(fd_text, sizeof fd_text, "%d", write_end);
  snprintf(limit_text, sizeof limit_text, "%d", limit_seconds);
  char name[sizeof one->name];
  memcpy(name, one->name, sizeof name);
  char* arguments[] = {self, to, fd_text, limit, limit_text, here, name, NULL};
  execv("/proc/self/exe", arguments);
  report('F', "could not start a fresh image");
  _exit(1);
}

enum outcome { passed, failed, skipped };

/// Waits until the child has ended; returns false if the time limit passes first. The child is not reaped: as long as
/// it is a zombie, no other process gets its number.
static bool ends_in_time(pid_t child) {
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  const double deadline = seconds() + limit_seconds;
  for (;;) {
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child) return true;
    const double left = deadline - seconds();
    if (left <= 0) return false;
    struct timespec rest = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    sigtimedwait(&child_signal, NULL, &rest);
  }
}

/// Reads the first line that the processes of a case reported; `text` is empty if they reported nothing.
static void read_report(int from, char* text, size_t size) {
  size_t length = 0;
  fcntl(from, F_SETFL, O_NONBLOCK);
  for (;;) {
    ssize_t got = read(from, text + length, size - 1 - length);
    if (got <= 0) break;
    length += (size_t)got;
  }
  text[length] = 0;
  char* end_of_line = strchr(text, '\n');
  if (end_of_line) *end_of_line = 0;
}

static enum outcome print_outcome(const char* name, const char* reported, bool late, int status) {
  if (reported[0] == 'S') {
    printf("SKIP %s: %s\n", name, reported + 1);
    return skipped;
  }
  if (reported[0] != 0) {
    printf("FAIL %s: %s\n", name, reported + 1);
    return failed;
  }
  if (late) {
    printf("FAIL %s: still running after %d s\n", name, limit_seconds);
    return failed;
  }
  if (WIFSIGNALED(status)) {
    printf("FAIL %s: died of signal %d (%s)\n", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    return failed;
  }
  if (WEXITSTATUS(status) != 0) {
    printf("FAIL %s: exited with %d\n", name, WEXITSTATUS(status));
    return failed;
  }
  printf("PASS %s\n", name);
  return passed;
}

static enum outcome supervise(const struct test_case* one, bool fresh) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fflush(NULL);
  pid_t child = fork();
  if (child < 0) abort();
  if (child == 0) {
    close(ends[0]);
    start_case(one, fresh, ends[1]);
  }
  setpgid(child, child);  // in both processes, so that neither has to wait for the other
  close(ends[1]);

  const bool late = !ends_in_time(child);
  kill(-child, SIGKILL);  // kills the child's own children, too
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  char reported[4096];
  read_report(ends[0], reported, sizeof reported);
  close(ends[0]);
  return print_outcome(one->name, reported, late, status);
}

static bool matches(const char* name, const char* wanted) {
  const size_t length = strlen(wanted);
  return strncmp(name, wanted, length) == 0 && (name[length] == 0 || name[length] == '/');
}

static int usage(const char* program) {
  fprintf(stderr, "usage: %s [--list] [--only NAME]... [--without NAME]... [--fresh] [--here NAME] [--limit SECONDS]\n",
          program);
  return 2;
}

int main(int argc, char** argv) {
  const char* only[64];
  const char* without[64];
  int only_count = 0, without_count = 0;
  const char* here = NULL;
  bool fresh = false;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (strcmp(argv[i], "--list") == 0) {
      for (int j = 0; j < case_count; ++j) puts(cases[j].name);
      return 0;
    }
    if (strcmp(argv[i], "--only") == 0 && more && only_count < 64) {
      only[only_count++] = argv[++i];
    } else if (strcmp(argv[i], "--without") == 0 && more && without_count < 64) {
      without[without_count++] = argv[++i];
    } else if (strcmp(argv[i], "--here") == 0 && more) {
      here = argv[++i];
    } else if (strcmp(argv[i], "--report") == 0 && more) {
      report_fd = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--limit") == 0 && more) {
      limit_seconds = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--fresh") == 0) {
      fresh = true;
    } else {
      return usage(argv[0]);
    }
  }
  if (here) {
    for (int j = 0; j < case_count; ++j)
      if (strcmp(cases[j].name, here) == 0) run_case(&cases[j]);
    fprintf(stderr, "no case %s\n", here);
    return 2;
  }

  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, NULL);
  int counts[3] = {0, 0, 0};
  for (int j = 0; j < case_count; ++j) {
    bool wanted = only_count == 0;
    for (int k = 0; k < only_count; ++k) wanted |= matches(cases[j].name, only[k]);
    for (int k = 0; k < without_count; ++k) wanted &= !matches(cases[j].name, without[k]);
    if (wanted) ++counts[supervise(&cases[j], fresh)];
  }
  printf("%d passed, %d failed, %d skipped\n", counts[passed], counts[failed], counts[skipped]);
  return counts[failed] != 0;
}
