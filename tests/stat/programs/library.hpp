// A shared library with locks of its own, in its data and on the heap.
#pragma once

#include <cstdint>

extern "C" {
struct library_figures {
  void (*took)(bool is_static, std::int64_t called, std::int64_t returned, std::int64_t released);
  std::int64_t (*now)();
};
void library_work(const library_figures* figures, int rounds);
}
