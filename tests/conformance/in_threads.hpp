// Runs threads for test cases in C++.
#pragma once

#include "cases.h"

#include <sched.h>
#include <thread>
#include <vector>

/// Calls body(0) to body(count - 1), each in a thread of its own, and waits for all.
template <class Body>
void in_threads(int count, Body body) {
  std::vector<std::thread> threads;
  int gate = 0;  // the threads begin together
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&gate, body, i] {
      while (!flag_get(&gate)) sched_yield();
      body(i);
    });
  flag_set(&gate, 1);
  for (std::thread& thread : threads) thread.join();
}
