#include "lab/sim/simulated_lock.hpp"

#include <vector>

#include "lab/sim/simulated_family.hpp"
#include "library/catalog/names.hpp"

namespace usher::sim {

std::span<const simulated_lock* const> simulated_locks() {
  static const std::vector<const simulated_lock*> all = [] {
    std::vector<const simulated_lock*> list;
    for (const auto* f : families())
      for (std::size_t i = 0; i < f->count; i++) list.push_back(&f->tables[i]);
    return list;
  }();
  return all;
}

const simulated_lock* find_simulated_lock(std::string_view name) {
  name = without_default_suffix(name);
  const auto is_meant = [name](const simulated_lock& l) { return name == l.name; };
  for (const simulated_lock* l : simulated_locks())
    if (is_meant(*l)) return l;
  for (const auto& f : simulated_variants())
    for (std::size_t i = 0; i < f.count; i++)
      if (is_meant(f.tables[i])) return &f.tables[i];
  return nullptr;
}

}  // namespace usher::sim
