#include "sim/arena.hpp"

#include <sys/mman.h>

namespace usher::sim {

arena::arena() {
  void* const at = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<std::byte*>(at);
}

arena::~arena() {
  munmap(begin_, most);
}

void* arena::allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t at = (used_ + alignment - 1) & ~(alignment - 1);
  if (at + bytes > most) throw std::bad_alloc();
  used_ = at + bytes;
  return begin_ + at;
}

}  // namespace usher::sim
