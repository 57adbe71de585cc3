// Allocates objects of the C interface on the heap and returns their sizes, for languages that cannot read usher.h.
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "usher/platform/native/recorded.hpp"
#include "usher/usher.h"

namespace {

/// Allocates zeroed memory in whole pairs of cache lines, so that no other object shares them: processors may prefetch
/// the neighbour of a line. Returns null if there is no memory.
template <class Object>
Object* allocate() {
  constexpr std::size_t lines = 128;
  const std::size_t size = (sizeof(Object) + lines - 1) / lines * lines;
  const int saved = errno;
  void* const memory = std::aligned_alloc(lines, size);
  errno = saved;
  return memory != nullptr ? static_cast<Object*>(std::memset(memory, 0, size)) : nullptr;
}

/// Allocates an object and initialises it by `init`. Returns null if either step fails.
template <class Object, class Init>
Object* made(Init init) {
  auto* const object = allocate<Object>();
  if (object == nullptr || init(object) == 0) return object;
  std::free(object);
  return nullptr;
}

}  // namespace

extern "C" {

usher_mutex_t* usher_mutex_new(const char* name) {
  return made<usher_mutex_t>([name](usher_mutex_t* m) { return usher_mutex_init(m, name); });
}

int usher_mutex_free(usher_mutex_t* m) {
  if (m != nullptr && usher_mutex_destroy(m) != 0) return EBUSY;
  std::free(m);
  return 0;
}

usher_cond_t* usher_cond_new(double append) {
  return made<usher_cond_t>([append](usher_cond_t* c) { return usher_cond_init(c, append); });
}

int usher_cond_free(usher_cond_t* c) {
  if (c != nullptr && usher_cond_destroy(c) != 0) return EBUSY;
  std::free(c);
  return 0;
}

usher_sem_t* usher_sem_new(unsigned value, double append) {
  return made<usher_sem_t>([value, append](usher_sem_t* s) { return usher_sem_init(s, value, append); });
}

void usher_sem_free(usher_sem_t* s) {
  if (s == nullptr) return;
  if (const auto* const r = usher::native_detail::record_in_use()) [[unlikely]]
    r->end(s, usher::native_detail::recorded_kind::semaphore);
  std::free(s);
}

usher_rwlock_t* usher_rwlock_new(const char* name) {
  return made<usher_rwlock_t>([name](usher_rwlock_t* l) { return usher_rwlock_init(l, name); });
}

int usher_rwlock_free(usher_rwlock_t* l) {
  if (l != nullptr && usher_rwlock_destroy(l) != 0) return EBUSY;
  std::free(l);
  return 0;
}

size_t usher_mutex_size(void) {
  return sizeof(usher_mutex_t);
}

size_t usher_cond_size(void) {
  return sizeof(usher_cond_t);
}

size_t usher_sem_size(void) {
  return sizeof(usher_sem_t);
}

size_t usher_rwlock_size(void) {
  return sizeof(usher_rwlock_t);
}

}  // extern "C"
