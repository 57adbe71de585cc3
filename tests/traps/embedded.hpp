// The functions that a plug-in with Usher's header library exports, see embedded.cpp and shared_objects.cpp.
#pragma once

#include <cstddef>

struct embedded_functions {
  std::size_t size;
  void (*construct)(void* memory);
  void (*lock)(void* memory);
  bool (*try_lock)(void* memory);
  void (*unlock)(void* memory);
};

extern "C" const embedded_functions* embedded_twa();
extern "C" const embedded_functions* embedded_mcs();
