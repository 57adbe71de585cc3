// The exported pthread_mutex_* functions.
//
// Each jumps through a pointer that at first leads to a function which decides what USHER_LOCK selects and sets all
// the pointers: constant-initialised, so that it works before any constructor has run, ours included.
#include "preload/mutex_table.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "preload/c_library.hpp"
#include "preload/catalog.hpp"
#include "preload/layout.hpp"
#include "usher/names.hpp"

#define USHER_EXPORT extern "C" [[gnu::visibility("default")]]

namespace usher::preload {
namespace {

// ---- the C library's own -----------------------------------------------------------------------------------

constexpr mutex_table through{"pthread",
                              true,
                              c_library::mutex_lock,
                              c_library::mutex_trylock,
                              c_library::mutex_unlock,
                              c_library::mutex_clocklock};

/// Normal mutexes become adaptive ones when they are first used.
void adapt(pthread_mutex_t* m) {
  std::atomic_ref<int> kind(m->__data.__kind);
  if (kind.load(std::memory_order_relaxed) == PTHREAD_MUTEX_NORMAL)
    kind.store(PTHREAD_MUTEX_ADAPTIVE_NP, std::memory_order_relaxed);
}
int adaptive_lock(pthread_mutex_t* m) {
  adapt(m);
  return c_library::mutex_lock(m);
}
int adaptive_trylock(pthread_mutex_t* m) {
  adapt(m);
  return c_library::mutex_trylock(m);
}
int adaptive_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  adapt(m);
  return c_library::mutex_clocklock(m, clock, until);
}
constexpr mutex_table through_adaptive{
    "pthread-adaptive", true, adaptive_lock, adaptive_trylock, c_library::mutex_unlock, adaptive_clocklock};

// ---- the selection -----------------------------------------------------------------------------------------

/// getenv() without its function: the environment may not be changed by others this early, and musl has it too.
std::string_view variable(const char* name) {
  const std::size_t length = std::strlen(name);
  for (char** e = environ; e != nullptr && *e != nullptr; e++)
    if (std::strncmp(*e, name, length) == 0 && (*e)[length] == '=') return *e + length + 1;
  return {};
}

void complain(std::string_view unknown) {
  nearest_name nearest(unknown);
  for_each_table([&](const mutex_table& t) { return nearest.consider(t.name), false; });
  nearest.consider(through.name);
  nearest.consider(through_adaptive.name);
  char line[256];
  std::size_t n = 0;
  const auto put = [&](std::string_view s) {
    for (char c : s.substr(0, 64))
      if (n < sizeof line - 1) line[n++] = c;
  };
  put("usher: no lock is called \"");
  put(unknown);
  put("\" (USHER_LOCK); the nearest is \"");
  put(nearest.best());
  put("\". Running on the C library's locks.");
  line[n++] = '\n';
  const int saved = errno;
  syscall(SYS_write, STDERR_FILENO, line, n);  // write() is a cancellation point
  errno = saved;
}

std::uint32_t nanoseconds(std::string_view text, std::uint32_t otherwise) {
  if (text.empty() || text.size() > 9) return otherwise;
  std::uint32_t v = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return otherwise;
    v = v * 10 + std::uint32_t(c - '0');
  }
  return v;
}

const mutex_table* find(std::string_view name) {
  if (!c_library::is_glibc() || name.empty() || name == through.name) return &through;
  if (name == through_adaptive.name) return &through_adaptive;
  name = without_default_suffix(name);
  const mutex_table* found = nullptr;
  for_each_table([&](const mutex_table& t) { return name == t.name && (found = &t); });
  return found;
}

constinit std::atomic<const mutex_table*> chosen{nullptr};

