#include "usher/catalog.hpp"

#include <vector>

#include "catalog/families.hpp"
#include "usher/names.hpp"

namespace usher {

std::span<const lock_table* const> catalog() {
  static const auto all = [] {
    std::vector<const lock_table*> list;
    for (const auto* f : families())
      for (std::size_t i = 0; i < f->count; i++) list.push_back(&f->tables[i]);
    return list;
  }();
  return all;
}

const lock_table* find_lock(std::string_view name) {
  name = without_default_suffix(name);
  for (const lock_table* t : catalog())
    if (name == t->name) return t;
  return nullptr;
}

std::string_view nearest_lock(std::string_view misspelt) {
  nearest_name nearest(misspelt);
  for (const lock_table* t : catalog()) nearest.consider(t->name);
  return nearest.best();
}

}  // namespace usher
