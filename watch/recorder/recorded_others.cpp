#include "watch/recorder/recorded_others.hpp"

namespace usher::preload {
namespace {

#define USHER_RECORDED_MEMBER(member, name, parameters, arguments) .member = recorded_##member,
constexpr other_calls recorded_other_calls{USHER_OTHERS(USHER_RECORDED_MEMBER)};

}  // namespace

int recorded_yield() {
  if (recorded_thread* const me = recorded_self()) me->yields++;
  return unrecorded_others().yield();
}

void connect_others(bool recording) {
  const bool is_possible = recording && &usher_companion_v3 != nullptr;
  usher_recorded_others_v2.store(is_possible ? &recorded_other_calls : nullptr, std::memory_order_relaxed);
}

}  // namespace usher::preload

constinit std::atomic<const usher::preload::other_calls*> usher_recorded_others_v2{nullptr};
