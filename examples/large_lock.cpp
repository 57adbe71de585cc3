// This program uses a large lock: a cohort lock, composed of two of Usher's locks, with separate cache lines for each
// NUMA node. The program uses the lock directly and, for numerous objects, in the inflatable form of eight bytes.
//
// libusher.so uses the inflatable form for each lock that does not fit into the 16 free bytes of a pthread_mutex_t.
#include <usher/core/inflatable.hpp>
#include <usher/locks/cohort.hpp>
#include <usher/mutex.hpp>

#include <cstddef>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

/// A cohort lock: a global ticket lock, and a queue lock for each NUMA node. Threads of one node pass the cohort lock
/// to each other at most 8 times in a row.
template <class P, class W>
using short_cohort = usher::cohort<P, W, usher::ticket, usher::mcs, 8>;

/// The inflatable form of the cohort lock: a ticket lock of eight bytes as long as at most one thread waits, then the
/// cohort lock, taken from a pool that all mutexes of the process share.
template <class P, class W>
using inflatable_cohort = usher::inflatable<P, W, short_cohort<P, W>>;

/// The whole table has only one lock of this kind, so the size of the lock does not matter.
usher::mutex<short_cohort> of_the_table;
/// Each of the table's many rows has a lock in the inflatable form of eight bytes.
struct row {
  usher::mutex<inflatable_cohort> mutex;
  long value = 0;
};
static_assert(sizeof(usher::mutex<inflatable_cohort>) == 8);

int main() {
  constexpr std::size_t threads = 4, each = 5000;
  std::vector<row> rows(10000);
  long changes = 0;
  {
    std::vector<std::jthread> team;
    for (std::size_t i = 0; i < threads; i++)
      team.emplace_back([&rows, &changes, i] {
        for (std::size_t n = 0; n < each; n++) {
          row& r = rows[n % 8 == 0 ? 0 : (i * each + n) % rows.size()];  // row 0 is contended
          {
            const std::lock_guard guard(r.mutex);
            r.value++;
          }
          const std::lock_guard guard(of_the_table);
          changes++;
        }
      });
  }
  long sum = 0;
  for (const row& r : rows) sum += r.value;
  std::printf("%zu bytes a lock as it is, %zu bytes inflatable; %ld changes of rows, %ld of the table\n",
              sizeof of_the_table, sizeof rows[0].mutex, sum, changes);
  return sum == long(threads * each) && changes == sum ? 0 : 1;
}
