// Counts what a program does with its locks, where the launcher has asked for it.
#pragma once

#include <atomic>

#include "preload/counters.hpp"
#include "preload/mutex_table.hpp"

namespace usher::preload {

/// Begins to count in the file of that name, if it is one: from then on `counters` is not null.
void count_in(const char* file);

extern constinit std::atomic<counter_file*> counters;

/// The calling thread's slot. Only if counters is not null.
counter_file::slot& own_slot(counter_file& file);

inline void add_one(std::atomic<std::uint64_t>& counter, bool shared) {
  if (shared)
    counter.fetch_add(1, std::memory_order_relaxed);
  else
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Counts a wait for a condition.
inline void count_wait() {
  if (counter_file* const f = counters.load(std::memory_order_acquire)) [[unlikely]] {
    counter_file::slot& mine = own_slot(*f);
    add_one(mine.waits, &mine == &f->of[counter_file::slots - 1]);
  }
}

/// Counts a sem_post or a sem_*wait.
inline void count_semaphore() {
  if (counter_file* const f = counters.load(std::memory_order_acquire)) [[unlikely]] {
    counter_file::slot& mine = own_slot(*f);
    add_one(mine.semaphores, &mine == &f->of[counter_file::slots - 1]);
  }
}

// The functions of the selected table, and count. Whether a lock has to be waited for shows in a trylock before it.
int counted_lock(pthread_mutex_t*);
int counted_trylock(pthread_mutex_t*);
int counted_clocklock(pthread_mutex_t*, clockid_t, const timespec*);

}  // namespace usher::preload
