// libusher-stat.so: the functions that only `usher stat -- CMD` interposes (watch/recorder/others.hpp).
#include <cerrno>

#include "library/preload/find_next.hpp"
#include "watch/recorder/others.hpp"

/// libusher.so's functions while a recording runs, else null. The symbol is missing if libusher.so is not loaded.
extern "C" [[gnu::weak]] std::atomic<const usher::recorder::other_calls*> usher_recorded_others_v2;

namespace usher::recorder {
namespace {

void look_up_all();

// The first call of any function looks up all of them, since other libraries' constructors may call them before ours
// runs. If the function is not found, each call repeats the search: before glibc 2.34 a library that the program loads
// later may load libpthread.so.0.
#define USHER_FIRST_OTHER(member, name, parameters, arguments)                      \
  [[gnu::cold, gnu::noinline]] int first_##member parameters {                      \
    look_up_all();                                                                  \
    if (usher_companion_v3.c_library.member.get() == first_##member) return ENOSYS; \
    return usher_companion_v3.c_library.member arguments;                           \
  }
USHER_OTHERS(USHER_FIRST_OTHER)

template <class... Args>
void look_up(preload::call_pointer<int(Args...)>& to, const char* name) {
  if (void* const p = preload::find_next(name)) to.set(reinterpret_cast<int (*)(Args...)>(p));
}

void look_up_all() {
  const int saved = errno;
  other_pointers& to = usher_companion_v3.c_library;
#define USHER_LOOK_UP(member, name, parameters, arguments) look_up(to.member, #name);
  USHER_OTHERS(USHER_LOOK_UP)
  errno = saved;
}

[[gnu::constructor]] void at_start() {
  look_up_all();
}

inline const other_calls* recorded() {
  return &usher_recorded_others_v2 != nullptr ? usher_recorded_others_v2.load(std::memory_order_relaxed) : nullptr;
}

}  // namespace
}  // namespace usher::recorder

// NOLINTNEXTLINE(bugprone-macro-parentheses): a type
#define USHER_FIRST_OTHER_POINTER(member, name, parameters, arguments) \
  .member = usher::preload::call_pointer<int parameters>(usher::recorder::first_##member),
constinit usher::recorder::companion usher_companion_v3{.c_library = {USHER_OTHERS(USHER_FIRST_OTHER_POINTER)}};

// Each function jumps to its target, so the target finds the return address of the program's call (USHER_CALLER).
#define USHER_EXPORTED_OTHER(member, name, parameters, arguments)                     \
  USHER_EXPORT int name parameters {                                                  \
    const usher::recorder::other_calls* const recorded = usher::recorder::recorded(); \
    if (recorded != nullptr) return recorded->member arguments;                       \
    return usher_companion_v3.c_library.member arguments;                             \
  }
USHER_OTHERS(USHER_EXPORTED_OTHER)

// The older name of sched_yield(), used by programs that were built before glibc 2.34.
__asm__(".globl pthread_yield\n.type pthread_yield, @function\n.set pthread_yield, sched_yield");
