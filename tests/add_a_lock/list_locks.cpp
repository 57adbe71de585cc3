// Prints the name and the size of every lock in the catalogue, as compiled for the hardware and for the simulated machine.
#include <cstdio>

#include "lab/sim/simulated_lock.hpp"
#include "usher/catalog.hpp"

int main() {
  for (const usher::lock_table* lock : usher::catalog()) std::printf("native %s %zu\n", lock->name, lock->size);
  for (const usher::sim::simulated_lock* lock : usher::sim::simulated_locks())
    std::printf("simulated %s %zu\n", lock->name, lock->size);
}
