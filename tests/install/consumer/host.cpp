// An executable that embeds locks loads plugins that embed locks, too, with RTLD_LOCAL, which keeps their symbols
// apart. All must use one process-wide state: one waiting array and one set of node handles. Then each plugin queues on
// a lock of the executable.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "shared.hpp"

int main(int argc, char** argv) {
  static the_mutex m;
  m.lock();  // creates the state before any plugin is loaded
  m.unlock();
  int status = 0;
  for (int i = 1; i < argc; i++) {
    void* const handle = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      std::printf("%s\n", dlerror());
      return 2;
    }
    const auto state = reinterpret_cast<state_function*>(dlsym(handle, "plugin_state"));
    const auto lock_and_unlock = reinterpret_cast<lock_function*>(dlsym(handle, "plugin_lock_and_unlock"));
    if (state() != &usher::usher_process_state) {
      std::printf("%s has a state of its own\n", argv[i]);
      status = 1;
      continue;  // a plugin with another state would hang in the queue
    }
    m.lock();
    std::jthread waiter([&] { lock_and_unlock(m); });
    // After this time the waiter is usually in the queue. An earlier unlock is correct, too.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    m.unlock();
  }
  return status;
}
