// Loaded in two forms, one in the place of the other: through_the_module() is at the same address, with a frame of FRAME bytes.
void through_the_module(void (*f)(void*), void* argument) {
  volatile char frame[FRAME];
  frame[0] = 1;
  f(argument);
  frame[FRAME - 1] = 2;
}
#if FRAME > 1000
void another_function(void) {}  // as another version has
#endif
