// Trap: a plugin opened with RTLD_DEEPBIND is bound to its own dependencies first, so to the C library instead of a
// preloaded library. But libstdc++ was loaded with the program, and is bound to libusher.so. So for one object of the
// plugin, the inlined functions of std::mutex and std::condition_variable call the C library, and the others call
// libusher.so.
#include <climits>
#include <condition_variable>
#include <string>

#include "library_in_use.h"

namespace {

struct plugin_function {
  const char* name;
};
const plugin_function functions[] = {
    {"waits"},
    {"waits_for"},
    {"waits_until"},
    {"waits_both_ways"},
    {"waits_with_any_mutex"},
    {"waits_for_with_any_mutex"},
    {"holds_the_mutex_after_a_wait"},
    {"notifies_at_the_end_of_a_thread"},
    {"destroys_the_variable"},
};

std::condition_variable used;  // makes libstdc++ a dependency of the program itself

template <class F>
F* find(const char* name) {
  char self[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  CHECK(n > 0);
  const std::string program(self, std::size_t(n));
  const std::string plugin = program.substr(0, program.rfind('/')) + "/libdeep_bind_plugin.so";
  used.notify_all();
  void* const opened = dlopen(plugin.c_str(), RTLD_NOW | RTLD_DEEPBIND);
  if (opened == nullptr) fail_case(__FILE__, __LINE__, "%s", dlerror());
  void* const found = dlsym(opened, name);
  CHECK(found != nullptr);
  return reinterpret_cast<F*>(found);
}

CASE(plugin_locks_past_the_library) {
  CHECK(!lies_in_library(find<void*()>("lock_of_plugin")()));
}

CASE_FOR(plugin, plugin_function, function, functions) {
  if (const char* const wrong = find<const char*()>(function->name)()) fail_case(__FILE__, __LINE__, "%s", wrong);
}

}  // namespace
