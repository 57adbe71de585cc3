// Recorded spin locks. A hold is recorded as a mutex's (holding.hpp). The lock's word is only the C library's: 32 bits
// that have no room for anything.
#include <cerrno>

#include "watch/recorder/recorded_embedded.hpp"
#include "watch/recorder/recorded_others.hpp"

namespace usher::preload {
namespace {

constexpr auto as_key(pthread_spinlock_t* s) {
  return const_cast<const int*>(s);  // the type is volatile
}

recorded_call find_spin(pthread_spinlock_t* s, std::uint64_t caller) {
  return find_recorded(as_key(s), record::kind::spin, caller);
}

void acquired(recorded_thread& me, record::object& o, pthread_spinlock_t* s) {
  hold_begins(me, o, as_key(s));
  try_ends(me, o, as_key(s));
}

}  // namespace

int recorded_spin_init(pthread_spinlock_t* s, int shared) {
  const int error = unrecorded_others().spin_init(s, shared);
  if (error == 0) begin_initialised(as_key(s), record::kind::spin, false);
  return error;
}

int recorded_spin_destroy(pthread_spinlock_t* s) {
  end_destroyed(as_key(s));
  return unrecorded_others().spin_destroy(s);
}

int recorded_spin_lock(pthread_spinlock_t* s) {
  const auto [me, o] = find_spin(s, USHER_CALLER);
  const other_pointers& c = unrecorded_others();
  if (o == nullptr) return c.spin_lock(s);
  if (c.spin_trylock(s) == 0) {
    acquired(*me, *o, s);
    return 0;
  }
  // The C library's function has no other result than 0.
  const embedded_operation lock{
      [](void* context) { return unrecorded_others().spin_lock(static_cast<pthread_spinlock_t*>(context)) == 0; },
      const_cast<int*>(as_key(s))};
  wait_for_mutex(*me, *o, as_key(s), lock, USHER_CALLER, false, record::kind::spin);
  return 0;
}

int recorded_spin_trylock(pthread_spinlock_t* s) {
  const auto [me, o] = find_spin(s, USHER_CALLER);
  const int result = unrecorded_others().spin_trylock(s);
  if (o == nullptr) return result;
  if (result == 0) {
    acquired(*me, *o, s);
  } else if (result == EBUSY) {
    record::detail* const d = detail_of(*me, *o);
    count_roughly(*me, d != nullptr ? d->failed_tries : o->mutex.failed_tries);
    try_failed(*me, as_key(s));
  }
  return result;
}

int recorded_spin_unlock(pthread_spinlock_t* s) {
  recorded_thread* const me = recorded_self();
  record::object* const o = me != nullptr ? me->find(as_key(s)) : nullptr;
  const auto& unlock = unrecorded_others().spin_unlock;
  if (o == nullptr || is_another(*o, record::kind::spin)) return unlock(s);
  const held_charge c = end_own_or_others_hold(*me, *o, as_key(s));
  const int result = unlock(s);  // afterwards the lock may be gone
  if (c.due != 0) charge_holder(*me, c);
  return result;
}

}  // namespace usher::preload
