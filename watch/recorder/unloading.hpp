// Whether the loader may be unloading a module at this moment.
//
// dlclose() of glibc (seen in 2.36) unmaps a module's memory before _dl_find_object() forgets the module. In between,
// other memory may be mapped at the same addresses and be in use, such as generated code or a fiber's stack, and
// _dl_find_object() says that it belongs to the module, whose other pages are not mapped and whose entry is about to be
// freed. This lasts for microseconds, for milliseconds if the unloading thread loses its CPU, and for ever in a child
// that another thread forks meanwhile. The loader tells debuggers of it: r_state (struct r_debug in <link.h>) is
// RT_DELETE from before the memory is unmapped until after the module is forgotten.
#pragma once

#include <link.h>

#pragma weak _r_debug  // the program may run on a C library without it

namespace usher::recorder {

/// If this is false, then what _dl_find_object() says afterwards is true of each address whose memory is in use from
/// before this call on. True also if the loader does not tell.
inline bool may_be_unloading() {
  struct loader_state {
    r_debug common;
    const loader_state* next;  ///< of the next namespace (dlmopen()), from version 2 on
  };
  constexpr unsigned most_namespaces = 64;  // chosen; glibc has 16
  if (&_r_debug == nullptr || _r_debug.r_version == 0) return true;
  const auto* state = reinterpret_cast<const loader_state*>(&_r_debug);
  const bool is_list = __atomic_load_n(&_r_debug.r_version, __ATOMIC_ACQUIRE) > 1;
  for (unsigned i = 0; i < most_namespaces; i++) {
    using number [[gnu::may_alias]] = unsigned;  // r_state has the type of an enumeration without a name
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
