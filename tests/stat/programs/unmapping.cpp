// Initialises mutexes from functions that generated code calls, and on fibers, while other threads unload a library and
// unmap code and stacks. The recording of the call chain of such an initialisation must not fault.
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "planted.hpp"

namespace planted {

namespace {
constexpr std::size_t page = 4096, stack_size = 16 << 10;
tally unmapped_figures("unmapped");
std::atomic<std::uint64_t> made{0};

/// Makes a mutex. Each initialisation records a call chain, which leads through the generated code.
[[gnu::noinline]] void make_and_destroy(void*) {
  pthread_mutex_t one;
  pthread_mutex_init(&one, nullptr);  // mark: under generated code
  pthread_mutex_lock(&one);
  pthread_mutex_unlock(&one);
  ++made;
  pthread_mutex_destroy(&one);
}

#if defined(__x86_64__)

/// Generated code that calls make_and_destroy(), with a valid frame pointer or with one that the caller chooses.
class generated {
 public:
  generated()
      : code_(static_cast<char*>(mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    // The instructions. `own` has its own frame pointer: push rbp; mov rbp, rsp; call *rdi; pop rbp; ret. `any` takes
    // its third argument as the frame pointer: push rbp; mov rbp, rdx; xchg rdi, rsi; call *rsi; pop rbp; ret.
    constexpr unsigned char own[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3},
                            any[] = {0x55, 0x48, 0x89, 0xd5, 0x48, 0x87, 0xfe, 0xff, 0xd6, 0x5d, 0xc3};
    std::memcpy(code_, own, sizeof own);
    std::memcpy(code_ + 64, any, sizeof any);
    mprotect(code_, page, PROT_READ | PROT_EXEC);
  }
  ~generated() { munmap(code_, page); }
  void with_own_frame() const { reinterpret_cast<void (*)(void (*)(void*))>(code_)(make_and_destroy); }
  void with_frame(void* frame) const {
    reinterpret_cast<void (*)(void (*)(void*), void*, void*)>(code_ + 64)(make_and_destroy, nullptr, frame);
  }

 private:
  char* code_;
};

// Memory for a fiber's stack. Another thread maps and unmaps memory above the stack.
char* area;
std::atomic<char*> library_code;
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
  dlclose(module);
}

#endif
}  // namespace

void unmaps() {
  constexpr int rounds = 15000;
#if defined(__x86_64__)
  const std::string me = program, library = me.substr(0, me.rfind('/')) + "/libplanted.so";
  load_and_unload(library);
  area = static_cast<char*>(mmap(nullptr, 2 * stack_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  in_threads(4, [&](int self) {
    if (self == 0) {
      for (int i = 0; i < rounds; ++i) run_on_fiber();
      over = true;
    } else if (self == 1) {
      while (!over) load_and_unload(library);
    } else if (self == 2) {
      char* const above = area + stack_size;
      while (!over) {
        mmap(above, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        std::memset(above, 0, page);
        mmap(above, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
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
