// Measures how much stack a signal handler needs to post a semaphore, and to lock a mutex for which the handler must
// wait.
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "planted.hpp"

namespace planted {

namespace {
constexpr std::size_t stack_size = 64 << 10;
constexpr char paint = 0x5a;
tally needed("needed");

void (*in_handler)();
void handler(int) {
  in_handler();
}

/// Runs `f` in a signal handler on an alternate stack. Returns the number of bytes of the stack that the handler used.
std::uint64_t stack_used(char* stack, void (*f)()) {
  std::memset(stack, paint, stack_size);
  in_handler = f;
  raise(SIGUSR1);
  std::size_t untouched = 0;
  while (untouched < stack_size && stack[untouched] == paint) ++untouched;
  return stack_size - untouched;
}

sem_t* const on_heap = static_cast<sem_t*>(std::calloc(64, 1));
sem_t in_data;
pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
std::atomic<pid_t> waiter{0};
std::atomic<bool> is_held{false};

void (*through_library)(void (*)());
void wait_for_held() {
  waiter = thread_id();
  pthread_mutex_lock(&held);
  pthread_mutex_unlock(&held);
}
}  // namespace

/// The test sets LD_BIND_NOW, so that the loader binds all functions before the handler runs. To bind one inside the
/// handler the loader would need more stack than the measured calls.
void handler_stack() {
  auto* const stack =
      static_cast<char*>(mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = stack_size;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  if (sigaltstack(&alternate, nullptr) != 0 || sigaction(SIGUSR1, &action, nullptr) != 0) std::abort();
  needed.say("nothing", stack_used(stack, [] {}));
  // This is the process's first recorded call, so the recording also stores a call chain, which needs more stack.
  needed.say("first_post", stack_used(stack, [] { sem_post(on_heap); }));
  needed.say("post", stack_used(stack, [] { sem_post(&in_data); }));
  pthread_t holder{};
  const auto hold = [](void*) -> void* {
    pthread_mutex_lock(&held);
    is_held = true;
    await_asleep(waiter);
    pthread_mutex_unlock(&held);
    return nullptr;
  };
  if (pthread_create(&holder, nullptr, hold, nullptr) != 0) std::abort();
  while (!is_held) sched_yield();
  // The lock call comes from a library that no recorded call chain contains yet, so the recording also stores this
  // module.
  const std::string me = program;
  void* const library = dlopen((me.substr(0, me.rfind('/')) + "/libalternating_1.so").c_str(), RTLD_NOW);
  if (library == nullptr) std::abort();
  through_library = reinterpret_cast<decltype(through_library)>(dlsym(library, "call"));
  needed.say("contended_lock", stack_used(stack, [] { through_library(wait_for_held); }));
  pthread_join(holder, nullptr);
}

}  // namespace planted
