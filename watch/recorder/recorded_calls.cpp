#include "watch/recorder/recorded_calls.hpp"

#include "library/preload/selection.hpp"

namespace usher::preload {
namespace {

int sem_getvalue_unrecorded(sem_t* s, int* value) {
  return unrecorded().sem_getvalue(s, value);
}

}  // namespace

constinit const calls recorded_calls{.lock = recorded_lock,
                                     .trylock = recorded_trylock,
                                     .unlock = recorded_unlock,
                                     .timedlock = recorded_timedlock,
                                     .clocklock = recorded_clocklock,
                                     .mutex_init = recorded_mutex_init,
                                     .mutex_destroy = recorded_mutex_destroy,
                                     .cond_wait = recorded_cond_wait,
                                     .cond_timedwait = recorded_cond_timedwait,
                                     .cond_clockwait = recorded_cond_clockwait,
                                     .cond_signal = recorded_cond_signal,
                                     .cond_broadcast = recorded_cond_broadcast,
                                     .cond_init = recorded_cond_init,
                                     .cond_destroy = recorded_cond_destroy,
                                     .sem_wait = recorded_sem_wait,
                                     .sem_trywait = recorded_sem_trywait,
                                     .sem_timedwait = recorded_sem_timedwait,
                                     .sem_clockwait = recorded_sem_clockwait,
                                     .sem_post = recorded_sem_post,
                                     .sem_getvalue = sem_getvalue_unrecorded,
                                     .sem_init = recorded_sem_init,
                                     .sem_destroy = recorded_sem_destroy};

}  // namespace usher::preload
