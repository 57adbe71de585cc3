#include "usher/catalog.hpp"

#include <pthread.h>

#include <array>

#include "library/catalog/families.hpp"
#include "library/catalog/names.hpp"

namespace usher::inline v2 {

namespace {

// The list of all locks. It allocates nothing and has no destructor, because the C interface may use it in an allocator
// or during exit. A local static variable would need the C++ library, which libusher-locks.so does not load.
struct list {
  std::array<const lock_table*, most_families * ways_of_waiting.size()> entries;
  std::size_t count;
};
constinit list every{};
pthread_once_t once = PTHREAD_ONCE_INIT;

void fill() {
  every.count = 0;  // a fork may have interrupted fill(); in the child pthread_once() then calls it again
  for (const auto* f : families())
    for (std::size_t i = 0; i < f->count; i++) every.entries[every.count++] = &f->tables[i];
}

}  // namespace

std::span<const lock_table* const> catalog() {
  pthread_once(&once, fill);
  return {every.entries.data(), every.count};
}

const lock_table* find_lock(std::string_view name) {
  name = without_default_suffix(name);
  for (const auto* f : families())
    for (std::size_t i = 0; i < f->count; i++)
      if (name == f->tables[i].name) return &f->tables[i];
  return nullptr;
}

std::string_view nearest_lock(std::string_view misspelt) {
  nearest_name nearest(misspelt);
  for (const lock_table* t : catalog()) nearest.consider(t->name);
  return nearest.best();
}

}  // namespace usher::inline v2
