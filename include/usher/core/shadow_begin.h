// Turns gcc's -Wshadow off, until shadow_end.h. gcc 12 warns if a parameter of a lambda, or a name in a local class or
// enumeration, of a template has the name of a global object of the including program, although neither hides the other
// (clang does not). No name is safe from that, so headers with such templates stand between these two. Both are named
// .h and have no #pragma once: they are parts of other headers, included by each of them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
