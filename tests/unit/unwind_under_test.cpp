#include "unwind_under_test.hpp"

void through_the_library(void (*f)(void*), void* argument) {
  f(argument);
  __asm__ volatile("" ::: "memory");  // no tail call
}
