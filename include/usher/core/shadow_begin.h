// Disables gcc's -Wshadow until shadow_end.h. In a template, gcc 12 warns about a parameter of a lambda, or a name in a
// local class or enumeration, that has the name of a global object of the including program, although neither hides the
// other (clang does not warn). Any name may collide, so headers with such templates stand between these two files. Both
// are named .h and have no #pragma once, because each of those headers includes them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
