#include "symbols_library.hpp"

namespace planted {
namespace {

long hidden_table[1 << 16];  // .bss: beyond the end of the file

[[gnu::noinline]] call hidden(asks who) {
  call made{who(), __LINE__};
  asm volatile("" : "+m"(made));  // otherwise the call might be the last instruction
  return made;
}

}  // namespace

int exported_data[8] = {1, 2, 3};

[[gnu::noinline]] call exported(asks who) {
  call made{who(), __LINE__};
  asm volatile("" : "+m"(made));  // otherwise the call might be the last instruction
  return made;
}
call by_hidden(asks who) {
  call made = hidden(who);
  asm volatile("" : "+m"(made));
  return made;
}
void* hidden_data() {
  return &hidden_table[1 << 15];
}

}  // namespace planted
