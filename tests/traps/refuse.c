// refuse CALL[,CALL]... PROGRAM ...: executes a program for which these system calls fail: with ENOSYS, as on an older
// kernel, if Linux has had the call only since 4.11, else with EPERM, as in a sandbox. Exits with 77 if it is not
// permitted to arrange this.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
  const char* name;
  unsigned number;
  unsigned short newer;  // whether an older kernel lacks the call
} calls[] = {
#if defined(__x86_64__)
    {"clone3", 435, 1},       // Linux 5.3
    {"close_range", 436, 1},  // 5.9
    {"faccessat2", 439, 1},   // 5.8
    {"openat2", 437, 1},      // 5.6
    {"pidfd_getfd", 438, 1},  // 5.6
    {"pidfd_open", 434, 1},   // 5.3
    {"rseq", 334, 1},         // 4.18
    {"statx", 332, 1},        // 4.11
#endif
    {"getpid", SYS_getpid, 0},
    {"gettid", SYS_gettid, 0},
    {"lseek", SYS_lseek, 0},
    {"madvise", SYS_madvise, 0},
    {"membarrier", SYS_membarrier, 0},
    {"sched_getaffinity", SYS_sched_getaffinity, 0},
    {"sched_getparam", SYS_sched_getparam, 0},
    {"sched_getscheduler", SYS_sched_getscheduler, 0},
    {"sched_yield", SYS_sched_yield, 0},
    {"tgkill", SYS_tgkill, 0},
};
enum { known = sizeof calls / sizeof calls[0], most = 8 };

int main(int count, char** arguments) {
#if defined(__x86_64__)
  struct sock_filter filter[4 + 2 * most + 1] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
  };
  if (count < 3) return 2;
  unsigned length = 4, refused = 0;
  for (char* name = strtok(arguments[1], ","); name != NULL; name = strtok(NULL, ",")) {
    unsigned i = 0;
    while (i < known && strcmp(calls[i].name, name) != 0) ++i;
    if (i == known || refused++ == most) {
      fprintf(stderr, "refuse: %s is not in the list of calls\n", name);
      return 2;
    }
    filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
    const unsigned error = calls[i].newer ? ENOSYS : EPERM;
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {(unsigned short)length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("no filter of system calls");
    return 77;
  }
  execv(arguments[2], arguments + 2);
  perror(arguments[2]);
#else
  (void)count, (void)arguments, (void)calls;
#endif
  return 77;
}
