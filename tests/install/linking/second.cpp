// A second translation unit of an executable or plugin, which also embeds locks.
#include "../consumer/shared.hpp"

void second_unit() {
  static the_mutex m;
  m.lock();
  m.unlock();
}