[[gnu::cold, gnu::noinline]] const mutex_table& choose() {
  const std::string_view name = variable("USHER_LOCK");
  const mutex_table* found = find(name);
  const mutex_table* table = found != nullptr ? found : &through;
  if (!table->passes_through) {  // before the table can be seen; several threads may do it, all the same
    native::fork_stamp();
    // Locks are reset after a fork, so nodes of threads that are gone may be used again.
    usher_process_state.ghosts_are_free.store(1, std::memory_order_relaxed);
    const wait_limits otherwise = native::limits();
    native::set_limits({nanoseconds(variable("USHER_SPIN_NS"), otherwise.spin),
                        nanoseconds(variable("USHER_YIELD_NS"), otherwise.yield)});
  }
  const mutex_table* none = nullptr;
  if (!chosen.compare_exchange_strong(none, table, std::memory_order_acq_rel)) return *none;
  if (found == nullptr) complain(name);  // one thread a process comes here
  return *table;
}

int first_lock(pthread_mutex_t*);
int first_trylock(pthread_mutex_t*);
int first_unlock(pthread_mutex_t*);

constinit std::atomic<int (*)(pthread_mutex_t*)> to_lock{first_lock};
constinit std::atomic<int (*)(pthread_mutex_t*)> to_trylock{first_trylock};
constinit std::atomic<int (*)(pthread_mutex_t*)> to_unlock{first_unlock};

[[gnu::cold]] const mutex_table& connect() {
  const mutex_table& t = selected();
  to_lock.store(t.lock, std::memory_order_relaxed);
  to_trylock.store(t.trylock, std::memory_order_relaxed);
  to_unlock.store(t.unlock, std::memory_order_relaxed);
  return t;
}
[[gnu::cold]] int first_lock(pthread_mutex_t* m) {
  return connect().lock(m);
}
[[gnu::cold]] int first_trylock(pthread_mutex_t* m) {
  return connect().trylock(m);
}
[[gnu::cold]] int first_unlock(pthread_mutex_t* m) {
  return connect().unlock(m);
}

/// Only so that a program which changes its environment at the start does not change the selection by it, and so that
/// a mistake in USHER_LOCK is said also by a program that never locks.
[[gnu::constructor]] void at_start() {
  connect();
}

}  // namespace

const mutex_table& selected() {
  const mutex_table* t = chosen.load(std::memory_order_acquire);
  return t != nullptr ? *t : choose();
}

}  // namespace usher::preload

using namespace usher::preload;  // NOLINT(google-build-using-namespace): this file is the room's surface

USHER_EXPORT int pthread_mutex_lock(pthread_mutex_t* m) {
  return to_lock.load(std::memory_order_relaxed)(m);
}
USHER_EXPORT int pthread_mutex_trylock(pthread_mutex_t* m) {
  return to_trylock.load(std::memory_order_relaxed)(m);
}
USHER_EXPORT int pthread_mutex_unlock(pthread_mutex_t* m) {
  return to_unlock.load(std::memory_order_relaxed)(m);
}

USHER_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* m, const timespec* until) {
  if (selected().passes_through) return c_library::mutex_timedlock(m, until);
  return selected().clocklock(m, CLOCK_REALTIME, until);
}

USHER_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  if (selected().passes_through) return selected().clocklock(m, clock, until);
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return selected().clocklock(m, clock, until);
}

USHER_EXPORT int pthread_mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int error = c_library::mutex_init(m, attributes);  // it checks the attributes and writes the kind
  if (error == 0 && !selected().passes_through) {
    mutex_layout& ours = layout(m);
    const int kind = kind_of(ours.kind_and_stamp.load(std::memory_order_relaxed));
    // Normal by attribute is 0x200 (no lock elision), by default 0. We elide nothing: one kind, one fast path.
    if (is_ours(kind)) ours.kind_and_stamp.store(std::uint64_t(type_of(kind)), std::memory_order_relaxed);
  }
  return error;
}

USHER_EXPORT int pthread_mutex_destroy(pthread_mutex_t* m) {
  mutex_layout& ours = layout(m);
  const int kind = kind_of(ours.kind_and_stamp.load(std::memory_order_relaxed));
  if (selected().passes_through || !is_ours(kind)) return c_library::mutex_destroy(m);
  if (ours.held.load(std::memory_order_relaxed) != 0) return EBUSY;
  ours.kind_and_stamp.store(0xffffffffu, std::memory_order_relaxed);  // kind −1, as the C library marks it
  return 0;
}
