// A module that is built with several values of FRAME. The tests load one version at the address of another.
// through_the_module() then has the same address, but a frame of another size.
void through_the_module(void (*f)(void*), void* argument) {
  volatile char frame[FRAME];
  frame[0] = 1;
  f(argument);
  frame[FRAME - 1] = 2;
}
#if FRAME > 1000
void another_function(void) {}  // the other versions have this function, too
#endif
