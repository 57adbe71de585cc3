// A waiting list compiled for the checker, as a table. Translation units made by the build add theirs to the list:
// check/subject.cpp.in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "check/platform.hpp"
#include "usher/core/wait_queue.hpp"

namespace usher::check {

struct checked_queue {
  std::string name;
  std::string bug;
  std::size_t size, waiter_size;
  void (*make)(void*);
  void (*end)(void*);
  void (*make_waiter)(void*);
  void (*end_waiter)(void*);
  void (*enter)(void* queue, void* waiter, append_chance);
  bool (*awake)(void* waiter, std::uint32_t& state);  ///< false: it has been granted
  void (*park)(void* waiter, std::uint32_t state, bool timed);
  void (*sleep)(void* waiter);
  bool (*leave)(void* queue, void* waiter);
  void (*depart)(void* queue, void* waiter);
  void* (*pass_on)(void* queue, void* waiter);
  void* (*choose_one)(void* queue, bool tied);
  void* (*choose_all)(void* queue);
  void (*grant)(void* chain);
  void (*hand_over)(void* chain);
  bool (*was_handed)(void* waiter);
  void* (*rest)(void* waiter);
  void* (*append)(void* chain, void* more);
  std::uint32_t (*priority)(void* waiter);
  bool (*urgent)(void* waiter);
  void* (*next)(void* waiter);  ///< in its chain
  void* (*last)(void* waiter);  ///< of the chain of which it is the first
  bool (*close)(void* queue);
};

/// In which a waiter may leave: the first value of the enumeration.
constexpr std::uint32_t waiting_state = 0;

inline std::vector<checked_queue>& checked_queues() {
  static std::vector<checked_queue> list;
  return list;
}

template <class Queue>
bool add_queue(std::string name, std::string bug) {
  using waiter = typename Queue::waiter;
  using choice = typename Queue::choice;
  static_assert(std::uint32_t{waiter::waiting} == waiting_state);
  static constexpr auto q = [](void* p) -> Queue& { return *static_cast<Queue*>(p); };
  static constexpr auto w = [](void* p) -> waiter& { return *static_cast<waiter*>(p); };
  checked_queues().push_back({
      .name = std::move(name),
      .bug = std::move(bug),
      .size = sizeof(Queue),
      .waiter_size = sizeof(waiter),
      .make = [](void* at) { ::new (at) Queue{}; },
      .end = [](void* p) { q(p).~Queue(); },
      .make_waiter = [](void* at) { ::new (at) waiter{}; },
      .end_waiter = [](void* p) { w(p).~waiter(); },
      .enter = [](void* p, void* m, append_chance chance) { q(p).enter(w(m), chance); },
      .awake =
          [](void* m, std::uint32_t& state) {
            const auto s = Queue::awake(w(m));
            if (s) state = *s;
            return s.has_value();
          },
      .park =
          [](void* m, std::uint32_t state, bool timed) {
            timed ? checked::park_for(w(m).state, state, every_sleeper, 1)
                  : checked::park(w(m).state, state, every_sleeper);
          },
      .sleep = [](void* m) { Queue::sleep(w(m)); },
      .leave = [](void* p, void* m) { return q(p).leave(w(m)); },
      .depart = [](void* p, void* m) { q(p).depart(w(m)); },
      .pass_on = [](void* p, void* m) -> void* { return q(p).pass_on(w(m)); },
      .choose_one = [](void* p, bool tied) -> void* { return q(p).choose_one(tied ? choice::tied : choice::loose); },
      .choose_all = [](void* p) -> void* { return q(p).choose_all(); },
      .grant = [](void* m) { Queue::grant(w(m)); },
      .hand_over = [](void* m) { Queue::hand_over(w(m)); },
      .was_handed = [](void* m) { return Queue::was_handed(w(m)); },
      .rest = [](void* m) -> void* { return Queue::rest(w(m)); },
      .append = [](void* a, void* b) -> void* { return &Queue::append(w(a), w(b)); },
      .priority = [](void* m) { return w(m).rank.get(); },
      .urgent = [](void* m) { return w(m).rank.is_urgent(); },
      .next = [](void* m) -> void* { return w(m).next.get(); },
      .last = [](void* m) -> void* { return w(m).prev.get(); },
      .close = [](void* p) { return q(p).close(); },
  });
  return true;
}

}  // namespace usher::check
