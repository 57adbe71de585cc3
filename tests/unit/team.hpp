// Threads for the unit tests. They start at the same moment.
#pragma once

#include <barrier>
#include <thread>
#include <vector>

namespace usher::test {

/// Runs f(i) in n threads and joins them.
template <class F>
void in_threads(unsigned n, F f) {
  std::barrier start(static_cast<std::ptrdiff_t>(n));
  std::vector<std::jthread> team;
  for (unsigned i = 0; i < n; i++)
    team.emplace_back([&, i] {
      start.arrive_and_wait();
      f(i);
    });
}

}  // namespace usher::test
