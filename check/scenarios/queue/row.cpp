// Row: a broadcast requeues threads when at most three more hand-overs are possible before the limit of seven in a row.
// The broadcasting thread unlocks the mutex only when the requeued threads should have been woken long ago. Another
// thread locks the mutex repeatedly, with or without a deadline.
#include "check/scenarios/queue/queue_program.hpp"

namespace usher::check {
namespace {

class row_program : public queue_program {
 public:
  explicit row_program(unsigned threads) : queue_program(threads) {
    if (rl::rand(2) == 0) world.set_priority(threads - 1, 1 + rl::rand(2));
  }

  void thread(unsigned t) override { t == 0 ? begin_row() : t <= in_row ? come_in_row() : disturb_row(); }

 private:
  void begin_row() {
    for (;;) {
      lock();
      if (arrived_after[0] == in_row) break;
      unlock();
      checked::backoff(0);
    }
    flag.set(1);
    in_a_row = 4 + rl::rand(4);
    const std::uint32_t before = m.timed.newest() / mutex_bytes::one_in_a_row & 7;
    m.timed.fetch_add((in_a_row - before) * mutex_bytes::one_in_a_row, std::memory_order_relaxed);
    if (void* const chain = select(true)) the_queue->deliver(chain);
    row_begun = true;
    for (unsigned i = rl::rand(4) == 0 ? 0 : 20; i != 0 && m.counted_timed() == 0; i--) checked::backoff(0);
    for (unsigned i = 0; i < 6; i++) checked::now();
    unlock();
    if (rl::rand(2) == 0) disturb_row();
  }
  void come_in_row() {
    lock();
    while (!flag.get()) wait_for_ever();
    unlock();
  }
  void disturb_row() {
    while (!row_begun && rl::rand(8) != 0) checked::backoff(0);
    for (unsigned i = 0; i < 3; i++) {
      lock(std::array{0u, 4u, 20u}[rl::rand(3)]);
      unlock();
    }
  }

  bool row_begun = false;
};

}  // namespace

queue_program* begin_row(unsigned threads) {
  return begin<row_program>(threads);
}

}  // namespace usher::check
