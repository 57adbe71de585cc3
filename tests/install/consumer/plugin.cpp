#include "shared.hpp"

extern "C" [[gnu::visibility("default")]] const void* plugin_state() {
  static the_mutex m;
  m.lock();
  m.unlock();
  return &usher::usher_process_state;
}

extern "C" [[gnu::visibility("default")]] void plugin_lock_and_unlock(the_mutex& m) {
  m.lock();
  m.unlock();
}
