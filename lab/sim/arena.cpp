#include "lab/sim/arena.hpp"

#include <sys/mman.h>

#include <algorithm>

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

void arena::name(const void* begin, std::size_t bytes, namer names) {
  const std::size_t at = offset_of(begin);
  ranges_.push_back({at, at + bytes, std::move(names)});
}

std::string arena::name_of(const void* word) const {
  const std::size_t at = offset_of(word);
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), at,
                                      [](std::size_t offset, const range& r) { return offset < r.begin; });
  if (after != ranges_.begin())
    if (const range& r = *(after - 1); at < r.end) return r.names(at - r.begin);
  return "word " + std::to_string(at);
}

arena::namer arena::plus(std::string name) {
  return [name = std::move(name)](std::size_t offset) { return name + "+" + std::to_string(offset); };
}

}  // namespace usher::sim
