// Prints which of Linux' facilities that Usher uses exist where this program runs. docs/aarch64.md shows the output
// under an emulator.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void print(const char* what, long result) {
  printf("%-18s %s\n", what, result == -1 ? strerror(errno) : "ok");
}

static int wiped_in_child(void) {
  char* page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  page[0] = 1;
  if (madvise(page, 65536, MADV_WIPEONFORK) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) _exit(page[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : (errno = ENOTSUP, -1);
}

static int traced(void) {
  const pid_t child = fork();
  if (child == 0) _exit(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 ? 0 : errno);
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 0 ? 0 : (errno = WEXITSTATUS(status), -1);
}

int main(void) {
  unsigned word = 0;
  unsigned cpu, node;
  print("membarrier", syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
  print("MADV_WIPEONFORK", wiped_in_child());
  print("PI futex", syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
  print("rseq", getauxval(27) != 0 ? 0 : (errno = ENOSYS, -1));  // AT_RSEQ_FEATURE_SIZE
  print("ptrace", traced());
  print("getcpu", syscall(SYS_getcpu, &cpu, &node, NULL));
  printf("%-18s %ld\n", "page size", sysconf(_SC_PAGESIZE));
  printf("%-18s LSE %d, WFXT %d, event stream %d, pointer authentication %d\n", "processor",
         (getauxval(AT_HWCAP) & 1 << 8) != 0, (getauxval(AT_HWCAP2) & 1ul << 31) != 0,
         (getauxval(AT_HWCAP) & 1 << 2) != 0, (getauxval(AT_HWCAP) & 1 << 30) != 0);
  return 0;
}
