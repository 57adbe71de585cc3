// A lock algorithm that is not part of Usher and has a queue node for each waiter: the queue lock of Mellor-Crummey and
// Scott (TOCS 1991), written without Usher's own parts for queue locks (core/thread_nodes.hpp).
//
// A lock is a template over a platform P, the machine, and a way of waiting W. It uses the machine only through P, so
// the same code runs on the hardware, in a simulator and under a checker of memory orders. The contract is in
// usher/core/platform.hpp and usher/core/waiting.hpp. CONTRIBUTING.md has the rules that no compiler can check ("Rules
// for a lock"), and describes how to add the lock to libusher.so, `usher try` and `usher sim` ("Add a lock in one header
// and one line").
#include <usher/core/hand_over.hpp>
#include <usher/core/node.hpp>
#include <usher/core/waiting.hpp>
#include <usher/mutex.hpp>

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

template <usher::platform P, class W>
class queue_lock {
 public:
  static constexpr usher::lock_traits traits{
      .summary = "a queue of waiters, each of which watches its own node",
      .paper = "Mellor-Crummey and Scott, TOCS 1991",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .context = true,
      .words = 1,
  };

  void lock() {
    P::doorway(this);
    const usher::node_handle mine = own_node();
    // (1) The doorway, which gives the thread its place in the queue. Release: the next thread to arrive, the
    // successor, sees the prepared node. Acquire: pairs with the release in unlock() that frees the lock.
    const usher::node_handle previous = tail_.exchange(mine, std::memory_order_acq_rel);
    if (previous != usher::no_node) {
      P::node(previous).next.store(mine, std::memory_order_release);  // (2) pairs with the load in successor_or_free()
      // waits as W says: for example, spins for a while and then sleeps
      usher::wait_for_grant<P, W>(mine);
    }
    holder_.set(mine);
    P::admitted(this);
  }

  bool try_lock() {
    if (tail_.load(std::memory_order_relaxed) != usher::no_node) return false;
    const usher::node_handle mine = own_node();
    usher::node_handle expected = usher::no_node;
    if (!tail_.compare_exchange_strong(expected, mine, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      P::give_node(mine);
      return false;
    }
    holder_.set(mine);
    return true;
  }

  void unlock() {
    const usher::node_handle mine = holder_.get();
    // Hands the lock to the successor or, if there is none, frees the lock. From here on another thread may destroy the
    // lock.
    if (const usher::node_handle next = usher::successor_or_free<P, W>(tail_, mine)) usher::grant<P, W>(next);
    P::give_node(mine);
  }

 private:
  /// Returns a node of the calling thread, ready to be enqueued.
  static usher::node_handle own_node() {
    usher::node_handle mine;
    while ((mine = P::take_node()) == usher::no_node) P::backoff(1000000);  // all are in use
    usher::prepare<P>(mine);
    return mine;
  }

  typename P::template atomic<usher::node_handle> tail_;   // no_node: free
  typename P::template plain<usher::node_handle> holder_;  // protected by the lock
};

template <usher::waiting_kind Kind>
bool counts_right(const char* name, int each) {
  usher::mutex<queue_lock, Kind> m;
  int counter = 0;
  {
    std::vector<std::jthread> team;
    for (int i = 0; i < 4; i++)
      team.emplace_back([&] {
        for (int n = 0; n < each; n++) {
          const std::lock_guard guard(m);
          counter++;
        }
      });
  }
  std::printf("%-15s %zu bytes, 4 threads counted to %d\n", name, sizeof m, counter);
  return counter == 4 * each;
}

int main() {
  using enum usher::waiting_kind;
  const bool slept = counts_right<spin_then_park>("spin, then park", 2000);
  // With fewer CPUs than threads, spinning is slow, because the next owner may have no CPU. So each thread makes only
  // 50 critical sections.
  const bool spun = counts_right<spin>("spin", 50);
  return slept && spun ? 0 : 1;
}
