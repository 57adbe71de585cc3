// A large lock: a cohort lock, composed of two locks of Usher's, which has cache lines of its own for each NUMA node.
// It is used as it is and, for numerous objects, in eight bytes.
//
// libusher.so does the second by itself: a lock that does not fit into the 16 free bytes of a pthread_mutex_t is in its
// inflatable form.
#include <usher/core/inflatable.hpp>
#include <usher/locks/cohort.hpp>
#include <usher/mutex.hpp>

#include <cstddef>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

/// A ticket lock over a queue lock for each node; within a node it is passed on at most 8 times in a row.
template <class P, class W>
using short_cohort = usher::cohort<P, W, usher::ticket, usher::mcs, 8>;

/// A ticket lock in eight bytes as long as one thread at most waits; then the cohort lock, from a pool that all mutexes
/// of the process share.
template <class P, class W>
using inflatable_cohort = usher::inflatable<P, W, short_cohort<P, W>>;

/// For the few locks that the whole program uses.
usher::mutex<short_cohort> of_the_table;
/// For numerous locks: one a row.
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
