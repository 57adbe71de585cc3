// A library whose functions and objects symbols_test.cpp looks up.
#pragma once

namespace planted {

struct call {
  void* return_address;
  int line;  ///< the line of the call
};
using asks = void* (*)();

/// Calls `who` from an exported function.
call exported(asks who);
/// Calls `who` from a function that is not exported.
call by_hidden(asks who);

extern int exported_data[8];
/// Returns the address of a static object that has no exported symbol.
void* hidden_data();

}  // namespace planted
