// system_calls LIBRARY PROGRAM ...: runs a program and prints the numbers of the system calls that the library makes in
// it and in its children, one per line, at the end on standard error. A call is the library's if the first return
// address on the stack that is outside the C library is in the library. Exits with 77 if it is not permitted to trace,
// else with 0.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)

enum { most_ranges = 64, most_processes = 512, most_calls = 1024, depth = 4 };
enum owner { unknown, ours, c_library, others };

struct range {
  uint64_t begin, end;
  enum owner owner;
};
/// The executable ranges of a process's address space. They are read again if an address is in none of them.
struct process {
  pid_t id;
  int ranges;
  struct range range[most_ranges];
};
static struct process processes[most_processes];
static bool called[most_calls];
static const char* library;

static pid_t process_of(pid_t thread) {
  char name[64], line[256];
  snprintf(name, sizeof name, "/proc/%d/status", (int)thread);
  FILE* file = fopen(name, "re");
  pid_t id = thread;
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "Tgid:", 5) == 0) id = (pid_t)atoi(line + 5);
  if (file != NULL) fclose(file);
  return id;
}

static void read_ranges(struct process* p) {
  char name[64], line[512], access[8];
  snprintf(name, sizeof name, "/proc/%d/maps", (int)p->id);
  FILE* file = fopen(name, "re");
  p->ranges = 0;
  while (file != NULL && p->ranges < most_ranges && fgets(line, sizeof line, file) != NULL) {
    struct range r;
    if (sscanf(line, "%lx-%lx %7s", &r.begin, &r.end, access) != 3 || access[2] != 'x') continue;
    r.owner = strstr(line, library) != NULL                                                      ? ours
              : strstr(line, "/libc.") != NULL || strstr(line, "/ld-linux") || strstr(line, "[") ? c_library
                                                                                                 : others;
    p->range[p->ranges++] = r;
  }
  if (file != NULL) fclose(file);
}

static enum owner owner_of(const struct process* p, uint64_t address) {
  for (int i = 0; i < p->ranges; ++i)
    if (p->range[i].begin <= address && address < p->range[i].end) return p->range[i].owner;
  return unknown;
}

static void examine(pid_t thread) {
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0 || registers.orig_rax >= most_calls) return;
  if (called[registers.orig_rax]) return;
  struct process* p = &processes[(unsigned)process_of(thread) % most_processes];
  if (p->id != process_of(thread)) *p = (struct process){.id = process_of(thread)};
  if (owner_of(p, registers.rip) == unknown) read_ranges(p);
  uint64_t stack[depth];
  struct iovec here = {stack, sizeof stack}, there = {(void*)(uintptr_t)registers.rsp, sizeof stack};
  ssize_t bytes = process_vm_readv(thread, &here, 1, &there, 1, 0);
  if (bytes < 0) {
    there.iov_len = here.iov_len = 4096 - registers.rsp % 4096 < sizeof stack ? 4096 - registers.rsp % 4096 : 8;
    bytes = process_vm_readv(thread, &here, 1, &there, 1, 0);
  }
  enum owner owner = owner_of(p, registers.rip);
  for (ssize_t i = 0; (owner == c_library || owner == unknown) && i < bytes / 8; ++i) owner = owner_of(p, stack[i]);
  if (owner == ours) called[registers.orig_rax] = true;
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  library = arguments[1];
  const pid_t first = fork();
  if (first == 0) {
    setenv("LD_PRELOAD", library, 1);
    setenv("USHER_TEST_IS_TRACED", "1", 1);  // see storm_of_a_timer in tests/conformance/semaphores.c
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
    raise(SIGSTOP);
    execv(arguments[2], arguments + 2);
    _exit(127);
  }
  int status;
  if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status)) return 77;
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                       PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (ptrace(PTRACE_SETOPTIONS, first, NULL, options) != 0) return 77;
  ptrace(PTRACE_SYSCALL, first, NULL, NULL);
  pid_t thread;
  while ((thread = waitpid(-1, &status, __WALL)) > 0) {
    if (!WIFSTOPPED(status)) continue;
    int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      examine(thread);
      signal = 0;
    } else if (status >> 16 == PTRACE_EVENT_EXEC) {
      processes[(unsigned)thread % most_processes].id = 0;
      signal = 0;
    } else if (status >> 16 != 0 || signal == SIGSTOP || signal == SIGTRAP) {
      signal = 0;
    }
    ptrace(PTRACE_SYSCALL, thread, NULL, (void*)(long)signal);
  }
  for (int i = 0; i < most_calls; ++i)
    if (called[i]) fprintf(stderr, "%d\n", i);
  return 0;
}

#else
int main(void) {
  return 77;
}
#endif
