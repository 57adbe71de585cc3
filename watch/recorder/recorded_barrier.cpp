// Recorded barriers. The thread whose arrival completes a round comes last. The C library does not say which it is
// (PTHREAD_BARRIER_SERIAL_THREAD may be any), so arrivals are counted here. If the number of threads of a round is not
// known, each thread counts as one that waits: the barrier was initialised before the recording, or other processes use
// it, too.
#include "watch/recorder/recorded_others.hpp"

// Weak, as all references to the C library (preload/c_library_functions.cpp).
extern "C" [[gnu::weak]] int pthread_barrierattr_getpshared(const pthread_barrierattr_t*, int*) noexcept;

namespace usher::preload {
namespace {

bool is_of_one_process(const pthread_barrierattr_t* attributes) {
  int shared = PTHREAD_PROCESS_SHARED;
  return attributes == nullptr ||
         (pthread_barrierattr_getpshared != nullptr && pthread_barrierattr_getpshared(attributes, &shared) == 0 &&
          shared == PTHREAD_PROCESS_PRIVATE);
}

}  // namespace

int recorded_barrier_init(pthread_barrier_t* b, const pthread_barrierattr_t* attributes, unsigned threads) {
  const int error = unrecorded_others().barrier_init(b, attributes, threads);
  if (error != 0) return error;
  record::object* const o = begin_initialised(b, record::kind::barrier, false);
  if (o == nullptr) return 0;
  // A static barrier's entry is kept. Its arrivals must be whole rounds of the new number.
  const bool is_known = is_of_one_process(attributes) && o->acquisitions.load(std::memory_order_relaxed) % threads == 0;
  o->barrier.size.store(is_known ? threads : 0, std::memory_order_relaxed);
  return 0;
}

int recorded_barrier_destroy(pthread_barrier_t* b) {
  const int error = unrecorded_others().barrier_destroy(b);  // waits for threads that are about to leave
  if (error == 0) end_destroyed(b);
  return error;
}

int recorded_barrier_wait(pthread_barrier_t* b) {
  const auto& wait_at = unrecorded_others().barrier_wait;
  const auto [me, o] = find_recorded(b, record::kind::barrier, USHER_CALLER);
  if (o == nullptr || is_over(*me)) return wait_at(b);
  const std::uint64_t arrivals = o->acquisitions.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint32_t size = o->barrier.size.load(std::memory_order_relaxed);
  if (size != 0 && arrivals % size == 0) {
    const std::uint64_t now = me->of->ticks(), waiting = o->waiting.load(std::memory_order_relaxed);
    const std::uint64_t waited = record::waited_so_far(waiting, now);
    o->owner.store(me->name, std::memory_order_relaxed);
    if (record::detail* const d = detail_of(*me, *o)) note_thread(*d, me->name, 1, 0);
    const bool is_valid = waited < std::uint64_t{1} << 51;  // else a negative difference: a thread is leaving just now
    const held_charge c = is_valid ? add_charge(*me, *o, waited, now) : held_charge{};
    const int result = wait_at(b);  // afterwards the barrier may be gone
    if (c.due != 0) charge_holder(*me, c);
    return result;
  }
  recorded_wait wait(*me, *o, record::kind::barrier, USHER_CALLER);
  const int result = wait_at(b);
  if (wait.is_current()) wait.book(wait.finish());
  return result;
}

}  // namespace usher::preload
