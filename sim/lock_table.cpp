#include "sim/lock_table.hpp"

#include <string>
#include <vector>

#include "sim/compile.hpp"

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
  for (const simulated_lock* l : simulated_locks())
    if (name == l->name || (l->kind == waiting_kind::spin_then_park && name == std::string(l->family) + "-stp"))
      return l;
  return nullptr;
}

}  // namespace usher::sim
