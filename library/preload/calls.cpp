// The exported functions, and their first table. cond_with_version.cpp exports condition variables a second time.
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

// Each exported function must compile to a tail jump: then a recorder's function finds the return address of the
// program's call on its own stack frame (USHER_CALLER).
#define USHER_EXPORTED(member, name, parameters, arguments) \
  USHER_EXPORT int name parameters {                        \
    return usher::preload::current_calls.member arguments;  \
  }
USHER_CALLS(USHER_EXPORTED)
