// A library whose functions and objects symbols_test looks up.
#pragma once

namespace planted {

struct call {
  void* return_address;
  int line;  ///< the line of the call
};
using asks = void* (*)();

/// An exported function that makes a call.
call exported(asks who);
/// Makes the call in a function that is not exported.
call by_hidden(asks who);

extern int exported_data[8];
/// A static object of the library that only the library's own code can name.
void* hidden_data();

}  // namespace planted
