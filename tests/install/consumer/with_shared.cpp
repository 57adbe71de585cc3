// with_shared LIBRARY: an executable that embeds locks loads the shared library of the C interface, with RTLD_LOCAL,
// which keeps their symbols apart. Both must use one process-wide state.
#include <dlfcn.h>

#include <cstdio>
#include <thread>
#include <vector>

#include <usher/usher.h>

#include "shared.hpp"

static long counter;

int main(int, char** argv) {
  static the_mutex own;
  own.lock();  // creates the state before the library is loaded
  own.unlock();
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  if (dlsym(library, "usher_process_state_v2") != &usher::usher_process_state) {
    std::printf("%s has a state of its own\n", argv[1]);
    return 1;
  }
  const auto make = reinterpret_cast<decltype(&usher_mutex_new)>(dlsym(library, "usher_mutex_new"));
  const auto lock = reinterpret_cast<decltype(&usher_mutex_lock)>(dlsym(library, "usher_mutex_lock"));
  const auto unlock = reinterpret_cast<decltype(&usher_mutex_unlock)>(dlsym(library, "usher_mutex_unlock"));
  const auto free = reinterpret_cast<decltype(&usher_mutex_free)>(dlsym(library, "usher_mutex_free"));
  const auto name = reinterpret_cast<decltype(&usher_lock_name)>(dlsym(library, "usher_lock_name"));
  if (make == nullptr || lock == nullptr || unlock == nullptr || free == nullptr || name == nullptr) return 2;
  // Each thread holds a lock of the library and one of the executable, so both take nodes from the same pool.
  for (const char* which : {static_cast<const char*>(nullptr), name(0)}) {
    usher_mutex_t* const theirs = make(which);
    counter = 0;
    {
      std::vector<std::jthread> team;
      for (int i = 0; i < 4; i++)
        team.emplace_back([&] {
          for (int n = 0; n < 1000; n++) {
            lock(theirs);
            own.lock();
            counter++;
            own.unlock();
            unlock(theirs);
          }
        });
    }
    free(theirs);
    if (counter != 4000) return 1;
  }
  return 0;
}
