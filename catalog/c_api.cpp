#include <cerrno>
#include <cstring>
#include <new>

#include "usher/catalog.hpp"
#include "usher/names.hpp"
#include "usher/platform/native.hpp"
#include "usher/timed.hpp"
#include "usher/usher.h"

namespace {

using gate = usher::timed_gate<usher::native>;

const usher::lock_table& default_table() {
  static const usher::lock_table* const table = usher::find_lock(usher::default_lock);
  return *table;
}

const usher::lock_table& table_of(const usher_mutex_t* m) {
  return m->usher_table != nullptr ? *static_cast<const usher::lock_table*>(m->usher_table) : default_table();
}

gate::word& gate_of(usher_mutex_t* m) {
  return *std::launder(reinterpret_cast<gate::word*>(&m->usher_gate));
}

/// A lock behind its table, as the gate wants to see it.
struct bound_lock {
  const usher::lock_table& table;
  void* state;
  bool try_lock() { return table.try_lock(state); }
};

}  // namespace

extern "C" {

int usher_mutex_init(usher_mutex_t* m, const char* name) {
  const usher::lock_table* table = name != nullptr ? usher::find_lock(name) : &default_table();
  if (table == nullptr || table->size > sizeof m->usher_state) return EINVAL;
  std::memset(m, 0, sizeof *m);
  m->usher_table = table;
  return 0;
}

int usher_mutex_lock(usher_mutex_t* m) {
  table_of(m).lock(m->usher_state);
  return 0;
}

int usher_mutex_trylock(usher_mutex_t* m) {
  return table_of(m).try_lock(m->usher_state) ? 0 : EBUSY;
}

int usher_mutex_timedlock(usher_mutex_t* m, const struct timespec* until) {
  bound_lock lock{table_of(m), m->usher_state};
  if (lock.try_lock()) return 0;
  if (until->tv_nsec < 0 || until->tv_nsec >= 1000000000) return EINVAL;
  const bool got = gate::lock(lock, gate_of(m), [until]() -> std::uint64_t {
    const std::uint64_t now = usher::native::now();
    if (until->tv_sec < 0) return 0;
    if (until->tv_sec > 9000000000) return ~std::uint64_t{0} / 4;  // for ever, and no overflow
    const std::uint64_t end = std::uint64_t(until->tv_sec) * 1000000000u + std::uint64_t(until->tv_nsec);
    return end > now ? end - now : 0;
  });
  return got ? 0 : ETIMEDOUT;
}

int usher_mutex_unlock(usher_mutex_t* m) {
  const usher::lock_table& table = table_of(m);
  gate::word& word = gate_of(m);
  if (!gate::anyone(word)) [[likely]] {
    table.unlock(m->usher_state);
    return 0;
  }
  const usher::wake_key key = usher::native::key_of(word);
  if (gate::unlock(word) == gate::outcome::release) {
    table.unlock(m->usher_state);
    usher::native::wake(key, usher::every_sleeper, 1);
  }
  return 0;
}

int usher_mutex_destroy(usher_mutex_t* m) {
  std::memset(m, 0, sizeof *m);
  return 0;
}

const char* usher_lock_name(unsigned index) {
  const auto all = usher::catalog();
  return index < all.size() ? all[index]->name : nullptr;
}

}  // extern "C"
