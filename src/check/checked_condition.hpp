// A condition variable compiled for the checker, as a table: check/subject.cpp.in.
#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <vector>

#include "check/any_chance.hpp"
#include "check/checked_lock.hpp"
#include "check/platform.hpp"
#include "usher/core/condition_core.hpp"

namespace usher::check {

using mutex_with_words = requeue_mutex<checked, lock_handle>;

struct checked_condition {
  std::string name;
  std::string bug;
  std::size_t size;
  void (*make)(void*, append_chance);
  void (*end)(void*);
  void (*wait)(void*, const lock_handle&);
  bool (*wait_for)(void*, const lock_handle&, unsigned looks);  ///< false: time has run out
  void (*wait_requeued)(void*, mutex_with_words&);              ///< with a mutex to which threads are requeued
  bool (*wait_requeued_for)(void*, mutex_with_words&, unsigned looks);
  void (*notify_one)(void*);
  void (*notify_all)(void*);
  bool (*close)(void*);
};

inline std::vector<checked_condition>& checked_conditions() {
  static std::vector<checked_condition> list;
  return list;
}

template <class Condition>
bool add_condition(std::string name, std::string bug) {
  static constexpr auto c = [](void* p) -> Condition& { return *static_cast<Condition*>(p); };
  checked_conditions().push_back({
      .name = std::move(name),
      .bug = std::move(bug),
      .size = sizeof(Condition),
      .make = [](void* at, append_chance chance) { ::new (at) Condition(any_chance{chance}); },
      .end = [](void* p) { c(p).~Condition(); },
      .wait = [](void* p, const lock_handle& l) { c(p).wait(l); },
      .wait_for =
          [](void* p, const lock_handle& l, unsigned looks) {
            return c(p).wait_while_time(l, [&]() -> std::uint64_t { return looks == 0 ? 0 : looks--; });
          },
      .wait_requeued = [](void* p, mutex_with_words& m) { c(p).wait(m); },
      .wait_requeued_for =
          [](void* p, mutex_with_words& m, unsigned looks) {
            return c(p).wait_while_time(m, [&]() -> std::uint64_t { return looks == 0 ? 0 : looks--; });
          },
      .notify_one = [](void* p) { c(p).notify_one(); },
      .notify_all = [](void* p) { c(p).notify_all(); },
      .close = [](void* p) { return c(p).close(); },
  });
  return true;
}

}  // namespace usher::check
