#include "preload/unwind.hpp"
namespace usher::preload {
void capture(call_chain& into, stack_bounds&) {
  into.length = 0;
  into.cut = true;
}
bool is_in_module(const void*) {
  return false;
}
}  // namespace usher::preload
