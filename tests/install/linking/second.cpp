// A second translation unit of an executable or plugin, with locks of its own.
#include "../consumer/shared.hpp"

void second_unit() {
  static the_mutex m;
  m.lock();
  m.unlock();
}
