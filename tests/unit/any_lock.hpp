// Hides the type of a lock under test behind a table of functions, so that the body of a test is compiled once and not
// for each lock.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace usher::test {

/// A free lock of any type. Copies of the object share the lock.
class any_lock {
 public:
  template <class Lock>
  static any_lock make() {
    static constexpr functions table{
        [](void* lock) { static_cast<Lock*>(lock)->lock(); },
        [](void* lock) { return static_cast<Lock*>(lock)->try_lock(); },
        [](void* lock) { static_cast<Lock*>(lock)->unlock(); },
        [](void* lock) {
          if constexpr (requires(Lock& l) { l.lock_as_guest(); }) static_cast<Lock*>(lock)->lock_as_guest();
        },
        sizeof(Lock),
    };
    return {std::make_shared<Lock>(), table};
  }

  void lock() { table_->lock(lock_.get()); }
  bool try_lock() { return table_->try_lock(lock_.get()); }
  void unlock() { table_->unlock(lock_.get()); }
  /// Locks without a queue node. Does nothing if the lock type has no lock_as_guest().
  void lock_as_guest() { table_->lock_as_guest(lock_.get()); }

  void* address() const { return lock_.get(); }
  std::size_t size() const { return table_->size; }
  template <class Lock>
  Lock& as() {
    return *static_cast<Lock*>(lock_.get());
  }

 private:
  struct functions {
    void (*lock)(void*);
    bool (*try_lock)(void*);
    void (*unlock)(void*);
    void (*lock_as_guest)(void*);
    std::size_t size;
  };

  any_lock(std::shared_ptr<void> lock, const functions& table) : lock_(std::move(lock)), table_(&table) {}

  std::shared_ptr<void> lock_;
  const functions* table_;
};

/// A parameter of a test. `make` returns a free lock.
struct named_lock {
  const char* name;
  any_lock (*make)();
};
inline std::string name_of(const testing::TestParamInfo<named_lock>& info) {
  return info.param.name;
}

}  // namespace usher::test
