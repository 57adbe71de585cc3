#include "shared.hpp"

extern "C" const void* plugin_state() {
  static the_mutex m;
  m.lock();
  m.unlock();
  return &usher::usher_process_state;
}

extern "C" void plugin_lock_and_unlock(the_mutex& m) {
  m.lock();
  m.unlock();
}
