// A hot lock inside a shared library, which stays, or is closed and opened again.
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

void* open_library() {
  const std::string me = program;
  void* library = dlopen((me.substr(0, me.rfind('/')) + "/libplanted.so").c_str(), RTLD_NOW);
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

}  // namespace planted
