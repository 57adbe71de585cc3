// Loaded in two forms, the second in the place of the first: through_the_module() has the same address, but a frame of
// FRAME bytes.
void through_the_module(void (*f)(void*), void* argument) {
  volatile char frame[FRAME];
  frame[0] = 1;
  f(argument);
  frame[FRAME - 1] = 2;
}
#if FRAME > 1000
void another_function(void) {}  // another version of the module has it, too
#endif
