// The exported functions. Those of condition variables are exported a second time in cond_with_version.cpp.
#include "library/preload/calls.hpp"

#include "library/preload/export.hpp"
#include "library/preload/selection.hpp"

namespace usher::preload {
namespace {

#define USHER_FIRST_CALL(member, name, parameters, arguments) \
  [[gnu::cold]] int first_##member parameters {               \
    connect();                                                \
    return current_calls.member arguments;                    \
  }
USHER_CALLS(USHER_FIRST_CALL)

}  // namespace

#define USHER_FIRST(member, name, parameters, arguments) .member = first_##member,
constinit const calls first_calls{USHER_CALLS(USHER_FIRST)};

// NOLINTNEXTLINE(bugprone-macro-parentheses): a type
#define USHER_FIRST_POINTER(member, name, parameters, arguments) .member = call_pointer<int parameters>(first_##member),
constinit call_pointers current_calls{USHER_CALLS(USHER_FIRST_POINTER)};

}  // namespace usher::preload

// The exported functions jump instead of calling, so that a recorded function finds the return address of the
// program's call (USHER_CALLER).
#define USHER_EXPORTED(member, name, parameters, arguments) \
  USHER_EXPORT int name parameters {                        \
    return usher::preload::current_calls.member arguments;  \
  }
USHER_CALLS(USHER_EXPORTED)
