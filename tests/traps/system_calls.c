// system_calls LIBRARY PROGRAM ...: runs a program and prints the numbers of the system calls that the library makes in
// the program and its children, one per line, at the end on standard error. A call counts as the library's if the
// innermost frame outside the C library is in the library; libdwfl unwinds the stack by the modules' call frame
// information. If the stack of a call can never be unwound, prints `lost NUMBER`. Exits with 77 if tracing is not
// permitted, else with 0.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(USHER_TEST_UNWINDS)
#include <elfutils/libdwfl.h>

enum { most_processes = 512, most_calls = 1024 };
enum owner { unknown, ours, c_library, others };

/// The modules of a process. They are read again if an address is in none of them.
struct process {
  pid_t id;
  Dwfl* modules;
};
static struct process processes[most_processes];
static bool called[most_calls], lost[most_calls];
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

static struct process* place_of(pid_t id) {
  return &processes[(unsigned)id % most_processes];
}

static enum owner owner_of(Dwfl* modules, Dwarf_Addr address) {
  Dwfl_Module* module = dwfl_addrmodule(modules, address);
  if (module == NULL) return unknown;
  const char* name = dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  if (name == NULL) return unknown;
  if (strcmp(name, library) == 0) return ours;
  const bool c = strstr(name, "/libc.") || strstr(name, "/libc-2.") || strstr(name, "/ld-");
  return c || name[0] == '[' ? c_library : others;  // [vdso]
}

/// Returns whether a module's call frame information covers the address.
static bool is_covered(Dwfl* modules, Dwarf_Addr address) {
  GElf_Addr bias;
  Dwarf_Frame* frame = NULL;
  Dwarf_CFI* information = dwfl_module_eh_cfi(dwfl_addrmodule(modules, address), &bias);
  if (information == NULL || dwarf_cfi_addrframe(information, address - bias, &frame) != 0) return false;
  free(frame);
  return true;
}

/// Returns whether the address is in the first instructions of a program or of the loader, which no function has
/// called. The loader has no call frame information for its first instructions.
static bool is_entry(Dwfl* modules, Dwarf_Addr address) {
  enum { length = 16 };
  GElf_Addr bias;
  GElf_Ehdr header;
  Elf* elf = dwfl_module_getelf(dwfl_addrmodule(modules, address), &bias);
  return elf != NULL && gelf_getehdr(elf, &header) != NULL && address - (bias + header.e_entry) <= length;
}

// -- callbacks of libdwfl, which ask about a stopped thread --

static bool read_word(Dwfl* modules, Dwarf_Addr address, Dwarf_Word* word, void* process) {
  (void)modules;
  struct iovec here = {word, sizeof *word}, there = {(void*)(uintptr_t)address, sizeof *word};
  return process_vm_readv(((struct process*)process)->id, &here, 1, &there, 1, 0) == sizeof *word;
}

static bool give_registers(Dwfl_Thread* thread, void* process) {
  struct user_regs_struct r;
  if (ptrace(PTRACE_GETREGS, dwfl_thread_tid(thread), NULL, &r) != 0) return false;
  // the address of the call itself: the next instruction may belong to another function
  Dwarf_Word instruction = r.rip - 2;
  Dwfl* modules = ((struct process*)process)->modules;
  // The C library's clone functions, which have pushed nothing, end their frame information before the system call.
  if (owner_of(modules, instruction) == c_library && !is_covered(modules, instruction)) {
    if (!read_word(modules, r.rsp, &instruction, process)) return false;
    r.rsp += 8;
  }
  const Dwarf_Word values[] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp,      r.r8,
                               r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, instruction};
  return dwfl_thread_state_registers(thread, 0, 17, values);
}

/// libdwfl needs no list of the threads, since it is asked only about threads with a known id.
static pid_t next_thread(Dwfl* modules, void* process, void** thread) {
  (void)modules, (void)process, (void)thread;
  return 0;
}

static bool get_thread(Dwfl* modules, pid_t id, void* process, void** thread) {
  (void)modules, (void)id;
  *thread = process;
  return true;
}

static void forget_modules(struct process* p) {
  if (p->modules != NULL) dwfl_end(p->modules);
  *p = (struct process){0, NULL};
}

static void read_modules(struct process* p, pid_t id) {
  static char* no_debug_path = "";  // the modules contain their call frame information themselves
  static const Dwfl_Callbacks files = {.find_elf = dwfl_linux_proc_find_elf,
                                       .find_debuginfo = dwfl_standard_find_debuginfo,
                                       .debuginfo_path = &no_debug_path};
  static const Dwfl_Thread_Callbacks stopped = {.next_thread = next_thread,
                                                .get_thread = get_thread,
                                                .memory_read = read_word,
                                                .set_initial_registers = give_registers};
  forget_modules(p);
  *p = (struct process){id, dwfl_begin(&files)};
  if (p->modules == NULL || dwfl_linux_proc_report(p->modules, id) != 0 ||
      dwfl_report_end(p->modules, NULL, NULL) != 0 || !dwfl_attach_state(p->modules, NULL, id, &stopped, p))
    forget_modules(p);
}

// -- a call's caller --

struct walk {
  Dwfl* modules;
  int frames;
  enum owner owner;
  Dwarf_Addr last;
};

static int visit(Dwfl_Frame* frame, void* argument) {
  struct walk* walk = argument;
  bool interrupted;
  if (!dwfl_frame_pc(frame, &walk->last, &interrupted)) return DWARF_CB_ABORT;
  walk->owner = owner_of(walk->modules, walk->last - !interrupted);
  // A signal handler of the C library itself has no caller.
  return walk->owner == c_library && (walk->frames++ == 0 || !interrupted) ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/// Returns c_library if its functions have no other caller, as at the start of a thread.
static enum owner caller(pid_t thread, uint64_t instruction) {
  const pid_t id = process_of(thread);
  struct process* p = place_of(id);
  if (p->id != id || p->modules == NULL || owner_of(p->modules, instruction) == unknown) read_modules(p, id);
  if (p->modules == NULL) return unknown;
  struct walk walk = {p->modules, 0, unknown, 0};
  if (dwfl_getthread_frames(p->modules, thread, visit, &walk) >= 0 || walk.owner != c_library) return walk.owner;
  return is_entry(p->modules, walk.last) ? c_library : unknown;
}

static void examine(pid_t thread) {
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0 || registers.orig_rax >= most_calls) return;
  // examines a call only at its beginning
  if (registers.rax != (uint64_t)-ENOSYS || called[registers.orig_rax]) return;
  if (registers.orig_rax == SYS_rt_sigreturn) return;  // its caller would be the code that a signal interrupted
  const enum owner owner = caller(thread, registers.rip);
  if (owner == ours) called[registers.orig_rax] = true;
  if (owner == unknown) lost[registers.orig_rax] = true;
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
    if (!WIFSTOPPED(status) || status >> 16 == PTRACE_EVENT_EXEC)
      if (place_of(thread)->id == thread) forget_modules(place_of(thread));
    if (!WIFSTOPPED(status)) continue;
    int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      examine(thread);
      signal = 0;
    } else if (status >> 16 != 0 || signal == SIGSTOP || signal == SIGTRAP) {
      signal = 0;
    }
    ptrace(PTRACE_SYSCALL, thread, NULL, (void*)(long)signal);
  }
  for (int i = 0; i < most_calls; ++i)
    if (called[i] || lost[i]) fprintf(stderr, called[i] ? "%d\n" : "lost %d\n", i);
  return 0;
}

#else
int main(void) {
  return 77;
}
#endif
