// A heavily contended lock in a shared library, which either stays loaded or is closed and opened again.
#include "library.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "planted.hpp"

namespace planted {

namespace {
tally static_figures("library_mutex"), heap_figures("library_heap_mutex");
const library_figures figures{[](bool is_static, std::int64_t called, std::int64_t returned, std::int64_t released) {
                                (is_static ? static_figures : heap_figures).round(called, returned, released);
                              },
                              now};

void* open_library(const char* name = "libplanted.so") {
  const std::string me = program;
  void* library = dlopen((me.substr(0, me.rfind('/') + 1) + name).c_str(), RTLD_NOW);
  if (!library) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  return library;
}

void work_in(void* library) {
  const auto work = reinterpret_cast<decltype(&library_work)>(dlsym(library, "library_work"));
  in_threads(3, [work](int) { work(&figures, 15); });
}
}  // namespace

void in_library() {
  work_in(open_library());
}

void unloaded() {
  for (int i = 0; i < 3; ++i) {
    void* library = open_library();
    work_in(library);
    if (dlclose(library) != 0) std::abort();
    if (dlopen("libplanted.so", RTLD_NOW | RTLD_NOLOAD)) std::abort();
  }
}

/// Two libraries are loaded in turn at the same addresses.
void alternating() {
  static tally made("made");
  constexpr int rounds = 20;
  int forms[2] = {};
  void* at[2] = {};
  std::uint64_t same = 0;
  for (int i = 0; i < 2 * rounds; ++i) {
    void* library = open_library(i % 2 == 0 ? "libalternating_1.so" : "libalternating_2.so");
    void* const function = dlsym(library, "make_mutex");
    at[i % 2] = function;
    if (at[0] == at[1]) ++same;
    reinterpret_cast<void (*)(int*)>(function)(&forms[i % 2]);
    dlclose(library);
  }
  made.say("each", static_cast<std::uint64_t>(forms[0]));
  made.say("same", same);
}

}  // namespace planted
