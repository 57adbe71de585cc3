// Whether the loader may be unloading a module at this moment.
//
// dlclose() of glibc (seen in 2.36) unmaps a module's memory before _dl_find_object() forgets the module. In between,
// other memory in use may be mapped at the same addresses, such as generated code or a fiber's stack. _dl_find_object()
// then attributes it to the module, whose other pages are unmapped and whose entry is about to be freed. This state
// lasts for microseconds, for milliseconds if the unloading thread is preempted, and for ever in a child that another
// thread forks in this state. The loader shows it to debuggers: r_state (struct r_debug in <link.h>) is RT_DELETE from
// before the memory is unmapped until after the module is forgotten.
#pragma once

#include <link.h>

#pragma weak _r_debug  // the program may run on a C library without it

namespace usher::recorder {

/// If false, a later result of _dl_find_object() is right for each address whose memory has been in use since before
/// this call. Also true if the loader does not provide r_state.
inline bool may_be_unloading() {
  struct loader_state {
    r_debug common;
    const loader_state* next;  ///< of the next namespace (dlmopen()); exists from r_version 2
  };
  constexpr unsigned most_namespaces = 64;  // chosen; glibc has 16
  if (&_r_debug == nullptr || _r_debug.r_version == 0) return true;
  const auto* state = reinterpret_cast<const loader_state*>(&_r_debug);
  const bool is_list = __atomic_load_n(&_r_debug.r_version, __ATOMIC_ACQUIRE) > 1;
  for (unsigned i = 0; i < most_namespaces; i++) {
    using number [[gnu::may_alias]] = unsigned;  // r_state has the type of an unnamed enumeration
    static_assert(sizeof(number) == sizeof state->common.r_state);
    if (__atomic_load_n(reinterpret_cast<const number*>(&state->common.r_state), __ATOMIC_ACQUIRE) ==
        r_debug::RT_DELETE)
      return true;
    state = is_list ? __atomic_load_n(&state->next, __ATOMIC_ACQUIRE) : nullptr;
    if (state == nullptr) return false;
  }
  return true;
}

}  // namespace usher::recorder
