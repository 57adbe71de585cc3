// host local|global shared|apart A B: loads two plugins that embed locks, and reports whether they share the
// process-wide state and the code of the headers. Then threads use both plugins alternately.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

struct plugin {
  const void* (*state)();
  const void* (*function)();
  unsigned long (*state_size)();
  unsigned long (*records)();

  plugin(const char* file, int scope) {
    void* const handle = dlopen(file, RTLD_NOW | scope);
    if (handle == nullptr) {
      std::printf("%s\n", dlerror());
      std::exit(2);
    }
    find(handle, "plugin_state", state);
    find(handle, "plugin_function", function);
    find(handle, "plugin_state_size", state_size);
    find(handle, "plugin_records", records);
  }

  template <class F>
  static void find(void* handle, const char* name, F& f) {
    f = reinterpret_cast<F>(dlsym(handle, name));
  }
};

}  // namespace

int main(int, char** argv) {
  const int scope = std::strcmp(argv[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  const bool shared = std::strcmp(argv[2], "shared") == 0;
  const plugin a(argv[3], scope), b(argv[4], scope);
  if ((a.state() == b.state()) != shared) {
    std::printf("the state is %s\n", shared ? "not shared" : "shared");
    return 1;
  }
  // With RTLD_GLOBAL both plugins are in one scope, where the first definition of a symbol is used for all objects.
  if (scope == RTLD_GLOBAL && (a.function() == b.function()) != shared) {
    std::printf("the code is %s\n", shared ? "not shared" : "shared");
    return 1;
  }
  if ((a.state_size() == b.state_size()) != shared) {
    std::printf("the layouts are not what they were meant to be\n");
    return 2;
  }
  for (int round = 0; round < 8; round++) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; i++) {
      threads.emplace_back([&] {
        for (int k = 0; k < 100; k++) {
          a.state();
          b.state();
        }
      });
    }
  }
  // The main thread and up to eight others exist at the same time. A record is reused after the end of its thread if a
  // short search finds it, so there may be more than nine records.
  if (a.records() < 1 || a.records() > 128 || b.records() < 1 || b.records() > 128) {
    std::printf("%lu and %lu thread records\n", a.records(), b.records());
    return 1;
  }
  return 0;
}
