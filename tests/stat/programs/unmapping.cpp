// Threads initialise mutexes in functions that generated code calls, and on fibers. Meanwhile other threads unload a
// library and unmap code and stacks. Some of the generated code and of the mutexes lie at the addresses of the unloaded
// library. An initialisation records a call chain, and this must not fault.
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "planted.hpp"

namespace planted {

namespace {
constexpr std::size_t page = 4096, stack_size = 16 << 10;
tally unmapped_figures("unmapped");
std::atomic<std::uint64_t> made{0};

/// Initialises, uses and destroys a mutex, at `place` or, if `place` is null, on the stack. Each initialisation records
/// a call chain, which leads through the generated code.
[[gnu::noinline]] void make_and_destroy(void* place) {
  pthread_mutex_t own;
  auto* const one = place != nullptr ? static_cast<pthread_mutex_t*>(place) : &own;
  pthread_mutex_init(one, nullptr);  // mark: under generated code
  pthread_mutex_lock(one);
  pthread_mutex_unlock(one);
  ++made;
  pthread_mutex_destroy(one);
}

#if defined(__x86_64__)

char* map(char* at, int access, int further_flags) {
  return static_cast<char*>(mmap(at, page, access, MAP_PRIVATE | MAP_ANONYMOUS | further_flags, -1, 0));
}

/// Generated code that calls make_and_destroy(), with a valid frame pointer or with one that the caller chooses.
class generated {
 public:
  /// Places the code at `place` if nothing is mapped there, or at any address if `place` is null.
  explicit generated(char* place = nullptr)
      : code_(map(place, PROT_READ | PROT_WRITE, place != nullptr ? MAP_FIXED_NOREPLACE : 0)) {
    if (code_ == MAP_FAILED) return;
    // `own` makes a valid frame pointer: push rbp; mov rbp, rsp; xchg rdi, rsi; call *rsi; pop rbp; ret. `any` takes
    // its third argument as the frame pointer (mov rbp, rdx), and is otherwise the same.
    constexpr unsigned char own[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x87, 0xfe, 0xff, 0xd6, 0x5d, 0xc3},
                            any[] = {0x55, 0x48, 0x89, 0xd5, 0x48, 0x87, 0xfe, 0xff, 0xd6, 0x5d, 0xc3};
    std::memcpy(code_, own, sizeof own);
    std::memcpy(code_ + 64, any, sizeof any);
    mprotect(code_, page, PROT_READ | PROT_EXEC);
  }
  generated(const generated&) = delete;
  ~generated() {
    if (code_ != MAP_FAILED) munmap(code_, page);
  }
  bool is_there() const { return code_ != MAP_FAILED; }
  void with_own_frame(void* mutex = nullptr) const {
    reinterpret_cast<void (*)(void (*)(void*), void*)>(code_)(make_and_destroy, mutex);
  }
  void with_frame(void* frame) const {
    reinterpret_cast<void (*)(void (*)(void*), void*, void*)>(code_ + 64)(make_and_destroy, nullptr, frame);
  }

 private:
  char* code_;
};

// Memory for a fiber's stack. Another thread maps and unmaps memory above the stack.
char* area;
std::atomic<char*> library_code, library_begin;
std::atomic<bool> over{false};
ucontext_t outside, fiber;

void on_fiber() {
  const generated code;
  code.with_own_frame();
  // Code may use the frame-pointer register for other values. Here these are an address in memory that another thread
  // unmaps, and a place on the stack with old return addresses.
  code.with_frame(area + stack_size + 512);
  void* words[] = {nullptr, library_code, nullptr, nullptr};
  code.with_frame(words);
}

void run_on_fiber() {
  char* const stack = area;
  mmap(stack, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = stack;
  fiber.uc_stack.ss_size = stack_size;
  fiber.uc_link = &outside;
  makecontext(&fiber, on_fiber, 0);
  swapcontext(&outside, &fiber);
  mmap(stack, stack_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void load_and_unload(const std::string& library) {
  void* const module = dlopen(library.c_str(), RTLD_NOW);
  if (module == nullptr) std::abort();
  library_code = reinterpret_cast<char*>(dlsym(module, "library_work")) + 4;
  Dl_info where;
  if (dladdr(library_code, &where) != 0) library_begin = static_cast<char*>(where.dli_fbase);
  dlclose(module);
}

std::atomic<unsigned> uses{0};
/// Places code, and a mutex behind it, at the library's address if nothing is mapped there.
void use_place_of_library() {
  ++uses;
  char* const place = library_begin + page;
  const generated code(place);
  if (!code.is_there()) return;
  code.with_own_frame();
  char* const mutex = map(place + page, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
  if (mutex == MAP_FAILED) return;
  code.with_own_frame(mutex);
  munmap(mutex, page);
}

/// dlclose() calls munmap() before the loader removes the library from its list. The filter of trap_munmap() replaces
/// this call by unmap_slowly(), which unmaps the library and then gives other threads time, as if the thread had lost
/// its CPU.
constexpr unsigned let_through = 0x5a5a5a5a;  // a third argument of munmap(), which marks calls of this file
void unmap_slowly(int, siginfo_t*, void* context) {
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RAX] = syscall(SYS_munmap, registers[REG_RDI], registers[REG_RSI], let_through);
  for (const unsigned before = uses; uses - before < 3 && !over;) sched_yield();
}
void trap_munmap() {
  struct sigaction action {};
  action.sa_sigaction = unmap_slowly;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, let_through, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(rules), rules};
  // On a system without seccomp filters the test runs, but the interval in dlclose() is not made longer.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

#endif
}  // namespace

void unmaps() {
  constexpr int rounds = 15000;
#if defined(__x86_64__)
  const std::string me = program, library = me.substr(0, me.rfind('/')) + "/libplanted.so";
  load_and_unload(library);
  area = static_cast<char*>(mmap(nullptr, 2 * stack_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  in_threads(6, [&](int self) {
    if (self == 0) {
      for (int i = 0; i < rounds; ++i) run_on_fiber();
      over = true;
    } else if (self == 1) {
      trap_munmap();
      while (!over) load_and_unload(library);
    } else if (self == 2) {
      char* const above = area + stack_size;
      while (!over) {
        mmap(above, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        std::memset(above, 0, page);
        mmap(above, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      }
    } else if (self == 3) {
      while (!over) use_place_of_library();
    } else if (self == 4) {
      while (!over) {
        char* const begin = library_begin;
        if (map(begin, PROT_READ, MAP_FIXED_NOREPLACE) != MAP_FAILED) munmap(begin, page);
      }
    } else {
      while (!over) {
        const generated code;
        void* words[] = {nullptr, library_code, nullptr, nullptr};
        code.with_own_frame();
        code.with_frame(words);
      }
    }
  });
#else
  for (int i = 0; i < rounds; ++i) make_and_destroy(nullptr);
#endif
  unmapped_figures.say("made", made);
}

}  // namespace planted
